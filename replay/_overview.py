"""Is anything looping now, and what does it cost?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._filters import ALL, Filters
from ._types import Overview

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy

__all__ = ["overview"]


def overview(
    con: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters = ALL, *, buckets: int = 48
) -> Overview:
    """One sentence, figures, calls over time by verdict, tools and agents, newest incidents."""
    raise NotImplementedError
