"""The address of one request, and how a click leads there."""

from __future__ import annotations

import streamlit as st

from ..guard.messages import PROVIDERS

__all__ = ["FAMILIES", "PARAMETER", "RULES", "follow", "open_request"]

PARAMETER = "request"
"""The URL parameter that names the open request: trace id-span id."""
RULES = "rules"
"""The URL parameter that names the provider whose rules it is shown by."""
FAMILIES = [name for name, rules in PROVIDERS.items() if rules.family == name]
"""Values of `RULES`."""

_NEXT = "_open_request"


def open_request(trace_id: str, span_id: str, rules: str | None = None) -> None:
    """Have the next `follow` go to a request under its own URL; for callbacks."""
    where = {PARAMETER: f"{trace_id}-{span_id}"}
    if rules in FAMILIES:
        where[RULES] = str(rules)
    st.session_state[_NEXT] = where


def follow() -> None:
    """Go where `open_request` said. To be called before anything slow is drawn."""
    where = st.session_state.pop(_NEXT, None)
    if where:
        st.switch_page("app_pages/requests.py", query_params=where)  # and to its top
