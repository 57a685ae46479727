"""What fails, how, and does the guard count it?"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import streamlit as st

from loopscope.dashboard import (
    _charts,
    _data,
    _downloads,
    _filters,
    _first,
    _policy,
    _reclassify,
    _snippets,
    _ui,
)
from loopscope.dashboard._text import count, lit, plain
from loopscope.dashboard._units import when
from loopscope.replay import ErrorBreakdown, ErrorGroup, untimed

view, saved = _filters.current_view(), _policy.saved()

_REASONS = {
    "general_tool_error": "○ failed in the tool",
    "no_arguments": "○ arguments not recorded",
    "no_result": "○ result not recorded",
    "no_outcome": "○ outcome unknown",
    "outcome_not_counted": "○ outcome left out by the policy",
    "exempt": "· tool left alone by the policy",
}
_BY = {"tool": "By tool", "agent": "By agent", "model": "By model"}


def main() -> None:
    with _data.reader() as ask:
        with _first.counting(ask):
            seen = ask.errors(view.filters, saved.policy)
        ask.release()
    if not seen.calls:
        _snippets.nothing_here(
            view, "Failed calls stand here by tool, kind and time, with their texts grouped."
        )
        return
    _ui.sentence(_said(seen))
    _figures(seen)
    _ui.coverage_note(seen.coverage)
    if seen.failed:
        left, right = st.columns([1.2, 1], gap="large")
        with left:
            _kinds(seen)
        with right:
            _ui.section("Over time", "Failed calls by kind. Times are UTC.")
            if seen.buckets:
                _charts.show(
                    _charts.errors_over_time(seen.buckets, seen.bucket_ns),
                    key="errors_time",
                    alt="Failed calls over time by kind of error",
                )
            _ui.untimed_note(seen.calls_untimed, "failed call")
        _texts(seen)
    _not_counted(seen)
    if seen.failed:
        _downloads.pair("errors", _rows(seen.groups), seen.to_json())


def _said(seen: ErrorBreakdown) -> str:
    if not seen.failed:
        return f"None of {count(seen.calls, 'call')} failed."
    kinds: dict[str, int] = {}
    tools: dict[str, int] = {}
    for cell in seen.by_tool:
        kinds[cell.error_kind] = kinds.get(cell.error_kind, 0) + cell.calls
        tools[cell.tool_name] = tools.get(cell.tool_name, 0) + cell.calls
    kind, most = max(kinds.items(), key=lambda item: item[1])
    tool, worst = max(tools.items(), key=lambda item: item[1])
    return (
        f"{seen.failed:,} of {count(seen.calls, 'call')} failed ({seen.failed / seen.calls:.0%}), "
        f"most often as {kind.replace('_', ' ')} ({most:,}) and in {plain(tool, 60)} ({worst:,}). "
        f"The guard counts {seen.counted:,} of the failures."
    )


def _figures(seen: ErrorBreakdown) -> None:
    schema = sum(cell.calls for cell in seen.by_tool if cell.outcome == "schema_error")
    with _ui.figures():
        _ui.figure("Failed calls", f"{seen.failed:,}", note=f"of {count(seen.calls, 'finished call')}")
        _ui.figure("Schema errors", f"{schema:,}", note="the call did not fit the tool; counted like results")
        _ui.figure(
            "General errors", f"{seen.failed - schema:,}", note="the tool failed; a retry is not yet a loop"
        )
        _ui.figure("Counted", f"{seen.counted:,}", note=f"of the failed, under {_policy.name(saved.policy)}")
        _ui.figure("Distinct texts", f"{seen.groups_total:,}", note="numbers, ids, times and paths masked")


def _kinds(seen: ErrorBreakdown) -> None:
    _ui.section("Kinds of failures", "Failed calls; a model is the one that asked for the call.")
    by = st.segmented_control(
        "Kinds of failures",
        list(_BY),
        default="tool",
        required=True,
        format_func=_BY.__getitem__,
        key="kinds_by",
        bind="query-params",
        label_visibility="collapsed",
    )
    cells: Iterable[tuple[str, str, int]]
    if by == "agent":
        cells = [(one.name or "no agent recorded", one.error_kind, one.calls) for one in seen.by_agent]
    elif by == "model":
        cells = [(one.name or "model not known", one.error_kind, one.calls) for one in seen.by_model]
    else:
        cells = [(one.tool_name, one.error_kind, one.calls) for one in seen.by_tool]
    _charts.show(
        _charts.error_kinds(cells), key=f"kinds_{by}", alt=f"Failed calls by {by or 'tool'} and kind of error"
    )
    names = len({name for name, _, _ in cells})
    if names > _charts.MOST_NAMES:
        st.caption(f"{_charts.MOST_NAMES} of {names:,} {by}s, those with most failures.")


def _rows(groups: Iterable[ErrorGroup]) -> pd.DataFrame:
    shown = list(groups)
    return pd.DataFrame(
        {
            "calls": [group.calls for group in shown],
            "text": ["no text recorded" if group.text is None else plain(group.text, 400) for group in shown],
            "tool": [plain(group.tool_name) for group in shown],
            "kind": [group.error_kind.replace("_", " ") for group in shown],
            "counted": [_counted(group.counted, group.calls) for group in shown],
            "runs": [group.runs for group in shown],
            "last": [None if untimed(group.last_ns) else when(group.last_ns) for group in shown],
        }
    )


def _texts(seen: ErrorBreakdown) -> None:
    _ui.section(
        "Error texts",
        "Equal once volatile parts are masked. Select a line to see samples and to count it in another way.",
    )
    picked = st.dataframe(
        _rows(seen.groups),
        key="error_texts",
        alt="Error texts",
        hide_index=True,
        placeholder="—",
        on_select="rerun",
        selection_mode="single-row-required",
        column_config={
            "calls": st.column_config.NumberColumn("Calls", format="localized", width=64),
            "text": st.column_config.TextColumn("Text", width=385),
            "tool": st.column_config.TextColumn("Tool", width=140),
            "kind": st.column_config.TextColumn("Kind", width=100),
            "counted": st.column_config.TextColumn("Guard", width=110),
            "runs": st.column_config.NumberColumn("Runs", format="localized", width=60),
            "last": st.column_config.DatetimeColumn(
                "Last seen (UTC)", format="YYYY-MM-DD HH:mm:ss", width=150
            ),
        },
    )
    if seen.groups_total > len(seen.groups):
        st.caption(f"{len(seen.groups):,} of {seen.groups_total:,} texts, most calls first.")
    if seen.calls_grouped < seen.failed:
        st.caption(f"{seen.failed - seen.calls_grouped:,} failed calls are in no group: too many texts.")
    chosen = picked.selection.rows[0] if picked.selection.rows else 0
    group = seen.groups[min(chosen, len(seen.groups) - 1)]
    with st.container(border=True, key="error_sample"):
        st.markdown(
            f"**{_counted(group.counted, group.calls)}**: {lit(group.tool_name, 60)} · "
            f"{count(group.calls, 'call')} in {count(group.runs, 'run')}"
        )
        st.caption(_why(group))
        if not group.samples:
            st.caption(":material/block: The source recorded no text for these failures.")
        for number, sample in enumerate(group.samples):
            _ui.text_box(
                f"Sample {number + 1}, as recorded", sample, key=f"sample_{chosen}_{number}", limit=1000
            )
        _reclassify.draw(group, saved)


def _why(group: ErrorGroup) -> str:
    if group.counted:
        what = "schema error" if group.outcome == "schema_error" else "general error"
        return f"A {what}: equal texts in a row count towards nudge and block."
    if group.outcome == "schema_error":
        return (
            "A schema error that is left out: its tool is exempt, or arguments or result were not recorded."
        )
    return "A general error: the tool or the network failed, and trying again is what an agent should do."


def _counted(counted: int, calls: int) -> str:
    if counted == calls:
        return "· counted"
    return "○ not counted" if not counted else f"· {counted:,} counted"


def _sentence(text: str) -> str:
    return plain(text[:1].upper() + text[1:], 300)


def _not_counted(seen: ErrorBreakdown) -> None:
    total = sum(reason.calls for reason in seen.not_counted)
    _ui.section(
        "What the guard does not count, and why", f"{total:,} of {count(seen.calls, 'finished call')}."
    )
    if not seen.not_counted:
        st.caption("Nothing: every finished call takes part in counting.")
        return
    rows = pd.DataFrame(
        {
            "calls": [reason.calls for reason in seen.not_counted],
            "share": [100 * reason.calls / seen.calls for reason in seen.not_counted],
            "reason": [
                _REASONS.get(reason.reason, reason.reason.replace("_", " ")) for reason in seen.not_counted
            ],
            "explanation": [_sentence(reason.explanation) for reason in seen.not_counted],
        }
    )
    _ui.table(
        rows,
        key="not_counted",
        alt="Calls the guard does not count, by reason",
        height="content",
        columns={
            "calls": st.column_config.NumberColumn("Calls", format="localized", width=70),
            "reason": st.column_config.TextColumn("Reason", width=210),
            "share": st.column_config.NumberColumn("Of all", format="%.0f %%", width=70),
            "explanation": st.column_config.TextColumn("What it means", width=560),
        },
    )


main()
