"""Equal incidents of different runs in one line: the fault, how often it came, whether somebody judged it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from ..replay import Incident, Label
from . import _ui
from ._incident_list import Order, spent
from ._incident_table import who
from ._labels import label_text
from ._text import plain
from ._theme import KIND_NAMES
from ._units import ago

__all__ = ["FAULT", "Fault", "draw", "faults_of"]

FAULT = "fault"
"""The URL parameter that names the open fault: the key of its group."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The incidents of one group, in the order of the list."""

    group: str
    incidents: tuple[Incident, ...]
    runs: int
    repeated_calls: int
    tokens: int | None  # of those that recorded any
    cost: float | None
    last_ns: int
    resolved: int
    value: float | None  # by which faults are ordered

    @property
    def first(self) -> Incident:
        """The worst of them."""
        return self.incidents[0]


def faults_of(incidents: Iterable[Incident], order: Order) -> list[Fault]:
    """The faults, the worst one first by the sum over its incidents, or by its newest."""
    groups: dict[str, list[Incident]] = {}
    for one in incidents:
        groups.setdefault(one.group, []).append(one)
    made = [_fault(group, members, order) for group, members in groups.items()]
    made.sort(key=lambda one: (one.value is None, -(one.value or 0)))
    return made


def _fault(group: str, members: Sequence[Incident], order: Order) -> Fault:
    tokens = [number for one in members if (number := spent(one)) is not None]
    costs = [one.cost for one in members if one.cost is not None]
    values = [value for one in members if (value := order.value(one)) is not None]
    together = max if order.name == "newest" else sum
    return Fault(
        group=group,
        incidents=tuple(members),
        runs=len({one.run_id for one in members}),
        repeated_calls=sum(one.repeated_calls for one in members),
        tokens=sum(tokens) if tokens else None,
        cost=sum(costs) if costs else None,
        last_ns=max(one.last_ns for one in members),
        resolved=sum(one.resolved for one in members),
        value=together(values) if values else None,
    )


def label_state(members: Sequence[Incident], labels: Mapping[str, Label]) -> str:
    """ "○ unlabelled", "● true loop", "◔ polling 2 of 5", "mixed: 2 labels, 4 of 5"."""
    said = Counter(labels[one.key].verdict.value for one in members if one.key in labels)
    total = sum(said.values())
    if not said:
        return label_text(None)
    if len(said) > 1:
        return f"mixed: {len(said)} labels, {total:,} of {len(members):,}"
    text = label_text(next(iter(said)))
    return text if total == len(members) else f"{text} {total:,} of {len(members):,}"


def draw(faults: Sequence[Fault], labels: Mapping[str, Label], *, key: str, now_ns: int) -> None:
    """The table of faults; Open shows the incidents of one."""
    shown = faults[_ui.page_of(len(faults), key=f"{key}_page", what="faults", rows=50)]
    rows = pd.DataFrame(
        {
            "open": ["Open"] * len(shown),
            "who": [who(one.first) for one in shown],
            "repeats": [one.repeated_calls for one in shown],
            "runs": [one.runs for one in shown],
            "incidents": [len(one.incidents) for one in shown],
            "kind": [KIND_NAMES.get(one.first.kind, one.first.kind) for one in shown],
            "label": [label_state(one.incidents, labels) for one in shown],
            "resolved": [f"{one.resolved:,} of {len(one.incidents):,}" for one in shown],
            "last": [ago(one.last_ns, now_ns) for one in shown],
            "tokens": [one.tokens for one in shown],
            "cost": [one.cost for one in shown],
            "arguments": [_sample(one.first) for one in shown],
        }
    )
    rows = rows.drop(columns=[name for name in ("tokens", "cost") if bool(rows[name].isna().all())])

    def clicked() -> None:
        click = st.session_state[f"{key}_open"]
        if click is not None and 0 <= click.row < len(shown):
            st.query_params[FAULT] = shown[click.row].group

    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    _ui.table(
        rows,
        key=key,
        alt="Faults, one a line",
        height="content" if len(rows) <= 12 else 360,
        columns={
            "open": st.column_config.ButtonColumn(
                "", on_click=clicked, key=f"{key}_open", type="tertiary", width=64, pinned=True
            ),
            "who": text("Agent / tool", width=210),
            "repeats": number(
                "Repeats",
                help="Calls of all its incidents that brought nothing new",
                format="localized",
                width=72,
            ),
            "runs": number("Runs", format="localized", width=58),
            "incidents": number("Incidents", format="localized", width=76),
            "kind": text("Kind", width=86),
            "label": text("Label", help="What people said of its incidents", width=150),
            "resolved": text("Resolved", help="Incidents that another result or work followed", width=84),
            "last": text("Last seen", width=90),
            "tokens": number(
                "Tokens", help="Of the requests meanwhile, where recorded", format="localized", width=68
            ),
            "cost": number(
                "Cost", help="Of the requests meanwhile, where recorded", format="$%.4f", width=66
            ),
            "arguments": text("Arguments or error of one", width=260),
        },
    )


def _sample(one: Incident) -> str:
    if one.error_text:
        return plain(one.error_text, 160)
    return "not recorded" if one.sample_arguments is None else plain(one.sample_arguments, 160) or "(empty)"
