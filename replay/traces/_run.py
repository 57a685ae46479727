"""What one run was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...guard import NotFoundError
from .._coverage import coverage
from .._facts import facts_of
from .._filters import Filters
from .._incidents import all_incidents, mark
from .._sql import rows, sql_text
from ._list import rows_of, run_rows, statuses, traces_of
from ._types import RunHead, RunRow

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy

__all__ = ["find_run", "run_head"]

_NESTED = 50
_INCIDENTS = 50


def find_run(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """The id of the run that a text names: a run id, or a trace id. Raises NotFoundError.

    A trace with several runs is given whole, under its own id, and so is one that has spans alone.
    """
    (known,) = con.execute(
        "SELECT EXISTS(FROM tool_call_rows WHERE run_id = $id) OR EXISTS(FROM llm_request_rows WHERE "
        "run_id = $id)",
        {"id": text},
    ).fetchall()
    if known[0]:
        return text
    found = con.execute(
        "SELECT run_id FROM tool_call_rows WHERE trace_id = $id UNION "
        "SELECT run_id FROM llm_request_rows WHERE trace_id = $id LIMIT 2",
        {"id": text},
    ).fetchall()
    if len(found) == 1:
        return found[0][0]
    trace_id, _, span_id = text.partition("/")
    if found or _spans_of(con, trace_id, span_id):
        return text
    shown = text if len(text) <= 80 else f"{text[:79]}…"
    raise NotFoundError(f"no run {shown!r} in this database")


def _spans_of(con: duckdb.DuckDBPyConnection, trace_id: str, span_id: str) -> bool:
    bounds = con.execute(
        "SELECT first_start_ns, last_start_ns FROM trace_rows WHERE trace_id = ? AND spans > 0", [trace_id]
    ).fetchall()
    if not bounds or not span_id:
        return bool(bounds)
    found = con.execute(
        "SELECT 1 FROM span_rows WHERE trace_id = ? AND span_id = ? AND start_ns BETWEEN ? AND ?",
        [trace_id, span_id, *bounds[0]],
    ).fetchall()
    return bool(found)


def run_head(con: duckdb.DuckDBPyConnection, run_id: str, policy: GuardPolicy) -> RunHead:
    """What the run was, how it ended, its incidents. Raises NotFoundError.

    `run_id` is one that `find_run` gives; of a whole trace the figures are those of all its runs.
    """
    facts = facts_of(con)
    named = "{}.run_id = $run_id"
    found = rows_of(con, facts, policy, named.format("c"), named.format("q"), {"run_id": run_id})
    info = rows(con, sql_text("run_info"), {"run_id": run_id})[0]
    if found:
        run = run_rows(con, found)[0]
        traces = traces_of(con, [run_id])
    else:
        run, traces = _whole_trace(con, run_id)
    ended = statuses(con, [(run_id, run.run_source)]) if found else {}
    incidents = [one for one in all_incidents(facts, con) if one.incident.run_id == run_id]
    if not found:
        incidents = [one for one in all_incidents(facts, con) if one.incident.trace_id == run_id]
    nested = rows(con, sql_text("traces_nested"), {"run_id": run_id, "limit": _NESTED + 1})
    return RunHead(
        run=replace(run, incidents=len(incidents)),
        trace_ids=tuple(dict.fromkeys(row["trace_id"] for row in traces)),
        agents=tuple(info["agents"]),
        models=tuple(info["models"]),
        dialects=tuple(info["dialects"]),
        spans=sum(row["spans"] for row in traces),
        logs=sum(row["logs"] for row in traces),
        received_ns=ended[run_id][3] if run_id in ended else None,
        incidents=tuple(mark(facts, con, incidents[:_INCIDENTS], policy)),
        nested=tuple((row["run_id"], row["agent_name"], row["calls"]) for row in nested[:_NESTED]),
        nested_cut=len(nested) > _NESTED,
        coverage=coverage(con, Filters(run_ids=(run_id,))),
    )


def _whole_trace(con: duckdb.DuckDBPyConnection, run_id: str) -> tuple[RunRow, list[dict[str, Any]]]:
    """A trace that is no run, or an agent's span without calls and requests of its own."""
    trace_id, _, span_id = run_id.partition("/")
    traces = rows(
        con,
        "SELECT trace_id, first_start_ns, last_start_ns, spans, logs FROM trace_rows WHERE trace_id = $id",
        {"id": trace_id},
    )
    bounds = traces[0] if traces else {}
    spans = rows(
        con,
        "SELECT min(service_name) AS service_name, min(start_ns) AS first_ns, max(coalesce(end_ns, "
        "start_ns)) AS last_ns, "
        "bool_or(end_ns IS NULL) AS running, max(CASE WHEN parent_span_id IS NULL OR span_id = $span "
        "THEN status_code "
        "END) AS status FROM span_rows WHERE trace_id = $id AND start_ns BETWEEN $first AND $last "
        "AND ($span = '' OR span_id = $span)",
        {
            "id": trace_id,
            "span": span_id,
            "first": bounds.get("first_start_ns") or 0,
            "last": bounds.get("last_start_ns") or 0,
        },
    )[0]
    if spans["first_ns"] is None:
        raise NotFoundError(f"no run {run_id[:80]!r} in this database")
    sums = rows(
        con,
        "SELECT (SELECT count(seq) FROM tool_call_rows WHERE trace_id = $id) AS calls, "
        "(SELECT count(*) FROM llm_request_rows WHERE trace_id = $id) AS requests",
        {"id": trace_id},
    )[0]
    status = "running" if spans["running"] else {0: "unset", 1: "ok", 2: "error"}.get(spans["status"] or 0)
    run = RunRow(
        run_id=run_id,
        run_source="agent_span" if span_id else "trace",
        parent_run_id=None,
        session_id=None,
        service_name=spans["service_name"],
        agent_name=None,
        several_agents=False,
        model=None,
        several_models=False,
        trace_id=trace_id,
        dialect="",
        first_ns=spans["first_ns"],
        last_ns=spans["last_ns"],
        calls=0 if span_id else sums["calls"],
        calls_not_ended=0,
        failed_calls=0,
        requests=0 if span_id else sums["requests"],
        failed_requests=0,
        input_tokens=None,
        output_tokens=None,
        cost=None,
        repeats=0,
        nudged=0,
        blocked=0,
        after_block=0,
        incidents=0,
        guarded=False,
        status=status,  # pyright: ignore[reportArgumentType]
    )
    return run, traces
