"""Which runs there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._engine import Judging
from .._facts import Facts, facts_of
from .._filters import ALL, Filters, call_filter, request_filter
from .._incidents import all_incidents
from .._sql import arrow, rows, sql_text
from ._types import RunPage, RunRow, RunSort, RunStatus

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy

__all__ = ["list_runs", "rows_of", "run_rows", "statuses", "traces_of"]

_SORTS = {
    RunSort.NEWEST: "l.last_ns",
    RunSort.REPEATS: "repeats",
    RunSort.CALLS: "l.calls",
    RunSort.LONGEST: "l.last_ns - l.first_ns",
    RunSort.TOKENS: "l.input_tokens + coalesce(l.output_tokens, 0)",
    RunSort.COST: "l.cost",
}
_SUMS = ("total", "total_calls", "total_requests", "total_repeating", "total_with_incidents")
_SEARCHED = (
    "(starts_with({0}run_id, $search) OR starts_with({0}trace_id, $search) "
    "OR starts_with({0}session_id, $search))"
)


def list_runs(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    filters: Filters = ALL,
    *,
    sort: RunSort = RunSort.NEWEST,
    search: str = "",
    limit: int = 50,
    offset: int = 0,
) -> RunPage:
    """Runs with a call or request under the filters, `limit` of them from `offset` on.

    `search` is what a run id, a trace id or a session id begins with. A tool filter leaves runs that
    called it.
    """
    facts = facts_of(con)
    calls, params = call_filter(filters, "c")
    requests, more = request_filter(filters, "q")
    params |= more
    if filters.tools:
        requests = "FALSE"
    if search:
        calls, requests = (
            f"{part} AND {_SEARCHED.format(at)}" for part, at in ((calls, "c."), (requests, "q."))
        )
        params["search"] = search
    found = rows_of(con, facts, policy, calls, requests, params, sort, limit, offset)
    if not found and offset:  # behind the end
        return replace(list_runs(con, policy, filters, sort=sort, search=search), rows=())
    sums = [found[0][name] if found else 0 for name in _SUMS]
    return RunPage(tuple(run_rows(con, found)), *sums)


def rows_of(
    con: duckdb.DuckDBPyConnection,
    facts: Facts,
    policy: GuardPolicy,
    calls: str,
    requests: str,
    params: dict[str, Any],
    sort: RunSort = RunSort.NEWEST,
    limit: int = 1,
    offset: int = 0,
) -> list[dict[str, Any]]:
    """Rows of sql/traces_list.sql. `calls` and `requests` are conditions: fixed text with parameters."""
    query = sql_text("traces_list")
    query = query.replace("TRUE /* calls */", calls).replace("TRUE /* requests */", requests)
    query = query.replace("l.last_ns /* by */", _SORTS[sort])
    if (calls, requests) == ("TRUE", "TRUE"):
        query = query.replace("run_id IN (SELECT run_id FROM wanted) /* all */", "TRUE")
    con.register("run_repeats", _repeats(facts, con, policy))
    con.register("run_incidents", _incidents(facts, con))
    used = {name: value for name, value in params.items() if f"${name}" in query}
    try:
        return rows(con, query, {**used, "limit": limit, "offset": offset})
    finally:
        con.unregister("run_repeats")
        con.unregister("run_incidents")


def _repeats(facts: Facts, con: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> Any:
    def ask() -> Any:
        found = Judging(facts, con, policy).arrow("traces_repeats", {})
        memory = facts.cursor()
        memory.register("found", found)
        return arrow(
            memory, "SELECT r.run_id, f.* EXCLUDE (run) FROM found AS f JOIN runs AS r ON r.run = f.run"
        )

    return facts.remember(("run repeats", policy.policy_hash), ask)


def _incidents(facts: Facts, con: duckdb.DuckDBPyConnection) -> Any:
    import pyarrow as pa

    def ask() -> Any:
        numbers: dict[str, int] = {}
        for one in all_incidents(facts, con):
            numbers[one.incident.run_id] = numbers.get(one.incident.run_id, 0) + 1
        columns = (pa.array(list(numbers), pa.string()), pa.array(list(numbers.values()), pa.int64()))
        return pa.Table.from_arrays(list(columns), ["run_id", "incidents"])

    return facts.remember("run incidents", ask)


def run_rows(con: duckdb.DuckDBPyConnection, found: Sequence[dict[str, Any]]) -> list[RunRow]:
    """Rows with how each run ended."""
    ended = statuses(con, [(row["run_id"], row["run_source"]) for row in found])
    made: list[RunRow] = []
    for row in found:
        values = {name: value for name, value in row.items() if name not in _SUMS}
        status, start_ns, end_ns, _ = ended.get(row["run_id"], (None, None, None, None))
        if row["run_source"] == "agent_span":
            values["first_ns"] = min(values["first_ns"], values["first_ns"] if start_ns is None else start_ns)
            values["last_ns"] = max(values["last_ns"], end_ns or 0)
        made.append(RunRow(**values, status=status))
    return made


def traces_of(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The traces of runs: run_id, trace_id, first_start_ns, last_start_ns, spans, logs, …"""
    return rows(con, sql_text("traces_of_runs"), {"run_ids": list(run_ids)}) if run_ids else []


def statuses(
    con: duckdb.DuckDBPyConnection, runs: Sequence[tuple[str, str]]
) -> dict[str, tuple[RunStatus, int, int | None, int]]:
    """How runs (run_id, run_source) ended, by run id: status, start, end and when that came in.

    Runs without recorded spans are left out.
    """
    import pyarrow as pa

    places: list[tuple[str, str, str | None]] = []
    sources = dict(runs)
    found = traces_of(con, list(sources))
    for row in found:
        trace_id, _, span_id = row["run_id"].partition("/")
        if sources[row["run_id"]] != "agent_span":
            places.append((row["run_id"], row["trace_id"], None))
        elif trace_id == row["trace_id"]:
            places.append((row["run_id"], trace_id, span_id))
    starts = [row["first_start_ns"] for row in found if row["first_start_ns"] is not None]
    ends = [row["last_start_ns"] for row in found if row["last_start_ns"] is not None]
    if not places or not starts:
        return {}
    arrays = [pa.array([place[at] for place in places], pa.string()) for at in range(3)]
    con.register("run_spans", pa.Table.from_arrays(arrays, ["run_id", "trace_id", "span_id"]))
    try:
        rows_found = rows(con, sql_text("traces_status"), {"first": min(starts), "last": max(ends)})
    finally:
        con.unregister("run_spans")
    return {
        row["run_id"]: (_status(row), row["start_ns"], row["end_ns"], row["received_ns"])
        for row in rows_found
    }


def _status(row: dict[str, Any]) -> RunStatus:
    if row["running"]:
        return "running"
    return {0: "unset", 1: "ok"}.get(row["status_code"], "error")  # pyright: ignore[reportReturnType]
