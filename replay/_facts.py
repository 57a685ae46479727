"""The calls of a store as numbers in memory, kept between questions."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from . import _counting
from ._kept import alive
from ._memory import Memory, StoreState, load, refresh
from ._sql import arrow, rows, sql_text

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..guard import GuardPolicy

__all__ = ["Facts", "facts_of", "forget", "one_state", "span_of"]

_KEPT_STORES = 2  # stores kept in memory
_KEPT_ANSWERS = 100


class Facts:
    """What judging needs of one state of a store.

    A cursor has the tables `facts` (one row per finished call, sql/facts.sql), `runs` (run, run_id,
    parent_run_id, started, asked) and `ancestors` (run, ancestor, run_start_ns: start of `run`) as they
    were in that state. Names are lists; a row holds the index.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.generation = memory.generation
        self.lock = memory.lock
        self.names = memory.names  # by column of `facts`
        self.found: list[Any] | None = None  # the store's incidents, once asked for
        self.memo: dict[Any, Any] = {}  # of `remember`
        self._counted: dict[str, _counting.Counted] = {}  # by counting rule

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """The database in memory."""
        return self.memory.con

    @cached_property
    def runs(self) -> pa.Table:
        """run, run_id, started. Runs are numbered as they come in; `started`, then `run_id` orders them."""
        return arrow(self.cursor(), "SELECT run, run_id, started FROM runs ORDER BY run")

    @cached_property
    def tools(self) -> list[str]:
        """Tool names, most calls first as far as they were there when the store was read."""
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
        con = self.con.cursor()
        for table, view in (("fact_rows", "facts"), ("run_rows", "runs"), ("ancestor_rows", "ancestors")):
            con.execute(
                f"CREATE TEMP VIEW {view} AS SELECT * EXCLUDE (born, died) FROM {table} "  # noqa: S608
                f"WHERE {alive(self.generation)}"
            )
        return con

    def counted(self, store: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> _counting.Counted:
        """The table of calls counted under the policy's counting rule (sql/calls.sql), made when absent.

        It is the name of a table, and stays as long as it is referred to.
        """
        with self.lock:
            rule = policy.rule_id
            if rule not in self._counted:
                self._counted[rule] = _counting.counted(self, store, policy)
            self._counted[rule] = found = self._counted.pop(rule)
            _counting.used(self.memory, rule)
            while len(self._counted) > max(1, len(self.memory.rules)):
                del self._counted[next(iter(self._counted))]
            return found

    def forget_counts(self) -> None:
        """Drop what was counted. For measurements."""
        with self.lock:
            self._counted.clear()
            self.memory.rules.clear()


_cache: OrderedDict[str, Facts] = OrderedDict()  # by path
_cache_lock = Lock()
_building: dict[str, Lock] = {}


def facts_of(con: duckdb.DuckDBPyConnection) -> Facts:
    """The facts of the store behind a leased cursor; from memory as far as the store did not change."""
    state = _state(con)
    if state is None:
        return Facts(load(con, None))
    held = _held.get()
    if held is None:
        return _newest(con, state)
    if state.path not in held or not state.continues(held[state.path][0]):
        held[state.path] = state, _newest(con, state)
    return held[state.path][1]


_Held = dict[str, tuple[StoreState, Facts]]
_held: ContextVar[_Held | None] = ContextVar("loopscope_one_state", default=None)


@contextmanager
def one_state() -> Iterator[None]:
    """Inside, all questions of this thread about calls are answered for one state of each store.

    The first of them finds it. What is folded meanwhile is left for later: figures asked for one after the
    other agree, and nothing is worked out again between them.
    """
    token = _held.set({})
    try:
        yield
    finally:
        _held.reset(token)


def _newest(con: duckdb.DuckDBPyConnection, state: StoreState) -> Facts:
    with _cache_lock:
        known = _cache.get(state.path)
        if known is not None and known.memory.state == state:
            _cache.move_to_end(state.path)
            return known
        building = _building.setdefault(state.path, Lock())
    with building:
        state = _state(con) or state
        with _cache_lock:
            known = _cache.get(state.path)
        if known is not None and known.memory.state == state:
            return known
        facts = None
        if known is not None:
            with known.lock:
                if refresh(known.memory, con, state):
                    facts = Facts(known.memory)
        facts = facts or Facts(load(con, state))
        with _cache_lock:
            _cache[state.path] = facts
            _cache.move_to_end(state.path)
            while len(_cache) > _KEPT_STORES:
                _cache.popitem(last=False)
    return facts


def span_of(facts: Facts, calls: pa.Table) -> dict[str, int] | None:
    """since, until: when the first and the last of some calls (run, seq) began; None where none is known.

    It says where they lie in the store.
    """
    con = facts.cursor()
    con.register("wanted_calls", calls)
    span = rows(con, sql_text("span_of_calls"))[0]
    return None if span["since"] is None else span


def forget() -> None:
    """Drop everything kept in memory. For measurements."""
    with _cache_lock:
        _cache.clear()


def _state(con: duckdb.DuckDBPyConnection) -> StoreState | None:
    """None for a database in memory."""
    state = rows(con, sql_text("state"))[0]
    path = state.pop("path")
    if not path or not os.path.exists(path):
        return None
    return StoreState(os.path.abspath(path), os.stat(path).st_ino, **state)
