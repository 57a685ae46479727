"""One span as it was recorded, and log records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...guard import NotFoundError
from .._sql import rows, sql_text
from ._list import traces_of
from ._spans import bounds_of
from ._types import LogLine, LogPage, SpanDetail

if TYPE_CHECKING:
    import duckdb

__all__ = ["run_logs", "span_detail"]

_EVER = (-(2**63), 2**63 - 1)


def span_detail(
    con: duckdb.DuckDBPyConnection, trace_id: str, span_id: str, *, text_limit: int = 200_000
) -> SpanDetail:
    """A span with its attributes, events, links and resource as JSON texts, each cut at `text_limit`
    characters.

    Raises:
        NotFoundError: there is no such span. Calls out of log records have none.
    """
    first, last = bounds_of(con, [trace_id])
    params = {
        "trace_id": trace_id,
        "span_id": span_id,
        "first": first,
        "last": last,
        "text_limit": text_limit,
    }
    found = rows(con, sql_text("traces_span"), params)
    if not found:
        raise NotFoundError(f"no span {span_id[:40]!r} in trace {trace_id[:40]!r}")
    return SpanDetail(**found[0])


def run_logs(
    con: duckdb.DuckDBPyConnection,
    run_id: str,
    *,
    trace_id: str | None = None,
    span_id: str | None = None,
    limit: int = 100,
    offset: int = 0,
    text_limit: int = 4_000,
) -> LogPage:
    """Log records of the run's traces, or of one span, in order of time; texts cut at `text_limit`
    characters."""
    traces = traces_of(con, [run_id])
    trace_ids = [trace_id] if trace_id else list(dict.fromkeys(row["trace_id"] for row in traces))
    trace_ids = trace_ids or [run_id.partition("/")[0]]
    params: dict[str, Any] = {"trace_ids": trace_ids, "span_id": span_id, "limit": limit, "offset": offset}
    first, last = _log_times(con, trace_ids)
    found = rows(
        con, sql_text("traces_logs"), {**params, "first": first, "last": last, "text_limit": text_limit}
    )
    total = found[0].pop("total") if found else 0
    for row in found[1:]:
        del row["total"]
    return LogPage(tuple(LogLine(**row) for row in found), total)


def _log_times(con: duckdb.DuckDBPyConnection, trace_ids: list[str]) -> tuple[int, int]:
    found = con.execute(
        "SELECT min(first_log_ns), max(last_log_ns), count(*) FILTER (WHERE session_trace IS NOT NULL) "
        "FROM trace_rows "
        "WHERE trace_id IN (SELECT unnest($ids))",
        {"ids": trace_ids},
    ).fetchall()[0]
    # The records of a session lie in the traces around it, too.
    return _EVER if found[0] is None or found[2] else (found[0], found[1])
