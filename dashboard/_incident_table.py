"""Incidents as a table in which each row opens."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from ..replay import Incident, Label
from ._labels import label_text
from ._text import plain
from ._theme import KIND_NAMES
from ._ui import table
from ._units import ago, duration, when

__all__ = ["PARAMETER", "asked_for", "draw", "ended", "open_incident", "stay_and_open", "who"]

PARAMETER = "incident"
"""The URL parameter that names the open incident."""

_GOING = "_incident_going"
_HOLDS = 5.0
"""Seconds."""

_ENDINGS = {
    "another_result": "another result came",
    "other_work": "went on to other work",
    "run_ended": "the run ended in it",
    "stopped_by_guard": "a live guard stopped it",
}


def open_incident(key: str) -> None:
    """Go to one incident under its own URL."""
    st.switch_page("app_pages/incidents.py", query_params={PARAMETER: key})


def stay_and_open(key: str) -> None:
    """The same from the page of incidents itself, for callbacks: the filters stay in the address."""
    st.session_state[_GOING] = (st.query_params.get(PARAMETER), key, time.monotonic())
    st.query_params[PARAMETER] = key


def asked_for() -> str | None:
    """The incident that the address names.

    A look for new data that the browser had sent off just before a click brings the old address along,
    and its rerun would undo the click: for a few seconds the click holds.
    """
    key = st.query_params.get(PARAMETER)
    left, wanted, since = st.session_state.get(_GOING) or (None, None, 0.0)
    if wanted is not None and key is not None and key == left and time.monotonic() - since < _HOLDS:
        st.query_params[PARAMETER] = wanted
        return wanted
    return key


def who(one: Incident) -> str:
    """Agent and tools: who went round, and in what."""
    tools = plain(" → ".join(one.tools), 120)
    return f"{plain(one.agent_name, 60)} / {tools}" if one.agent_name else tools


def ended(one: Incident) -> str:
    """How it ended, for a cell."""
    if one.stopped_at is not None:
        return "■ stopped by guard"
    return "✓ resolved" if one.resolved else "✗ unresolved"


def draw(
    incidents: Sequence[Incident],
    *,
    key: str,
    now_ns: int,
    labels: Mapping[str, Label] | None = None,
    total: int | None = None,
    newest_first: bool = False,
    here: bool = False,
) -> None:
    """Draw the table; a click on Open goes to the incident. Without `labels` there is no such column.

    `here`: the table stands on the page of incidents.
    """
    known = labels or {}
    shown = sorted(incidents, key=lambda one: -one.last_ns) if newest_first else list(incidents)
    rows = pd.DataFrame(
        {
            "open": ["Open"] * len(shown),
            "who": [who(one) for one in shown],
            "repeats": [one.repeated_calls for one in shown],
            "age": [ago(one.last_ns, now_ns) for one in shown],
            "kind": [KIND_NAMES.get(one.kind, one.kind) for one in shown],
            "label": [
                label_text(said.verdict.value if (said := known.get(one.key)) else None) for one in shown
            ],
            "took": [duration(one.duration_ns) for one in shown],
            "tokens": [
                None if one.input_tokens is None else one.input_tokens + (one.output_tokens or 0)
                for one in shown
            ],
            "cost": [one.cost for one in shown],
            "nudge": [one.nudge_at for one in shown],
            "block": [one.block_at for one in shown],
            "sure": [None if one.exact is None else "exact" if one.exact else "projected" for one in shown],
            "ending": [ended(one) for one in shown],
            "how": [_ENDINGS.get(one.ending, one.ending) for one in shown],
            "when": [when(one.first_ns) for one in shown],
            "service": [None if one.service_name is None else plain(one.service_name) for one in shown],
        }
    )
    rows = rows.drop(columns=[name for name in ("tokens", "cost") if bool(rows[name].isna().all())])
    if labels is None:
        rows = rows.drop(columns="label")

    def clicked() -> None:
        click = st.session_state[f"{key}_open"]
        if click is not None and 0 <= click.row < len(shown):
            if here:
                stay_and_open(shown[click.row].key)
            else:
                st.session_state["_open"] = shown[click.row].key

    table(
        rows,
        key=key,
        alt="Incidents",
        total=total,
        columns={
            "open": st.column_config.ButtonColumn(
                "", on_click=clicked, key=f"{key}_open", type="tertiary", width=60, pinned=True
            ),
            "who": st.column_config.TextColumn("Agent / tool", width=195),
            "repeats": st.column_config.NumberColumn(
                "Repeats", help="Calls that brought nothing new", format="localized", width=70
            ),
            "age": st.column_config.TextColumn("Last seen", width=90),
            "kind": st.column_config.TextColumn("Kind", width=86),
            "label": st.column_config.TextColumn("Label", help="What a person said it was", width=140),
            "took": st.column_config.TextColumn("Took", help="From its first call to its last", width=66),
            "tokens": st.column_config.NumberColumn(
                "Tokens", help="Of the requests in between", format="localized", width=66
            ),
            "ending": st.column_config.TextColumn("Ended", width=126),
            "nudge": st.column_config.NumberColumn(
                "▲ Nudge", help="Which of its calls is nudged first", width=72
            ),
            "block": st.column_config.NumberColumn("■ Block", help="Which of its calls is blocked", width=68),
            "sure": st.column_config.TextColumn(
                "Certainty",
                help="Projected: at least one of its verdicts comes after an intervention that the recorded "
                "agent did not see",
                width=80,
            ),
            "cost": st.column_config.NumberColumn("Cost", format="$%.4f", width=66),
            "how": st.column_config.TextColumn("How it ended", width=170),
            "when": st.column_config.DatetimeColumn("Began (UTC)", format="YYYY-MM-DD HH:mm:ss", width=160),
            "service": st.column_config.TextColumn("Service", width=130),
        },
    )
    chosen = st.session_state.pop("_open", None)
    if chosen:
        open_incident(chosen)
