"""The calls of a store as numbers in memory, kept between questions.

A store lets go of its file between questions, and with it of every temporary table. Judging needs
few columns, so they are copied once per state of the store into a private in-memory database
(1 M calls: about 0.2 s and 70 MB). A moved threshold then reads only that.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any

import duckdb

from ._sql import arrow, rows, sql_text

if TYPE_CHECKING:
    import pyarrow as pa

    from ..guard import GuardPolicy

__all__ = ["Facts", "facts_of", "forget"]

_KEPT_STORES = 2  # states of stores kept in memory
_KEPT_RULES = 3  # counting rules kept per state: saved, draft, default

_KEPT_ANSWERS = 100

_NAMES = ("tool", "agent", "service", "dialect", "kind")


@dataclass(eq=False)
class Facts:
    """What judging needs of one state of a store.

    `con` is the in-memory database: table `facts` (one row per finished call, sql/facts.sql), `runs`
    (run, run_id), `ancestors` (run, ancestor, run_start_ns: start of `run`). Names are lists; a row
    holds the index.
    """

    con: duckdb.DuckDBPyConnection
    names: dict[str, list[str | None]]  # by column of `facts`
    found: list[Any] | None = None  # the store's incidents, once asked for
    memo: dict[Any, Any] = field(default_factory=dict)  # of `remember`
    lock: RLock = field(default_factory=RLock)
    _rules: OrderedDict[str, str] = field(default_factory=OrderedDict)

    @cached_property
    def runs(self) -> pa.Table:
        """run, run_id."""
        return arrow(self.cursor(), "SELECT run, run_id FROM runs ORDER BY run")

    @cached_property
    def tools(self) -> list[str]:
        """Tool names, most calls first."""
        return [name or "" for name in self.names["tool"]]

    def ids(self, column: str, names: Iterable[str]) -> list[int]:
        """Numbers of the given names; unknown names have none."""
        wanted = set(names)
        return [number for number, name in enumerate(self.names[column]) if name in wanted]

    def remember(self, key: Any, answer: Callable[[], Any]) -> Any:
        """The answer to a question about the store alone, asked once."""
        with self.lock:
            if key not in self.memo:
                if len(self.memo) >= _KEPT_ANSWERS:
                    self.memo.clear()
                self.memo[key] = answer()
            return self.memo[key]

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor of its own for this thread."""
        return self.con.cursor()

    def counted(self, store: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> str:
        """The table of calls counted under the policy's counting rule (sql/calls.sql), made when absent."""
        with self.lock:
            rule = policy.rule_id
            table = self._rules.get(rule)
            if table is None:
                from ._counting import count_calls

                table = f"calls_{rule}"
                count_calls(self, store, policy, table)
                self._rules[rule] = table
                if len(self._rules) > _KEPT_RULES:
                    _, old = self._rules.popitem(last=False)
                    self.con.execute(f"DROP TABLE {old}")
            self._rules.move_to_end(rule)
            return table


_cache: OrderedDict[tuple[Any, ...], Facts] = OrderedDict()
_cache_lock = Lock()
_building: dict[tuple[Any, ...], Lock] = {}


def facts_of(con: duckdb.DuckDBPyConnection) -> Facts:
    """The facts of the store behind a leased cursor, from memory if the store did not change."""
    key = _state(con)
    if key is None:
        return _load(con)
    with _cache_lock:
        if key in _cache:
            _cache.move_to_end(key)
            return _cache[key]
        building = _building.setdefault(key, Lock())
    with building:
        with _cache_lock:
            if key in _cache:
                return _cache[key]
        facts = _load(con)
        with _cache_lock:
            for other in [other for other in _cache if other[0] == key[0]]:
                del _cache[other]  # an older state of the same file
            _cache[key] = facts
            while len(_cache) > _KEPT_STORES:
                _cache.popitem(last=False)
            _building.pop(key, None)
    return facts


def forget() -> None:
    """Drop everything kept in memory. For measurements."""
    with _cache_lock:
        _cache.clear()


def _state(con: duckdb.DuckDBPyConnection) -> tuple[Any, ...] | None:
    """What changes whenever the store does; None for a database in memory.

    The version alone would mistake a new file under an old name for the old one.
    """
    state = con.execute(sql_text("state")).fetchall()[0]
    path = state[0]
    if not path or not os.path.exists(path):
        return None
    return (os.path.abspath(path), os.stat(path).st_ino, *state[1:])


def _load(store: duckdb.DuckDBPyConnection) -> Facts:
    registered: list[str] = []

    def offer(name: str, table: pa.Table) -> None:
        store.register(name, table)
        registered.append(name)

    try:
        runs = arrow(store, sql_text("runs"))
        offer("run_names", runs)
        names: dict[str, list[str | None]] = {}
        for column in _NAMES:
            table = arrow(store, sql_text("names"), {"column": column})
            offer(f"{column}_names", table)
            names[column] = table.column("name").to_pylist()
        facts = arrow(store, sql_text("facts"))
        nested = _nested(store)
    finally:
        for name in registered:
            store.unregister(name)
    memory = duckdb.connect(":memory:")
    memory.register("arrow_facts", facts)
    memory.register("arrow_runs", runs)
    memory.execute("CREATE TABLE facts AS SELECT * FROM arrow_facts")
    memory.execute("CREATE TABLE runs AS SELECT CAST(run AS INTEGER) AS run, run_id FROM arrow_runs")
    memory.unregister("arrow_facts")
    memory.unregister("arrow_runs")
    memory.execute("CREATE TABLE ancestors (run INTEGER, ancestor INTEGER, run_start_ns BIGINT)")
    if nested:
        memory.executemany("INSERT INTO ancestors VALUES (?, ?, ?)", nested)
    return Facts(memory, names)


def _nested(store: duckdb.DuckDBPyConnection) -> list[tuple[int, int, int]]:
    """(run, each run around it, start of run) for every nested run. Needs the table `run_names`."""
    import pyarrow as pa

    mine = rows(store, "SELECT * FROM run_names WHERE parent_run_id IS NOT NULL ORDER BY run")
    if not mine:
        return []
    spans = [row["run_id"].partition("/") for row in mine]
    table = {
        "run": [row["run"] for row in mine],
        "trace_id": [trace_id for trace_id, _, _ in spans],
        "span_id": [span_id for _, _, span_id in spans],
    }
    store.register("nested_runs", pa.table(table))
    try:
        starts = {row["run"]: row["start_ns"] for row in rows(store, sql_text("nested_starts"))}
    finally:
        store.unregister("nested_runs")
    # A parent that has neither calls nor requests is not among the runs; the chain ends there.
    numbers: dict[str, int] = dict(
        store.execute(
            "SELECT run_id, run FROM run_names WHERE run_id IN (SELECT parent_run_id FROM run_names)"
        ).fetchall()
    )
    parents = {row["run_id"]: row["parent_run_id"] for row in mine}
    found: list[tuple[int, int, int]] = []
    for row in mine:
        start = starts.get(row["run"], row["start_ns"])
        seen = {row["run_id"]}
        parent = row["parent_run_id"]
        while parent is not None and parent not in seen:
            seen.add(parent)
            if parent in numbers:
                found.append((row["run"], numbers[parent], start))
            parent = parents.get(parent)
    return found
