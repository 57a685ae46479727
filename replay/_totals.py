"""The guard re-run over the store and counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ._coverage import coverage, runs_without_calls
from ._engine import OUTCOMES, Judging
from ._facts import facts_of
from ._filters import ALL, Filters, fact_filter
from ._incidents import find_incidents
from ._types import SCHEMA_VERSION, Coverage, Incident, Totals

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy

__all__ = ["ReplayResult", "replay"]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What one policy would have done with the recorded calls."""

    policy: GuardPolicy
    filters: Filters
    coverage: Coverage
    totals: Totals
    exact: Totals  # each run up to and including its first intervention that the agent had not seen
    by_tool: dict[str, Totals]
    by_outcome: dict[str, Totals]  # success | schema_error | general_tool_error | unknown
    by_error_kind: dict[str, Totals]  # failed calls only
    incidents: tuple[Incident, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `loopscope replay --format json` as a dict (docs/replay.md)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "policy": {**self.policy.to_dict(), "policy_hash": self.policy.policy_hash},
            "coverage": self.coverage.to_json(),
            "totals": {**self.totals.to_json(), "exact": self.exact.to_json()},
            "by_tool": _json_of(self.by_tool),
            "by_outcome": _json_of(self.by_outcome),
            "by_error_kind": _json_of(self.by_error_kind),
            "incidents": [incident.to_json() for incident in self.incidents],
        }


def replay(con: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters = ALL) -> ReplayResult:
    """What `policy` would have done: totals, parts of them, incidents with its nudge and block."""
    facts = facts_of(con)
    judging = Judging(facts, con, policy)
    where, params = fact_filter(filters, facts, con)

    def parts(by: str, extra: str = "") -> dict[int, tuple[Totals, Totals]]:
        answer = judging.arrow("totals", {**params, "by": by}, where + extra)
        return {row["label"]: _totals(row) for row in answer.to_pylist()}

    totals, exact = parts("all").get(0, (Totals(), Totals()))
    quiet = runs_without_calls(con, facts, filters)
    kinds = facts.names["kind"]
    return ReplayResult(
        policy=policy,
        filters=filters,
        coverage=coverage(con, filters),
        totals=replace(totals, runs=totals.runs + quiet),
        exact=replace(exact, runs=exact.runs + quiet),
        by_tool={facts.tools[label]: pair[0] for label, pair in parts("tool").items()},
        by_outcome={OUTCOMES[label]: pair[0] for label, pair in parts("outcome").items()},
        by_error_kind={
            kinds[label] or "unknown": pair[0]
            for label, pair in parts("kind", " AND outcome IN (2, 3)").items()
        },
        incidents=tuple(find_incidents(con, filters, policy)),
    )


def _totals(row: Mapping[str, Any]) -> tuple[Totals, Totals]:
    """Everything, and its exact part, of one row of sql/totals.sql."""

    def read(prefix: str) -> Totals:
        parts = {field.name: row[prefix + field.name] for field in fields(Totals) if field.name != _SUM}
        return Totals(**parts, **{_SUM: sum(parts[name] for name in _AFTER_BLOCK)})

    return read(""), read("exact_")


_SUM = "calls_after_block"
_AFTER_BLOCK = ("calls_avoidable", "calls_lost", "calls_unjudged")


def _json_of(parts: Mapping[str, Totals]) -> dict[str, dict[str, int]]:
    return {name: totals.to_json() for name, totals in parts.items()}
