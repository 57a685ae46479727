"""One incident whole: what happened, the run as lanes, its calls in order, the report to take away."""

from __future__ import annotations

import re

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy
from ..replay import Filters, Incident, IncidentCall, IncidentDetail
from . import _data, _ui
from ._lanes import lanes
from ._charts import show
from ._text import count, cut, lit, plain
from ._theme import KIND_NAMES, VERDICTS
from ._units import duration, instant, money, tokens

__all__ = ["downloads", "draw"]

_FORMATS = {"md": ("Markdown", "text/markdown"), "html": ("HTML", "text/html"), "json": ("JSON", "application/json")}
_CALLS = 25
"""Calls on one page of the list."""


def draw(key: str, policy: GuardPolicy) -> None:
    """The page of one incident. Raises NotFoundError."""
    with _data.reader() as ask:
        detail = ask.incident(key, policy)
        run_calls = ask.run_calls(detail.run.run_id, policy)
        ask.release()
    one = detail.incident
    st.page_link("pages/incidents.py", label="All incidents", icon=":material/arrow_back:")
    _ui.sentence(detail.summary)
    _badges(detail)
    _figures(detail)
    _ui.coverage_note(detail.coverage)
    _ui.section("The run", _lane_note(detail, len(run_calls)))
    show(lanes(detail, run_calls), key="lanes", alt="Calls of the run in order, one lane for each tool")
    _ui.section("Calls in order", _calls_note(detail))
    _calls(detail)
    _ui.section("Take it away", "A report that reads without this tool. The HTML opens offline.")
    with st.container(horizontal=True, gap="small"):
        downloads(one.key, policy, Filters())
        st.page_link(
            "pages/tuning.py",
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
        if one.soft_failure:
            st.badge("soft failure", color="orange", icon=":material/warning:", help="The run reported success.")
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
            note=f"{count(one.requests, 'request')} to a model{cost}" if one.requests else "no request to a model recorded",
        )
        for action, number in (("nudge", one.nudge_at), ("block", one.block_at)):
            mark = VERDICTS[action]
            _ui.figure(
                f"{mark.glyph} {mark.name.capitalize()} falls",
                "nowhere" if number is None else f"at call {number}",
                note=_falls_note(one, action, number),
            )


def _falls_note(one: Incident, action: str, number: int | None) -> str:
    if number is None:
        return "not reached under this policy" if one.after_block in (None, 0) else "the run was blocked before"
    sure = "exact" if one.exact else "projected: an earlier intervention might have changed the run"
    after = f"; {count(one.after_block, 'call')} after it" if action == "block" and one.after_block else ""
    return sure + after


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
        text += f" and {between:,} that lay in between (indented, without a number)"
    if detail.calls_left_out:
        text += f"; {detail.calls_left_out:,} more are left out here"
    return text + ". What changed is told against the repeat before."


@st.fragment
def _calls(detail: IncidentDetail) -> None:
    rows = _ui.page_of(len(detail.calls), key="calls_page", what="calls", rows=_CALLS)
    start = detail.incident.first_ns
    for index, call in enumerate(detail.calls[rows], start=rows.start):
        _call(call, index, start, first=index == 0)


def _call(entry: IncidentCall, index: int, start_ns: int, *, first: bool) -> None:
    call, mark = entry.call, VERDICTS[entry.action]
    head = f"**{entry.number}**" if entry.member else ":gray[·  in between]"
    parts = [head, f"{mark.glyph} {mark.name}" + ("" if entry.exact else " (projected)"), lit(call.tool_name, 40)]
    if entry.arguments_change is None or not entry.member:
        parts.append(lit(call.arguments, 60) if call.arguments is not None else "arguments not recorded")
    else:
        parts.append(f"arguments {_summary(entry.arguments_change.summary)}")
    if entry.result_change is not None and entry.member:
        parts.append(f"result {_summary(entry.result_change.summary)}")
    with st.expander("  ·  ".join(parts), expanded=first, key=f"call_{index}"):
        failed = f"{call.outcome.replace('_', ' ')}" if call.outcome else "outcome unknown"
        if call.error_kind:
            failed += f" / {call.error_kind.replace('_', ' ')}"
        if call.http_status:
            failed += f" / HTTP {call.http_status}"
        st.caption(
            f"count {entry.count} · {failed} · started +{duration(call.start_ns - start_ns)} · "
            + (f"ran {duration(call.end_ns - call.start_ns)}" if call.end_ns is not None else "never ended")
            + (f" · model turn {call.turn}" if call.turn is not None else "")
            + (" · content cut when recorded" if call.content_state == "truncated" else "")
        )
        left, right = st.columns(2, gap="medium")
        with left:
            _ui.text_box(_sized("Arguments", entry.arguments_length), call.arguments, key=f"arguments_{index}", language="json")
            _changes(entry.arguments_change)
        with right:
            _ui.text_box(_sized("Result", entry.result_length), call.result, key=f"result_{index}")
            _changes(entry.result_change)
            if call.error_message and call.error_message != call.result:
                _ui.text_box("Error", call.error_message, key=f"error_{index}")


def _sized(label: str, length: int | None) -> str:
    return f"{label} ({count(length, 'character')})" if length else label


def _summary(text: str) -> str:
    """A change's summary names keys out of the trace."""
    return text if re.fullmatch(r"[a-z0-9 ,]+", text) else lit(text, 70)


def _changes(change) -> None:
    if change is None or change.same:
        return
    st.caption("Against the repeat before:")
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


_ = cut
