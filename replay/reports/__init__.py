"""Incident reports to take away: Markdown, self-contained HTML, JSON, CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._filters import ALL, Filters

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy

__all__ = ["FORMATS", "report"]

FORMATS = ("md", "html", "json", "csv")


def report(
    con: duckdb.DuckDBPyConnection,
    incident_key: str | None,
    policy: GuardPolicy,
    format: str = "md",
    filters: Filters = ALL,
    *,
    db: str = "traces.duckdb",
) -> str:
    """A report of one incident, or (key None) of all under the filter. `db` is named in its commands.

    Byte-stable for the same store, policy and filter.

    Raises:
        NotFoundError: no incident has that key.
        LoopscopeError: `format` is not one of `FORMATS`.
    """
    raise NotImplementedError
