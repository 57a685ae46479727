"""Which incidents the page shows and in which order: its own filters, all of them in the URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from ..guard import GuardPolicy
from ..replay import Filters, Incident, Label
from . import _data, _filters
from ._labels import LABELS, NONE, label_text
from ._theme import KIND_NAMES

__all__ = ["ORDERS", "Order", "Shown", "asked", "controls", "narrowed", "spent"]

OUTCOMES = {
    "success": "same answer",
    "schema_error": "arguments refused",
    "general_tool_error": "tool error",
}
"""What the calls of an incident came back with."""


@dataclass(frozen=True, slots=True)
class Order:
    """One way to say which incident is the worst."""

    name: str  # in the control and in the URL
    worst: str  # begins a sentence about the first one
    by: str  # "most repeated calls first"
    value: Callable[[Incident], float | None]  # None: not recorded, stands last


def spent(one: Incident) -> int | None:
    """Tokens of the requests in between; None where none were recorded."""
    if one.input_tokens is None and one.output_tokens is None:
        return None
    return (one.input_tokens or 0) + (one.output_tokens or 0)


ORDERS: dict[str, Order] = {
    "repeats": Order(
        "repeated calls", "The worst", "most repeated calls first", lambda one: one.repeated_calls
    ),
    "cost": Order("cost", "The costliest", "highest cost first, unknown cost last", lambda one: one.cost),
    "tokens": Order("tokens", "The one with the most tokens", "most tokens first, unknown last", spent),
    "time": Order("time taken", "The longest", "longest first", lambda one: one.duration_ns),
    "newest": Order("newest", "The newest", "newest first", lambda one: one.last_ns),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """The incidents of the page.

    `ordered` fits all filters but that of labels, `incidents` that one as well.
    """

    ordered: tuple[Incident, ...]
    incidents: tuple[Incident, ...]
    labels: Mapping[str, Label]
    order: Order
    unlabelled_only: bool

    def place(self, key: str) -> tuple[int | None, str | None, str | None]:
        """Where an incident stands among `incidents` (from 0), and the keys before and behind it.

        An incident that has just been labelled may have left the list; its neighbours are those
        it would have there.
        """
        here = next((at for at, one in enumerate(self.ordered) if one.key == key), None)
        shown = {one.key: at for at, one in enumerate(self.incidents)}
        if here is None:
            return None, None, self.incidents[0].key if self.incidents else None
        before = next((one.key for one in reversed(self.ordered[:here]) if one.key in shown), None)
        behind = next((one.key for one in self.ordered[here + 1 :] if one.key in shown), None)
        return shown.get(key), before, behind

    def next_unlabelled(self, key: str) -> str | None:
        """The next incident without a label behind this one; after the last the first."""
        here = next((at for at, one in enumerate(self.ordered) if one.key == key), -1)
        around = (*self.ordered[here + 1 :], *self.ordered[: max(here, 0)])
        return next((one.key for one in around if one.key not in self.labels and one.key != key), None)


_ENDED = {"unresolved": "unresolved", "resolved": "resolved", "stopped": "stopped by guard"}


def controls() -> None:
    """The page's own filters. They are drawn wherever the list matters, so that the URL keeps them."""
    with st.container(horizontal=True, vertical_alignment="top", gap="medium", key="incident_filters"):
        _pills("Kind", "kind", KIND_NAMES)
        _pills("Came back with", "outcome", OUTCOMES)
        _pills("Ended", "ended", _ENDED, single=True)
        _labels_of_the_bar()
        st.selectbox(
            "Worst by",
            list(ORDERS),
            format_func=lambda name: ORDERS[name].name,
            key="sort",
            bind="query-params",
            width=170,
        )


def _labels_of_the_bar() -> None:
    """The labels that the filter bar has in its menu, within reach."""
    st.session_state["label_here"] = list(_filters.current_view().filters.labels)

    def chosen() -> None:
        st.session_state["label"] = st.session_state["label_here"]

    st.pills(
        "Label",
        [NONE, *LABELS],
        selection_mode="multi",
        format_func=label_text,
        key="label_here",
        on_change=chosen,
        wrap=True,
    )


def _pills(label: str, key: str, names: Mapping[str, str], *, single: bool = False) -> None:
    st.pills(
        label,
        list(names),
        selection_mode="single" if single else "multi",
        format_func=lambda name: names[name],  # what the link says, so without a changing number
        key=key,
        bind="query-params",
        wrap=True,
    )


def asked(
    ask: _data.Reader, policy: GuardPolicy, filters: Filters
) -> tuple[Sequence[Incident], dict[str, Label]]:
    """All incidents under the filter bar (its labels left aside), and what people said of them."""
    return ask.incidents(policy, replace(filters, labels=())), ask.labels()


def narrowed(
    found: Sequence[Incident], labels: Mapping[str, Label], filters: Filters, *, fault: str | None = None
) -> Shown:
    """What the page's own filters leave; to be asked behind `controls`, which take them from the URL."""
    state = st.session_state
    kinds, outcomes, ended = state.get("kind") or (), state.get("outcome") or (), state.get("ended")
    wanted = filters.labels
    order = ORDERS.get(state.get("sort") or "", ORDERS["repeats"])
    fitting = [
        one
        for one in found
        if (not kinds or one.kind in kinds)
        and (not outcomes or one.outcome in outcomes)
        and (not ended or ended == _ended(one))
        and (fault is None or one.group == fault)
    ]
    ordered = tuple(_sorted(fitting, order))
    shown = tuple(one for one in ordered if _said(labels, one) in wanted) if wanted else ordered
    return Shown(ordered, shown, labels, order, wanted == (NONE,))


def _ended(one: Incident) -> str:
    return "unresolved" if one.unresolved else "resolved" if one.resolved else "stopped"


def _sorted(incidents: Sequence[Incident], order: Order) -> list[Incident]:
    if order is ORDERS["repeats"]:
        return list(incidents)  # as they come
    known = [(one, order.value(one)) for one in incidents]
    return [one for one, _ in sorted(known, key=lambda pair: (pair[1] is None, -(pair[1] or 0)))]


def _said(labels: Mapping[str, Label], one: Incident) -> str:
    label = labels.get(one.key)
    return NONE if label is None else label.verdict.value
