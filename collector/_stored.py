"""What the fold needs to know of records that are already in the database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ._records import LogRecord, SpanRecord
from ._rows import LOG_COLUMNS, SPAN_COLUMNS, log_from_row, span_from_row

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["TRACE_COLUMNS", "Stored", "TraceState", "folded_names", "load", "registered", "trace_states"]

TRACE_COLUMNS: dict[str, pa.DataType] = {
    "trace_id": pa.string(),
    "spans": pa.int64(),
    "first_start_ns": pa.int64(),
    "last_start_ns": pa.int64(),
    "logs": pa.int64(),
    "first_log_ns": pa.int64(),
    "last_log_ns": pa.int64(),
    "first_derived_ns": pa.int64(),
    "last_derived_ns": pa.int64(),
    "stale": pa.bool_(),
    "derive_error": pa.string(),
}


@dataclass(slots=True)
class TraceState:
    """A row of trace_rows."""

    trace_id: str
    spans: int = 0
    first_start_ns: int | None = None
    last_start_ns: int | None = None
    logs: int = 0
    first_log_ns: int | None = None
    last_log_ns: int | None = None
    first_derived_ns: int | None = None
    last_derived_ns: int | None = None
    stale: bool = False
    derive_error: str | None = None

    def row(self) -> tuple[Any, ...]:
        """The values in the order of the columns."""
        return tuple(getattr(self, name) for name in TRACE_COLUMNS)


@dataclass(slots=True)
class Stored:
    """Records read back, by key."""

    spans: dict[tuple[str, str], SpanRecord] = field(default_factory=dict)
    logs: dict[int, LogRecord] = field(default_factory=dict)


class registered:  # noqa: N801  reads as a word of a `with` statement
    """Arrow tables under names for SQL, while the block runs."""

    def __init__(self, con: DuckDBPyConnection, **tables: pa.Table) -> None:
        self._con = con
        self._tables = tables

    def __enter__(self) -> None:
        for name, table in self._tables.items():
            self._con.register(name, table)

    def __exit__(self, *_: object) -> None:
        for name in self._tables:
            self._con.unregister(name)


def ids_table(trace_ids: Iterable[str]) -> pa.Table:
    """One column, trace_id."""
    return pa.table({"trace_id": pa.array(sorted(trace_ids), type=pa.string())})


def trace_states(con: DuckDBPyConnection, trace_ids: Iterable[str]) -> dict[str, TraceState]:
    """The states of these traces, as far as they are known, and of all stale ones."""
    names = ", ".join(TRACE_COLUMNS)
    with registered(con, wanted_traces=ids_table(trace_ids)):
        rows = con.execute(
            f"SELECT {names} FROM trace_rows WHERE stale OR trace_id IN (SELECT trace_id FROM wanted_traces)"  # noqa: S608
        ).fetchall()
    return {row[0]: TraceState(*row) for row in rows}


def folded_names(con: DuckDBPyConnection) -> set[str]:
    """Names of segments that are in, whose files may still exist."""
    return {name for (name,) in con.execute("SELECT name FROM folded_segments").fetchall()}


def load(
    con: DuckDBPyConnection,
    whole: list[TraceState],
    spans: list[tuple[str, str, int, int]],
    logs: list[tuple[int, int]],
) -> Stored:
    """Read back all records of the traces in `whole`, and those of the given keys.

    `spans` are (trace_id, span_id, first, last): first and last bound the start time in which to look.
    `logs` are (log_key, time_ns).
    """
    stored = Stored()
    texts = _Texts(con)
    _load_spans(con, whole, spans, stored, texts)
    _load_logs(con, whole, logs, stored, texts)
    return stored


def _load_spans(
    con: DuckDBPyConnection,
    whole: list[TraceState],
    keys: list[tuple[str, str, int, int]],
    stored: Stored,
    texts: _Texts,
) -> None:
    names = ", ".join(SPAN_COLUMNS)
    rows: list[dict[str, Any]] = []
    begins = [state.first_start_ns for state in whole if state.first_start_ns is not None]
    if begins:
        with registered(con, wanted_traces=ids_table(state.trace_id for state in whole)):
            rows += _fetch(
                con,
                f"SELECT {names} FROM span_rows WHERE start_ns BETWEEN ? AND ?"  # noqa: S608
                " AND trace_id IN (SELECT trace_id FROM wanted_traces)",
                [min(begins), max(state.last_start_ns or 0 for state in whole)],
            )
    if keys:
        wanted = pa.table(
            {
                "trace_id": pa.array([key[0] for key in keys], type=pa.string()),
                "span_id": pa.array([key[1] for key in keys], type=pa.string()),
            }
        )
        with registered(con, wanted_spans=wanted):
            rows += _fetch(
                con,
                f"SELECT {names} FROM span_rows WHERE start_ns BETWEEN ? AND ?"  # noqa: S608
                " AND (trace_id, span_id) IN (SELECT (trace_id, span_id) FROM wanted_spans)",
                [min(key[2] for key in keys), max(key[3] for key in keys)],
            )
    texts.fetch(key for row in rows for name in ("attribute_parts", "event_parts") for key in row[name] or ())
    resources: dict[str, dict[str, Any]] = {}
    for row in rows:
        stored.spans[row["trace_id"], row["span_id"]] = span_from_row(row, texts.known, resources)


def _load_logs(
    con: DuckDBPyConnection,
    whole: list[TraceState],
    keys: list[tuple[int, int]],
    stored: Stored,
    texts: _Texts,
) -> None:
    names = ", ".join(LOG_COLUMNS)
    rows: list[dict[str, Any]] = []
    begins = [state.first_log_ns for state in whole if state.first_log_ns is not None]
    if begins:
        with registered(con, wanted_traces=ids_table(state.trace_id for state in whole)):
            rows += _fetch(
                con,
                f"SELECT {names} FROM log_rows WHERE time_ns BETWEEN ? AND ?"  # noqa: S608
                " AND trace_id IN (SELECT trace_id FROM wanted_traces)",
                [min(begins), max(state.last_log_ns or 0 for state in whole)],
            )
    if keys:
        with registered(
            con, wanted_logs=pa.table({"log_key": pa.array([key for key, _ in keys], type=pa.int64())})
        ):
            rows += _fetch(
                con,
                f"SELECT {names} FROM log_rows WHERE time_ns BETWEEN ? AND ?"  # noqa: S608
                " AND log_key IN (SELECT log_key FROM wanted_logs)",
                [min(time for _, time in keys), max(time for _, time in keys)],
            )
    texts.fetch(key for row in rows for name in ("attribute_parts", "body_parts") for key in row[name] or ())
    resources: dict[str, dict[str, Any]] = {}
    for row in rows:
        stored.logs[row["log_key"]] = log_from_row(row, texts.known, resources)


class _Texts:
    """Texts of `contents`, fetched once."""

    def __init__(self, con: DuckDBPyConnection) -> None:
        self._con = con
        self.known: dict[int, str] = {}

    def fetch(self, keys: Iterable[int]) -> None:
        missing = sorted(set(keys) - self.known.keys())
        if not missing:
            return
        with registered(self._con, wanted_texts=pa.table({"hash": pa.array(missing, type=pa.int64())})):
            # By row number: then only the wanted texts are decompressed (400 of 900,000: 5 ms instead of 16).
            found = self._con.execute(
                "SELECT hash, text FROM contents WHERE rowid IN"
                " (SELECT rowid FROM contents WHERE hash IN (SELECT hash FROM wanted_texts))"
            ).fetchall()
        self.known.update(found)


def _fetch(con: DuckDBPyConnection, query: str, parameters: list[Any]) -> list[dict[str, Any]]:
    cursor = con.execute(query, parameters)
    assert cursor.description is not None
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
