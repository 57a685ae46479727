"""What fails, how, and does the guard count it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._filters import ALL, Filters
from ._types import ErrorBreakdown

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy

__all__ = ["error_breakdown"]


def error_breakdown(
    con: duckdb.DuckDBPyConnection,
    filters: Filters = ALL,
    policy: GuardPolicy | None = None,
    *,
    buckets: int = 48,
    groups: int = 100,
) -> ErrorBreakdown:
    """Failed calls by tool and kind, over time, and grouped by masked text. No policy: the default one."""
    raise NotImplementedError
