"""Which calls and requests a question is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

    from ._facts import Facts

__all__ = ["ALL", "FilterOptions", "Filters", "call_filter", "fact_filter", "request_filter", "runs_with"]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which calls and requests a question is about; an empty field means all.

    Filters choose what is *reported*. They never change a verdict: counting always sees whole
    runs, so a call keeps its count and action whatever the filter leaves out. `labels` are a matter of
    incidents; calls and requests have none, and are reported whatever it says.
    """

    since: int | None = None  # calls and requests that start at or after this, ns
    until: int | None = None  # ... and before this, ns
    services: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    models: tuple[str, ...] = ()  # calls of runs in which one of these models was asked
    run_ids: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # of incidents: verdicts of `LabelVerdict`, "none": without a label

    def __post_init__(self) -> None:
        names = ("services", "agents", "tools", "models", "run_ids", "sessions", "dialects", "labels")
        for name in names:
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))


ALL = Filters()
"""No filter: every call and request."""


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """What a filter bar can offer, and the span of time that the store covers."""

    services: tuple[str, ...]
    agents: tuple[str, ...]
    tools: tuple[str, ...]
    models: tuple[str, ...]
    dialects: tuple[str, ...]
    first_ns: int | None
    last_ns: int | None


_OF_RUNS_WITH_MODEL = (
    "{}run_id IN (SELECT run_id FROM llm_request_rows WHERE model IN (SELECT unnest($f_models)))"
)

# Which column of a store table a field of Filters speaks of.
_CALL_COLUMNS = {
    "services": "service_name",
    "agents": "agent_name",
    "tools": "tool_name",
    "run_ids": "run_id",
    "sessions": "session_id",
    "dialects": "dialect",
}

# ... and of the facts, where names are numbers.
_FACT_COLUMNS = {"services": "service", "agents": "agent", "tools": "tool", "dialects": "dialect"}


def call_filter(filters: Filters, alias: str = "") -> tuple[str, dict[str, Any]]:
    """A condition on `tool_call_rows` (columns behind `alias.`) and its parameters."""
    conditions, params = _store_filter(filters, _CALL_COLUMNS, alias)
    if filters.models:
        conditions.append(_OF_RUNS_WITH_MODEL.format(_prefix(alias)))
        params["f_models"] = list(filters.models)
    return _all_of(conditions), params


def request_filter(filters: Filters, alias: str = "") -> tuple[str, dict[str, Any]]:
    """A condition on `llm_request_rows`. Tools do not apply to requests."""
    columns = {name: column for name, column in _CALL_COLUMNS.items() if name != "tools"}
    conditions, params = _store_filter(filters, {**columns, "models": "model"}, alias)
    return _all_of(conditions), params


def fact_filter(
    filters: Filters, facts: Facts, store: duckdb.DuckDBPyConnection, alias: str = ""
) -> tuple[str, dict[str, Any]]:
    """A condition on `facts` and tables made of it (columns behind `alias.`)."""
    at = _prefix(alias)
    conditions, params = _time_filter(filters, at)
    for field, column in _FACT_COLUMNS.items():
        names: tuple[str, ...] = getattr(filters, field)
        if names:
            conditions.append(f"{at}{column} IN (SELECT unnest($f_{field}))")
            params[f"f_{field}"] = facts.ids(column, names)
    if filters.run_ids or filters.sessions or filters.models:
        conditions.append(f"{at}run IN (SELECT unnest($f_runs))")
        params["f_runs"] = runs_with(filters, facts, store)
    return _all_of(conditions), params


def runs_with(filters: Filters, facts: Facts, store: duckdb.DuckDBPyConnection) -> Sequence[int]:
    """Numbers of the runs that the run, session and model filters leave, whatever the others say."""
    only = Filters(run_ids=filters.run_ids, sessions=filters.sessions, models=filters.models)
    condition, params = call_filter(only)

    def ask() -> list[int]:
        found = store.execute(
            f"SELECT DISTINCT run_id FROM tool_call_rows WHERE {condition}",  # noqa: S608
            params,
        ).fetchall()
        numbers = facts.cursor().execute(
            "SELECT run FROM runs WHERE run_id IN (SELECT unnest($ids))", {"ids": [row[0] for row in found]}
        )
        return [row[0] for row in numbers.fetchall()]

    return facts.remember(("runs", only), ask)


def _store_filter(filters: Filters, columns: dict[str, str], alias: str) -> tuple[list[str], dict[str, Any]]:
    at = _prefix(alias)
    conditions, params = _time_filter(filters, at)
    for field, column in columns.items():
        values: tuple[str, ...] = getattr(filters, field)
        if values:
            conditions.append(f"{at}{column} IN (SELECT unnest($f_{field}))")
            params[f"f_{field}"] = list(values)
    return conditions, params


def _time_filter(filters: Filters, at: str) -> tuple[list[str], dict[str, Any]]:
    conditions: list[str] = []
    params: dict[str, Any] = {}
    if filters.since is not None:
        conditions.append(f"{at}start_ns >= $f_since")
        params["f_since"] = filters.since
    if filters.until is not None:
        conditions.append(f"{at}start_ns < $f_until")
        params["f_until"] = filters.until
    return conditions, params


def _prefix(alias: str) -> str:
    return f"{alias}." if alias else ""


def _all_of(conditions: list[str]) -> str:
    return " AND ".join(conditions) or "TRUE"
