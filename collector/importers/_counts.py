"""What the store holds for the traces of each imported file, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

__all__ = ["TraceCounts", "count_traces", "fingerprints"]

TraceCounts = tuple[int, int, int]  # runs, calls, requests

# A sum of row hashes does not depend on the order of rows, and equal rows do not cancel out. When a
# record was received is no part of what it says.
_FINGERPRINT = """
SELECT file, string_agg(sum, ',' ORDER BY part) FROM (
    SELECT f.file, 'spans' AS part, sum(hash(r))::VARCHAR AS sum
    FROM import_traces f JOIN (SELECT * EXCLUDE (received_ns) FROM span_rows) r USING (trace_id) GROUP BY 1
    UNION ALL
    SELECT f.file, 'logs', sum(hash(r))::VARCHAR
    FROM import_traces f JOIN (SELECT * EXCLUDE (received_ns) FROM log_rows) r USING (trace_id) GROUP BY 1
    UNION ALL
    SELECT f.file, 'calls', sum(hash(r))::VARCHAR
    FROM import_traces f JOIN tool_call_rows r USING (trace_id) GROUP BY 1
    UNION ALL
    SELECT f.file, 'requests', sum(hash(r))::VARCHAR
    FROM import_traces f JOIN llm_request_rows r USING (trace_id) GROUP BY 1
)
GROUP BY file
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


def fingerprints(con: DuckDBPyConnection, files: Mapping[int, Set[bytes]]) -> dict[int, str]:
    """For each file, a text that changes when anything stored of its traces changes.

    `files`: trace ids by file number. A file of which nothing is stored is absent.
    """
    with _traces(con, files):
        rows = con.execute(_FINGERPRINT).fetchall()
    (loose,) = con.execute(_LOGS_WITHOUT_TRACE).fetchall()[0]
    return {file: f"{text};{loose}" for file, text in rows}


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
