"""Calls counted under a policy's counting rule (`GuardPolicy.rule_id`), whatever its thresholds."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from ..guard import DEFAULT_METADATA_KEYS
from ._kept import alive, make, replace_rows
from ._part import Part, runs_offered
from ._ruled import changed_outcomes
from ._sql import arrow, filtered, sql_text

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..guard import GuardPolicy
    from ._facts import Facts
    from ._memory import Memory

__all__ = ["OUTCOMES", "Counted", "counted", "used"]

OUTCOMES = ("unknown", "success", "schema_error", "general_tool_error")
"""Names of the numbers in column `outcome`."""

_BATCH = 500  # whole texts may be large
_KEPT_RULES = 3  # counting rules kept per store: saved, draft, default
_KEPT_ROWS = 15_000_000  # of all of them, though one is kept in any case; 115 bytes each
# Rows that are gone take memory and are looked at all the same: with more of them, all is counted anew.
_MOST_DEAD, _DEAD_SHARE = 100_000, 0.2

# Where the run is the unit, calls and results compare as they were stored and nothing resets, the facts
# are the input as they are. The last columns of sql/calls.sql follow from others then.
_DERIVED = {
    "unit": "run",
    "ord": "seq",
    "slot": "key",
    "err": "FALSE",
    "resets_before": "0",
    "successes_before": "0",
}
_AS_DERIVED = ", ".join(f"{value} AS {name}" for name, value in _DERIVED.items())
_PLAIN = f"SELECT *, key AS series, {_AS_DERIVED} FROM facts"  # noqa: S608
# A series is part of a run then, so runs are looked through some at a time: what is grouped stays in the
# processor's cache (10 M calls: 0.9 s of CPU, all at once 1.6 s).
_AT_ONCE = 1_000_000  # calls

_numbers = count(1)  # of tables and views


@dataclass(eq=False)
class _Rule:
    """The tables of one counting rule: `table` (sql/calls.sql), and `<table>_units` with the units in it.

    The table of a plain rule lacks what `_DERIVED` says: without it a fifth less is written.
    """

    rule: str
    table: str
    marks: str | None  # of a plain rule: what is counted; other rules have all calls in their table
    seen: set[int]  # generations of the facts that it has gone through
    rows: int = 0
    dead: int = 0


class Counted(str):
    """The name of a table with all calls (sql/calls.sql). It stays as long as this is referred to."""

    rule: _Rule

    @property
    def quiet(self) -> str | None:
        """The name of a table with the calls of units in which no call occurs twice; None: `busy` has all."""
        return None if self.rule.marks is None else f"{self}_quiet"

    def busy(self, top: int) -> str:
        """A query for the calls of units in which a count reaches `top`, and of those nested in them.

        0: of all units in which a call occurs twice, counted or not.
        """
        if self.rule.marks is not None and top == 1:
            return f"SELECT * FROM {self}"  # noqa: S608
        return f"SELECT * FROM {self}_again WHERE top >= {top:d}"  # noqa: S608


def counted(facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> Counted:
    """The calls as they were in the generation of the facts. The caller holds the lock."""
    memory = facts.memory
    rule = memory.rules.get(policy.rule_id)
    latest = facts.generation == memory.generation
    if rule is not None and facts.generation not in rule.seen:
        # An older generation than the rule's has a table of its own.
        rule = _brought_up(facts, store, policy, rule) if latest else None
    if rule is None:
        rule = _count_all(facts, store, policy)
    if latest:
        memory.rules[rule.rule] = rule
    return _views(facts, rule)


def used(memory: Memory, rule: str) -> None:
    """Keep this rule and few others."""
    if rule in memory.rules:
        memory.rules.move_to_end(rule)
    while len(memory.rules) > 1 and (
        len(memory.rules) > _KEPT_RULES or sum(one.rows for one in memory.rules.values()) > _KEPT_ROWS
    ):
        memory.rules.popitem(last=False)


def _views(facts: Facts, rule: _Rule) -> Counted:
    there = alive(facts.generation)
    name = Counted(f"{rule.table}_{next(_numbers)}")
    name.rule = rule
    con = facts.con.cursor()
    derived = "" if rule.marks is None else f", {_AS_DERIVED}"
    con.execute(
        f"CREATE VIEW {name}_again AS "  # noqa: S608
        f"SELECT * EXCLUDE (born, died){derived} FROM {rule.table} WHERE {there}"
    )
    query = f"SELECT * FROM {name}_again"  # noqa: S608
    if rule.marks is not None:
        con.execute(
            f"CREATE VIEW {name}_quiet AS WITH facts AS (SELECT * FROM fact_rows WHERE {there}), "  # noqa: S608
            f"counting AS (SELECT *, {rule.marks} FROM ({_PLAIN})), "
            f"busy_units AS (SELECT unit FROM {rule.table}_units WHERE {there}) {sql_text('quiet_calls')}"
        )
        query += f" UNION ALL SELECT * FROM {name}_quiet"  # noqa: S608
    con.execute(f"CREATE VIEW {name} AS {query}")
    views = (name, f"{name}_again", f"{name}_quiet")
    _drop_with(name, facts.con, "; ".join(f"DROP VIEW IF EXISTS {view}" for view in views))
    return name


def _drop_with(thing: object, con: duckdb.DuckDBPyConnection, statement: str) -> None:
    def drop() -> None:
        con.cursor().execute(statement)

    weakref.finalize(thing, drop).atexit = False


def _count_all(facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> _Rule:
    con = facts.cursor()
    plain = _compares_as_stored(facts, policy)
    marks = _marks(policy)
    rule = _Rule(
        policy.rule_id,
        f"calls_{policy.rule_id}_{next(_numbers)}",
        marks if plain else None,
        {facts.generation},
    )
    _see(con, facts, store, policy, rule, None)
    make(con, rule.table, _counting_query(rule), facts.generation)
    make(con, f"{rule.table}_units", f"SELECT DISTINCT {_unit(rule)} FROM {rule.table}", facts.generation)  # noqa: S608
    _drop_with(rule, facts.con, f"DROP TABLE IF EXISTS {rule.table}; DROP TABLE IF EXISTS {rule.table}_units")
    _note_size(con, rule)
    return rule


def _brought_up(
    facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy, rule: _Rule
) -> _Rule | None:
    """The rule with the runs counted anew that changed; None where it is better made anew."""
    generation = facts.generation
    changed = facts.memory.changed_since(max(rule.seen), generation)
    if not changed:
        rule.seen.add(generation)
        return rule
    con = facts.cursor()
    con.execute("BEGIN")
    try:
        # A tool that was not there may have knobs of its own.
        if (rule.marks is not None) != _compares_as_stored(facts, policy):
            return None
        _with_neighbours(con, rule, policy, changed)
        part = _part(con, facts)
        _see(con, facts, store, policy, rule, part)
        low, high = _bounds(con, "run", "some_runs")
        among = f"run BETWEEN {low} AND {high} AND run IN (SELECT run FROM some_runs)"  # noqa: S608
        rule.dead += replace_rows(con, rule.table, ["run", "seq"], _counting_query(rule), among, generation)
        units = f"SELECT DISTINCT {_unit(rule)} FROM {rule.table} WHERE {alive(generation)} AND {among}"  # noqa: S608
        if rule.marks is not None:
            old = "unit IN (SELECT run FROM some_runs)"
            replace_rows(con, f"{rule.table}_units", ["unit"], units, old, generation)
        _note_size(con, rule)
        if rule.dead > max(_MOST_DEAD, _DEAD_SHARE * rule.rows):
            return None
        con.execute("COMMIT")
    finally:
        con.close()
    rule.seen.add(generation)
    return rule


def _with_neighbours(
    con: duckdb.DuckDBPyConnection, rule: _Rule, policy: GuardPolicy, changed: frozenset[int]
) -> None:
    """Make `some_runs`: the changed runs and those whose counts or tops may depend on them."""
    con.execute(
        "CREATE TEMP TABLE some_runs AS SELECT CAST(unnest($runs) AS INTEGER) AS run", {"runs": list(changed)}
    )
    if policy.scope == "run":
        con.execute(
            "INSERT INTO some_runs "
            "SELECT a.run FROM ancestors AS a JOIN some_runs AS s ON s.run = a.ancestor "
            "EXCEPT SELECT run FROM some_runs"
        )
        con.execute(
            "INSERT INTO some_runs "
            "SELECT a.ancestor FROM ancestors AS a JOIN some_runs AS s ON s.run = a.run "
            "EXCEPT SELECT run FROM some_runs"
        )
        return
    column = "trace" if policy.scope == "trace" else "session"
    before = f"SELECT run, unit FROM {rule.table} WHERE {alive(max(rule.seen))}"  # noqa: S608
    while True:
        added = con.execute(
            f"INSERT INTO some_runs SELECT run FROM facts WHERE {column} IN ("  # noqa: S608
            f"SELECT {column} FROM facts WHERE run IN (SELECT run FROM some_runs)) "
            f"UNION SELECT run FROM ({before}) WHERE unit IN ("
            f"SELECT unit FROM ({before}) WHERE run IN (SELECT run FROM some_runs)) "
            "EXCEPT SELECT run FROM some_runs"
        ).fetchall()[0][0]
        if not added:
            return


def _part(con: duckdb.DuckDBPyConnection, facts: Facts) -> Part:
    """Narrow `facts` and `ancestors` to `some_runs`."""
    low, high = con.execute("SELECT coalesce(min(run), 0), coalesce(max(run), 0) FROM some_runs").fetchall()[
        0
    ]
    con.execute(
        "CREATE TEMP TABLE some_facts AS SELECT * FROM facts "  # noqa: S608
        f"WHERE run BETWEEN {low} AND {high} AND run IN (SELECT run FROM some_runs)"
    )
    con.execute("CREATE OR REPLACE TEMP VIEW facts AS SELECT * FROM some_facts")
    first, last = _bounds(con, "start_ns", "facts")
    names = arrow(con, "SELECT run, run_id FROM runs WHERE run IN (SELECT run FROM some_runs) ORDER BY run")
    where = f"c.start_ns BETWEEN {first} AND {last} AND c.run_id IN (SELECT run_id FROM run_names)"  # noqa: S608
    return Part(names, where)


def _bounds(con: duckdb.DuckDBPyConnection, column: str, table: str) -> tuple[int, int]:
    found = con.execute(f"SELECT min({column}), max({column}) FROM {table}").fetchall()[0]  # noqa: S608
    low, high = (0 if one is None else one for one in found)
    return low, high


def _note_size(con: duckdb.DuckDBPyConnection, rule: _Rule) -> None:
    rule.rows = con.execute(f"SELECT count(*) FROM {rule.table}").fetchall()[0][0]  # noqa: S608


def _counting_query(rule: _Rule) -> str:
    """sql/calls.sql; of rules that are not plain, with all calls."""
    text = sql_text("calls")
    if rule.marks is None:
        return text.replace("t.unit IS NOT NULL /* busy */", "TRUE")
    return f"SELECT * EXCLUDE ({', '.join(_DERIVED)}) FROM ({text})"  # noqa: S608


def _unit(rule: _Rule) -> str:
    """The column of its table as `unit`."""
    return "unit" if rule.marks is None else f"{_DERIVED['unit']} AS unit"


def _see(
    con: duckdb.DuckDBPyConnection,
    facts: Facts,
    store: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    rule: _Rule,
    part: Part | None,
) -> None:
    """Make the inputs of sql/calls.sql."""
    source = _PLAIN
    if rule.marks is None:
        _offer(con, "changed_prints", _changed_prints(facts, store, policy, part))
        _offer(con, "changed_results", _changed_results(facts, store, policy, part))
        _offer(con, "changed_outcomes", changed_outcomes(facts, store, policy, OUTCOMES, part))
        _offer(con, "tool_rules", _tool_rules(facts, policy))
        con.execute(f"CREATE TEMP TABLE units AS {sql_text('units')}", {"scope": policy.scope})
        con.execute(f"CREATE TEMP TABLE seen_by_rule AS {sql_text('counting')}")
        source = "SELECT * FROM seen_by_rule"
    con.execute(f"CREATE TEMP VIEW counting AS SELECT *, {_marks(policy)} FROM ({source})")  # noqa: S608
    con.execute(
        "CREATE TEMP VIEW nesting AS SELECT run, ancestor FROM ancestors "  # noqa: S608
        f"WHERE {policy.scope == 'run'}"
    )
    if rule.marks is None:
        con.execute(f"CREATE TEMP TABLE again AS {sql_text('again_anywhere')}")
        return
    ((calls, low, high),) = con.execute(
        "SELECT count(*), coalesce(min(run), 0), coalesce(max(run), 0) FROM facts"
    ).fetchall()
    step = (high - low) // max(1, calls // _AT_ONCE) + 1
    made = "CREATE TEMP TABLE again AS"
    for first in range(low, high + 1, step):
        con.execute(f"{made} {sql_text('again')}", {"first": first, "last": first + step - 1})
        made = "INSERT INTO again"


def _marks(policy: GuardPolicy) -> str:
    """Columns `counted`, `judgeable` and `unlike` of the view `counting`."""
    numbers = [number for number, name in enumerate(OUTCOMES) if name in set(policy.counted_outcomes)]
    listed = ", ".join(map(str, numbers)) or "NULL"
    # The note of a recorded guard was taken off the result. A policy that keeps it compares texts
    # that hold a count, so they equal no other.
    unlike = "FALSE" if policy.strip_annotations else "seen > 0"
    known = "key IS NOT NULL AND result IS NOT NULL"
    return (
        f"{known} AND (err OR outcome IN ({listed}) IS TRUE) AS counted, "
        f"{known} AND outcome IN (1, 2) AND NOT truncated AS judgeable, {unlike} AS unlike"
    )


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


def _changed_prints(
    facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy, part: Part | None
) -> pa.Table:
    """Fingerprints that further metadata names change: print, changed."""
    import pyarrow as pa

    names = set(policy.metadata_keys).union(*(tool.metadata_keys for tool in policy.tools.values()))
    names -= DEFAULT_METADATA_KEYS
    changed: dict[int, int] = {}
    if names:
        with runs_offered(store, facts, part) as condition:
            texts = store.execute(filtered("rekey_texts", condition), {"keys": sorted(names)})
            while batch := texts.fetchmany(_BATCH):
                for old, tool_name, arguments in batch:
                    new = policy.fingerprint(tool_name, arguments)
                    if new is not None and new != old:
                        changed[old] = new
    columns = pa.array(changed.keys(), pa.int64()), pa.array(changed.values(), pa.int64())
    return pa.Table.from_arrays(columns, ["print", "changed"])


def _changed_results(
    facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy, part: Part | None
) -> pa.Table:
    """Results of tools of which the policy leaves parts out: run, seq, result."""
    import pyarrow as pa

    tools = [tool for tool in facts.tools if policy.changes_results(tool)]
    found: list[tuple[str, str | None, int | None, int | None]] = []
    with runs_offered(store, facts, part) as condition:
        texts = store.execute(filtered("changed_texts", condition), {"tools": tools})
        while batch := texts.fetchmany(_BATCH):
            for tool_name, result, content, text in batch:
                found.append((tool_name, result, content, policy.result_hash(tool_name, text)))
        types = (pa.string(), pa.string(), pa.int64(), pa.int64())
        columns = list(zip(*found, strict=True)) or [()] * 4
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        names = ["tool_name", "result", "result_content", "hash"]
        store.register("changed_texts", pa.Table.from_arrays(arrays, names))
        try:
            return arrow(store, filtered("changed_results", condition))
        finally:
            store.unregister("changed_texts")
