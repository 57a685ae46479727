"""LLM requests that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._filters import ALL, Filters
from ._types import FailedRequests

if TYPE_CHECKING:
    import duckdb

__all__ = ["failed_requests"]


def failed_requests(
    con: duckdb.DuckDBPyConnection, filters: Filters = ALL, *, limit: int = 200, offset: int = 0
) -> FailedRequests:
    """Failed LLM requests, newest first. The tool filter does not apply."""
    raise NotImplementedError
