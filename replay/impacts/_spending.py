"""Calls that a policy interferes with, and the requests after its blocks, put together in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._engine import Judging
from .._facts import Facts
from .._filters import Filters, fact_filter, request_filter
from .._sql import arrow, filtered, rows, sql_text
from ._types import PARTS, AfterBlock, Effect, ImpactPart, Spent

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ...guard import GuardPolicy

__all__ = ["LEVELS", "Interference", "interference", "offered"]

LEVELS = {31: "all", 15: "tool", 23: "agent", 27: "model", 29: "outcome", 30: "kind"}
"""What sql/impact_verdicts.sql groups by."""


@contextmanager
def offered(con: duckdb.DuckDBPyConnection, **tables: pa.Table) -> Iterator[None]:
    """Arrow tables as tables of a connection, for as long as the block."""
    for name, table in tables.items():
        con.register(name, table)
    try:
        yield
    finally:
        for name in tables:
            con.unregister(name)


class Interference:
    """One policy's nudges, blocks and what comes after, as Arrow tables.

    `noted`: sql/impact_calls.sql; `stops`: sql/impact_stops.sql; `agents`, `models`: names by number.
    Without `parts` only what comes after blocks is put together with requests.
    """

    def __init__(
        self,
        facts: Facts,
        store: duckdb.DuckDBPyConnection,
        policy: GuardPolicy,
        judging: Judging,
        filters: Filters,
        *,
        touched: bool,
        parts: bool,
    ) -> None:
        import pyarrow.compute as pc

        self.facts = facts
        self._filters = filters
        where, params = fact_filter(filters, facts, store)
        self.noted = judging.arrow("impact_calls", params, where, touched=touched)
        self._calls = self.noted if parts else self.noted.filter(pc.field("action").isin([2, 4]))
        self._con = facts.cursor()
        with offered(self._con, noted_calls=self._calls):
            self.stops = arrow(self._con, sql_text("impact_stops"))
        self.agents: list[str | None] = list(facts.names["agent"])
        self.models: list[str | None] = []
        self._requests = self._fetch(store, policy)

    def _fetch(self, store: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> pa.Table:
        import pyarrow as pa

        condition, params = request_filter(self._filters, "q")
        params["scope"] = policy.scope
        with offered(self._con, noted_calls=self._calls, unit_stops=self.stops, names=self.facts.runs):
            wanted = arrow(self._con, sql_text("impact_wanted"))
            units = None
            if policy.scope == "run":
                with offered(self._con, wanted=wanted):
                    units = arrow(self._con, sql_text("impact_run_names"))
        with offered(store, run_names=self.facts.runs, wanted_turns=wanted):
            if units is None:
                with offered(store, unit_calls=self.stops):
                    units = arrow(store, sql_text("impact_units"), {"scope": policy.scope})
            with offered(store, unit_names=units):
                found = arrow(store, filtered("impact_requests", condition), params)
        # Names as numbers: one dictionary for calls and requests.
        for column, names in (("agent_name", self.agents), ("model", self.models)):
            numbered = {name: number for number, name in enumerate(names)}
            coded = found.column(column).combine_chunks().dictionary_encode()
            for name in coded.dictionary.to_pylist():
                if name not in numbered:
                    numbered[name] = len(names)
                    names.append(name)
            places = pa.array([numbered[name] for name in coded.dictionary.to_pylist()], pa.int32())
            at = found.schema.get_field_index(column)
            found = found.set_column(at, column.removesuffix("_name"), places.take(coded.indices))
        return found

    def runs(self, base: pa.Table) -> list[dict[str, Any]]:
        """Runs that leave what was recorded (sql/impact_runs.sql). `base`: sql/impact_base.sql."""
        with offered(self._con, noted_calls=self.noted, run_calls=base):
            return arrow(self._con, sql_text("impact_runs")).to_pylist()

    def effect(self) -> tuple[Effect, Effect]:
        """Everything, and its exact part."""
        inputs = {"unit_requests": self._requests, "unit_stops": self.stops, "noted_calls": self._calls}
        with offered(self._con, **inputs):
            self._con.execute(f"CREATE OR REPLACE TEMP VIEW asked_calls AS {sql_text('impact_asked')}")
            after = sql_text("impact_after").replace("$by_tool", str(bool(self._filters.tools)))
            self._con.execute(f"CREATE OR REPLACE TEMP VIEW sent_requests AS {after}")
            spent = rows(self._con, sql_text("impact_call_sums")) + rows(
                self._con, sql_text("impact_request_sums")
            )
            self._con.execute("DROP VIEW sent_requests; DROP VIEW asked_calls")
        with offered(self._con, noted_calls=self.noted):
            (spoken,) = rows(self._con, sql_text("impact_spoken_sums"))
        costs = _Costs()
        for row in spent:
            costs.add("all", None, row.pop("part"), row.pop("exact"), row)
        whole, exact = ({name: spoken[prefix + name] for name in _COUNTS} for prefix in ("", "exact_"))
        return (
            Effect(**whole, after=costs.after("all", None, exact=False)),
            Effect(**exact, after=costs.after("all", None, exact=True)),
        )

    def effects(self, names: dict[str, list[Any]]) -> dict[str, dict[Any, tuple[Effect, Effect]]]:
        """`effect` by level and label, with all `parts`. `names`: labels of `tool`, `outcome`, `kind`."""
        labels = {**names, "agent": self.agents, "model": self.models, "all": []}
        with offered(self._con, noted_calls=self.noted, unit_requests=self._requests, unit_stops=self.stops):
            asked = arrow(self._con, sql_text("impact_asked"))
            with offered(self._con, asked_calls=asked):
                sent = arrow(self._con, sql_text("impact_after"), {"by_tool": bool(self._filters.tools)})
                labelled = arrow(self._con, sql_text("impact_labelled"))
        with offered(self._con, sent_requests=sent, labelled_calls=labelled):
            verdicts = arrow(self._con, sql_text("impact_verdicts")).to_pylist()
            calls = arrow(self._con, sql_text("impact_call_costs")).to_pylist()
            requests = arrow(self._con, sql_text("impact_request_costs")).to_pylist()
        costs = _Costs()
        for row in (*calls, *requests):
            level, label = _read_label(row, labels)
            costs.add(level, label, row.pop("part"), row.pop("exact"), row)
        counts: dict[str, dict[Any, tuple[dict[str, int], dict[str, int]]]] = {}
        for row in verdicts:
            level, label = _read_label(row, labels)
            whole = {name: row[name] for name in _COUNTS}
            counts.setdefault(level, {})[label] = whole, {name: row[f"exact_{name}"] for name in _COUNTS}
        found: dict[str, dict[Any, tuple[Effect, Effect]]] = {}
        for level in LEVELS.values():
            mine = {*counts.get(level, ()), *costs.labels(level)}
            for label in mine:
                whole, exact = counts.get(level, {}).get(label, ({}, {}))
                found.setdefault(level, {})[label] = (
                    Effect(**whole, after=costs.after(level, label, exact=False)),
                    Effect(**exact, after=costs.after(level, label, exact=True)),
                )
        return found


_COUNTS = ("runs_nudged", "runs_blocked", "calls_nudged", "calls_blocked")


def _read_label(row: dict[str, Any], labels: dict[str, list[Any]]) -> tuple[str, Any]:
    """(level, name) of a row, which has the number of the name as `label`."""
    level, number = LEVELS[row.pop("level")], row.pop("label")
    return level, None if number is None else labels[level][number]


class _Costs:
    """Sums by level, label, part and whether they are exact."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, Any], dict[tuple[int, bool], Spent]] = {}

    def add(self, level: str, label: Any, part: int, exact: bool, row: dict[str, Any]) -> None:
        mine = self._sums.setdefault((level, label), {})
        only = {name: value for name, value in row.items() if name in Spent.__dataclass_fields__}
        mine[part, exact] = mine.get((part, exact), Spent()) + Spent(**only)

    def labels(self, level: str) -> list[Any]:
        return [label for one, label in self._sums if one == level]

    def after(self, level: str, label: Any, *, exact: bool) -> AfterBlock:
        mine = self._sums.get((level, label), {})
        parts = {}
        for number, name in enumerate(PARTS):
            parts[name] = mine.get((number, True), Spent())
            if not exact:
                parts[name] += mine.get((number, False), Spent())
        return AfterBlock(**parts)


def interference(parts: dict[Any, tuple[Effect, Effect]]) -> tuple[ImpactPart, ...]:
    """One level's parts, those with most calls after blocks and most interventions first."""

    def weight(part: ImpactPart) -> tuple[int, int, str]:
        effect = part.effect
        return -effect.after.total.calls, -effect.calls_nudged - effect.calls_blocked, part.name or ""

    return tuple(sorted((ImpactPart(name, *pair) for name, pair in parts.items()), key=weight))
