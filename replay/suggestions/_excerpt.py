"""A few runs of a store, whole, in a database of their own.

A change that recounts would recount the whole store, and push the rules that pages use out of memory.
What it can change lies in the runs that it touches, and these can be judged alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import duckdb

from ...collector._schema import create_schema
from .._sql import arrow

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["excerpt"]

_CALLS = "SELECT * EXCLUDE (started_at, ended_at) FROM tool_call_rows WHERE run_id IN (SELECT unnest($runs))"
_AROUND = (
    "SELECT DISTINCT parent_run_id FROM tool_call_rows "
    "WHERE run_id IN (SELECT unnest($runs)) AND parent_run_id IS NOT NULL"
)
_AGENTS = (
    "SELECT * EXCLUDE (started_at, ended_at) FROM span_rows "
    "WHERE concat(trace_id, '/', span_id) IN (SELECT unnest($runs)) AND trace_id IN (SELECT unnest($traces))"
)
_TEXTS = """
SELECT hash, check_hash, text FROM contents WHERE hash IN (
    SELECT unnest([arguments_content, result_content, error_message_content])
    FROM tool_call_rows
    WHERE run_id IN (SELECT unnest($runs)) AND ($tool IS NULL OR tool_name = $tool)
)
"""


def excerpt(
    store: duckdb.DuckDBPyConnection, run_ids: Sequence[str], *, texts: bool = False, tool: str | None = None
) -> duckdb.DuckDBPyConnection:
    """A store in memory with these runs and those around them; with `texts` also the longer texts of
    their calls, or of those of one tool."""
    wanted = _with_parents(store, run_ids)
    small = duckdb.connect(":memory:")
    create_schema(small)
    calls = arrow(store, _CALLS, {"runs": wanted})
    _insert(small, "tool_call_rows", calls)
    nested = [run for run in calls.column("parent_run_id").unique().to_pylist() if run is not None]
    if nested:
        traces = sorted({run.partition("/")[0] for run in wanted})
        _insert(small, "span_rows", arrow(store, _AGENTS, {"runs": wanted, "traces": traces}))
    if texts:
        _insert(small, "contents", arrow(store, _TEXTS, {"runs": wanted, "tool": tool}))
    return small


def _with_parents(store: duckdb.DuckDBPyConnection, run_ids: Iterable[str]) -> list[str]:
    """The runs and all runs around them: a block there ends these as well."""
    wanted = set(run_ids)
    new = wanted
    while new:
        found = store.execute(_AROUND, {"runs": sorted(new)}).fetchall()
        new = {parent for (parent,) in found} - wanted
        wanted |= new
    return sorted(wanted)


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    con.register("copied", rows)
    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM copied")  # noqa: S608 - our own names
    con.unregister("copied")
