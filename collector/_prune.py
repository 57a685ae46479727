"""Retention: what is older than a time is removed, trace by trace.

A trace goes when its last record is older, a run over several traces (a conversation) when its last trace
is; so nothing that stays is counted anew. Labels and policies stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from ..guard import StoreError
from ._compact import compact, disturbs, seconds_held
from ._schema import sql_text
from ._spool import Spool
from ._store import Store, counter, grow
from ._stored import registered

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["PruneReport", "prune"]

# Removing so many spans and log records holds the file for about as long as folding them in does.
_RECORDS_AT_ONCE = 8_000
_TEXTS_AT_ONCE = 100_000
# What is counted: the table, the column of its time, and where trace_rows says in which stretch the rows lie.
_TABLES = {
    "spans": ("span_rows", "start_ns", "starts"),
    "logs": ("log_rows", "time_ns", "log_times"),
    "calls": ("tool_call_rows", "start_ns", "derived"),
    "requests": ("llm_request_rows", "start_ns", "derived"),
}


@dataclass(slots=True)
class _Doomed:
    """A trace to remove, with its size and the first and last times of its rows."""

    trace_id: str
    size: int
    starts: tuple[int | None, int | None]
    log_times: tuple[int | None, int | None]
    derived: tuple[int | None, int | None]


@dataclass(slots=True)
class _Step:
    """Traces that go together. Made while nobody is kept waiting: the first Arrow table takes a while."""

    traces: list[_Doomed]
    names: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        self.names = pa.table({"trace_id": pa.array([trace.trace_id for trace in self.traces], pa.string())})

    def rows(self) -> Iterator[tuple[str, str]]:
        """What they have in the tables: the kind, and SQL from FROM on that reads `names` as gone_traces."""
        for kind, (table, column, place) in _TABLES.items():
            # Within the stretch where they lie: there is no index, and the rest is not looked at.
            known = [time for trace in self.traces for time in getattr(trace, place) if time is not None]
            if known:
                lies = f"{column} BETWEEN {min(known)} AND {max(known)}"
                of_trace = f"{_trace_of(table)} IN (SELECT trace_id FROM gone_traces)"  # noqa: S608
                yield kind, f"FROM {table} WHERE {lies} AND {of_trace}"


def _trace_of(table: str) -> str:
    return "coalesce(trace_id, session_trace)" if table == "log_rows" else "trace_id"


@dataclass(slots=True)
class PruneReport:
    """What was removed (or would be), and what that did to the file.

    `traces_kept_for_runs`: old traces that stay because a conversation goes on in a newer one.
    `texts`: long texts that nothing referred to any more. `bytes_*`: of the database file.
    `not_compacted`: why the file was not made smaller, or "".
    """

    cutoff_ns: int
    dry_run: bool
    traces: int = 0
    spans: int = 0
    logs: int = 0
    calls: int = 0
    requests: int = 0
    texts: int = 0
    quarantined: int = 0
    traces_kept_for_runs: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    not_compacted: str = ""

    def __bool__(self) -> bool:
        return bool(self.spans or self.logs or self.texts or self.quarantined)


def prune(
    store: Store,
    cutoff_ns: int,
    *,
    dry_run: bool = False,
    compacting: bool | None = True,
    announce: Callable[[float], None] | None = None,
    records_at_once: int = _RECORDS_AT_ONCE,
) -> PruneReport:
    """Remove what ended before `cutoff_ns` (Unix nanoseconds); fold what waits in the spool first.

    Args:
        dry_run: only count; nothing is changed. Where others write meanwhile, each figure is of its moment.
        compacting: give the space back to the disk afterwards. Without it the file keeps its size, and new
            records use the space. None: unless the pages of a running server would have to wait for it long.
        announce: called before that, with the seconds that the file will be held, about.
        records_at_once: spans and log records per transaction.

    Raises:
        StoreError, StoreBusyError, StoreVersionError: the database cannot be used.
    """
    report = PruneReport(cutoff_ns, dry_run, bytes_before=store.path.stat().st_size)
    if dry_run:
        _count(store, cutoff_ns, report, records_at_once)
    else:
        while not _round(store, cutoff_ns, report, records_at_once):
            pass
    _quarantined(store, cutoff_ns, report)
    if compacting is None and not dry_run and report:
        report.not_compacted = disturbs(store)
    if compacting is not False and not dry_run and report and not report.not_compacted:
        if announce is not None:
            announce(seconds_held(store))
        try:
            compact(store)
        except StoreError as error:  # a busy one is a StoreError too
            report.not_compacted = str(error)
    report.bytes_after = store.path.stat().st_size
    return report


def _round(store: Store, cutoff_ns: int, report: PruneReport, records_at_once: int) -> bool:
    """Plan once and remove in steps; False where a fold came between, whose records may change the plan."""
    with store.lease() as con:
        serial = counter(con, "fold_serial")
        doomed = _plan(con, cutoff_ns, report)
    for step in _steps(doomed, records_at_once):
        with store.write() as con:
            if counter(con, "fold_serial") != serial:
                return False
            _remove(con, step, report)
            serial = grow(con, "fold_serial")  # a fold that is under way reads again
    with store.write() as con:
        if counter(con, "fold_serial") != serial:
            return False
        _remove_loose_logs(con, cutoff_ns, report)
        grow(con, "fold_serial")
        stretches = _stretches(con)
    for stretch in stretches:  # whatever came in meanwhile: a text is asked for its references when it goes
        with store.write() as con:
            _remove_texts(con, stretch, report)
            grow(con, "fold_serial")
    return True


def _count(store: Store, cutoff_ns: int, report: PruneReport, records_at_once: int) -> None:
    """What `_round` would remove, with the file held for as short a time."""
    with store.lease() as con:
        doomed = _plan(con, cutoff_ns, report)
    report.traces = len(doomed)
    for step in _steps(doomed, records_at_once):
        with store.lease() as con, registered(con, gone_traces=step.names):
            for kind, rows in step.rows():
                count = con.execute(f"SELECT count(*) {rows}").fetchall()[0][0]
                setattr(report, kind, getattr(report, kind) + count)
    with store.lease() as con:
        con.execute(sql_text("judged_time.sql"))
        loose = f"SELECT count(*) FROM log_rows WHERE {_loose(cutoff_ns)}"  # noqa: S608
        report.logs += con.execute(loose).fetchall()[0][0]
        stretches = _stretches(con)
    everything = _Step(doomed)
    for stretch in stretches:
        with store.lease() as con, registered(con, gone_traces=everything.names):
            con.execute(sql_text("judged_time.sql"))
            unused = _unused_texts(con, *stretch, without=cutoff_ns)
            report.texts += con.execute(f"SELECT count(*) {unused}").fetchall()[0][0]


def _plan(con: DuckDBPyConnection, cutoff_ns: int, report: PruneReport) -> list[_Doomed]:
    """The traces to remove, oldest first."""
    con.execute(sql_text("judged_time.sql"))
    con.execute(sql_text("prune_plan.sql").replace("$cutoff", str(int(cutoff_ns))))
    kept = con.execute(
        "SELECT count(*) FROM trace_ends SEMI JOIN lasting USING (trace_id) WHERE last_ns < ?", [cutoff_ns]
    ).fetchall()
    report.traces_kept_for_runs = kept[0][0]
    rows = con.execute(
        "SELECT trace_id, coalesce(spans, 0) + coalesce(logs, 0), first_start_ns, last_start_ns,"
        " first_log_ns, last_log_ns, first_derived_ns, last_derived_ns"
        " FROM doomed LEFT JOIN trace_rows USING (trace_id) ORDER BY last_ns, trace_id"
    ).fetchall()
    return [_Doomed(name, size, (a, b), (c, d), (e, f)) for name, size, a, b, c, d, e, f in rows]


def _steps(doomed: list[_Doomed], records: int) -> Iterator[_Step]:
    """The traces in groups of so many records; a trace is not divided."""
    step: list[_Doomed] = []
    size = 0
    for trace in doomed:
        if step and size + trace.size > records:
            yield _Step(step)
            step, size = [], 0
        step.append(trace)
        size += trace.size
    if step:
        yield _Step(step)


def _remove(con: DuckDBPyConnection, step: _Step, report: PruneReport) -> None:
    with registered(con, gone_traces=step.names):
        for kind, rows in step.rows():
            count = con.execute(f"DELETE {rows}").fetchall()[0][0]
            setattr(report, kind, getattr(report, kind) + count)
        con.execute("DELETE FROM trace_rows WHERE trace_id IN (SELECT trace_id FROM gone_traces)")
    grow(con, "removals")  # readers that follow the changes of traces cannot see that one is gone
    report.traces += len(step.traces)


def _remove_loose_logs(con: DuckDBPyConnection, cutoff_ns: int, report: PruneReport) -> None:
    """Log records of no trace."""
    con.execute(sql_text("judged_time.sql"))
    report.logs += con.execute(f"DELETE FROM log_rows WHERE {_loose(cutoff_ns)}").fetchall()[0][0]  # noqa: S608


def _loose(cutoff_ns: int) -> str:
    return (
        f"trace_id IS NULL AND session_trace IS NULL AND judged_ns(time_ns, received_ns) < {int(cutoff_ns)}"
    )


def _stretches(con: DuckDBPyConnection) -> list[tuple[int, int]]:
    """Ranges of the keys of texts, each with about as many texts as may be looked through in one hold."""
    parts = f"SELECT hash, (row_number() OVER (ORDER BY hash) - 1) // {_TEXTS_AT_ONCE} AS part FROM contents"  # noqa: S608
    return con.execute(
        f"SELECT min(hash), max(hash) FROM ({parts}) GROUP BY part ORDER BY part"  # noqa: S608
    ).fetchall()


def _remove_texts(con: DuckDBPyConnection, stretch: tuple[int, int], report: PruneReport) -> None:
    report.texts += con.execute(f"DELETE {_unused_texts(con, *stretch)}").fetchall()[0][0]


def _unused_texts(con: DuckDBPyConnection, low: int, high: int, *, without: int | None = None) -> str:
    """SQL from FROM on: the texts with keys in a range that nothing refers to.

    With `without`, a cutoff: nothing but what goes with it and the traces in gone_traces.

    Asked of the schema and not written down: a column forgotten here would cost the texts it refers to.
    """
    columns = con.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns()"
        " WHERE database_name = current_database() AND table_name SIMILAR TO '[a-z_]+_rows'"
        " AND column_name SIMILAR TO '[a-z_]+_(parts|content)' AND data_type IN ('BIGINT', 'BIGINT[]')"
    ).fetchall()
    within = f"WHERE hash BETWEEN {low} AND {high}"
    used = ""
    for table, column, kind in columns:
        stays = "true"
        if without is not None:
            trace = _trace_of(table)
            stays = f"({trace} IS NULL OR {trace} NOT IN (SELECT trace_id FROM gone_traces))"  # noqa: S608
            stays += f" AND NOT ({_loose(without)})" if table == "log_rows" else ""
        keys = f"unnest({column})" if kind == "BIGINT[]" else column
        used += f" EXCEPT SELECT hash FROM (SELECT {keys} AS hash FROM {table} WHERE {stays}) {within}"  # noqa: S608
    return f"FROM contents WHERE hash IN (SELECT hash FROM contents {within}{used})"  # noqa: S608


def _quarantined(store: Store, cutoff_ns: int, report: PruneReport) -> None:
    """Segments that could not be read hold content, too."""
    spool = Spool(store.path)
    for name, _ in spool.quarantined():
        written = name.partition("-")[0]
        if written.isdecimal() and int(written) < cutoff_ns:
            report.quarantined += 1
            if not report.dry_run:
                spool.remove(spool.path / "quarantine" / name)
                spool.remove(spool.path / "quarantine" / f"{name}.reason")
