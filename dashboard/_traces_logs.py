"""The log records of a run."""

from __future__ import annotations

import streamlit as st

from ..replay.traces import RunHead
from . import _data, _traces_span, _ui

__all__ = ["draw"]

_ROWS = 100


def draw(ask: _data.Reader, head: RunHead) -> None:
    """Log records of the run's traces, a page at a time."""
    ask.release()
    _logs(head)


@st.fragment
@_ui.guarded
def _logs(head: RunHead) -> None:
    with _data.reader() as ask:
        offset = (max(1, int(st.session_state.get("logs_page", 1))) - 1) * _ROWS
        found = ask.logs(head.run.run_id, None, None, _ROWS, offset)
        if not found.lines and offset:
            st.session_state["logs_page"] = 1
            found = ask.logs(head.run.run_id, None, None, _ROWS, 0)
        ask.release()
    if not found.total:
        st.caption(
            "No log records were recorded for this run. They come in over OTLP (`/v1/logs`) when the "
            "instrumentation "
            "sends them, as Claude Code, Codex and Gemini CLI do."
        )
        return
    st.caption("Log records of the run's traces in order of time. Those of one span stand with the span.")
    _traces_span.log_table(found, key="run_logs")
    _ui.page_of(found.total, key="logs_page", what="log records", rows=_ROWS)
