"""Retention: what is older than a time is removed, trace by trace.

A trace goes when its last record is older, a run over several traces (a conversation) when its last trace
is; so nothing that stays is counted anew. Labels and policies stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from ..guard import StoreError
from ._compact import compact
from ._schema import sql_text
from ._spool import Spool
from ._store import Store, counter, grow
from ._stored import registered

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["PruneReport", "prune"]

# Removing the rows of so many traces holds the file for about as long as a fold does.
_TRACES_AT_ONCE = 2_000
_TEXTS_AT_ONCE = 100_000
_TABLES = {
    "spans": "span_rows",
    "logs": "log_rows",
    "calls": "tool_call_rows",
    "requests": "llm_request_rows",
}


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


class _Undo(Exception):  # noqa: N818
    pass


def prune(
    store: Store,
    cutoff_ns: int,
    *,
    dry_run: bool = False,
    compacting: bool = True,
    traces_at_once: int = _TRACES_AT_ONCE,
) -> PruneReport:
    """Remove what ended before `cutoff_ns` (Unix nanoseconds); fold what waits in the spool first.

    Args:
        dry_run: only count; nothing is changed.
        compacting: give the space back to the disk afterwards. Without it the file keeps its size, and new
            records use the space.
        traces_at_once: traces per transaction.

    Raises:
        StoreError, StoreBusyError, StoreVersionError: the database cannot be used.
    """
    report = PruneReport(cutoff_ns, dry_run, bytes_before=store.path.stat().st_size)
    if dry_run:
        try:
            with store.write() as con:
                doomed = _plan(con, cutoff_ns, report)
                _remove(con, doomed, report)
                _remove_loose_logs(con, cutoff_ns, report)
                for stretch in _stretches(con):
                    _remove_texts(con, stretch, report)
                raise _Undo
        except _Undo:
            pass
    else:
        while not _round(store, cutoff_ns, report, traces_at_once):
            pass
    _quarantined(store, cutoff_ns, report)
    if compacting and not dry_run and report:
        try:
            compact(store)
        except StoreError as error:  # a busy one is a StoreError too
            report.not_compacted = str(error)
    report.bytes_after = store.path.stat().st_size
    return report


def _round(store: Store, cutoff_ns: int, report: PruneReport, traces_at_once: int) -> bool:
    """Plan once and remove in steps; False where a fold came between, whose records may change the plan."""
    with store.lease() as con:
        serial = counter(con, "fold_serial")
        doomed = _plan(con, cutoff_ns, report)
    for start in range(0, len(doomed), traces_at_once):
        with store.write() as con:
            if counter(con, "fold_serial") != serial:
                return False
            _remove(con, doomed[start : start + traces_at_once], report)
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


def _plan(con: DuckDBPyConnection, cutoff_ns: int, report: PruneReport) -> list[str]:
    """The traces to remove, oldest first."""
    con.execute(sql_text("judged_time.sql"))
    text = sql_text("prune_plan.sql").replace("$cutoff", str(int(cutoff_ns)))
    con.execute(text)
    kept = con.execute(
        "SELECT count(*) FROM trace_ends SEMI JOIN lasting USING (trace_id) WHERE last_ns < ?", [cutoff_ns]
    ).fetchall()
    report.traces_kept_for_runs = kept[0][0]
    return [
        name for (name,) in con.execute("SELECT trace_id FROM doomed ORDER BY last_ns, trace_id").fetchall()
    ]


def _remove(con: DuckDBPyConnection, traces: list[str], report: PruneReport) -> None:
    with registered(con, gone_traces=pa.table({"trace_id": pa.array(traces, type=pa.string())})):
        for kind, table in _TABLES.items():
            trace = "coalesce(trace_id, session_trace)" if table == "log_rows" else "trace_id"
            count = con.execute(
                f"DELETE FROM {table} WHERE {trace} IN (SELECT trace_id FROM gone_traces)"  # noqa: S608
            ).fetchall()[0][0]
            setattr(report, kind, getattr(report, kind) + count)
        con.execute("DELETE FROM trace_rows WHERE trace_id IN (SELECT trace_id FROM gone_traces)")
    report.traces += len(traces)


def _remove_loose_logs(con: DuckDBPyConnection, cutoff_ns: int, report: PruneReport) -> None:
    """Log records of no trace."""
    con.execute(sql_text("judged_time.sql"))
    report.logs += con.execute(
        "DELETE FROM log_rows WHERE trace_id IS NULL AND judged_ns(time_ns, received_ns) < ?", [cutoff_ns]
    ).fetchall()[0][0]


def _stretches(con: DuckDBPyConnection) -> list[tuple[int, int]]:
    """Ranges of the keys of texts, each with about as many texts as may be looked through in one hold."""
    texts = con.execute("SELECT count(*) FROM contents").fetchall()[0][0]
    count = max(1, -(-texts // _TEXTS_AT_ONCE))
    bounds = [(1 << 64) * number // count - (1 << 63) for number in range(count + 1)]
    return [(low, high - 1) for low, high in pairwise(bounds)]


def _remove_texts(con: DuckDBPyConnection, stretch: tuple[int, int], report: PruneReport) -> None:
    report.texts += con.execute(_unused_texts(con, *stretch)).fetchall()[0][0]


def _unused_texts(con: DuckDBPyConnection, low: int, high: int) -> str:
    """SQL that removes the texts with keys in a range that nothing refers to.

    Asked of the schema and not written down: a column forgotten here would cost the texts it refers to.
    """
    columns = con.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns()"
        " WHERE database_name = current_database() AND table_name SIMILAR TO '[a-z_]+_rows'"
        " AND column_name SIMILAR TO '[a-z_]+_(parts|content)' AND data_type IN ('BIGINT', 'BIGINT[]')"
    ).fetchall()
    within = f"WHERE hash BETWEEN {low} AND {high}"
    used = "".join(
        f" EXCEPT SELECT hash FROM (SELECT {f'unnest({column})' if kind == 'BIGINT[]' else column} AS hash"  # noqa: S608
        f" FROM {table}) {within}"
        for table, column, kind in columns
    )
    return f"DELETE FROM contents WHERE hash IN (SELECT hash FROM contents {within}{used})"  # noqa: S608


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
