"""Incidents as a table in which each row opens."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from ..replay import Incident
from ._text import plain
from ._theme import KIND_NAMES
from ._ui import table
from ._units import ago, duration, when

__all__ = ["PARAMETER", "draw", "open_incident"]

PARAMETER = "incident"
"""The URL parameter that names the open incident."""

_ENDINGS = {
    "another_result": "another result came",
    "other_work": "went on to other work",
    "run_ended": "the run ended in it",
}


def open_incident(key: str) -> None:
    """Go to one incident under its own URL."""
    st.switch_page("app_pages/incidents.py", query_params={PARAMETER: key})


def draw(
    incidents: Sequence[Incident],
    *,
    key: str,
    now_ns: int,
    total: int | None = None,
    newest_first: bool = False,
) -> None:
    """Draw the table; a click on Open goes to the incident."""
    shown = sorted(incidents, key=lambda one: -one.last_ns) if newest_first else list(incidents)
    rows = pd.DataFrame(
        {
            "open": ["Open"] * len(shown),
            "age": [ago(one.last_ns, now_ns) for one in shown],
            "kind": [KIND_NAMES.get(one.kind, one.kind) for one in shown],
            "agent": [None if one.agent_name is None else plain(one.agent_name) for one in shown],
            "tool": [plain(" → ".join(one.tools)) for one in shown],
            "repeats": [one.repeated_calls for one in shown],
            "took": [duration(one.duration_ns) for one in shown],
            "tokens": [
                None if one.input_tokens is None else one.input_tokens + (one.output_tokens or 0)
                for one in shown
            ],
            "cost": [one.cost for one in shown],
            "nudge": [one.nudge_at for one in shown],
            "block": [one.block_at for one in shown],
            "sure": [None if one.exact is None else "exact" if one.exact else "projected" for one in shown],
            "ending": ["✓ resolved" if one.resolved else "✗ unresolved" for one in shown],
            "how": [_ENDINGS.get(one.ending, one.ending) for one in shown],
            "when": [when(one.first_ns) for one in shown],
            "service": [None if one.service_name is None else plain(one.service_name) for one in shown],
        }
    )
    rows = rows.drop(columns=[name for name in ("tokens", "cost") if bool(rows[name].isna().all())])

    def clicked() -> None:
        click = st.session_state[f"{key}_open"]
        if click is not None and 0 <= click.row < len(shown):
            st.session_state["_open"] = shown[click.row].key

    table(
        rows,
        key=key,
        alt="Incidents",
        total=total,
        columns={
            "open": st.column_config.ButtonColumn(
                "", on_click=clicked, key=f"{key}_open", type="tertiary", width=64, pinned=True
            ),
            "age": st.column_config.TextColumn("Last seen", width=100),
            "kind": st.column_config.TextColumn("Kind", width=88),
            "agent": st.column_config.TextColumn("Agent", width=112),
            "tool": st.column_config.TextColumn("Tools", width=148),
            "repeats": st.column_config.NumberColumn(
                "Repeats", help="Calls that brought nothing new", width=68
            ),
            "took": st.column_config.TextColumn("Took", help="From its first call to its last", width=68),
            "tokens": st.column_config.NumberColumn(
                "Tokens", help="Of the requests in between", format="localized", width=68
            ),
            "ending": st.column_config.TextColumn("Ended", width=98),
            "nudge": st.column_config.NumberColumn(
                "▲ Nudge", help="Number of its first nudged call", width=68
            ),
            "block": st.column_config.NumberColumn("■ Block", help="Number of its blocked call", width=62),
            "sure": st.column_config.TextColumn(
                "Certainty",
                help="Projected: at least one of its verdicts comes after an intervention that the recorded "
                "agent did not see",
                width=82,
            ),
            "cost": st.column_config.NumberColumn("Cost", format="dollar", width=70),
            "how": st.column_config.TextColumn("How it ended", width=170),
            "when": st.column_config.DatetimeColumn("Began (UTC)", format="YYYY-MM-DD HH:mm:ss", width=160),
            "service": st.column_config.TextColumn("Service", width=130),
        },
    )
    chosen = st.session_state.pop("_open", None)
    if chosen:
        open_incident(chosen)
