"""The tuning page: knobs, effect, map of thresholds, what changes, the policy to take away."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy, Outcome, PolicyError, ToolPolicy
from ..replay import Filters, ReplayResult
from . import _charts, _data, _policy, _ui
from ._filters import View
from ._incident_table import open_incident
from ._queries import ChangedCalls
from ._text import count, lit, plain
from ._theme import VERDICTS, verdict_text

__all__ = ["draw"]

LOWEST, HIGHEST = 1, 15
_CHANGES = 1_000
"""Changed calls that the list shows."""

_FIELDS = {
    "runs_blocked": ("Runs ended", "runs ended"),
    "calls_avoidable": ("Calls spared", "calls spared"),
    "calls_lost": ("Calls lost", "calls lost"),
    "runs_nudged": ("Runs nudged", "runs nudged"),
}


@st.fragment
@_ui.guarded
def draw(view: View, saved: _policy.Saved) -> None:
    """The whole page is one fragment: a slider redraws this and nothing else."""
    filters = _one_run(view.filters)
    top = st.container()
    left, right = st.columns([1, 2.6], gap="large")
    with left:
        draft = _knobs(saved)
    with _data.reader() as ask:
        now = ask.replay(draft, filters)
        before = ask.replay(saved.policy, filters)
        nudges, blocks = _axes(draft, saved.policy)
        grid = ask.sweep(draft, nudges, blocks, filters)
        changed = ask.changed_calls(saved.policy, draft, filters, _CHANGES)
        incidents = {one.run_id: one.key for one in reversed(ask.incidents(saved.policy, filters))}
        ask.release()
    with top:
        _ui.sentence(_said(draft, now, before, saved))
        if _ui.unjudged(now.coverage):
            _ui.coverage_note(now.coverage)
    with right:
        _effect(now, before, draft == saved.policy)
        _map(grid, draft, saved.policy)
    if not _ui.unjudged(now.coverage):
        _ui.coverage_note(now.coverage)
    _changes(changed, incidents, draft == saved.policy)
    _take_away(draft, saved)


def _one_run(filters: Filters) -> Filters:
    run = st.query_params.get("run")
    if not run:
        return filters
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"Only run {lit(run, 60)}", width="content")
        st.page_link("app_pages/tuning.py", label="Tune with all runs", icon=":material/close:")
    return replace(filters, run_ids=(run,))


def _knobs(saved: _policy.Saved) -> GuardPolicy:
    policy = saved.policy
    with st.container(border=True, key="knobs"):
        nudge_mark, block_mark = VERDICTS["nudge"], VERDICTS["block"]
        nudge = _threshold("nudge", f"{nudge_mark.glyph} Nudge at", policy.nudge_threshold, 3, LOWEST, HIGHEST - 1)
        block = _threshold("block", f"{block_mark.glyph} Block at", policy.block_threshold, 5, LOWEST + 1, HIGHEST)
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
        if st.button("Back to the saved policy", key="reset", type="tertiary", icon=":material/undo:", on_click=_reset):
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
            policy, nudge_threshold=nudge, block_threshold=block, counted_outcomes=frozenset(outcomes), tools=tools
        )
    except PolicyError as error:
        st.caption(":material/error: These knobs do not fit the saved per-tool thresholds; the saved policy is shown.")
        st.text(plain(error, 300))
        return policy


def _threshold(key: str, label: str, saved: int | None, fallback: int, low: int, high: int) -> int | None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{label}**", width="content")
        on = st.toggle(f"{key} on", value=saved is not None, key=f"{key}_on", bind="query-params", label_visibility="collapsed")
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
    state["nudge_on"], state["block_on"] = policy.nudge_threshold is not None, policy.block_threshold is not None
    state["nudge"], state["block"] = policy.nudge_threshold or 3, policy.block_threshold or 5
    state["general"] = Outcome.GENERAL_TOOL_ERROR in policy.counted_outcomes
    state["exempt"] = [name for name, tool in policy.tools.items() if tool.exempt]


def _said(draft: GuardPolicy, now: ReplayResult, before: ReplayResult, saved: _policy.Saved) -> str:
    totals = now.totals
    nothing = _ui.unjudged(now.coverage)
    if nothing:
        return nothing
    text = (
        f"With {_policy.name(draft)} the guard would have spoken up in {totals.runs_nudged:,} of "
        f"{count(totals.runs, 'run')} and ended {totals.runs_blocked:,}: "
        f"{count(totals.calls_avoidable, 'needless call')} spared, {totals.calls_lost:,} useful ones lost."
    )
    name = "saved policy" if saved.exists else "default policy"
    if draft == saved.policy:
        return f"{text} This is the {name}."
    ended = totals.runs_blocked - before.totals.runs_blocked
    lost = totals.calls_lost - before.totals.calls_lost
    if not ended and not lost:
        return f"{text} The {name} ends as many runs and loses as many calls."
    return f"{text} Against the {name}: {_more(ended, 'run')} ended, {_more(lost, 'useful call')} lost."


def _more(number: int, what: str) -> str:
    if not number:
        return f"as many {what}s"
    return f"{count(abs(number), what)} {'more' if number > 0 else 'fewer'}"


def _effect(now: ReplayResult, before: ReplayResult, same: bool) -> None:
    figures = (
        ("runs_nudged", f"{VERDICTS['nudge'].glyph} Runs nudged", "", f"of {count(now.totals.runs, 'run')}"),
        ("runs_blocked", f"{VERDICTS['block'].glyph} Runs ended", "", f"of {count(now.totals.runs, 'run')}"),
        ("calls_avoidable", "Calls spared", "up", "after a block, brought nothing new"),
        ("calls_lost", "Calls lost", "down", "after a block, brought something new"),
    )
    with _ui.figures(150):
        for field, label, good, note in figures:
            value, exact = getattr(now.totals, field), getattr(now.exact, field)
            if field.startswith("runs") and value:
                note += f"; {exact:,} exact, {value - exact:,} projected"
            if field == "calls_avoidable" and now.totals.calls_unjudged:
                note += f"; {now.totals.calls_unjudged:,} more cannot be judged"
            _ui.figure(
                label,
                f"{value:,}",
                note=note,
                delta=None if same else value - getattr(before.totals, field),
                delta_note="vs saved",
                good=good,
            )


def _axes(draft: GuardPolicy, saved: GuardPolicy) -> tuple[range, range]:
    nudges = [policy.nudge_threshold for policy in (draft, saved) if policy.nudge_threshold]
    blocks = [policy.block_threshold for policy in (draft, saved) if policy.block_threshold]
    return (
        range(min([2, *nudges]), min(max([8, *nudges]), 40) + 1),
        range(min([3, *blocks]), min(max([10, *blocks]), 40) + 1),
    )


def _map(grid, draft: GuardPolicy, saved: GuardPolicy) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader("Every pair of thresholds", anchor=False, width="content")
        field = st.segmented_control(
            "What the map shows",
            list(_FIELDS),
            default="runs_blocked",
            required=True,
            format_func=lambda name: _FIELDS[name][0],
            key="map_field",
            label_visibility="collapsed",
            persist_state="session",
        )
    field = field or "runs_blocked"
    _charts.show(
        _charts.threshold_map(
            grid,
            field,
            _FIELDS[field][1],
            (draft.nudge_threshold, draft.block_threshold),
            (saved.nudge_threshold, saved.block_threshold),
        ),
        key="threshold_map",
        alt=f"{_FIELDS[field][0]} for every pair of nudge and block thresholds",
        on_select=_pick,
        selection_mode="points",
    )
    st.caption("Click a cell to try its thresholds. All calls of the view; runs after their first intervention are projected.")


def _pick() -> None:
    points = (st.session_state.get("threshold_map") or {}).get("selection", {}).get("points", [])
    if points:
        state = st.session_state
        state["nudge"], state["block"] = int(points[0]["x"]), int(points[0]["y"])
        state["nudge_on"] = state["block_on"] = True


def _changes(changed: ChangedCalls, incidents: dict[str, str], same: bool) -> None:
    _ui.section("What changes against the saved policy")
    if not changed.total:
        st.caption(
            "Nothing: the draft is the saved policy. Move a slider."
            if same
            else "No verdict changes: the draft and the saved policy judge every recorded call alike."
        )
        return
    by = st.segmented_control(
        "List",
        ["runs", "calls"],
        default="runs",
        required=True,
        format_func={"runs": count(changed.runs, "run"), "calls": count(changed.total, "call")}.__getitem__,
        key="changes_by",
        label_visibility="collapsed",
        persist_state="session",
    )
    rows = _changed_runs(changed) if by != "calls" else _changed_calls(changed)
    rows.insert(0, "open", ["Open" if run in incidents else "" for run in rows["run"]])

    def clicked() -> None:
        click = st.session_state["changes_open"]
        if click is not None and 0 <= click.row < len(rows):
            st.session_state["_open"] = incidents.get(rows["run"].iloc[click.row])

    text = st.column_config.TextColumn
    _ui.table(
        rows,
        key="changes",
        alt="What changes against the saved policy",
        columns={
            "open": st.column_config.ButtonColumn(
                "", on_click=clicked, key="changes_open", type="tertiary", width=64, pinned=True
            ),
            "agent": text("Agent", width=150),
            "tool": text("Tool", width=200),
            "before": text("Saved", width=120),
            "after": text("Draft", width=120),
            "calls": st.column_config.NumberColumn("Calls that change", width=130),
            "number": st.column_config.NumberColumn("Call number", width=100),
            "count": st.column_config.NumberColumn("Equal in a row", width=110),
            "judged": text("After the block", width=150),
            "exact": text("Certainty", width=100),
            "run": text("Run", width=260),
        },
        total=changed.total if by == "calls" else changed.runs,
    )
    chosen = st.session_state.pop("_open", None)
    if chosen:
        open_incident(chosen)


_WEIGHT = {"allow": 0, "not_counted": 0, "nudge": 1, "after_block": 2, "block": 3}


def _changed_runs(changed: ChangedCalls) -> pd.DataFrame:
    runs: dict[str, list] = {}
    for call in changed.calls:
        runs.setdefault(call.run_id, []).append(call)
    rows = []
    for run, calls in runs.items():
        worst = max((call.before for call in calls), key=lambda action: _WEIGHT.get(action, 0))
        now = max((call.after for call in calls), key=lambda action: _WEIGHT.get(action, 0))
        rows.append(
            {
                "agent": plain(calls[0].agent_name) if calls[0].agent_name else None,
                "tool": ", ".join(plain(tool) for tool in dict.fromkeys(call.tool_name for call in calls)),
                "before": verdict_text(worst),
                "after": verdict_text(now),
                "calls": len(calls),
                "number": calls[0].seq,
                "exact": "exact" if calls[0].exact else "projected",
                "run": run,
            }
        )
    return pd.DataFrame(rows)


def _changed_calls(changed: ChangedCalls) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "agent": plain(call.agent_name) if call.agent_name else None,
                "tool": plain(call.tool_name),
                "before": verdict_text(call.before),
                "after": verdict_text(call.after),
                "number": call.seq,
                "count": call.count,
                "judged": {"avoidable": "spared", "lost": "lost", "unjudged": "cannot be judged"}.get(call.judged or ""),
                "exact": "exact" if call.exact else "projected",
                "run": call.run_id,
            }
            for call in changed.calls
        ]
    )


def _take_away(draft: GuardPolicy, saved: _policy.Saved) -> None:
    _ui.section("Ship it", "The rule that was tuned here is the rule that runs: the live guard reads this file.")
    left, right = st.columns(2, gap="large")
    with left:
        st.code(draft.to_toml(), language="toml")
        with st.container(horizontal=True, gap="small"):
            same = saved.exists and draft == saved.policy
            if st.button("Save policy", type="primary", icon=":material/save:", disabled=same, key="save"):
                try:
                    draft.to_file(saved.path)
                except (PolicyError, OSError) as error:
                    _ui.problem(error)
                else:
                    st.toast("Policy saved: all pages judge by it now.", icon=":material/check:")
                    st.rerun()
            st.download_button(
                "Download TOML",
                data=draft.to_toml(),
                file_name="loopscope-policy.toml",
                mime="application/toml",
                icon=":material/download:",
                on_click="ignore",
                key="download_toml",
            )
        st.caption(f"Saved in {lit(saved.path, 200)}" + ("" if saved.exists else " once you save it; defaults until then"))
    with right:
        st.caption("Load it in the agent:")
        st.code(_policy.loading_lines(saved.path), language="python", wrap_lines=True)
        st.caption("Check a trace file against it, in CI or on call:")
        st.code(f"loopscope replay --db {_data.database().name} --policy {saved.path}", language="bash", wrap_lines=True)
