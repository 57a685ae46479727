"""What goes in circles at this moment, and what circles took altogether."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._facts import facts_of
from ._filters import ALL, Filters
from ._incidents import mark, touching
from ._sql import rows, sql_text
from ._types import Incident, IncidentKind
from .impacts import Spent
from .traces._list import statuses

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy
    from ._incidents import Found

__all__ = ["Circling", "CirclingRun", "circling"]

_MINUTE = 60 * 1_000_000_000
RECENT_NS = 10 * _MINUTE
"""A loop whose last call ended so long ago is still told of."""
SILENT_NS = 60 * _MINUTE
"""A run whose agent span is open but that gave no sign for so long has probably died."""
_CANDIDATES = 500
_SHOWN = 20
_OVER = ("ended", "stopped")


@dataclass(frozen=True, slots=True)
class CirclingRun:
    """One run whose last calls went in circles a moment ago."""

    incident: Incident  # its newest one
    state: str  # running: its span is open; active: no span says that it ended; ended; stopped: by a guard

    @property
    def goes_on(self) -> bool:
        """Whether it may still be spending."""
        return self.state not in _OVER


@dataclass(frozen=True, slots=True)
class Circling:
    """Runs in circles at a moment, and what all incidents of a period took."""

    now: tuple[CirclingRun, ...]  # those that go on first, then the newest; at most 20
    going_on: int
    just_ended: int
    spent: Spent  # during all incidents but twins; a request within two of them counts once
    runs: int  # that have one
    just_stopped: int = 0  # by a live guard


def circling(
    con: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters = ALL, *, now_ns: int
) -> Circling:
    """Runs that end in an unresolved incident and are still running, or gave their last sign 10 minutes ago.

    A run whose agent span never ended is taken for running until it gave no sign for an hour.
    """
    facts = facts_of(con)
    found = [one for one in touching(facts, con, filters) if one.incident.kind is not IncidentKind.TWINS]
    newest: dict[str, Found] = {}
    for one in found:
        incident = one.incident
        if incident.resolved or not now_ns - SILENT_NS <= incident.last_ns <= now_ns + RECENT_NS:
            continue
        kept = newest.get(incident.run_id)
        if kept is None or incident.last_ns > kept.incident.last_ns:
            newest[incident.run_id] = one
    candidates = sorted(newest.values(), key=lambda one: -one.incident.last_ns)[:_CANDIDATES]
    ended = statuses(con, [(one.incident.run_id, one.incident.run_source) for one in candidates])
    states: dict[str, str] = {}
    for one in candidates:
        state = _state(one.incident, ended.get(one.incident.run_id, (None, 0, None, 0))[0], now_ns)
        if state:
            states[one.incident.run_id] = state
    chosen = [one for one in candidates if one.incident.run_id in states]
    chosen.sort(key=lambda one: states[one.incident.run_id] in _OVER)
    going_on = sum(1 for state in states.values() if state not in _OVER)
    stopped = sum(1 for state in states.values() if state == "stopped")
    return Circling(
        now=tuple(CirclingRun(one, states[one.run_id]) for one in mark(facts, con, chosen[:_SHOWN], policy)),
        going_on=going_on,
        just_ended=len(states) - going_on - stopped,
        just_stopped=stopped,
        spent=_spent(con, [one.incident for one in found]),
        runs=len({one.incident.run_id for one in found}),
    )


def _state(incident: Incident, status: str | None, now_ns: int) -> str | None:
    recent = incident.last_ns >= now_ns - RECENT_NS
    if incident.stopped_at is not None:
        return "stopped" if recent else None
    if status == "running":
        return "running"
    if not recent:
        return None
    # The spans of a conversation or a session end with each of its turns.
    lasting = incident.run_source not in {"agent_span", "trace"}
    return "active" if status is None or lasting else "ended"


def _spent(con: duckdb.DuckDBPyConnection, incidents: Iterable[Incident]) -> Spent:
    import pyarrow as pa

    by_run: dict[str, list[tuple[int, int]]] = {}
    calls = tool_ns = 0
    for one in incidents:
        calls, tool_ns = calls + one.calls, tool_ns + one.tool_ns
        by_run.setdefault(one.run_id, []).append((one.first_ns, one.last_ns))
    stretches = [(run, first, last) for run, parts in by_run.items() for first, last in _united(parts)]
    if not stretches:
        return Spent()
    columns = [pa.array([one[at] for one in stretches]) for at in range(3)]
    con.register("stretches", pa.Table.from_arrays(columns, ["run_id", "first_ns", "last_ns"]))
    try:
        found = rows(con, sql_text("loops_spent"))[0]
    finally:
        con.unregister("stretches")
    wall = sum(last - first for _, first, last in stretches)
    return Spent(calls=calls, tool_ns=tool_ns, wall_ns=wall, **found)


def _united(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time in stretches that do not overlap."""
    made: list[tuple[int, int]] = []
    for first, last in sorted(parts):
        if made and first <= made[-1][1]:
            made[-1] = made[-1][0], max(made[-1][1], last)
        elif last > first:
            made.append((first, last))
    return made
