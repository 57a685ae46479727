"""What the store holds for the traces of each imported file, before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

    from .._store import Store

__all__ = ["TraceCounts", "count_traces", "fingerprints"]

TraceCounts = tuple[int, int, int]  # runs, calls, requests

_RECORDS_AT_ONCE = 50_000  # are read in one hold of the file, of 0.1 s

# A sum of row hashes does not depend on the order of rows, and equal rows do not cancel out. When a
# record was received is no part of what it says. Found by row number: the other columns of what lies between
# need not be read.
_SUM = """
SELECT f.file, sum(hash(r))
FROM import_traces f
JOIN (
    SELECT * {without} FROM {table} WHERE rowid IN (
        SELECT rowid FROM {table}
        WHERE {time} BETWEEN {first} AND {last} AND trace_id IN (SELECT trace_id FROM import_traces)
    )
) r USING (trace_id)
GROUP BY 1
"""
# The table, its time, what of a row says nothing, and the columns of trace_rows that say where a trace lies.
_PARTS = (
    ("span_rows", "start_ns", "EXCLUDE (received_ns)", "start"),
    ("log_rows", "time_ns", "EXCLUDE (received_ns)", "log"),
    ("tool_call_rows", "start_ns", "", "derived"),
    ("llm_request_rows", "start_ns", "", "derived"),
)
_PLACES = """
SELECT DISTINCT trace_id, spans + logs, first_start_ns, last_start_ns, first_log_ns, last_log_ns,
       first_derived_ns, last_derived_ns
FROM trace_rows SEMI JOIN import_traces USING (trace_id)
ORDER BY coalesce(first_start_ns, first_log_ns), trace_id
"""
_LOGS_WITHOUT_TRACE = "SELECT count(*) FROM log_rows WHERE trace_id IS NULL"

_COUNTS = """
SELECT file, count(DISTINCT run_id), count(*) FILTER (WHERE is_call), count(*) FILTER (WHERE NOT is_call)
FROM import_traces JOIN (
    SELECT trace_id, run_id, true AS is_call FROM tool_call_rows
    WHERE position = 0 OR end_ns IS NOT NULL  -- not what a model asked for, and nobody ran
    UNION ALL
    SELECT trace_id, run_id, false FROM llm_request_rows
) USING (trace_id)
GROUP BY file
"""


class _Place(NamedTuple):
    """A trace in the store, and the first and last times of its rows."""

    trace: bytes
    records: int
    start: tuple[int | None, int | None]
    log: tuple[int | None, int | None]
    derived: tuple[int | None, int | None]


def fingerprints(store: Store, files: Mapping[int, Set[bytes]]) -> dict[int, str]:
    """For each file, a text that changes when anything stored of its traces changes.

    `files`: trace ids by file number. A file of which nothing is stored is absent.
    """
    with store.lease() as con, _traces(con, files):
        rows = con.execute(_PLACES).fetchall()
        (loose,) = con.execute(_LOGS_WITHOUT_TRACE).fetchall()[0]
    places = [_Place(bytes.fromhex(row[0]), row[1], row[2:4], row[4:6], row[6:8]) for row in rows]
    sums: dict[int, list[int]] = defaultdict(lambda: [0] * len(_PARTS))
    for chunk in _chunks(places):
        here = {place.trace for place in chunk}
        mine = {file: ids & here for file, ids in files.items() if not here.isdisjoint(ids)}
        with store.lease() as con, _traces(con, mine):
            for at, (table, time, without, place) in enumerate(_PARTS):
                times = [when for one in chunk for when in getattr(one, place) if when is not None]
                if times:
                    about = {"table": table, "time": time, "without": without}
                    found = con.execute(_SUM.format(first=min(times), last=max(times), **about)).fetchall()
                    for file, number in found:
                        sums[file][at] += number
    return {file: f"{numbers};{loose}" for file, numbers in sums.items()}


def _chunks(places: list[_Place]) -> Iterator[list[_Place]]:
    chunk: list[_Place] = []
    size = 0
    for place in places:
        if chunk and size + place.records > _RECORDS_AT_ONCE:
            yield chunk
            chunk, size = [], 0
        chunk.append(place)
        size += place.records
    if chunk:
        yield chunk


def count_traces(con: DuckDBPyConnection, files: Mapping[int, Set[bytes]]) -> dict[int, TraceCounts]:
    """For each file, (runs, calls, requests) that the store holds of its traces; absent where none."""
    with _traces(con, files):
        return {row[0]: row[1:] for row in con.execute(_COUNTS).fetchall()}


@contextmanager
def _traces(con: DuckDBPyConnection, files: Mapping[int, Set[bytes]]) -> Iterator[None]:
    table = pa.table(
        {
            "file": pa.array([file for file, ids in files.items() for _ in ids], pa.int64()),
            "trace_id": pa.array([trace.hex() for ids in files.values() for trace in ids], pa.string()),
        }
    )
    con.register("import_traces", table)
    try:
        yield
    finally:
        con.unregister("import_traces")
