"""What judging needs of a store, copied into a database in memory and brought up to date trace by trace.

A store lets go of its file between questions, and with it of every temporary table. Judging needs few
columns, so they are copied once (1 M calls: 0.5 s and 110 MB); after a fold only the runs of the traces that
it changed are read again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from ._kept import alive, make, replace_rows
from ._sql import arrow, filtered, rows, sql_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NAMES", "Memory", "StoreState", "load", "refresh"]

NAMES = ("tool", "agent", "service", "dialect", "kind")
"""Columns of `facts` that hold numbers of names."""

_EVER = {"since": -(2**63), "until": 2**63 - 1}
_NESTED = "SELECT DISTINCT run_id FROM mentions WHERE parent_run_id IS NOT NULL"
_AT_ONCE = 250_000  # calls that are copied at once; all of 10 M at once would take 1 GB more
# Rows that are gone are still looked at and take memory: with more of them than this, all is read again.
_MOST_DEAD, _DEAD_SHARE = 100_000, 0.2
_MOST_CHANGED = 0.2  # of all runs; reading all again takes less than replacing so many


class StoreState(NamedTuple):
    """What changes whenever the store does (sql/state.sql), and the file's number."""

    path: str
    inode: int
    store_id: str | None
    removals: str | None
    version: int
    serial: int
    calls: int
    requests: int

    def continues(self, other: StoreState) -> bool:
        """Is this a later state of the same file, with nothing removed in between?"""
        return self[:4] == other[:4] and self.version >= other.version and self.serial >= other.serial


@dataclass(eq=False)
class Memory:
    """The copy of one store. Tables whose rows have `born` and `died` (see _kept.py): `fact_rows`
    (sql/facts.sql), `run_rows` (run, run_id, parent_run_id, started, asked), `ancestor_rows` (run, ancestor,
    run_start_ns); further the names by number, and `run_traces` (run, trace).
    """

    con: duckdb.DuckDBPyConnection
    names: dict[str, list[str | None]]  # by column of `facts`; they are only added to
    state: StoreState | None
    generation: int = 0
    dead: int = 0  # rows of `fact_rows` that are gone
    changed: dict[int, frozenset[int]] = field(default_factory=dict)  # by generation: runs replaced in it
    rules: OrderedDict[str, Any] = field(default_factory=OrderedDict)  # of Facts.counted
    found: tuple[int, list[Any]] | None = None  # a generation and its incidents
    stretches: int = 0  # that were numbered
    bases: dict[tuple[str, str], tuple[int, list[Any]]] = field(default_factory=dict)  # of _totals
    lock: RLock = field(default_factory=RLock)

    def changed_since(self, generation: int, until: int) -> frozenset[int]:
        """Runs that were replaced after one generation, up to another."""
        parts = (self.changed.get(number, frozenset()) for number in range(generation + 1, until + 1))
        return frozenset().union(*parts)


