"""Calls to be shown, with their texts: fetched for those alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._engine import Judging
from .._facts import Facts, facts_of
from .._filters import ALL, Filters, fact_filter
from .._sql import arrow, rows, sql_text
from ._spending import offered
from ._types import PARTS, CallAfterBlock, CallsAfterBlock

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ...guard import GuardPolicy

__all__ = ["TEXT_LIMIT", "calls_after_block", "shown_after_block", "with_texts"]

TEXT_LIMIT = 2_000
"""Characters of a text that is shown."""


def calls_after_block(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    filters: Filters = ALL,
    *,
    judged: str | None = None,
    limit: int = 100,
    offset: int = 0,
) -> CallsAfterBlock:
    """The calls that blocks would have prevented, run by run in the order in which they were counted.

    `judged`: only avoidable, lost or unjudged ones. Texts are cut at 2,000 characters.
    """
    facts = facts_of(con)
    where, params = fact_filter(filters, facts, con)
    noted = Judging(facts, con, policy).arrow("impact_calls", params, where, touched=True)
    part = None if judged is None else PARTS.index(judged)
    return shown_after_block(facts, con, noted, part, limit, offset, by_run=True)


def shown_after_block(
    facts: Facts,
    store: duckdb.DuckDBPyConnection,
    noted: pa.Table,
    part: int | None,
    limit: int,
    offset: int = 0,
    *,
    by_run: bool,
) -> CallsAfterBlock:
    """Some of the calls after a block in `noted` (sql/impact_calls.sql), and how many there are."""
    con = facts.cursor()
    with offered(con, noted_calls=noted):
        total = con.execute(
            "SELECT count(*) FROM noted_calls "
            "WHERE action = 4 AND chosen AND judged = coalesce($judged, judged)",
            {"judged": part},
        ).fetchall()[0][0]
        if not total or not limit:
            return CallsAfterBlock((), total)
        params = {"judged": part, "by_run": by_run, "limit": limit, "offset": offset}
        shown = arrow(con, sql_text("impact_shown"), params)
        with offered(con, shown_calls=shown):
            blocked = dict(con.execute(sql_text("impact_blocked")).fetchall())
    calls = []
    for row in with_texts(facts, store, shown):
        unit = row.pop("unit")
        run, seq = row.pop("run"), row.pop("seq")
        where_blocked = blocked.get(unit)
        row["judged"] = PARTS[row["judged"]]
        row["call"] = seq
        row["blocked_call"] = where_blocked[1] if where_blocked and where_blocked[0] == run else None
        row.pop("place")
        calls.append(CallAfterBlock(**row))
    return CallsAfterBlock(tuple(calls), total)


def with_texts(facts: Facts, store: duckdb.DuckDBPyConnection, shown: pa.Table) -> list[dict[str, Any]]:
    """The rows of `shown` (run, seq, …) with what was recorded of their calls, and `place`."""
    import pyarrow as pa

    shown = shown.append_column("place", pa.array(range(shown.num_rows), pa.int64()))
    with offered(store, shown_calls=shown, run_names=facts.runs):
        return rows(store, sql_text("impact_examples"), {"limit": TEXT_LIMIT})
