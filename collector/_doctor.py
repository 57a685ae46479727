"""Facts about a database and what surrounds it, for `loopscope doctor`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..guard import LoopscopeError, StoreBusyError, StoreError
from ._folder import folder_of
from ._lease import describe_process
from ._schema import SCHEMA_VERSION, sql_text
from ._spool import Spool, network_file_system
from ._store import Store, counter

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["ContentCoverage", "DoctorReport", "DropCount", "ServiceFacts", "SpoolFacts", "examine"]


@dataclass(frozen=True, slots=True)
class SpoolFacts:
    """The spool of a database."""

    path: str
    segments: int  # waiting to be folded
    size: int  # bytes of them
    oldest_seconds: float | None  # age of the oldest one
    quarantined: list[tuple[str, str]]  # (segment, reason)


@dataclass(frozen=True, slots=True)
class DropCount:
    """What a writer says it lost before it reached the spool."""

    name: str  # such as dropped_spans
    source: str  # service name, or host and process
    value: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What was recorded of one service (None: spans without a service name)."""

    service_name: str | None
    spans: int
    last_span_ns: int


@dataclass(frozen=True, slots=True)
class ContentCoverage:
    """How much content one dialect's calls and requests carry."""

    dialect: str
    calls: int
    calls_without_arguments: int
    calls_without_result: int
    calls_truncated: int
    requests: int
    requests_without_messages: int


@dataclass(slots=True)
class DoctorReport:
    """All facts; `problems` says in one line each what needs attention and what to do about it."""

    path: str
    exists: bool
    size: int = 0  # bytes of the database file
    wal_size: int = 0
    schema_version: int | None = None
    supported_schema_version: int = SCHEMA_VERSION
    holder: str | None = None  # who holds the file right now, if somebody does
    folder: str | None = None  # who folds
    folder_role: str | None = None
    network_file_system: str | None = None
    rows: dict[str, int] = field(default_factory=dict)  # by table
    stale_traces: int = 0  # wait for derivation
    derive_errors: list[tuple[str, int]] = field(default_factory=list)  # (error, traces)
    spool: SpoolFacts | None = None
    drops: list[DropCount] = field(default_factory=list)
    services: list[ServiceFacts] = field(default_factory=list)
    content: list[ContentCoverage] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return json.loads(json.dumps(asdict(self)))


def examine(path: str | os.PathLike[str], *, timeout: float = 2.0) -> DoctorReport:
    """Look at a database, its spool and its lock. Never raises a LoopscopeError: it becomes a problem."""
    target = Path(path)
    report = DoctorReport(path=str(path), exists=target.is_file())
    with suppress(OSError):
        report.size = target.stat().st_size
    with suppress(OSError):
        report.wal_size = Path(f"{path}.wal").stat().st_size
    report.network_file_system = network_file_system(target.parent)
    _look_at_folder(target, report)
    _look_at_spool(target, report)
    if report.exists:
        try:
            with Store(target, timeout=timeout, create=False).lease() as con:
                _look_inside(con, report)
        except StoreBusyError as error:
            report.holder = error.holder
            report.problems.append(str(error))
        except StoreError as error:
            report.problems.append(str(error))
    elif target.exists():
        report.problems.append(f"{path} is not a file.")
    _judge(report)
    return report


def _look_at_folder(path: Path, report: DoctorReport) -> None:
    note = folder_of(path)
    if note is not None:
        pid, command, role = note.get("pid"), note.get("command"), note.get("role")
        if type(pid) is int:
            report.folder = describe_process(pid, command if isinstance(command, str) else None)
        else:
            report.folder = "another process"
        report.folder_role = role if isinstance(role, str) else None


def _look_at_spool(path: Path, report: DoctorReport) -> None:
    spool = Spool(path)
    try:
        waiting = spool.pending()
    except LoopscopeError as error:
        report.problems.append(str(error))
        return
    size = 0
    for segment in waiting:
        with suppress(OSError):
            size += segment.stat().st_size
    oldest = None
    if waiting:
        with suppress(ValueError):
            oldest = max((time.time_ns() - int(waiting[0].name.split("-", 1)[0])) / 1e9, 0.0)
    report.spool = SpoolFacts(str(spool.path), len(waiting), size, oldest, spool.quarantined())


_TABLES = {
    "spans": "span_rows",
    "logs": "log_rows",
    "contents": "contents",
    "tool_calls": "tool_call_rows",
    "llm_requests": "llm_request_rows",
    "traces": "trace_rows",
    "labels": "labels",
    "policies": "policies",
}


def _look_inside(con: DuckDBPyConnection, report: DoctorReport) -> None:
    report.schema_version = counter(con, "schema_version")
    for name, table in _TABLES.items():
        report.rows[name] = con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]  # noqa: S608
    report.stale_traces = con.execute("SELECT count(*) FROM trace_rows WHERE stale").fetchall()[0][0]
    report.derive_errors = con.execute(
        "SELECT derive_error, count(*) AS traces FROM trace_rows WHERE derive_error IS NOT NULL"
        " GROUP BY derive_error ORDER BY traces DESC, derive_error"
    ).fetchall()
    drops = con.execute("SELECT name, source, value, last_ns FROM drop_counters ORDER BY ALL").fetchall()
    report.drops = [DropCount(*row) for row in drops]
    services = con.execute(
        "SELECT service_name, count(*), max(coalesce(end_ns, start_ns)) AS last_ns FROM span_rows"
        " GROUP BY service_name ORDER BY last_ns DESC, service_name"
    ).fetchall()
    report.services = [ServiceFacts(*row) for row in services]
    report.content = [
        ContentCoverage(*row) for row in con.execute(sql_text("content_coverage.sql")).fetchall()
    ]


def _judge(report: DoctorReport) -> None:
    add = report.problems.append
    if report.network_file_system is not None:
        add(f"{report.path} is on a network file system ({report.network_file_system}); use a local disk.")
    spool = report.spool
    if spool is not None:
        if spool.quarantined:
            add(
                f"{_count(len(spool.quarantined), 'segment')} in {spool.path}/quarantine could not be read;"
                " the reasons are beside them."
            )
        if spool.segments and spool.oldest_seconds is not None and spool.oldest_seconds > 60:
            who = (
                f"{report.folder} folds them"
                if report.folder
                else "nobody folds; any command on the database will"
            )
            waited = f"the oldest for {spool.oldest_seconds:.0f} s"
            add(f"{_count(spool.segments, 'segment')} waiting in {spool.path}, {waited}: {who}.")
    for total, name in _sums(report.drops):
        what = name.removeprefix("dropped_").replace("_", " ")
        add(f"writers lost {total} {what} before they reached the spool.")
    for error, traces in report.derive_errors:
        add(f"{_count(traces, 'trace')} gave no calls or requests; an error of Loopscope's: {error}")
    for row in report.content:
        if row.calls and row.calls_without_arguments == row.calls:
            add(f"no call of dialect {row.dialect} has recorded arguments: content capture is off there.")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _sums(drops: Iterable[DropCount]) -> list[tuple[int, str]]:
    totals: dict[str, int] = {}
    for drop in drops:
        totals[drop.name] = totals.get(drop.name, 0) + drop.value
    return [(total, name) for name, total in sorted(totals.items())]
