"""The spans of a run: what happened when, folded where it is much, and the one that is selected."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy
from ..replay.traces import RunHead, SpanRow, SpanTree, SpanWindow
from . import _data, _traces_span, _ui, _waterfall
from ._charts import show
from ._text import count, plain
from ._traces_link import SPAN
from ._units import duration

__all__ = ["draw"]

_ROWS = 100
_WHOLE = "whole_trace"
_BUCKETS = 120
_WITH_PICTURE = 40  # spans; of fewer the bars say it all
_SHOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "calls": ("Calls", {"kinds": ("call",)}),
    "requests": ("Requests", {"kinds": ("request",)}),
    "agents": ("Agents", {"kinds": ("agent",)}),
    "failed": ("✗ Failed", {"failed": True}),
    "guarded": ("▲ ■ Nudge or block", {"actions": ("nudge", "block")}),
}


def draw(ask: _data.Reader, head: RunHead, policy: GuardPolicy) -> None:
    """The waterfall, and the selected span under it."""
    around = st.container()
    whole = head.run.run_source == "agent_span" and bool(
        st.session_state.get(
            _WHOLE, st.query_params.get(_WHOLE) == "true"
        )  # a link is read before the switch is there
    )
    tree = ask.span_tree(head.run.run_id, policy, whole)
    if head.run.run_source == "agent_span" and (whole or head.spans > tree.total):
        around.toggle(
            "The whole trace",
            key=_WHOLE,
            bind="query-params",
            help="Also what lies around this run: its caller, other agents, the server's own spans.",
        )
    ask.release()
    if not tree.total:
        st.caption(
            "No spans were recorded for this run, and no calls either. They come from an OpenTelemetry "
            "instrumentation; Import & health has a snippet for each."
        )
        return
    _spans(tree, head, policy)


def _state(head: RunHead) -> dict[str, Any]:
    """What of this run is open; another run begins anew."""
    state = st.session_state.get("_spans")
    if state is None or state["run"] != head.run.run_id:
        state = {
            "run": head.run.run_id,
            "opened": set(),
            "closed": set(),
            "rows": (),
            "selected": None,
            "seek": True,
        }
        for key in ("spans_time", "spans_page", "spans_find", "spans_only", "spans_fold"):
            st.session_state.pop(key, None)
        st.session_state["_spans"] = state
    return state


@st.fragment
@_ui.guarded
def _spans(tree: SpanTree, head: RunHead, policy: GuardPolicy) -> None:
    state = _state(head)
    _seek(tree, state)
    since, until = _time(tree, state)
    window = _window(tree, state, since, until)
    state["rows"] = window.rows
    if not window.total:
        st.caption("No span here. Widen the window of time, or take away a choice above.")
        return
    st.caption(_waterfall.legend())
    _table(window, state)
    _ui.page_of(window.total, key="spans_page", what="lines", rows=_ROWS)
    selected = next((row for row in window.rows if row.key == state["selected"]), None)
    if selected is not None:
        _detail(selected, head, policy, state)


def _seek(tree: SpanTree, state: dict[str, Any]) -> None:
    """A link may name a span: it is opened and selected, once."""
    named = st.query_params.get(SPAN)
    if not state["seek"]:
        return
    state["seek"] = False
    trace_id, _, span_id = (named or "").partition("/")
    if (trace_id, span_id) in tree.spans.place:
        state["selected"] = named
        state["opened"] |= set(tree.above(str(named)))
        window = tree.window(state["opened"], state["closed"], limit=_ROWS, at=named)
        st.session_state["spans_page"] = window.offset // _ROWS + 1


def _time(tree: SpanTree, state: dict[str, Any]) -> tuple[int | None, int | None]:
    """The window of time: drawn over the picture, or moved by the handles beneath it."""
    length = (tree.last_ns - tree.first_ns) / 1e9
    with st.container(key="spans_over_time", gap=None):
        if tree.total > _WITH_PICTURE and length > 0:
            figure = _waterfall.density(tree.density(_BUCKETS), tree.first_ns, tree.last_ns)
            show(
                figure,
                key="spans_picture",
                alt="How many spans begin over the time of the run, by kind and verdict",
                on_select=lambda: _drawn(length),
                selection_mode="box",
            )
            st.slider(
                "Window of time, seconds after the begin",
                0.0,
                length,
                (0.0, length),
                step=max(length / 1000, 1e-6),
                key="spans_time",
                format="%.3g s",
            )
    low, high = st.session_state.get("spans_time", (0.0, length))
    if low <= 0 and high >= length:
        return None, None
    return tree.first_ns + int(low * 1e9), tree.first_ns + int(high * 1e9)


def _drawn(length: float) -> None:
    boxes = st.session_state["spans_picture"]["selection"].get("box") or []
    if boxes:
        low, high = sorted(float(at) for at in boxes[0]["x"][:2])
        low, high = max(0.0, low), min(length, high)
        if high > low:
            st.session_state["spans_time"] = (low, high)
    else:
        st.session_state["spans_time"] = (0.0, length)


def _window(tree: SpanTree, state: dict[str, Any], since: int | None, until: int | None) -> SpanWindow:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="spans_choices"):
        only = st.pills(
            "Only",
            list(_SHOWN),
            format_func=lambda name: _SHOWN[name][0],
            key="spans_only",
            label_visibility="collapsed",
            wrap=True,
        )
        find = st.text_input(
            "Name",
            key="spans_find",
            placeholder="Name has …",
            label_visibility="collapsed",
            width=180,
            max_chars=200,
        )
        fold = st.toggle(
            "Fold equal spans",
            value=tree.folds(),
            key="spans_fold",
            help="Five and more of one name under one parent become one line, which + opens.",
        )
        if state["opened"] or state["closed"]:
            st.button("As at first", type="tertiary", key="spans_reset", on_click=lambda: _reset(state))
    page = max(1, int(st.session_state.get("spans_page", 1)))

    def ask(offset: int) -> SpanWindow:
        times: dict[str, Any] = {"since": since, "until": until, "offset": offset, "limit": _ROWS}
        if only or find:
            return tree.find(find or "", **(_SHOWN[only][1] if only else {}), **times)
        return tree.window(state["opened"], state["closed"], fold=fold, **times)

    window = ask((page - 1) * _ROWS)
    if not window.rows and window.total:
        st.session_state["spans_page"] = 1
        window = ask(0)
    return _said(window, tree, flat=bool(only or find), timed=since is not None)


def _said(window: SpanWindow, tree: SpanTree, *, flat: bool, timed: bool) -> SpanWindow:
    parts = [f"{count(window.total, 'span' if flat else 'line')} of {count(tree.total, 'span')}"]
    if timed:
        parts.append(
            f"{duration(window.last_ns - window.first_ns)} of {duration(tree.last_ns - tree.first_ns)}"
        )
    if tree.running:
        parts.append(f"{count(tree.running, 'span')} not ended")
    if tree.cut:
        parts.append("only the first of them were read: the run has more")
    st.caption("; ".join(parts) + ". + opens a line; a selected one is shown whole beneath the table.")
    return window


def _reset(state: dict[str, Any]) -> None:
    state["opened"], state["closed"] = set(), set()
    st.session_state["spans_page"] = 1


def _turn(state: dict[str, Any], row: SpanRow) -> None:
    """Open a line that is closed, close one that is open."""
    if row.foldable:
        here, there = ("closed", "opened") if row.open else ("opened", "closed")
        state[here].add(row.key)
        state[there].discard(row.key)


def _table(window: SpanWindow, state: dict[str, Any]) -> None:
    rows: tuple[SpanRow, ...] = window.rows

    def folded() -> None:
        click = st.session_state["spans_fold_click"]
        if click is None or not 0 <= click.row < len(state["rows"]):
            return
        _turn(state, state["rows"][click.row])

    def selected() -> None:
        chosen = st.session_state["spans"]["selection"]["rows"]
        row = state["rows"][chosen[0]] if chosen and chosen[0] < len(state["rows"]) else None
        state["selected"] = None if row is None else row.key
        if row is None or row.span_id is None:
            st.query_params.pop(SPAN, None)
        else:
            st.query_params[SPAN] = row.key

    # Lines move when one above is opened: the selection moves with its line.
    at = next((number for number, row in enumerate(rows) if row.key == state["selected"]), None)
    st.session_state["spans"] = {"selection": {"rows": [] if at is None else [at]}}
    fold = st.column_config.ButtonColumn(
        "",
        on_click=folded,
        key="spans_fold_click",
        type="tertiary",
        width=40,
        pinned=True,
        help="Open or close",
    )
    made = _waterfall.frame(window)
    shown = _waterfall.columns(window, fold)
    for name in ("failed", "count", "sure", "inside"):
        if not any(value and not pd.isna(value) for value in made[name].tolist()):
            shown.pop(name)
    with st.container(key="spans_table"):
        st.dataframe(
            made,
            key="spans",
            alt="Spans of the run with bars of time",
            hide_index=True,
            on_select=selected,
            selection_mode="single-row",
            height="content" if len(rows) <= 40 else 35 * 31,
            column_config=shown,
            column_order=list(shown),
            placeholder="—",
        )


def _detail(row: SpanRow, head: RunHead, policy: GuardPolicy, state: dict[str, Any]) -> None:
    with st.container(border=True, key="span_detail"):
        if row.foldable:  # for the keyboard, which selects a line and does not press its +
            st.button(
                "Close the line" if row.open else "Open the line",
                icon=":material/unfold_less:" if row.open else ":material/unfold_more:",
                key="span_turn",
                on_click=_turn,
                args=(state, row),
            )
        if row.members > 1:
            st.text(
                f"{count(row.members, 'span')} of one name: {plain(row.name, 100)}. "
                f"{duration(row.busy_ns)} inside them in all; {row.failed:,} failed."
            )
            st.caption("+ opens the line, and each of them can be selected.")
            return
        _traces_span.draw(row, head, policy)
