"""Counting and judging as set-based SQL. `DuplicateCallGuard` is the definition; this agrees with it.

Counting does not depend on thresholds: it is done once per counting rule (`GuardPolicy.rule_id`),
and every policy of that rule only compares the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..guard import DEFAULT_METADATA_KEYS, fingerprint, scope_key
from ._facts import Facts, facts_of
from ._filters import ALL, Filters, fact_filter
from ._sql import arrow, filtered, sql_text

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..guard import GuardPolicy

__all__ = [
    "ACTIONS",
    "OUTCOMES",
    "Judging",
    "VerdictChanges",
    "call_verdicts",
    "count_calls",
    "verdict_changes",
]

_FEW_RUNS = 1_000  # naming more of them takes longer than judging all

ACTIONS = ("allow", "nudge", "block", "not_counted", "after_block")
OUTCOMES = ("unknown", "success", "schema_error", "general_tool_error")


def count_calls(facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy, table: str) -> None:
    """Make `table` in the facts' database: every call counted under the policy's counting rule."""
    counted = [number for number, name in enumerate(OUTCOMES) if name in set(policy.counted_outcomes)]
    extra = set(policy.metadata_keys) - DEFAULT_METADATA_KEYS
    con = facts.cursor()
    source = "facts"
    if extra:
        _rekey(facts, store, extra, con)
        source = "rekeyed_facts"
    # The note of a recorded guard was taken off the result. A policy that keeps it compares texts
    # that hold a count, so they equal no other.
    unlike = "FALSE" if policy.strip_annotations else "seen > 0"
    known = "key IS NOT NULL AND result IS NOT NULL"
    con.execute(
        f"CREATE TEMP VIEW counting AS SELECT *, "  # noqa: S608 - numbers and fixed text only
        f"{known} AND outcome IN ({', '.join(map(str, counted)) or 'NULL'}) IS TRUE AS counted, "
        f"{known} AND outcome IN (1, 2) AND NOT truncated AS judgeable, "
        f"{unlike} AS unlike FROM {source}"
    )
    con.execute(f"CREATE TABLE {table} AS {sql_text('calls')}")


def _rekey(
    facts: Facts, store: duckdb.DuckDBPyConnection, extra: set[str], con: duckdb.DuckDBPyConnection
) -> None:
    """Make the view `rekeyed_facts`: the facts with the keys that further metadata names give."""
    import pyarrow as pa

    names = DEFAULT_METADATA_KEYS | extra
    changed: dict[int, int] = {}
    texts = store.execute(sql_text("rekey_texts"), {"keys": sorted(extra)})
    while batch := texts.fetchmany(10_000):
        for old, tool_name, arguments in batch:
            new = fingerprint(tool_name, arguments, metadata_keys=names)
            if new is not None and new != old:
                changed[old] = new
    ids = pa.int64()
    prints = pa.table({"fingerprint": pa.array(changed, ids), "changed": pa.array(changed.values(), ids)})
    store.register("changed_prints", prints)
    store.register("run_names", facts.runs)
    try:
        calls = arrow(store, sql_text("rekey_calls"))
    finally:
        store.unregister("changed_prints")
        store.unregister("run_names")
    scopes: dict[tuple[str, str | None, int], int] = {}
    keys: list[int] = []
    for scope in zip(
        *(calls.column(name).to_pylist() for name in ("run_id", "agent_name", "changed")), strict=True
    ):
        key = scopes.get(scope)
        if key is None:
            key = scopes[scope] = scope_key(*scope)
        keys.append(key)
    rekeyed = pa.table({"run": calls.column("run"), "seq": calls.column("seq"), "key": pa.array(keys, ids)})
    con.register("rekeyed", rekeyed)
    con.execute(
        "CREATE TEMP TABLE rekeyed_facts AS SELECT f.* REPLACE (coalesce(r.key, f.key) AS key) "
        "FROM facts AS f LEFT JOIN rekeyed AS r ON r.run = f.run AND r.seq = f.seq"
    )
    con.unregister("rekeyed")


class Judging:
    """Calls judged by one policy: statements over `verdicts` (sql/verdicts.sql).

    With `runs` (numbers), only calls of these runs, judged as if alone with the runs around them.
    """

    def __init__(
        self,
        facts: Facts,
        store: duckdb.DuckDBPyConnection,
        policy: GuardPolicy,
        runs: Iterable[int] | None = None,
    ) -> None:
        self.con = facts.cursor()
        table = facts.counted(store, policy)
        self.con.execute(f"CREATE TEMP VIEW calls AS SELECT * FROM {table} {_only(runs)}")  # noqa: S608
        self.thresholds = thresholds(facts.tools, policy)

    def arrow(
        self, statement: str, params: Mapping[str, Any], where: str = "TRUE", base: str = "verdicts"
    ) -> pa.Table:
        """The answer of `sql/<statement>.sql` over `base`; `where` (of `fact_filter`) is what it reports."""
        return arrow(self.con, filtered(statement, where, base), {**self.thresholds, **params})


def _only(runs: Iterable[int] | None) -> str:
    if runs is None:
        return ""
    numbers = ", ".join(str(int(run)) for run in sorted(runs)) or "NULL"
    around = f"SELECT ancestor FROM ancestors WHERE run IN ({numbers})"  # noqa: S608 - numbers
    return f"WHERE run IN ({numbers}) OR run IN ({around})"


def thresholds(tools: list[str], policy: GuardPolicy) -> dict[str, list[Any]]:
    """Parameters of sql/verdicts.sql: one entry per tool."""
    pairs = [policy.thresholds_for(name) for name in tools]
    return {
        "tools": list(range(len(tools))),
        "nudges": [_bounded(pair.nudge) for pair in pairs],
        "blocks": [_bounded(pair.block) for pair in pairs],
        "exempt": [policy.is_exempt(name) for name in tools],
    }


def _bounded(threshold: int | None) -> int | None:
    """A count is a 32-bit number; a threshold beyond is never reached."""
    return None if threshold is None else min(threshold, 2**31)


def call_verdicts(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    run_id: str | None = None,
    filters: Filters = ALL,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> pa.Table:
    """One row per finished call, ordered by run and seq.

    Columns: trace_id, span_id, position, run_id, agent_name, tool_name, seq, turn, start_ns, end_ns,
    outcome, error_kind, recorded_verdict, count, action (allow | nudge | block | not_counted |
    after_block), judged (avoidable | lost | unjudged | NULL: not after a block), exact (BOOLEAN).
    """
    facts = facts_of(con)
    if run_id is not None:
        wanted = {run_id} & set(filters.run_ids) if filters.run_ids else {run_id}
        filters = replace(filters, run_ids=tuple(wanted) or ("",))
    verdicts = _verdicts(facts, con, policy, filters)
    return _with_columns(facts, con, verdicts.slice(offset, limit))


@dataclass(frozen=True, slots=True)
class VerdictChanges:
    """Calls that two policies judge differently.

    `calls` has the columns of `call_verdicts` under the second policy, and `action_before`; the first
    `limit` of `total` calls, which lie in `runs` runs.
    """

    calls: pa.Table
    total: int
    runs: int


def verdict_changes(
    con: duckdb.DuckDBPyConnection,
    before: GuardPolicy,
    after: GuardPolicy,
    filters: Filters = ALL,
    *,
    limit: int = 1_000,
) -> VerdictChanges:
    """Calls whose action differs between two policies, ordered by run and seq."""
    import pyarrow as pa

    facts = facts_of(con)
    old, new = (_verdicts(facts, con, policy, filters) for policy in (before, after))
    # Both hold the same calls in the same order.
    was, now = old.column("action").to_pylist(), new.column("action").to_pylist()
    differs = [number for number, (a, b) in enumerate(zip(was, now, strict=True)) if a != b]
    shown = differs[:limit]
    calls = _with_columns(facts, con, new.take(pa.array(shown, pa.int64())))
    actions = pa.array([ACTIONS[was[number]] for number in shown], pa.string())
    return VerdictChanges(
        calls=calls.append_column("action_before", actions),
        total=len(differs),
        runs=len(new.column("run").take(pa.array(differs, pa.int64())).unique()),
    )


def _verdicts(
    facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters
) -> pa.Table:
    """run, seq, count, action, judged, exact (numbers) of the calls under the filter, in order."""
    where, params = fact_filter(filters, facts, store)
    runs = params.get("f_runs")
    judging = Judging(facts, store, policy, runs if runs is not None and len(runs) <= _FEW_RUNS else None)
    return judging.arrow("call_verdicts", params, where)


def _with_columns(facts: Facts, store: duckdb.DuckDBPyConnection, verdicts: pa.Table) -> pa.Table:
    store.register("verdict_rows", verdicts)
    store.register("run_names", facts.runs)
    try:
        return arrow(store, sql_text("call_columns"))
    finally:
        store.unregister("verdict_rows")
        store.unregister("run_names")
