"""The guard re-run over the store and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ._counting import OUTCOMES
from ._coverage import covered, runs_without_calls
from ._engine import Judging
from ._facts import Facts, facts_of
from ._filters import ALL, Filters, fact_filter
from ._incidents import find_incidents
from ._kept import alive
from ._sql import filtered, rows
from ._types import SCHEMA_VERSION, Coverage, Incident, Totals

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy

__all__ = ["ReplayResult", "replay", "totals", "totals_of"]


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

    def parts(by: str, names: Sequence[str | None], extra: str = "") -> dict[str, Totals]:
        """Those with most calls first: numbers of names depend on when these came in."""
        found = _by(con, facts, judging, filters, by, extra)
        named = {names[label] or "unknown": pair[0] for label, pair in found.items()}
        return dict(sorted(named.items(), key=lambda one: (-one[1].calls, one[0])))

    everything, exact = _all(con, facts, judging, filters)
    return ReplayResult(
        policy=policy,
        filters=filters,
        coverage=covered(facts, con, filters),
        totals=everything,
        exact=exact,
        by_tool=parts("tool", facts.tools),
        by_outcome=parts("outcome", OUTCOMES),
        by_error_kind=parts("kind", facts.names["kind"], " AND outcome IN (2, 3)"),
        incidents=tuple(find_incidents(con, filters, policy)),
    )


def totals(
    con: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters = ALL
) -> tuple[Totals, Totals]:
    """Only the totals of `replay`, and their exact part: what a moved slider needs."""
    return totals_of(facts_of(con), con, policy, filters)


def totals_of(
    facts: Facts, con: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters
) -> tuple[Totals, Totals]:
    """`totals` for one who has the store's facts at hand."""
    return _all(con, facts, Judging(facts, con, policy), filters)


def _all(
    con: duckdb.DuckDBPyConnection, facts: Facts, judging: Judging, filters: Filters
) -> tuple[Totals, Totals]:
    everything, exact = _by(con, facts, judging, filters, "all").get(0, (Totals(), Totals()))
    quiet = runs_without_calls(con, facts, filters)
    return replace(everything, runs=everything.runs + quiet), replace(exact, runs=exact.runs + quiet)


def _by(
    con: duckdb.DuckDBPyConnection,
    facts: Facts,
    judging: Judging,
    filters: Filters,
    by: str,
    extra: str = "",
) -> dict[int, tuple[Totals, Totals]]:
    """(everything, exact) per label. Only runs in which something happens need judging."""
    where, params = fact_filter(filters, facts, con)
    where += extra
    base = _base(facts, judging, filters, by, where, params)
    inside = judging.arrow("totals", {**params, "by": by}, where, touched=True).to_pylist()
    touched = {row["label"]: row for row in inside}
    found: dict[int, tuple[Totals, Totals]] = {}
    for row in base:
        runs, calls = row["runs"], row["calls"]
        everything = exact = Totals(runs=runs, calls=calls)
        if row["label"] in touched:
            mine = touched[row["label"]]
            everything, exact = _totals(mine)
            left = runs - mine["runs"], calls - mine["calls"]
            everything = replace(everything, runs=runs, calls=calls)
            exact = replace(exact, runs=exact.runs + left[0], calls=exact.calls + left[1])
        found[row["label"]] = everything, exact
    return found


def calls_and_runs(
    con: duckdb.DuckDBPyConnection, facts: Facts, judging: Judging, filters: Filters
) -> Totals:
    """Totals with only `runs` and `calls`: what there is under the filter, whatever a policy says of it."""
    where, params = fact_filter(filters, facts, con)
    there = _base(facts, judging, filters, "all", where, params)
    runs, calls = (there[0]["runs"], there[0]["calls"]) if there else (0, 0)
    return Totals(runs=runs + runs_without_calls(con, facts, filters), calls=calls)


def _base(
    facts: Facts, judging: Judging, filters: Filters, by: str, where: str, params: dict[str, Any]
) -> list[dict[str, Any]]:
    """Calls and runs by label."""

    def ask() -> list[dict[str, Any]]:
        if filters != ALL or judging.outcome_rules:
            return rows(judging.con, filtered("base", where), {**params, "by": by})
        memory = facts.memory
        known = memory.bases.get((by, where))
        if known is not None and known[0] <= facts.generation:
            found = _moved_on(facts, known, by, where)
        else:
            found = rows(judging.con, filtered("base", where), {"by": by})
        if facts.generation == memory.generation:
            memory.bases[by, where] = facts.generation, found
        return found

    return facts.remember(("base", filters, by, judging.outcome_rules), ask)


def _moved_on(
    facts: Facts, known: tuple[int, list[dict[str, Any]]], by: str, where: str
) -> list[dict[str, Any]]:
    """The base of an older generation, less the runs that changed since, and these as they are now."""
    before, base = known
    changed = sorted(facts.memory.changed_since(before, facts.generation))
    if not changed:
        return base
    sums = {row["label"]: dict(row) for row in base}
    con = facts.con.cursor()
    con.execute("CREATE TEMP TABLE changed_runs AS SELECT unnest($runs) AS run", {"runs": changed})
    for generation, sign in ((before, -1), (facts.generation, 1)):
        con.execute(
            "CREATE OR REPLACE TEMP VIEW outcomes AS SELECT * FROM fact_rows "  # noqa: S608
            f"WHERE {alive(generation)} AND run BETWEEN {changed[0]:d} AND {changed[-1]:d} "
            "AND run IN (SELECT run FROM changed_runs)"
        )
        for row in rows(con, filtered("base", where), {"by": by}):
            one = sums.setdefault(row["label"], {"label": row["label"], "runs": 0, "calls": 0})
            one["runs"] += sign * row["runs"]
            one["calls"] += sign * row["calls"]
    return [sums[label] for label in sorted(sums) if sums[label]["calls"]]


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
