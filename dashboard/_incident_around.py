"""The trace around an incident, as a small waterfall; the whole run has a page of its own."""

from __future__ import annotations

import streamlit as st

from ..replay import IncidentDetail
from ..replay.traces import SpanTree
from . import _ui, _waterfall
from ._text import count
from ._traces_link import run_query
from ._units import duration

__all__ = ["OPEN", "draw", "wanted"]

OPEN = "around"
"""Key of the box, and its name in the URL."""

_AT_ONCE = 400
"""Of a run with so many calls and requests it stands open; a larger one is read when it is opened."""
_ROWS = 40


def wanted(detail: IncidentDetail) -> bool:
    """Whether the spans are to be read."""
    known = st.session_state.get(OPEN)
    return _small(detail) if known is None else bool(known)


def _small(detail: IncidentDetail) -> bool:
    return detail.run.calls + detail.run.requests <= _AT_ONCE


def draw(detail: IncidentDetail, tree: SpanTree | None) -> None:
    """The lines of the time in which the incident happened. `tree`: None where it was not asked for."""
    one = detail.incident
    box = st.expander(
        "The trace around it",
        expanded=_small(detail),
        key=OPEN,
        icon=":material/account_tree:",
        on_change="rerun",
    )
    with box:
        if tree is not None and tree.total:
            _lines(detail, tree)
        elif tree is not None:
            st.caption("No spans were recorded for this run.")
        st.page_link(
            "app_pages/traces.py",
            label="The whole run: its spans, messages and calls",
            icon=":material/arrow_forward:",
            query_params=run_query(one.run_id, f"{one.trace_id}/{one.span_id}"),
        )


def _lines(detail: IncidentDetail, tree: SpanTree) -> None:
    one = detail.incident
    margin = max(one.duration_ns // 20, 1)
    key = f"{one.trace_id}/{one.span_id}"
    inside = (one.trace_id, one.span_id) in tree.spans.place
    window = tree.window(
        set(tree.above(key)) if inside else (),
        since=max(one.first_ns - margin, tree.first_ns),
        until=min(one.last_ns + margin, tree.last_ns),
        limit=_ROWS,
        at=key if inside else None,
    )
    if not window.rows:
        st.caption("No span lies in this time.")
        return
    shown = f"Lines {window.offset + 1:,} to {window.offset + len(window.rows):,} of {window.total:,}"
    st.caption(
        f"{shown}, of the {duration(window.last_ns - window.first_ns)} in which it happened; "
        f"the run has {count(tree.total, 'span')}. {_waterfall.legend()}"
    )
    columns = _waterfall.columns(window, None)
    for name in ("fold", "inside", "count", "sure"):
        columns.pop(name, None)
    _ui.table(
        _waterfall.frame(window),
        key="around_spans",
        alt="Spans around the incident",
        columns=columns,
        height="content" if len(window.rows) <= 16 else 480,
    )
