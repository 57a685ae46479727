"""The few questions that only pages ask."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ..collector._folder import folder_of
from ..guard import GuardPolicy, NotFoundError, PolicyError
from ..replay import Filters, verdict_changes

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

__all__ = [
    "ChangedCall",
    "ChangedCalls",
    "Loss",
    "NamedPolicy",
    "Recorded",
    "RequestFacts",
    "ServiceSeen",
    "Writer",
    "changed_calls",
    "folder",
    "losses",
    "named_policies",
    "recorded",
    "request_facts",
    "services_seen",
    "writers",
]


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """A call whose verdict is another one under the second policy."""

    run_id: str
    trace_id: str
    span_id: str
    position: int
    agent_name: str | None
    tool_name: str
    seq: int
    start_ns: int
    count: int
    before: str
    after: str
    judged: str | None  # of the policy under which it lies after a block
    exact: bool


@dataclass(frozen=True, slots=True)
class ChangedCalls:
    """Changed calls, at most as many as asked for, and how many there are."""

    calls: tuple[ChangedCall, ...]
    total: int
    runs: int


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy that was saved under a name; `policy` is None where it cannot be read, with the reason."""

    name: str
    policy: GuardPolicy | None
    problem: str | None
    saved_at: datetime  # UTC


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that did not make it into the figures."""

    name: str  # dropped_spans, unread_traces
    source: str  # service, or host and process
    number: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Writer:
    """A process whose segments wait in the spool."""

    name: str  # host and process
    segments: int
    size: int  # bytes
    last_ns: int


@dataclass(frozen=True, slots=True)
class ServiceSeen:
    """One service and the last sign of it."""

    name: str | None
    calls: int
    requests: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """Of the requests of a stretch, those that recorded what they cost."""

    requests: int
    with_tokens: int
    with_cost: int


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """Who sent a request, to whom, and when."""

    run_id: str
    session_id: str | None
    service_name: str | None
    agent_name: str | None
    provider: str | None
    model: str | None
    failed: bool
    http_status: int | None
    input_tokens: int | None
    start_ns: int
    end_ns: int | None
    dialect: str


def request_facts(con: duckdb.DuckDBPyConnection, trace_id: str, span_id: str) -> RequestFacts:
    """The facts of one request. Raises NotFoundError."""
    row = con.execute(
        """
        SELECT run_id, session_id, service_name, agent_name, provider, model, status = 'error', http_status,
            input_tokens, start_ns, end_ns, dialect
        FROM llm_request_rows WHERE trace_id = ? AND span_id = ?
        """,
        [trace_id, span_id],
    ).fetchone()
    if row is None:
        raise NotFoundError(f"no request {trace_id}/{span_id} in the store")
    return RequestFacts(*row)


def changed_calls(
    con: duckdb.DuckDBPyConnection, before: GuardPolicy, after: GuardPolicy, filters: Filters, limit: int
) -> ChangedCalls:
    """Calls whose action differs, in order of run and seq."""
    changes = verdict_changes(con, before, after, filters, limit=limit)
    calls = tuple(
        ChangedCall(
            run_id=row["run_id"],
            trace_id=row["trace_id"],
            span_id=row["span_id"],
            position=row["position"],
            agent_name=row["agent_name"],
            tool_name=row["tool_name"],
            seq=row["seq"],
            start_ns=row["start_ns"],
            count=row["count"],
            before=row["action_before"],
            after=row["action"],
            judged=row["judged"] or row["judged_before"],
            exact=row["exact_before"] and row["exact"],
        )
        for row in changes.calls.to_pylist()
    )
    return ChangedCalls(calls, changes.total, changes.runs)


def named_policies(con: duckdb.DuckDBPyConnection) -> dict[str, NamedPolicy]:
    """Policies by name, in order of names."""
    found: dict[str, NamedPolicy] = {}
    for name, toml, saved_at in con.execute(
        "SELECT name, toml, saved_at FROM policies ORDER BY lower(name), name LIMIT 500"
    ).fetchall():
        try:
            found[name] = NamedPolicy(name, GuardPolicy.from_toml(toml), None, saved_at)
        except PolicyError as error:
            found[name] = NamedPolicy(name, None, str(error), saved_at)
    return found


def losses(con: duckdb.DuckDBPyConnection) -> list[Loss]:
    """What writers say they lost before it reached the spool, and traces that could not be read."""
    rows = con.execute(
        """
        SELECT name, source, value, NULL FROM drop_counters WHERE value > 0
        UNION ALL
        SELECT 'unread_traces', 'this database', count(*), derive_error FROM trace_rows
        WHERE derive_error IS NOT NULL GROUP BY derive_error
        ORDER BY 3 DESC, 1, 2 LIMIT 100
        """
    ).fetchall()
    return [Loss(*row) for row in rows]


def recorded(con: duckdb.DuckDBPyConnection, run_id: str, first_ns: int, last_ns: int) -> Recorded:
    """Counts the requests that a run started in a stretch of time, as incidents do."""
    rows = con.execute(
        """
        SELECT count(*), count(input_tokens), count(cost) FROM llm_request_rows
        WHERE run_id = ? AND start_ns >= ? AND start_ns < ?
        """,
        [run_id, first_ns, last_ns],
    ).fetchall()
    return Recorded(*rows[0])


def services_seen(con: duckdb.DuckDBPyConnection) -> list[ServiceSeen]:
    """Every service with its calls and requests, the last one heard of first."""
    rows = con.execute(
        """
        SELECT service_name, sum(calls)::BIGINT, sum(requests)::BIGINT, max(last_ns)
        FROM (
            SELECT service_name, count(*) AS calls, 0 AS requests, max(coalesce(end_ns, start_ns)) AS last_ns
            FROM tool_call_rows GROUP BY ALL
            UNION ALL
            SELECT service_name, 0, count(*), max(coalesce(end_ns, start_ns))
            FROM llm_request_rows GROUP BY ALL
        )
        GROUP BY service_name ORDER BY max(last_ns) DESC, service_name LIMIT 200
        """
    ).fetchall()
    return [ServiceSeen(*row) for row in rows]


def writers(waiting: Iterable[Path]) -> list[Writer]:
    """Who wrote the segments that wait, the last one first. They say so in their names."""
    found: dict[str, list[tuple[int, int]]] = {}
    for path in waiting:
        moment, _, rest = path.name.partition("-")
        host, number, *_ = [*rest.rsplit("-", 3), "", ""]
        try:
            bytes_ = path.stat().st_size
        except OSError:  # folded meanwhile
            continue
        name = f"{host}, process {number}" if number else rest
        found.setdefault(name, []).append((int(moment) if moment.isdigit() else 0, bytes_))
    made = [
        Writer(name, len(parts), sum(size for _, size in parts), max(moment for moment, _ in parts))
        for name, parts in found.items()
    ]
    return sorted(made, key=lambda one: -one.last_ns)[:50]


def folder(db: Path) -> str | None:
    """The process that brings segments into the database: its role and number; None where there is none."""
    holder = folder_of(db)
    if holder is None:
        return None
    if holder.get("pid") == os.getpid():
        return f"this server (process {os.getpid()})"
    return f"{holder.get('role', 'process')} {holder.get('pid', '')}".strip()
