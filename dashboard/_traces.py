"""One run whole: what it was, its spans, messages, calls, log records and facts."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy
from ..replay.traces import RunHead
from . import _data, _traces_calls, _traces_logs, _traces_messages, _traces_spans, _ui
from ._incident_table import PARAMETER as INCIDENT
from ._text import count, lit, plain
from ._theme import KIND_NAMES
from ._traces_link import PARAMETER, SPAN, VIEW, run_query
from ._traces_words import SOURCES, ended_cell, said, spent
from ._units import duration, instant

__all__ = ["draw"]

_TABS = ("Spans", "Messages", "Calls", "Logs", "Facts")
_COLOURS = {"ok": "green", "unset": "grey", "error": "red", "running": "blue", None: "grey"}


def draw(ask: _data.Reader, head: RunHead, policy: GuardPolicy) -> None:
    """The page of one run."""
    _ui.back("All runs", PARAMETER, SPAN)  # the open part is bound to its tabs, and goes with them
    _ui.sentence(said(head))
    _badges(head)
    _figures(head)
    _incidents(head)
    _ui.coverage_note(head.coverage)
    tabs = st.tabs(list(_TABS), key=VIEW, bind="query-params")
    parts = (
        lambda: _traces_spans.draw(ask, head, policy),
        lambda: _traces_messages.draw(ask, head, policy),
        lambda: _traces_calls.draw(ask, head, policy),
        lambda: _traces_logs.draw(ask, head),
        lambda: _facts(head),
    )
    for tab, part in zip(tabs, parts, strict=True):
        if tab.open:
            with tab:
                part()


def _badges(head: RunHead) -> None:
    run = head.run
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        colour = "green" if run.stopped and run.status != "running" else _COLOURS[run.status]
        st.badge(ended_cell(run), color=colour)  # pyright: ignore[reportArgumentType]
        st.badge(SOURCES.get(run.run_source, plain(run.run_source, 40)), color="grey")
        if run.guarded:
            st.badge("recorded under a live guard", color="violet", icon=":material/shield:")
        if run.parent_run_id:
            st.page_link(
                "app_pages/traces.py",
                label="The run around it",
                icon=":material/arrow_upward:",
                query_params=run_query(run.parent_run_id),
            )
    text = (run.agent_name, run.service_name, run.model, instant(run.first_ns))
    st.text(" · ".join(plain(one, 60) for one in dict.fromkeys(text) if one))


def _figures(head: RunHead) -> None:
    run = head.run
    with _ui.figures(6, narrowest=130):
        _ui.figure(
            "Took",
            duration(run.duration_ns),
            note="so far" if run.status == "running" else "first to last sign",
        )
        waiting = f"; {run.calls_not_ended:,} not ended" if run.calls_not_ended else ""
        _ui.figure("Calls", f"{run.calls:,}", note=f"{run.failed_calls:,} failed{waiting}")
        _ui.figure("Requests", f"{run.requests:,}", note=f"{run.failed_requests:,} failed")
        _ui.figure(
            "Repeats",
            f"{run.repeats:,}",
            note=_guarded(head),
            help="Calls with the same result as the equal call before",
        )
        _ui.figure("Tokens", "unknown" if run.tokens is None else f"{run.tokens:,}", note=_cost(head))
        _ui.figure("Spans", f"{head.spans:,}", note=f"{count(head.logs, 'log record')}")


def _guarded(head: RunHead) -> str:
    run = head.run
    parts = [
        f"{glyph} {number:,} {name}"
        for glyph, number, name in (
            ("▲", run.nudged, "nudged"),
            ("■", run.blocked, "blocked"),
            ("□", run.after_block, "after"),
        )
        if number
    ]
    return ", ".join(parts) or "the guard stays quiet"


def _cost(head: RunHead) -> str:
    return spent(head.run.cost) or "cost unknown"


def _incidents(head: RunHead) -> None:
    if not head.incidents:
        return
    with st.container(horizontal=True, gap="small", key="run_incidents", vertical_alignment="center"):
        st.caption("Incidents:", width="content")
        for one in head.incidents[:6]:
            tools, kind = " → ".join(one.tools[:2]), KIND_NAMES.get(one.kind, one.kind)
            st.page_link(
                "app_pages/incidents.py",
                label=f"{kind} of {lit(tools, 40)} ({count(one.calls, 'call')})",
                icon=":material/all_inclusive:",
                query_params={INCIDENT: one.key},
            )
        if head.run.incidents > 6:
            st.caption(f"and {head.run.incidents - 6:,} more on the incidents page", width="content")


def _facts(head: RunHead) -> None:
    run = head.run
    known = {
        "Run": run.run_id,
        "Run is": SOURCES.get(run.run_source, run.run_source),
        "Traces": ", ".join(head.trace_ids[:8])
        + (f" and {len(head.trace_ids) - 8:,} more" if len(head.trace_ids) > 8 else ""),
        "Session": run.session_id,
        "Inside of run": run.parent_run_id,
        "Service": run.service_name,
        "Agents": ", ".join(head.agents) or run.agent_name,
        "Models": ", ".join(head.models) or run.model,
        "Recorded as": ", ".join(head.dialects) or None,
        "Began": instant(run.first_ns),
        "Last sign": instant(run.last_ns),
        "Ended": ended_cell(run),
        "Tokens sent": None if run.input_tokens is None else f"{run.input_tokens:,}",
        "Tokens answered": None if run.output_tokens is None else f"{run.output_tokens:,}",
        "Cost": spent(run.cost),
    }
    text = st.column_config.TextColumn
    _ui.table(
        pd.DataFrame(
            {
                "fact": list(known),
                "value": ["not recorded" if not value else plain(value, 400) for value in known.values()],
            }
        ),
        key="facts_table",
        alt="Facts of the run",
        height="content",
        columns={"fact": text("", width=140), "value": text("", width="large")},
    )
    if head.nested:
        _ui.section("Runs inside it", "Agents that this one called; each has its own count of repeats.")
        for run_id, agent, calls in head.nested:
            st.page_link(
                "app_pages/traces.py",
                label=f"{lit(agent or 'without a name', 40)}, {count(calls, 'call')}",
                icon=":material/subdirectory_arrow_right:",
                query_params=run_query(run_id),
            )
        if head.nested_cut:
            st.caption(f"The first {len(head.nested):,}; the spans show all of them.")
    with st.container(horizontal=True, gap="small"):
        if run.session_id:
            st.page_link(
                "app_pages/traces.py",
                label="All runs of this session",
                icon=":material/list:",
                query_params={"find": run.session_id},
            )
        st.page_link(
            "app_pages/tuning.py",
            label="Tune with this run",
            icon=":material/tune:",
            query_params={"run": run.run_id},
        )
