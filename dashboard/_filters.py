"""The filter bar: the same on every page, in the URL, so that a pasted link opens the same view."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from ..replay import UNLABELLED, FilterOptions, Filters, LabelVerdict
from ._text import count, lit, plain
from ._units import day

__all__ = ["KEYS", "View", "bar", "current", "current_view"]

_RANGES: dict[str, tuple[str, int | None]] = {  # option: label, seconds
    "all": ("All time", None),
    "1h": ("Last hour", 3_600),
    "24h": ("Last 24 hours", 86_400),
    "7d": ("Last 7 days", 7 * 86_400),
    "30d": ("Last 30 days", 30 * 86_400),
    "days": ("Between two days", None),
}
_FACETS = (("service", "services"), ("agent", "agents"), ("tool", "tools"), ("model", "models"))
_LABELS = (*(verdict.value for verdict in LabelVerdict), UNLABELLED)
KEYS = ("range", "days", *(facet for facet, _ in _FACETS), "label")
"""Session keys of the bar's widgets, which are their names in the URL."""

_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class View:
    """What the reader looks at."""

    filters: Filters
    period: str  # "all time", "the last 24 hours": for sentences
    narrowed: bool  # anything but everything


def bar(options: FilterOptions, now_ns: int) -> View:
    """Draw the bar and read it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="filterbar"):
        choice = st.selectbox(
            "Time range (UTC)",
            list(_RANGES),
            format_func=lambda option: _RANGES[option][0],
            key="range",
            bind="query-params",
            label_visibility="collapsed",
            icon=":material/schedule:",
            width=190,
        )
        if choice == "days":
            _days(options)
        _popover(options)
        view = current(options, now_ns)
        for facet, field in _FACETS:
            for value in getattr(view.filters, field)[:3]:
                st.markdown(f"{facet} {lit(value, 24)}", width="content")
        for value in view.filters.labels:
            st.markdown(f"label **{_label_name(value)}**", width="content")
        if view.narrowed:
            st.button("Clear", type="tertiary", icon=":material/close:", on_click=_clear, key="clear_filters")
        _zone(now_ns)
    st.session_state["_view"] = view
    return view


def current_view() -> View:
    """The view that the bar of this rerun reads."""
    return st.session_state["_view"]


def _days(options: FilterOptions) -> None:
    first = _date(options.first_ns) or datetime.now(UTC).date()
    last = _date(options.last_ns) or first
    if "days" not in st.session_state:
        st.session_state["days"] = (max(first, last - timedelta(days=7)), last)
    st.date_input(
        "Days (UTC, both included)",
        key="days",
        bind="query-params",
        format="YYYY-MM-DD",
        label_visibility="collapsed",
        width=230,
    )


def _zone(now_ns: int) -> None:
    """Which zone all times are in, and how the reader's own clock lies to it."""
    name = st.context.timezone
    ours = datetime.fromtimestamp(now_ns / _SECOND, tz=UTC)
    text = "All times are UTC."
    if name:
        try:
            theirs = ours.astimezone(ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):  # a browser may say anything
            theirs = ours
        if theirs.utcoffset():
            noon = ours.replace(hour=12, minute=0).astimezone(theirs.tzinfo)
            text += f" 12:00 UTC is {noon:%H:%M} on your clock."
    st.caption(":material/public: UTC", help=text, width="content")


def _date(ns: int | None) -> date | None:
    return None if ns is None else datetime.fromtimestamp(ns / _SECOND, tz=UTC).date()


def _popover(options: FilterOptions) -> None:
    state, url = st.session_state, st.query_params  # a first visit by link has no state yet
    facets = (*(facet for facet, _ in _FACETS), "label")
    chosen = sum(len(state[facet] if facet in state else url.get_all(facet)) for facet in facets)
    label = f"Filter ({chosen})" if chosen else "Filter"
    with st.popover(label, icon=":material/filter_list:", key="filter_popover", width="content"):
        for facet, field in _FACETS:
            offered = _offered(facet, getattr(options, field))
            st.multiselect(
                facet.capitalize(),
                offered,
                format_func=lambda value: plain(value, 80),
                key=facet,
                bind="query-params",
                placeholder=f"All {count(len(offered), facet)}" if offered else "None recorded",
                disabled=not offered,
                width=340,
            )
        st.multiselect(
            "Label of incidents",
            _LABELS,
            format_func=_label_name,
            key="label",
            bind="query-params",
            placeholder="Any label, or none",
            help="Leaves incidents that people labelled so; calls and requests have no label and stay.",
            width=340,
        )


def _label_name(value: str) -> str:
    """Also what stands in the address: plain words."""
    return "unlabelled" if value == UNLABELLED else value.replace("_", " ")


def _offered(facet: str, known: tuple[str, ...]) -> list[str]:
    """What can be chosen. A name that only a link has stays: it matches nothing, which is better than all."""
    asked = (*st.session_state.get(facet, ()), *st.query_params.get_all(facet)[:20])
    shown = {plain(name, 80) for name in known}
    return [*known, *(name for name in dict.fromkeys(asked) if name not in known and name not in shown)]


def _clear() -> None:
    for facet, _ in _FACETS:
        st.session_state[facet] = []
    st.session_state["label"] = []
    st.session_state["range"] = "all"


def current(options: FilterOptions, now_ns: int) -> View:
    """Read the bar's widgets."""
    state = st.session_state
    choice = state.get("range", "all")
    since = until = None
    period = "all time"
    label, seconds = _RANGES.get(choice, _RANGES["all"])
    if seconds:
        # A window that slides with every rerun would never meet its cached answer again.
        step = (60 if seconds <= 86_400 else 600) * _SECOND
        since = now_ns // step * step - seconds * _SECOND
        period = f"the {label.lower()}"
    elif choice == "days":
        chosen = state.get("days") or ()
        if isinstance(chosen, date):
            chosen = (chosen,)
        if chosen:
            since = _midnight(chosen[0])
            until = _midnight(chosen[-1] + timedelta(days=1))
            first, last = day(since), day(until - 1)
            period = f"{first} UTC" if first == last else f"{first} to {last} UTC"
    values = {field: tuple(state.get(facet) or ()) for facet, field in _FACETS}
    labels = tuple(value for value in state.get("label") or () if value in _LABELS)
    filters = Filters(since=since, until=until, labels=labels, **values)
    return View(filters, period, filters != Filters())


def _midnight(moment: date) -> int:
    return int(datetime(moment.year, moment.month, moment.day, tzinfo=UTC).timestamp()) * _SECOND
