"""Calls counted under a policy's counting rule (`GuardPolicy.rule_id`), whatever its thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..guard import DEFAULT_METADATA_KEYS
from ._ruled import changed_outcomes
from ._sql import arrow, sql_text

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..guard import GuardPolicy
    from ._facts import Facts

__all__ = ["OUTCOMES", "count_calls"]

OUTCOMES = ("unknown", "success", "schema_error", "general_tool_error")
"""Names of the numbers in column `outcome`."""

_BATCH = 500  # whole texts may be large

# Where the run is the unit, calls and results compare as they were stored and nothing resets, the facts
# are the input as they are.
_PLAIN = (
    "SELECT *, run AS unit, seq AS ord, key AS slot, key AS series, "
    "FALSE AS err, 0 AS resets_before, 0 AS successes_before FROM facts"
)


def count_calls(facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy, table: str) -> None:
    """Make `table` in the facts' database: every call counted under the policy's counting rule."""
    con = facts.cursor()
    source = _PLAIN
    if not _compares_as_stored(facts, policy):
        _offer(con, "changed_prints", _changed_prints(store, policy))
        _offer(con, "changed_results", _changed_results(facts, store, policy))
        _offer(con, "changed_outcomes", changed_outcomes(facts, store, policy, OUTCOMES))
        _offer(con, "units", _units(facts, store, policy))
        _offer(con, "tool_rules", _tool_rules(facts, policy))
        con.execute(f"CREATE TEMP TABLE seen_by_rule AS {sql_text('counting')}")
        source = "SELECT * FROM seen_by_rule"
    counted = [number for number, name in enumerate(OUTCOMES) if name in set(policy.counted_outcomes)]
    numbers = ", ".join(map(str, counted)) or "NULL"
    # The note of a recorded guard was taken off the result. A policy that keeps it compares texts
    # that hold a count, so they equal no other.
    unlike = "FALSE" if policy.strip_annotations else "seen > 0"
    known = "key IS NOT NULL AND result IS NOT NULL"
    con.execute(
        f"CREATE TEMP VIEW counting AS SELECT *, "  # noqa: S608 - numbers and fixed text only
        f"{known} AND (err OR outcome IN ({numbers}) IS TRUE) AS counted, "
        f"{known} AND outcome IN (1, 2) AND NOT truncated AS judgeable, "
        f"{unlike} AS unlike FROM ({source})"
    )
    con.execute(f"CREATE TABLE {table} AS {sql_text('calls')}")


def _compares_as_stored(facts: Facts, policy: GuardPolicy) -> bool:
    """Do stored keys and results say all, run by run?"""
    return (
        policy.scope == "run"
        and not policy.outcome_rules
        and not any(
            policy.changes_fingerprints(tool)
            or policy.changes_results(tool)
            or policy.rules_for(tool).resets
            or policy.rules_for(tool).error_thresholds is not None
            for tool in facts.tools
        )
    )


def _offer(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    con.register("offered", table)
    con.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM offered")  # noqa: S608
    con.unregister("offered")


def _tool_rules(facts: Facts, policy: GuardPolicy) -> pa.Table:
    import pyarrow as pa

    rules = [policy.rules_for(tool) for tool in facts.tools]
    columns = (
        pa.array(range(len(rules)), pa.int32()),
        pa.array([one.resets for one in rules], pa.bool_()),
        pa.array([one.error_thresholds is not None for one in rules], pa.bool_()),
        pa.array([policy.changes_results(tool) for tool in facts.tools], pa.bool_()),
    )
    return pa.Table.from_arrays(columns, ["tool", "resets", "errors_apart", "reviewed"])


def _changed_prints(store: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> pa.Table:
    """Fingerprints that further metadata names change: print, changed."""
    import pyarrow as pa

    names = set(policy.metadata_keys).union(*(tool.metadata_keys for tool in policy.tools.values()))
    names -= DEFAULT_METADATA_KEYS
    changed: dict[int, int] = {}
    if names:
        texts = store.execute(sql_text("rekey_texts"), {"keys": sorted(names)})
        while batch := texts.fetchmany(_BATCH):
            for old, tool_name, arguments in batch:
                new = policy.fingerprint(tool_name, arguments)
                if new is not None and new != old:
                    changed[old] = new
    columns = pa.array(changed.keys(), pa.int64()), pa.array(changed.values(), pa.int64())
    return pa.Table.from_arrays(columns, ["print", "changed"])


def _changed_results(facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> pa.Table:
    """Results of tools of which the policy leaves parts out: run, seq, result."""
    import pyarrow as pa

    tools = [tool for tool in facts.tools if policy.changes_results(tool)]
    rows: list[tuple[str, str | None, int | None, int | None]] = []
    texts = store.execute(sql_text("changed_texts"), {"tools": tools})
    while batch := texts.fetchmany(_BATCH):
        for tool_name, result, content, text in batch:
            rows.append((tool_name, result, content, policy.result_hash(tool_name, text)))
    types = (pa.string(), pa.string(), pa.int64(), pa.int64())
    columns = list(zip(*rows, strict=True)) or [()] * 4
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    names = ["tool_name", "result", "result_content", "hash"]
    store.register("changed_texts", pa.Table.from_arrays(arrays, names))
    store.register("run_names", facts.runs)
    try:
        return arrow(store, sql_text("changed_results"))
    finally:
        store.unregister("changed_texts")
        store.unregister("run_names")


def _units(facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> pa.Table:
    """Traces or sessions as units: run, seq, unit, ord. Empty where the run is the unit."""
    store.register("run_names", facts.runs)
    try:
        units = arrow(store, sql_text("units"), {"scope": policy.scope})
    finally:
        store.unregister("run_names")
    return units.slice(0, 0) if policy.scope == "run" else units
