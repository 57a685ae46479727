"""The knobs of the tuning page, and the draft policy they make."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from ..guard import GuardPolicy, Outcome, PolicyError, ToolPolicy
from . import _data, _policy
from ._text import plain
from ._theme import VERDICTS

__all__ = ["draft", "set_thresholds"]

LOWEST, HIGHEST = 1, 15


def draft(saved: _policy.Saved) -> GuardPolicy:
    """Draw the knobs; the policy they stand for."""
    policy = saved.policy
    with st.container(border=True, key="knobs"):
        nudge_mark, block_mark = VERDICTS["nudge"], VERDICTS["block"]
        nudge = _threshold(
            "nudge", f"{nudge_mark.glyph} Nudge at", policy.nudge_threshold, 3, LOWEST, HIGHEST - 1
        )
        block = _threshold(
            "block", f"{block_mark.glyph} Block at", policy.block_threshold, 5, LOWEST + 1, HIGHEST
        )
        if nudge is not None and block is not None and nudge >= block:  # only a link can ask for this
            block = nudge + 1
            st.session_state["_pushed"] = f"Block counts as {block}: it has to come after the nudge."
        note = st.session_state.pop("_pushed", None)
        st.caption(note or "Equal results in a row, for one agent and one call.")
        with st.expander("More knobs", key="more_knobs", icon=":material/settings:"):
            general = st.toggle(
                "Count failed calls too",
                value=Outcome.GENERAL_TOOL_ERROR in policy.counted_outcomes,
                key="general",
                bind="query-params",
                help="Equal errors of a tool count like equal results. Off, the guard leaves them out: "
                "a retry that fails is not yet a loop.",
            )
            exempt = _exempt(policy)
        if st.button(
            "Back to the saved policy", key="reset", type="tertiary", icon=":material/undo:", on_click=_reset
        ):
            st.rerun(scope="fragment")
    outcomes = set(policy.counted_outcomes) - {Outcome.GENERAL_TOOL_ERROR}
    if general:
        outcomes.add(Outcome.GENERAL_TOOL_ERROR)
    tools = {name: replace(tool, exempt=False) for name, tool in policy.tools.items()}
    for name in exempt:
        tools[name] = replace(tools.get(name, ToolPolicy()), exempt=True)
    tools = {name: tool for name, tool in tools.items() if tool != ToolPolicy()}
    try:
        return replace(
            policy,
            nudge_threshold=nudge,
            block_threshold=block,
            counted_outcomes=frozenset(outcomes),
            tools=tools,
        )
    except PolicyError as error:
        st.caption(
            ":material/error: These do not fit the saved thresholds of a tool; the saved policy is shown."
        )
        st.text(plain(error, 300))
        return policy


def _threshold(key: str, label: str, saved: int | None, fallback: int, low: int, high: int) -> int | None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{label}**", width="content")
        on = st.toggle(
            f"{key} on",
            value=saved is not None,
            key=f"{key}_on",
            bind="query-params",
            label_visibility="collapsed",
        )
    value = st.slider(
        label,
        low,
        max(high, saved or 0),
        value=saved or fallback,
        key=key,
        bind="query-params",
        on_change=_keep_apart,
        args=(key,),
        disabled=not on,
        label_visibility="collapsed",
    )
    return value if on else None


def _keep_apart(moved: str) -> None:
    """The slider that was moved stays where it is put; the other one makes room."""
    state = st.session_state
    nudge, block = state["nudge"], state["block"]
    if not (state.get("nudge_on", True) and state.get("block_on", True)) or nudge < block:
        return
    if moved == "nudge":
        state["block"] = nudge + 1
        state["_pushed"] = f"Block moved to {nudge + 1}: it has to come after the nudge."
    else:
        state["nudge"] = block - 1
        state["_pushed"] = f"Nudge moved to {block - 1}: it has to come before the block."


def _exempt(policy: GuardPolicy) -> list[str]:
    with _data.reader() as ask:
        known = ask.options().tools
    saved = [name for name, tool in policy.tools.items() if tool.exempt]
    return st.multiselect(
        "Tools left alone",
        list(dict.fromkeys([*known, *saved])),
        default=saved,
        format_func=lambda name: plain(name, 80),
        key="exempt",
        bind="query-params",
        placeholder="None",
        help="Calls of these tools are always allowed, such as a poll that waits for a job.",
    )


def _reset() -> None:
    policy = _policy.saved().policy
    state = st.session_state
    state["nudge_on"], state["block_on"] = (
        policy.nudge_threshold is not None,
        policy.block_threshold is not None,
    )
    state["nudge"], state["block"] = policy.nudge_threshold or 3, policy.block_threshold or 5
    state["general"] = Outcome.GENERAL_TOOL_ERROR in policy.counted_outcomes
    state["exempt"] = [name for name, tool in policy.tools.items() if tool.exempt]


def set_thresholds(nudge: int, block: int) -> None:
    """Move both sliders. Only from a callback: widgets that are drawn cannot be moved."""
    state = st.session_state
    state["nudge"], state["block"] = nudge, block
    state["nudge_on"] = state["block_on"] = True
