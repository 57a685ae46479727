"""The knobs of the tuning page that are always in sight, and the draft policy that all knobs make."""

from __future__ import annotations

import streamlit as st

from ..guard import GuardPolicy, Outcome, PolicyError
from . import _data, _knobs_draft, _knobs_groups, _policy
from ._text import lit, plain
from ._theme import VERDICTS

__all__ = ["draft", "set_thresholds"]

LOWEST, HIGHEST = 1, 15
_LAST = "_draft_last"


def draft(saved: _policy.Saved) -> GuardPolicy:
    """Draw the knobs; the policy they stand for."""
    policy = saved.policy
    said = _knobs_draft.keep_in_link(policy)
    base = _knobs_draft.rest(policy)
    with _data.reader() as ask:
        known = ask.options().tools
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
        note = st.session_state.pop("_pushed", None) or _moved(nudge, block)
        st.caption(note or "Equal results in a row, for one agent and one call.")
        crossed = st.empty()
        exempt = _exempt(policy, known)
        general = st.toggle(
            "Count failed calls too",
            value=Outcome.GENERAL_TOOL_ERROR in policy.counted_outcomes,
            key="general",
            bind="query-params",
            help="Equal errors of a tool count like equal results. Off, the guard leaves them out: "
            "a retry that fails is not yet a loop.",
        )
        try:
            made = _knobs_draft.assemble(base, nudge, block, general, exempt)
        except PolicyError as error:
            made = st.session_state.get(_LAST) or policy
            crossed.caption(f":material/error: Not used: {lit(error, 240)} The draft before it is shown.")
        else:
            st.session_state[_LAST] = made
        _knobs_groups.draw(made, policy, known)
        with st.container(horizontal=True, gap="small"):
            st.button(
                "Back to the saved policy",
                key="reset",
                type="tertiary",
                icon=":material/undo:",
                disabled=made == policy,
                on_click=lambda: _knobs_draft.put(policy, policy, made),
            )
            if _knobs_draft.can_go_back():
                st.button(
                    "Undo",
                    key="undo",
                    type="tertiary",
                    icon=":material/history:",
                    on_click=lambda: _knobs_draft.back_one_step(policy),
                    help="Brings back the draft before the last suggestion, policy or reset.",
                )
        if said:
            st.caption(f":material/link: {lit(said, 240)}")
    return made


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
    high = max(high, saved or 0, st.session_state.get(key) or 0)
    value = st.slider(
        label,
        low,
        high,
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
        text = f"Block moved to {nudge + 1}: it has to come after the nudge."
    else:
        state["nudge"] = block - 1
        text = f"Nudge moved to {block - 1}: it has to come before the block."
    state["_moved"] = (state["nudge"], state["block"]), text


def _moved(nudge: int | None, block: int | None) -> str | None:
    """That a slider was pushed, while both stay there: a rerun may be cut short before that is read."""
    thresholds, text = st.session_state.get("_moved", (None, None))
    if thresholds == (nudge, block):
        return text
    st.session_state.pop("_moved", None)
    return None


def _exempt(policy: GuardPolicy, known: tuple[str, ...]) -> list[str]:
    saved = [name for name, tool in policy.tools.items() if tool.exempt]
    asked = st.session_state.get("exempt") or ()
    return st.multiselect(
        "Tools left alone",
        list(dict.fromkeys([*known, *saved, *asked])),
        default=saved,
        format_func=lambda name: plain(name, 80),
        key="exempt",
        bind="query-params",
        placeholder="None",
        help="Calls of these tools are always allowed, such as a poll that waits for a job.",
    )


def set_thresholds(nudge: int, block: int) -> None:
    """Move both sliders. Only from a callback: widgets that are drawn cannot be moved."""
    state = st.session_state
    state["nudge"], state["block"] = nudge, block
    state["nudge_on"] = state["block_on"] = True
