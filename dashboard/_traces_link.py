"""The address of one run, and how a click leads there."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st

__all__ = ["PARAMETER", "SPAN", "VIEW", "follow", "open_run", "run_query", "run_url"]

PARAMETER = "run"
"""The URL parameter that names the open run: its id, or that of its trace."""
SPAN = "span"
"""The URL parameter that names the selected span: trace id/span id."""
VIEW = "view"
"""The URL parameter that names the open part of the page."""

_PAGE = "app_pages/traces.py"
_NEXT = "_open_run"


def run_query(run_id: str, span: str | None = None, view: str | None = None) -> dict[str, str]:
    """The query parameters of a run's page, for `st.page_link("app_pages/traces.py", query_params=…)`."""
    named = {PARAMETER: run_id, SPAN: span, VIEW: view}
    return {name: value for name, value in named.items() if value}


def run_url(run_id: str, span: str | None = None) -> str:
    """The address of a run's page, relative to the dashboard: for link columns."""
    return f"/traces?{urlencode(run_query(run_id, span))}"


def open_run(run_id: str, span: str | None = None) -> None:
    """Have the next `follow` go to a run under its own URL; for callbacks of tables."""
    st.session_state[_NEXT] = run_query(run_id, span)


def follow() -> None:
    """Go where `open_run` said. To be called before anything slow is drawn, on every page that uses it."""
    where = st.session_state.pop(_NEXT, None)
    if where:
        st.switch_page(_PAGE, query_params=where)  # and to its top
