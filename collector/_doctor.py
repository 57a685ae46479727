"""Facts about a database and what surrounds it, for `loopscope doctor`."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..guard import LoopscopeError, StoreBusyError, StoreError, StoreVersionError
from ._doctor_words import judge
from ._folder import folder_of
from ._lease import describe_process
from ._schema import SCHEMA_VERSION, sql_text
from ._spool import Spool, network_file_system
from ._store import Store, counter
from .dialects import content_hint

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = [
    "ContentCoverage",
    "DoctorReport",
    "DropCount",
    "RunShape",
    "ServiceFacts",
    "SpoolFacts",
    "TableSize",
    "examine",
]


@dataclass(frozen=True, slots=True)
class SpoolFacts:
    """The spool of a database."""

    path: str
    segments: int  # waiting to be folded
    size: int  # bytes of them
    oldest_seconds: float | None  # age of the oldest one
    quarantined: list[tuple[str, str]]  # (segment, reason)
    quarantined_size: int = 0  # bytes of them
    writable: bool = True  # by this user, now


@dataclass(frozen=True, slots=True)
class DropCount:
    """What a writer says it lost, or a receiver could not take, before it reached the spool."""

    name: str  # such as dropped_spans, refused_requests
    source: str  # service name, or host and process
    value: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What was recorded of one service (None: spans without a service name)."""

    service_name: str | None
    spans: int
    last_span_ns: int
    ahead_seconds: float = 0.0  # how much later than its receipt a span ended, at most: its clock is ahead


@dataclass(frozen=True, slots=True)
class RunShape:
    """How the runs of one service came about, and how many of them hold one call only."""

    service_name: str | None
    run_source: str  # trace: nothing told which calls belong together
    runs: int
    runs_of_one_call: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """What a table takes of the database file. Blocks that tables share are counted for each of them."""

    table: str
    size: int  # bytes


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
    hint: str | None = None  # the setting that records what is missing, where something is


@dataclass(slots=True)
class DoctorReport:
    """All facts; `problems` says in one line each what needs attention and what to do about it."""

    path: str
    exists: bool
    report_version: int = 1  # of this report's JSON
    size: int = 0  # bytes of the database file
    wal_size: int = 0
    free_size: int = 0  # bytes inside the file that new records will use
    disk_free: int | None = None  # bytes
    tables: list[TableSize] = field(default_factory=list)
    schema_version: int | None = None
    supported_schema_version: int = SCHEMA_VERSION
    newer_format: bool = False  # written by a newer Loopscope or DuckDB; it was not opened
    last_received_ns: int | None = None
    examined_ns: int = 0
    holder: str | None = None  # who held the file at the first look, if somebody did
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
    runs: list[RunShape] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return json.loads(json.dumps(asdict(self)))


def examine(path: str | os.PathLike[str], *, timeout: float = 2.0) -> DoctorReport:
    """Look at a database, its spool and its lock. Never raises a LoopscopeError: it becomes a problem."""
    target = Path(path)
    report = DoctorReport(path=str(path), exists=target.is_file(), examined_ns=time.time_ns())
    with suppress(OSError):
        report.size = target.stat().st_size
    with suppress(OSError):
        report.wal_size = Path(f"{path}.wal").stat().st_size
    with suppress(OSError):
        report.disk_free = shutil.disk_usage(target.absolute().parent).free
    report.network_file_system = network_file_system(target.parent)
    _look_at_folder(target, report)
    _look_at_spool(target, report)
    if report.exists:
        try:
            with _lease(Store(target, create=False), timeout, report) as con:
                _look_inside(con, report)
        except StoreBusyError as error:
            report.holder = error.holder
            report.problems.append(str(error))
        except StoreVersionError as error:
            report.schema_version = error.found
            report.newer_format = (error.found or 0) > SCHEMA_VERSION or "DuckDB version" in str(error)
            report.problems.append(str(error))
        except StoreError as error:
            report.problems.append(str(error))
        except Exception as error:  # noqa: BLE001  a damaged file: whatever DuckDB makes of it
            first = (str(error).splitlines() or [""])[0]
            report.problems.append(f"{path} cannot be read: {type(error).__name__}: {first}")
    elif target.exists():
        report.problems.append(f"{path} is not a file.")
    report.problems += judge(report)
    return report


@contextmanager
def _lease(store: Store, timeout: float, report: DoctorReport) -> Iterator[DuckDBPyConnection]:
    """A lease; who had the file when it was asked for is noted, even if only for a moment."""
    with ExitStack() as stack:
        try:
            con = stack.enter_context(store.lease(timeout=0.0))
        except StoreBusyError as error:
            report.holder = error.holder
            con = stack.enter_context(store.lease(timeout=timeout))
        yield con


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
    report.spool = SpoolFacts(
        str(spool.path),
        len(waiting),
        size,
        oldest,
        spool.quarantined(),
        _size_of(spool.path / "quarantine"),
        os.access(spool.path if spool.path.exists() else path.absolute().parent, os.W_OK),
    )


def _size_of(folder: Path) -> int:
    size = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                size += entry.stat(follow_symlinks=False).st_size
    return size


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
        "SELECT service_name, count(*), max(coalesce(end_ns, start_ns)) AS last_ns,"
        " greatest(max(coalesce(end_ns, start_ns) - received_ns), 0) / 1e9, max(received_ns)"
        " FROM span_rows GROUP BY service_name ORDER BY last_ns DESC, service_name"
    ).fetchall()
    report.services = [ServiceFacts(*row[:4]) for row in services]
    report.last_received_ns = max((row[4] for row in services), default=None)
    report.content = [_coverage(*row) for row in con.execute(sql_text("content_coverage.sql")).fetchall()]
    report.runs = [RunShape(*row) for row in con.execute(sql_text("run_shapes.sql")).fetchall()]
    _look_at_sizes(con, report)


def _coverage(
    dialect: str, calls: int, arguments: int, results: int, cut: int, *requests: int
) -> ContentCoverage:
    lacking = arguments or results or requests[1]
    hint = content_hint(dialect) if lacking else None
    return ContentCoverage(dialect, calls, arguments, results, cut, *requests, hint=hint)


def _look_at_sizes(con: DuckDBPyConnection, report: DoctorReport) -> None:
    found = con.execute(
        "SELECT block_size, free_blocks FROM pragma_database_size() WHERE database_name = current_database()"
    ).fetchall()
    block, free = found[0] if found else (0, 0)
    report.free_size = block * free
    tables = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary"
        " AND database_name = current_database()"
    ).fetchall()
    for (name,) in tables:
        ((blocks,),) = con.execute(
            "SELECT count(DISTINCT id) FROM ("
            "SELECT unnest([block_id] || coalesce(additional_block_ids, [])) AS id"
            " FROM pragma_storage_info(?)) WHERE id >= 0",
            [name],
        ).fetchall()
        if blocks:
            report.tables.append(TableSize(name, blocks * block))
    report.tables.sort(key=lambda one: (-one.size, one.table))
