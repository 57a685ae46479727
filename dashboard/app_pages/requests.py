"""Requests to a model that failed."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from loopscope.dashboard import _charts, _data, _filters, _snippets, _ui
from loopscope.dashboard._text import count, plain
from loopscope.dashboard._units import duration, instant, when
from loopscope.replay import FailedRequest, FailedRequests

view = _filters.current_view()

_ROWS = 200


def main() -> None:
    page = int(st.session_state.get("requests_page", 1))
    with _data.reader() as ask:
        seen = ask.failed_requests(view.filters, _ROWS, (page - 1) * _ROWS)
        ask.release()
    if not seen.requests:
        if view.narrowed:
            _snippets.nothing_here(view, "")
            return
        _ui.sentence("No request to a model has been recorded yet.")
        ways = _snippets.grouped()
        _ui.empty(
            "No requests yet",
            "Requests to a model that a provider refused stand here, with their status and text. They come "
            "from the spans of an LLM instrumentation, or from imported files that hold them.",
            ways["Samples"],
            ways["Import files"],
        )
        return
    _ui.sentence(_said(seen))
    _figures(seen)
    if not seen.failed:
        st.caption("Refused and failed requests would be listed here.")
        return
    st.caption("Whether a repaired history would have saved them is not judged in this version.")
    _ui.section(
        "By status", "HTTP status of the failed requests; none where no answer came or none was recorded."
    )
    _charts.show(_charts.status_bars(seen.by_status), key="by_status", alt="Failed requests by HTTP status")
    _ui.section("Failed requests", "Newest first. Select a line to read the whole text.")
    _ui.page_of(seen.failed, key="requests_page", what="requests", rows=_ROWS)
    _list(seen)


def _said(seen: FailedRequests) -> str:
    if not seen.failed:
        return f"All {count(seen.requests, 'request')} to a model were answered."
    refused = seen.by_status.get("400", 0)
    text = f"{seen.failed:,} of {count(seen.requests, 'request')} to a model failed"
    if refused:
        part = "all" if refused == seen.failed else f"{refused:,}"
        text += f", {part} of them refused as malformed (HTTP 400)"
    return f"{text}."


def _figures(seen: FailedRequests) -> None:
    refused = seen.by_status.get("400", 0)
    with _ui.figures(4):
        _ui.figure("Requests", f"{seen.requests:,}", note=f"in {view.period}")
        _ui.figure("Failed", f"{seen.failed:,}", note=f"{seen.failed / seen.requests:.1%} of all")
        _ui.figure("HTTP 400", f"{refused:,}", note="the provider called them malformed")
        _ui.figure(
            "Without messages",
            f"{seen.without_messages:,}",
            note="failed, and their history was not recorded",
        )


def _list(seen: FailedRequests) -> None:
    rows = pd.DataFrame(
        {
            "when": [when(row.start_ns) for row in seen.rows],
            "status": [str(row.http_status) if row.http_status else None for row in seen.rows],
            "provider": [_or_none(row.provider) for row in seen.rows],
            "model": [_or_none(row.model) for row in seen.rows],
            "agent": [_or_none(row.agent_name) for row in seen.rows],
            "messages": [row.messages for row in seen.rows],
            "text": [_or_none(row.error_text or row.error_type, 300) for row in seen.rows],
        }
    )
    picked = st.dataframe(
        rows,
        key="failed_requests",
        alt="Failed requests",
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row-required",
        placeholder="—",
        column_config={
            "when": st.column_config.DatetimeColumn("When (UTC)", format="YYYY-MM-DD HH:mm:ss", width=160),
            "status": st.column_config.TextColumn("Status", width=70),
            "provider": st.column_config.TextColumn("Provider", width=110),
            "model": st.column_config.TextColumn("Model", width=150),
            "agent": st.column_config.TextColumn("Agent", width=140),
            "messages": st.column_config.NumberColumn("Messages", width=90),
            "text": st.column_config.TextColumn("Text", width=480),
        },
    )
    if picked.selection.rows and picked.selection.rows[0] < len(seen.rows):
        _one(seen.rows[picked.selection.rows[0]])


def _one(row: FailedRequest) -> None:
    with st.container(border=True, key="request_detail"):
        st.text(
            f"{plain(row.model or 'model not recorded')} at {instant(row.start_ns)}"
            + (f", answered after {duration(row.end_ns - row.start_ns)}" if row.end_ns is not None else "")
        )
        _ui.text_box("What the provider said", row.error_text, key=f"request_{row.span_id}", limit=4000)
        carried = "not recorded" if row.messages is None else count(row.messages, "message")
        st.text(
            f"Error type: {plain(row.error_type or 'not recorded')}. History: {carried}. "
            f"Recorded as {plain(row.dialect)}. Run {plain(row.run_id, 120)}"
        )


def _or_none(text: str | None, limit: int = 120) -> str | None:
    return None if text is None else plain(text, limit)


main()
