"""LLM requests that failed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ._filters import ALL, Filters, request_filter
from ._sql import filtered, rows
from ._types import FailedRequest, FailedRequests
from .requests._cancelled import CANCELLED, cancelled_counts, was_cancelled

if TYPE_CHECKING:
    import duckdb

__all__ = ["failed_requests"]

_TEXT_LIMIT = 10_000  # characters of an error's text


def failed_requests(
    con: duckdb.DuckDBPyConnection, filters: Filters = ALL, *, limit: int = 200, offset: int = 0
) -> FailedRequests:
    """Failed LLM requests, newest first, and those that were cancelled. The tool filter does not apply.

    Whether a repair would have prevented a failure `analyse_requests` says; `verdict` is None here.
    """
    condition, params = request_filter(filters)
    counts = rows(con, filtered("request_counts", condition), params)
    condition, params = request_filter(filters, "q")
    page = {**params, "limit": limit, "offset": offset, "text_limit": _TEXT_LIMIT}
    found = rows(con, filtered("failed_requests", condition, "error_texts"), page)
    for row in found:
        if was_cancelled(row):
            row["error_class"] = CANCELLED
    cancelled = cancelled_counts(con, filters)
    gone = Counter[int | None]()
    for row in cancelled:
        gone[row["http_status"]] += row["requests"]
    return FailedRequests(
        requests=sum(row["requests"] for row in counts),
        failed=sum(row["failed"] for row in counts) - gone.total(),
        without_messages=sum(row["without_messages"] for row in counts)
        - sum(row["without_messages"] for row in cancelled),
        by_status={
            "none" if row["http_status"] is None else str(row["http_status"]): failed
            for row in counts
            if (failed := row["failed"] - gone[row["http_status"]])
        },
        rows=tuple(FailedRequest(**row) for row in found),
        cancelled=gone.total(),
    )
