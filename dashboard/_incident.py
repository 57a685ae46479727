"""One incident whole: what happened, the run as lanes, its calls in order, the report to take away."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy
from ..replay import Filters, Incident, IncidentCall, IncidentDetail, TextChange
from . import _data, _ui
from ._charts import show
from ._incident_table import PARAMETER
from ._lanes import lanes
from ._text import count, lit, plain
from ._theme import KIND_NAMES, VERDICTS, verdict_text
from ._units import duration, instant, money, tokens

__all__ = ["downloads", "draw"]

_FORMATS = {
    "md": ("Markdown", "text/markdown"),
    "html": ("HTML", "text/html"),
    "json": ("JSON", "application/json"),
}
_CALLS = 100
"""Calls on one page of the list."""


def draw(key: str, policy: GuardPolicy) -> None:
    """The page of one incident. Raises NotFoundError."""
    with _data.reader() as ask:
        detail = ask.incident(key, policy)
        run_calls = ask.run_calls(detail.run.run_id, policy)
        ask.release()
    one = detail.incident
    _ui.back("All incidents", PARAMETER)
    _ui.sentence(detail.summary)
    _badges(detail)
    _figures(detail)
    _ui.coverage_note(detail.coverage)
    _ui.section("The run", _lane_note(detail, len(run_calls)))
    show(lanes(detail, run_calls), key="lanes", alt="Calls of the run in order, one lane for each tool")
    _ui.section("Calls in order", _calls_note(detail))
    _calls(detail)
    _ui.section("Take it away", "A report that reads without this tool. The HTML opens offline.")
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        downloads(one.key, policy, Filters())
        st.page_link(
            "app_pages/tuning.py",
            label="Tune with this run",
            icon=":material/tune:",
            query_params={"run": one.run_id},
        )
    _facts(detail)


def _badges(detail: IncidentDetail) -> None:
    one = detail.incident
    with st.container(horizontal=True, gap="xsmall"):
        st.badge(KIND_NAMES.get(one.kind, one.kind), color="blue", icon=":material/all_inclusive:")
        if one.resolved:
            st.badge("resolved", color="green", icon=":material/check:")
        else:
            st.badge("unresolved: the run ended in it", color="red", icon=":material/close:")
        if one.soft_failure and not one.resolved:
            st.badge(
                "soft failure", color="orange", icon=":material/warning:", help="The run reported success."
            )
        if one.interleaved:
            st.badge("interleaved", color="grey", help="Other calls of the run lay in between.")
        if detail.run.guarded:
            st.badge("recorded under a live guard", color="violet", icon=":material/shield:")


def _figures(detail: IncidentDetail) -> None:
    one = detail.incident
    spent = None if one.input_tokens is None else one.input_tokens + (one.output_tokens or 0)
    with _ui.figures():
        _ui.figure("Calls", f"{one.calls:,}", note=f"{one.repeated_calls:,} brought nothing new")
        _ui.figure("Took", duration(one.duration_ns), note=f"{duration(one.tool_ns)} of it inside the tools")
        cost = f", {money(one.cost)}" if one.cost is not None else ""
        _ui.figure(
            "Tokens meanwhile",
            "unknown" if spent is None else f"{spent:,}",
            note=f"{count(one.requests, 'request')} to a model{cost}"
            if one.requests
            else "no request to a model recorded",
        )
        for action, number in (("nudge", one.nudge_at), ("block", one.block_at)):
            mark = VERDICTS[action]
            sure = all(call.exact for call in detail.calls if call.number == number)
            _ui.figure(
                f"{mark.glyph} {mark.name.capitalize()} at call",
                "none" if number is None else f"{number} of {one.calls}",
                note=_falls_note(one, action, number, sure),
                help=None if sure or number is None else _PROJECTED,
            )


_PROJECTED = (
    "Projected: an earlier intervention, which the recorded agent did not see, might have changed "
    "how the run went on."
)


def _falls_note(one: Incident, action: str, number: int | None, sure: bool) -> str:
    if number is None:
        return "not reached under this policy" if not one.after_block else "the run was blocked before"
    after = f"; {count(one.after_block, 'call')} after it" if action == "block" and one.after_block else ""
    return ("exact" if sure else "projected") + after


def _lane_note(detail: IncidentDetail, drawn: int) -> str:
    text = "Each call of the run by its number and tool; large marks belong to this incident."
    if drawn < detail.run.calls:
        text += f" The first {drawn:,} of {count(detail.run.calls, 'call')}."
    return text


def _calls_note(detail: IncidentDetail) -> str:
    own = sum(call.member for call in detail.calls)
    between = len(detail.calls) - own
    text = f"{count(own, 'call')} of the incident"
    if between:
        text += f" and {between:,} that lay in between (without a number)"
    if detail.calls_left_out:
        text += f"; {detail.calls_left_out:,} more are left out here"
    return text + ". Select one to compare it with the repeat before."


@st.fragment
def _calls(detail: IncidentDetail) -> None:
    entries = detail.calls[_ui.page_of(len(detail.calls), key="calls_page", what="calls", rows=_CALLS)]
    if not entries:
        return
    start = detail.incident.first_ns
    rows = pd.DataFrame(
        {
            "number": ["" if entry.number is None else str(entry.number) for entry in entries],
            "verdict": [[verdict_text(entry.action)] for entry in entries],
            "sure": ["exact" if entry.exact else "projected" for entry in entries],
            "tool": [plain(entry.call.tool_name, 80) for entry in entries],
            "arguments": [_cell(entry.call.arguments) for entry in entries],
            "result": [_cell(entry.call.result) for entry in entries],
            "change": [_told(entry) for entry in entries],
            "at": [f"+{duration(entry.call.start_ns - start)}" for entry in entries],
        }
    )
    text = st.column_config.TextColumn
    picked = st.dataframe(
        rows,
        key="calls",
        alt="Calls of the incident in order",
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row-required",
        selection_default={"selection": {"rows": [_first_look(entries)]}},
        height="content" if len(entries) <= 15 else 560,
        column_config={
            "number": text("Call", width=50, help="Number among the incident's calls; empty: lay in between"),
            "verdict": _ui.verdict_column(),
            "sure": text("Certainty", width=78),
            "tool": text("Tool", width=130),
            "arguments": text("Arguments", width=180),
            "result": text("Result", width=170),
            "change": text("Against the repeat before", width=185),
            "at": text("Started", width=70, help="After the incident's first call"),
        },
    )
    chosen = picked.selection.rows[0] if picked.selection.rows else _first_look(entries)
    _compare(detail, entries[min(chosen, len(entries) - 1)])


def _first_look(entries: Sequence[IncidentCall]) -> int:
    """Open on the first nudge, else on the first repeat: a line that has something to be compared with."""
    repeats = [index for index, entry in enumerate(entries) if entry.member and entry.arguments_change]
    nudged = [index for index in repeats if entries[index].action == "nudge"]
    return (nudged or repeats or [0])[0]


def _cell(text: str | None) -> str:
    if text is None:
        return "not recorded"
    return plain(text, 160) if text else "(empty)"


def _told(entry: IncidentCall) -> str:
    if not entry.member:
        return "in between"
    if entry.result_change is None or entry.arguments_change is None:
        return "first"
    if entry.result_change.same and entry.arguments_change.same:
        return "= same arguments, same result"
    parts = []
    for name, change in (("arguments", entry.arguments_change), ("result", entry.result_change)):
        parts.append(f"= same {name}" if change.same else f"≠ {name}: {plain(change.summary, 80)}")
    return "; ".join(parts)


def _compare(detail: IncidentDetail, entry: IncidentCall) -> None:
    """One call, beside the repeat before it where they differ."""
    call, before = entry.call, _before(detail, entry)
    mark = VERDICTS[entry.action]
    name = f"Call {entry.number}" if entry.member else "A call that lay in between"
    with st.container(border=True, key="call_detail"):
        st.markdown(
            f"**{name}**: {'' if entry.action == 'allow' else mark.glyph + ' '}{mark.name}"
            f"{'' if entry.exact else ' (projected)'}, count {entry.count}, {lit(call.tool_name)}"
        )
        st.caption(_circumstances(entry))
        key = f"{call.span_id}_{call.position}"
        for label, field, change, size in (
            ("Arguments", "arguments", entry.arguments_change, entry.arguments_length),
            ("Result", "result", entry.result_change, entry.result_length),
        ):
            value = getattr(call, field)
            language = "json" if field == "arguments" else None
            if before is None or change is None or change.same:
                note = "" if change is None or before is None else f", the same as in call {before.number}"
                _ui.text_box(_sized(label, size) + note, value, key=f"{field}_{key}", language=language)
                continue
            left, right = st.columns(2, gap="medium")
            with left:
                _ui.text_box(
                    f"{label} of call {before.number}",
                    getattr(before.call, field),
                    key=f"{field}_{key}_b",
                    language=language,
                )
            with right:
                _ui.text_box(
                    _sized(f"{label} of this call", size), value, key=f"{field}_{key}", language=language
                )
            _changes(change)
        if call.error_message and call.error_message not in (call.result or ""):
            _ui.text_box("Error", call.error_message, key=f"error_{key}")


def _circumstances(entry: IncidentCall) -> str:
    call = entry.call
    parts = [call.outcome.replace("_", " ") if call.outcome else "outcome unknown"]
    if call.error_kind:
        parts.append(call.error_kind.replace("_", " "))
    if call.http_status:
        parts.append(f"HTTP {call.http_status}")
    parts.append(f"started {instant(call.start_ns)}")
    end_ns = call.end_ns
    parts.append("no end recorded" if end_ns is None else f"ran {duration(end_ns - call.start_ns)}")
    if call.turn is not None:
        parts.append(f"asked for in model turn {call.turn}")
    if call.content_state == "truncated":
        parts.append("content was cut when it was recorded")
    if call.recorded_verdict:
        parts.append(f"a live guard said {call.recorded_verdict} in the recording")
    return " · ".join(parts)


def _before(detail: IncidentDetail, entry: IncidentCall) -> IncidentCall | None:
    """The repeat that the changes of `entry` are told against."""
    if entry.number is None or entry.arguments_change is None:
        return None
    earlier = [one for one in detail.calls if one.number is not None and one.number < entry.number]
    for one in reversed(earlier):
        if one.call.scope_key == entry.call.scope_key:
            return one
    same_tool = [one for one in earlier if one.call.tool_name == entry.call.tool_name]
    return (same_tool or earlier or [None])[-1]


def _sized(label: str, length: int | None) -> str:
    return f"{label} ({count(length, 'character')})" if length else label


def _changes(change: TextChange) -> None:
    if not change.changes:
        st.text(plain(change.summary))
        return
    lines = []
    for one in change.changes:
        path = plain(one.path, 80)
        if one.before is not None:
            lines.append(f"- {path}: {plain(one.before, 400)}")
        if one.after is not None:
            lines.append(f"+ {path}: {plain(one.after, 400)}")
    if change.more:
        lines.append(f"… {change.more:,} more")
    st.caption("What changed:")
    st.code("\n".join(lines), language="diff", wrap_lines=True)


def _facts(detail: IncidentDetail) -> None:
    run, one = detail.run, detail.incident
    known = {
        "Incident": one.key,
        "Run": run.run_id,
        "Run is": run.run_source.replace("_", " "),
        "Traces": ", ".join(run.trace_ids[:5]) + (" …" if len(run.trace_ids) > 5 else ""),
        "Session": run.session_id,
        "Service": run.service_name,
        "Agents": ", ".join(run.agents) or None,
        "Models": ", ".join(run.models) or None,
        "Recorded as": ", ".join(run.dialects),
        "Began": instant(run.first_ns),
        "Ended": instant(run.last_ns),
        "Agent span": run.status,
        "Calls": f"{run.calls:,}",
        "Requests": f"{run.requests:,} ({run.failed_requests:,} failed)",
        "Tokens": tokens(None if run.input_tokens is None else run.input_tokens + (run.output_tokens or 0)),
        "Cost": money(run.cost),
        "Same fault in": count(detail.related_runs, "run"),
    }
    with st.expander("Facts of the run", icon=":material/list:", key="facts"):
        rows = pd.DataFrame(
            {
                "fact": list(known),
                "value": ["not recorded" if value is None else plain(value, 400) for value in known.values()],
            }
        )
        _ui.table(
            rows,
            key="facts_table",
            alt="Facts of the run",
            height="content",
            columns={
                "fact": st.column_config.TextColumn("", width=140),
                "value": st.column_config.TextColumn("", width="large"),
            },
        )


def downloads(key: str | None, policy: GuardPolicy, filters: Filters) -> None:
    """A button for each format. The report is written when its button is clicked."""
    name = f"incident-{re.sub('[^A-Za-z0-9-]', '', key)[:16]}" if key else "incidents"
    for form, (label, mime) in _FORMATS.items():
        st.download_button(
            label,
            data=_write(key, policy, form, filters),
            file_name=f"{name}.{form}",
            mime=mime,
            icon=":material/download:",
            on_click="ignore",
            key=f"download_{form}",
        )


def _write(key: str | None, policy: GuardPolicy, form: str, filters: Filters):
    def write() -> bytes:
        with _data.reader() as ask:
            return ask.report(key, policy, form, filters).encode()

    return write
