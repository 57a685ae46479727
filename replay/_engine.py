"""Counting and judging as set-based SQL. `DuplicateCallGuard` is the definition; this agrees with it.

Counting does not depend on thresholds: it is done once per counting rule (`GuardPolicy.rule_id`),
and every policy of that rule only compares the counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..guard import Thresholds
from ._facts import Facts, facts_of, span_of
from ._filters import ALL, Filters, fact_filter
from ._sql import arrow, filtered, sql_text

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..guard import GuardPolicy

__all__ = ["ACTIONS", "Judging", "call_verdicts", "few", "idles_alike", "thresholds", "with_columns"]

_NEVER = 2**31  # no count reaches it
_FEW_CALLS = 10_000
_FEW_RUNS = 1_000  # naming more of them takes longer than judging all

# In the others a call is allowed, or not counted, whatever the thresholds are.
_TOUCHED = (
    ("calls AS c /* judged */", "busy_calls AS c"),
    ("LEFT JOIN cuts AS x ON x.unit = c.unit", "JOIN cuts AS x ON x.unit = c.unit"),
)

ACTIONS = ("allow", "nudge", "block", "not_counted", "after_block")


class Judging:
    """Calls judged by one policy: statements over `verdicts` (sql/verdicts.sql).

    With `runs` (numbers), only calls of these runs, judged as if alone with what decides about them: the runs
    around them, or the traces or sessions that they lie in.
    """

    def __init__(
        self,
        facts: Facts,
        store: duckdb.DuckDBPyConnection,
        policy: GuardPolicy,
        runs: Iterable[int] | None = None,
    ) -> None:
        self.con = facts.cursor()
        self.counted = facts.counted(store, policy)  # its tables stay as long as this is kept
        self.outcome_rules = policy.outcome_rules  # `calls` has outcomes and kinds as these say
        self.thresholds = thresholds(facts.tools, policy)
        # A trace or session may hold other runs as well, and no run around it silences it.
        alone = policy.scope == "run"
        only = ""
        if runs is not None:
            only = _only(self.con, runs) if alone else _units(self.con, self.counted, runs)
        self.lowest = _lowest(self.thresholds)
        busy = self.counted.busy(self.lowest)
        self.con.execute(f"CREATE TEMP VIEW calls AS SELECT * FROM {self.counted} {only}")  # noqa: S608
        self.con.execute(f"CREATE TEMP VIEW busy_calls AS SELECT * FROM ({busy}) {only}")  # noqa: S608
        outcomes = "calls" if self.outcome_rules else "facts"
        self.con.execute(f"CREATE TEMP VIEW outcomes AS SELECT * FROM {outcomes}")  # noqa: S608
        self.con.execute(f"CREATE TEMP VIEW nesting AS SELECT * FROM ancestors WHERE {alone}")  # noqa: S608

    def look_at(self, busy: str, quiet: str | None) -> None:
        """Other `busy_calls`, for other thresholds, and beside them `quiet_calls`."""
        self.con.execute(f"CREATE OR REPLACE TEMP VIEW busy_calls AS {busy}")
        if quiet is not None:
            self.con.execute(f"CREATE OR REPLACE TEMP VIEW quiet_calls AS SELECT * FROM {quiet}")  # noqa: S608

    def arrow(
        self,
        statement: str,
        params: Mapping[str, Any],
        where: str = "TRUE",
        base: str | None = "verdicts",
        *,
        touched: bool = False,
    ) -> pa.Table:
        """The answer of `sql/<statement>.sql` over `base`; `where` (of `fact_filter`) is what it reports.

        `touched`: `verdicts` need only have the runs in which something happens. It has all where the policy
        counts calls of several runs together.
        """
        query = filtered(statement, where, base)
        if touched and not self.thresholds["wide"]:
            for everywhere, there in _TOUCHED:
                query = query.replace(everywhere, there)
        wanted = set(re.findall(r"\$(\w+)", query))
        given = {**self.thresholds, **params}
        return arrow(self.con, query, {name: value for name, value in given.items() if name in wanted})


def _only(con: duckdb.DuckDBPyConnection, runs: Iterable[int]) -> str:
    """Runs and those around them."""
    wanted = {int(run) for run in runs}
    around = con.execute(
        "SELECT DISTINCT ancestor FROM ancestors WHERE run IN (SELECT unnest($runs))", {"runs": list(wanted)}
    )
    return _among("run", wanted.union(run for (run,) in around.fetchall()))


def _units(con: duckdb.DuckDBPyConnection, counted: str, runs: Iterable[int]) -> str:
    """The traces or sessions that have a call of these runs."""
    of_runs = _among("run", {int(run) for run in runs})
    found = con.execute(f"SELECT DISTINCT unit FROM {counted} {of_runs}")  # noqa: S608
    return _among("unit", {unit for (unit,) in found.fetchall()})


def _among(column: str, numbers: Collection[int]) -> str:
    """The range spares a look at the rest."""
    if not numbers:
        return "WHERE FALSE"
    listed = ", ".join(map(str, sorted(numbers)))
    return f"WHERE {column} BETWEEN {min(numbers)} AND {max(numbers)} AND {column} IN ({listed})"


def idles_alike(facts: Facts, before: GuardPolicy, after: GuardPolicy) -> bool:
    """Do two policies say the same of every call of a run in which neither interferes?"""
    return (
        before.scope == "run"
        and before.rule_id == after.rule_id
        and all(before.rules_for(tool).exempt == after.rules_for(tool).exempt for tool in facts.tools)
    )


def thresholds(tools: list[str], policy: GuardPolicy) -> dict[str, Any]:
    """Parameters of sql/verdicts.sql."""
    rules = [policy.rules_for(name) for name in tools]
    errors = [one.error_thresholds or Thresholds(None, None) for one in rules]
    return {
        "tools": list(range(len(tools))),
        "nudges": [_bounded(one.thresholds.nudge) for one in rules],
        "blocks": [_bounded(one.thresholds.block) for one in rules],
        "error_nudges": [_bounded(one.nudge) for one in errors],
        "error_blocks": [_bounded(one.block) for one in errors],
        "exempt": [one.exempt for one in rules],
        "resets": [one.resets for one in rules],
        "wide": policy.scope != "run",
    }


def _lowest(thresholds: Mapping[str, Any]) -> int:
    """The lowest threshold at which anything happens."""
    names = ("nudges", "blocks", "error_nudges", "error_blocks")
    kept = [number for number, exempt in enumerate(thresholds["exempt"]) if not exempt]
    found = [thresholds[name][number] for name in names for number in kept]
    return min((one for one in found if one is not None), default=_NEVER)


def _bounded(threshold: int | None) -> int | None:
    """A count is a 32-bit number; a threshold beyond is never reached."""
    return None if threshold is None else min(threshold, _NEVER)


def call_verdicts(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    run_id: str | None = None,
    filters: Filters = ALL,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> pa.Table:
    """One row per finished call: run by run, first started first, by seq.

    Columns: trace_id, span_id, position, run_id, agent_name, tool_name, seq, turn, start_ns, end_ns,
    outcome, error_kind (as recorded), recorded_verdict, count, action (allow | nudge | block | not_counted |
    after_block), judged (avoidable | lost | unjudged | NULL: not after a block), exact (BOOLEAN).
    """
    facts = facts_of(con)
    if run_id is not None:
        wanted = {run_id} & set(filters.run_ids) if filters.run_ids else {run_id}
        filters = replace(filters, run_ids=tuple(wanted) or ("",))
    verdicts = _verdicts(facts, con, policy, filters)
    return with_columns(facts, con, verdicts.slice(offset, limit))


def few(runs: Sequence[int] | None) -> Sequence[int] | None:
    return runs if runs is not None and len(runs) <= _FEW_RUNS else None


def _verdicts(
    facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters
) -> pa.Table:
    """run, seq, count, action, judged, exact (numbers) of the calls under the filter, in order."""
    where, params = fact_filter(filters, facts, store)
    judging = Judging(facts, store, policy, few(params.get("f_runs")))
    return judging.arrow("call_verdicts", params, where)


def with_columns(
    facts: Facts, store: duckdb.DuckDBPyConnection, verdicts: pa.Table, more: str = ""
) -> pa.Table:
    """What was recorded of the calls (sql/call_columns.sql), with `more` columns of `verdicts`."""
    params = {"since": -(2**63), "until": 2**63 - 1}
    if verdicts.num_rows <= _FEW_CALLS:  # their time spares a look at the rest of the store
        params = span_of(facts, verdicts) or params
    store.register("verdict_rows", verdicts)
    store.register("run_names", facts.runs)
    try:
        return arrow(store, sql_text("call_columns").replace("/* more */", more), params)
    finally:
        store.unregister("verdict_rows")
        store.unregister("run_names")
