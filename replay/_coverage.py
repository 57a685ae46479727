"""What the figures cover, and what a filter can offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._types import ALL, Coverage, FilterOptions, Filters

if TYPE_CHECKING:
    import duckdb

__all__ = ["coverage", "filter_options"]


def coverage(con: duckdb.DuckDBPyConnection, filters: Filters = ALL) -> Coverage:
    """How much of the calls was recorded, per dialect, with the setting that would record more."""
    raise NotImplementedError


def filter_options(con: duckdb.DuckDBPyConnection) -> FilterOptions:
    """Services, agents, tools, models and dialects in the store (at most 1,000 each, most calls first)."""
    raise NotImplementedError
