"""Incidents: stretches of calls that went round in a circle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._filters import ALL, Filters
from ._types import Incident, IncidentDetail

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy

__all__ = ["find_incidents", "incident_detail"]


def find_incidents(
    con: duckdb.DuckDBPyConnection, filters: Filters = ALL, policy: GuardPolicy | None = None
) -> list[Incident]:
    """All incidents that touch the filter, worst (most repeated calls) first.

    They do not depend on thresholds. With a `policy` each incident also says where that policy's
    nudge and block fall.
    """
    raise NotImplementedError


def incident_detail(
    con: duckdb.DuckDBPyConnection,
    key: str,
    policy: GuardPolicy,
    *,
    text_limit: int = 100_000,
    call_limit: int = 1_000,
) -> IncidentDetail:
    """One incident with its calls in order. `key` may be cut to an unambiguous prefix of 6 or more.

    Raises:
        NotFoundError: no incident has that key.
    """
    raise NotImplementedError
