"""What the figures cover, and what a filter can offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..collector.dialects import content_hint
from ._facts import Facts
from ._filters import ALL, FilterOptions, Filters, call_filter, request_filter
from ._sql import filtered, rows, sql_text
from ._types import Coverage, DialectCoverage

if TYPE_CHECKING:
    import duckdb

__all__ = ["coverage", "covered", "filter_options", "runs_without_calls"]

_SUMS = (
    "calls",
    "calls_without_arguments",
    "calls_without_result",
    "calls_truncated",
    "calls_without_outcome",
    "calls_not_ended",
    "runs_guarded",
)
_OPTIONS = 1_000


def coverage(con: duckdb.DuckDBPyConnection, filters: Filters = ALL) -> Coverage:
    """How much of the calls was recorded, per dialect, with the setting that would record more."""
    condition, params = call_filter(filters)
    found = rows(con, filtered("coverage", condition), params)
    dialects: list[DialectCoverage] = []
    for row in found:
        missing = row["calls_without_arguments"] or row["calls_without_result"]
        dialects.append(
            DialectCoverage(
                dialect=row["dialect"],
                calls=row["calls"],
                calls_without_arguments=row["calls_without_arguments"],
                calls_without_result=row["calls_without_result"],
                calls_truncated=row["calls_truncated"],
                hint=content_hint(row["dialect"]) if missing else None,
            )
        )
    sums = {name: sum(row[name] for row in found) for name in _SUMS}
    return Coverage(**sums, dialects=tuple(dialects))


def covered(facts: Facts, con: duckdb.DuckDBPyConnection, filters: Filters) -> Coverage:
    """`coverage`, asked once per state of the store."""
    return facts.remember(("coverage", filters), lambda: coverage(con, filters))


def runs_without_calls(con: duckdb.DuckDBPyConnection, facts: Facts, filters: Filters) -> int:
    """Runs under the filter that asked a model and finished no call. A tool filter leaves none."""
    if filters.tools:
        return 0
    if filters == ALL:  # the facts know that, too, and faster
        found = facts.remember("quiet", lambda: rows(facts.cursor(), sql_text("quiet_runs_known")))
        return found[0]["runs"]
    condition, params = request_filter(filters, "q")
    statement = filtered("quiet_runs", condition)
    return facts.remember(("quiet", filters), lambda: rows(con, statement, params)[0]["runs"])


def filter_options(con: duckdb.DuckDBPyConnection) -> FilterOptions:
    """Services, agents, tools, models and dialects in the store (at most 1,000 each, most used first)."""
    ((first, last),) = con.execute(
        "SELECT min(start_ns), max(coalesce(end_ns, start_ns)) FROM ("
        "SELECT start_ns, end_ns FROM tool_call_rows UNION ALL SELECT start_ns, end_ns FROM llm_request_rows)"
    ).fetchall()

    def names(column: str, *tables: str) -> tuple[str, ...]:
        union = " UNION ALL ".join(f"SELECT {column} AS name FROM {table}" for table in tables)  # noqa: S608
        found = con.execute(
            f"SELECT name FROM ({union}) WHERE name IS NOT NULL "  # noqa: S608
            f"GROUP BY name ORDER BY count(*) DESC, name LIMIT {_OPTIONS}"
        )
        return tuple(row[0] for row in found.fetchall())

    both = ("tool_call_rows", "llm_request_rows")
    return FilterOptions(
        services=names("service_name", *both),
        agents=names("agent_name", *both),
        tools=names("tool_name", "tool_call_rows"),
        models=names("model", "llm_request_rows"),
        dialects=names("dialect", *both),
        first_ns=first,
        last_ns=last,
    )