@contextmanager
def _snapshot(store: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A cursor that sees one state of the store, whatever is committed meanwhile."""
    cursor = store.cursor()
    try:
        cursor.execute("BEGIN")
        yield cursor
    finally:
        cursor.close()


def load(store: duckdb.DuckDBPyConnection, state: StoreState | None) -> Memory:
    """Everything, read anew. `state` was read before: what is committed since is at worst read twice."""
    memory = Memory(duckdb.connect(":memory:"), {}, state)
    con = memory.con.cursor()
    with _snapshot(store) as seen:
        con.register("mentions", arrow(seen, sql_text("mentions")))
        nested = con.sql(_NESTED).to_arrow_table()
        con.register("nested_starts", _nested_starts(seen, nested, _EVER))
        con.execute("CREATE TEMP TABLE run_names (run INTEGER, run_id VARCHAR)")
        made = con.sql(sql_text("runs"), params={"last": 0}).to_arrow_table()
        con.register("made_runs", made)
        make(con, "run_rows", "SELECT * FROM made_runs ORDER BY run", 0)
        # First traces first: what comes in later then lies together, and is found without a look at the rest.
        traces = con.sql(
            "SELECT trace_id AS name FROM mentions GROUP BY trace_id ORDER BY min(start_ns), trace_id"
        ).to_arrow_table()
        lists = {"trace": traces}
        for column in (*NAMES, "session"):
            lists[column] = arrow(seen, sql_text("names"), {"column": column})
        for column, listed in lists.items():
            table = _numbered(listed)
            seen.register(f"{column}_names", table)
            con.register("offered", table)
            con.execute(f"CREATE TABLE {column}_names AS SELECT * FROM offered")  # noqa: S608
            con.unregister("offered")
            if column in NAMES:
                memory.names[column] = table.column("name").to_pylist()
        con.execute(
            "CREATE TABLE run_traces AS SELECT r.run, t.id AS trace FROM mentions AS m "
            "JOIN run_rows AS r ON r.run_id = m.run_id JOIN trace_names AS t ON t.name = m.trace_id"
        )
        seen.register("run_names", made.select(["run", "run_id"]))
        con.register("arrived", seen.sql(sql_text("facts")).to_arrow_reader(_AT_ONCE))
        make(con, "fact_rows", "SELECT * FROM arrived", 0)
        con.unregister("arrived")
    con.execute("CREATE TEMP VIEW runs AS SELECT * FROM run_rows")
    con.execute("CREATE TEMP VIEW nested_runs AS SELECT * FROM run_rows WHERE parent_run_id IS NOT NULL")
    make(con, "ancestor_rows", sql_text("ancestors"), 0)
    con.close()
    return memory


def refresh(memory: Memory, store: duckdb.DuckDBPyConnection, state: StoreState) -> bool:
    """Bring the copy up to `state`; False, with nothing changed, where it has to be loaded anew.

    The generation grows by one where anything changed. The caller holds the lock.
    """
    before = memory.state
    if before is None or not state.continues(before):
        return False
    with _snapshot(store) as seen:
        con = memory.con.cursor()
        try:
            con.execute("BEGIN")
            done = _Refresh(memory, con, seen, before.serial).run()
            finished = (
                arrow(seen, "SELECT count(seq) AS calls FROM tool_call_rows").column("calls")[0].as_py()
            )
            there = con.execute("SELECT count(*) FROM fact_rows").fetchall()[0][0]
            if done is None or finished != there - done.dead:
                con.execute("ROLLBACK")
                return False
            con.execute("COMMIT")
        finally:
            con.close()
    memory.state = state
    if done.runs:
        memory.generation += 1
        memory.changed[memory.generation] = done.runs
        memory.dead = done.dead
    return True


class _Done(NamedTuple):
    runs: frozenset[int]  # that were read again
    dead: int


class _Refresh:
    def __init__(
        self,
        memory: Memory,
        con: duckdb.DuckDBPyConnection,
        seen: duckdb.DuckDBPyConnection,
        serial: int,
    ) -> None:
        self.memory = memory
        self.con = con  # in the memory
        self.seen = seen  # in the store
        self.serial = serial
        self.generation = memory.generation + 1

    def run(self) -> _Done | None:
        """Replace what changed; None where it is too much."""
        traces = arrow(self.seen, sql_text("changed_traces"), {"serial": self.serial})
        if not traces.num_rows:
            return _Done(frozenset(), self.memory.dead)
        self._offer("changed_traces", traces)
        span = rows(self.con, "SELECT min(first_ns) AS since, max(last_ns) AS until FROM changed_traces")[0]
        span = {name: _EVER[name] if value is None else value for name, value in span.items()}
        mentioned = arrow(self.seen, sql_text("changed_runs"), span)
        self.con.register("mentioned_runs", mentioned)
        # Also those that were there before: a run may be another one now.
        self.con.execute(
            "CREATE TEMP VIEW runs_before AS SELECT * FROM run_rows "  # noqa: S608
            f"WHERE {alive(self.memory.generation)}"
        )
        wanted = arrow(self.con, sql_text("wanted_runs"))
        runs = self.con.execute("SELECT count(*) FROM run_rows").fetchall()[0][0]
        if wanted.num_rows > 100 and wanted.num_rows > runs * _MOST_CHANGED:
            return None
        self._offer("wanted_runs", wanted)
        if self.con.execute("SELECT max(spanning) FROM wanted_runs").fetchall()[0][0]:
            span = _EVER
        numbers = self._replace_runs(span)
        self._replace_nesting()
        gone = self._replace_facts(span)
        dead = self.memory.dead + gone
        held = self.con.execute("SELECT count(*) FROM fact_rows").fetchall()[0][0]
        if dead > max(_MOST_DEAD, _DEAD_SHARE * held):
            return None
        return _Done(numbers, dead)

    def _offer(self, name: str, table: pa.Table) -> None:
        self.seen.register(name, table)
        self.con.register(name, table)

    def _replace_runs(self, span: dict[str, int]) -> frozenset[int]:
        wanted = "run_id IN (SELECT run_id FROM wanted_runs) AND start_ns BETWEEN $since AND $until"
        mentions = arrow(self.seen, filtered("mentions", wanted), span)
        self.con.register("mentions", mentions)
        nested = self.con.sql(_NESTED).to_arrow_table()
        self.con.register("nested_starts", _nested_starts(self.seen, nested, span))
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE run_names AS SELECT run, run_id FROM run_rows "  # noqa: S608
            f"WHERE {alive(self.memory.generation)} AND run_id IN (SELECT run_id FROM wanted_runs)"
        )
        last = self.con.execute("SELECT coalesce(max(run), 0) FROM run_rows").fetchall()[0][0]
        made = self.con.sql(sql_text("runs"), params={"last": last}).to_arrow_table()
        self.con.register("made_runs", made)
        replace_rows(
            self.con,
            "run_rows",
            ["run"],
            "SELECT * FROM made_runs ORDER BY run",
            "run IN (SELECT run FROM run_names)",
            self.generation,
        )
        self.con.execute(
            "CREATE TEMP TABLE changed_runs AS "
            "SELECT run, run_id FROM made_runs UNION SELECT run, run_id FROM run_names"
        )
        self._add_names("trace", "SELECT DISTINCT trace_id AS name FROM mentions")
        self.con.execute(
            "INSERT INTO run_traces SELECT r.run, t.id FROM mentions AS m "
            "JOIN changed_runs AS r ON r.run_id = m.run_id JOIN trace_names AS t ON t.name = m.trace_id "
            "EXCEPT SELECT run, trace FROM run_traces WHERE run IN (SELECT run FROM run_names)"
        )
        return frozenset(run for (run,) in self.con.execute("SELECT run FROM changed_runs").fetchall())

    def _replace_nesting(self) -> None:
        """The runs around the changed ones, and around those that lie in the changed ones."""
        self.con.execute(
            f"CREATE TEMP VIEW runs AS SELECT * FROM run_rows WHERE {alive(self.generation)}"  # noqa: S608
        )
        self.con.execute(
            "CREATE TEMP TABLE nested_runs AS "
            "WITH RECURSIVE inside AS (SELECT run_id FROM changed_runs UNION "
            "SELECT r.run_id FROM inside AS i JOIN runs AS r ON r.parent_run_id = i.run_id) "
            "SELECT r.run, r.run_id, r.parent_run_id, r.started FROM runs AS r "
            "JOIN inside AS i ON i.run_id = r.run_id WHERE r.parent_run_id IS NOT NULL"
        )
        replace_rows(
            self.con,
            "ancestor_rows",
            ["run", "ancestor"],
            sql_text("ancestors"),
            "run IN (SELECT run FROM nested_runs UNION SELECT run FROM changed_runs)",
            self.generation,
        )

    def _replace_facts(self, span: dict[str, int]) -> int:
        arrived = arrow(self.seen, sql_text("arrived"), span)
        self.con.register("tool_call_rows", arrived)
        for column in (*NAMES, "session"):
            self._add_names(column, _with(sql_text("names"), column))
        self.con.execute("DROP TABLE run_names; CREATE TEMP VIEW run_names AS SELECT * FROM changed_runs")
        bounds = self.con.execute("SELECT min(run), max(run) FROM changed_runs").fetchall()[0]
        low, high = (0 if bound is None else bound for bound in bounds)
        return replace_rows(
            self.con,
            "fact_rows",
            ["run", "seq"],
            sql_text("facts"),
            f"run BETWEEN {low} AND {high} AND run IN (SELECT run FROM changed_runs)",  # noqa: S608
            self.generation,
        )

    def _add_names(self, column: str, query: str) -> None:
        """Number the names that a query (name) has and the table has not."""
        import pyarrow as pa

        table = f"{column}_names"
        new = self.con.execute(
            f"SELECT q.name FROM ({query}) AS q "  # noqa: S608
            f"LEFT JOIN {table} AS n ON n.name IS NOT DISTINCT FROM q.name "
            "WHERE n.id IS NULL ORDER BY q.name"
        ).fetchall()
        if not new:
            return
        if column in NAMES:
            known = self.memory.names[column]
            for (name,) in new:
                if name not in known:  # a policy may have added it
                    known.append(name)
            ids = [known.index(name) for (name,) in new]
        else:
            first = self.con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]  # noqa: S608
            ids = list(range(first, first + len(new)))
        pairs = pa.table(
            {"name": pa.array([name for (name,) in new], pa.string()), "id": pa.array(ids, pa.int32())}
        )
        self.con.register("new_names", pairs)
        self.con.execute(f"INSERT INTO {table} SELECT * FROM new_names")  # noqa: S608
        self.con.unregister("new_names")


def _with(query: str, column: str) -> str:
    return query.replace("$column", f"'{column}'")


def _numbered(names: pa.Table) -> pa.Table:
    import pyarrow as pa

    return names.append_column("id", pa.array(range(names.num_rows), pa.int32()))


def _nested_starts(seen: duckdb.DuckDBPyConnection, nested: pa.Table, span: dict[str, int]) -> pa.Table:
    """run_id, start_ns of the agent spans of nested runs (`nested`: run_id)."""
    import pyarrow as pa

    names = nested.column("run_id").to_pylist()
    parts = [name.partition("/") for name in names]
    table = pa.table(
        {
            "run_id": pa.array(names, pa.string()),
            "trace_id": pa.array([part[0] for part in parts], pa.string()),
            "span_id": pa.array([part[2] for part in parts], pa.string()),
        }
    )
    seen.register("nested_runs", table)
    try:
        if names:
            return arrow(seen, sql_text("nested_starts"), span)
        return pa.table({"run_id": pa.array([], pa.string()), "start_ns": pa.array([], pa.int64())})
    finally:
        seen.unregister("nested_runs")
