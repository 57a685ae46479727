"""LLM requests that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._filters import ALL, Filters, request_filter
from ._sql import filtered, rows
from ._types import FailedRequest, FailedRequests

if TYPE_CHECKING:
    import duckdb

__all__ = ["failed_requests"]

_TEXT_LIMIT = 10_000  # characters of an error's text


def failed_requests(
    con: duckdb.DuckDBPyConnection, filters: Filters = ALL, *, limit: int = 200, offset: int = 0
) -> FailedRequests:
    """Failed LLM requests, newest first. The tool filter does not apply.

    Whether a repair would have prevented a failure `analyse_requests` says; `verdict` is None here.
    """
    condition, params = request_filter(filters)
    counts = rows(con, filtered("request_counts", condition), params)
    condition, params = request_filter(filters, "q")
    page = {**params, "limit": limit, "offset": offset, "text_limit": _TEXT_LIMIT}
    found = rows(con, filtered("failed_requests", condition), page)
    return FailedRequests(
        requests=sum(row["requests"] for row in counts),
        failed=sum(row["failed"] for row in counts),
        without_messages=sum(row["without_messages"] for row in counts),
        by_status={
            "none" if row["http_status"] is None else str(row["http_status"]): row["failed"]
            for row in counts
            if row["failed"]
        },
        rows=tuple(FailedRequest(**row) for row in found),
    )
