"""One transaction of the fold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ._batch import Drop
from ._build import Changes
from ._contents import CHECK_BITS
from ._growth import rows_to_add
from ._notes import Notes
from ._rows import CALL_COLUMNS, LOG_COLUMNS, REQUEST_COLUMNS, SPAN_COLUMNS, arrow_table
from ._schema import sql_text
from ._stored import TRACE_COLUMNS, TraceState, ids_table, registered, rows_where, texts_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["forget_texts", "write_changes"]

_NEXT_KEY = "next_text"  # in meta
_COUNTED_KEYS = 1 << 40  # keys of earlier versions are hashes, most of them above this


@dataclass(slots=True)
class _Touched:
    """What the changes touch besides their own rows."""

    keys: set[int] = field(default_factory=set)  # of contents, in rows that were removed
    runs: set[str] = field(default_factory=set)  # runs over several traces, some of whose rows changed


def write_changes(con: DuckDBPyConnection, changes: Changes, waiting: set[str]) -> tuple[int, int]:
    """Apply changes inside the open transaction.

    Returns how many calls and requests are new or other than before. `waiting` are those names in
    folded_segments whose files still exist: the others need not be remembered any more.
    """
    notes = Notes(con)
    keys = _write_contents(con, _in_order_of_use(changes), notes)
    changes = replace(
        changes,
        spans=keys.put_into(changes.spans),
        logs=keys.put_into(changes.logs),
        calls=keys.put_into(changes.calls),
        requests=keys.put_into(changes.requests),
    )
    touched = _Touched()
    _replace_spans(con, changes, touched, notes)
    _replace_logs(con, changes, touched, notes)
    before = changes.derived_before
    calls = _replace_derived(con, "tool_call_rows", changes.calls, before, touched, notes)
    requests = _replace_derived(con, "llm_request_rows", changes.requests, before, touched, notes)
    if touched.runs:
        with registered(
            con, wanted_runs=pa.table({"run_id": pa.array(sorted(touched.runs), type=pa.string())})
        ):
            con.execute(sql_text("renumber.sql"))
    _write_traces(con, changes, notes)
    _write_drops(con, changes.drops)
    _write_segments(con, changes.segments, waiting)
    if touched.keys:
        forget_texts(con, touched.keys.difference(keys.values().to_pylist()))
    notes.save()
    return calls, requests


def forget_texts(con: DuckDBPyConnection, keys: set[int]) -> None:
    """Remove texts that nothing refers to; `keys` are those that lost a reference."""
    if keys:
        with registered(con, dropped_keys=pa.table({"hash": pa.array(sorted(keys), type=pa.int64())})):
            con.execute(sql_text("forget_texts.sql"))


class _Keys:
    """The keys that the texts of a batch have in the database, by those they have in the batch.

    In a batch they are hashes. In the database they are counted: those of one trace lie close together, so
    that a key in a list takes one byte or two instead of eight.
    """

    def __init__(self, texts: pa.Table, keys: pa.Array) -> None:
        self._batch = texts.column("hash").combine_chunks()
        self._keys = keys

    def values(self) -> pa.Array:
        """All of them."""
        return self._keys

    def put_into(self, rows: pa.Table) -> pa.Table:
        """Rows of a base table with the keys of the database."""
        for at, field_ in enumerate(rows.schema):
            if field_.name.endswith("_content"):
                column = self._of(rows.column(at).combine_chunks())
            elif field_.name.endswith("_parts"):
                lists = rows.column(at).combine_chunks()
                column = pa.ListArray.from_arrays(
                    lists.offsets, self._of(lists.values), type=field_.type, mask=lists.is_null()
                )
            else:
                continue
            rows = rows.set_column(at, field_, column)
        return rows

    def _of(self, column: pa.Array) -> pa.Array:
        return self._keys.take(_places(column, self._batch))


def _places(values: pa.Array, among: pa.Array) -> pa.Array:
    """Where each value stands in `among`."""
    return pc.index_in(values, value_set=among)  # pyright: ignore[reportAttributeAccessIssue]  made at run time


def _is_among(values: pa.Array | pa.ChunkedArray, among: pa.Array) -> pa.Array:
    """Whether each value is one of `among`."""
    return pc.is_in(values, value_set=among)  # pyright: ignore[reportAttributeAccessIssue]


def _in_order_of_use(changes: Changes) -> pa.Table:
    """The texts of a batch, JSON texts that begin alike side by side, and in each kind those of one trace."""
    used = [
        column.combine_chunks().flatten() if field_.name.endswith("_parts") else column.combine_chunks()
        for rows in (changes.spans, changes.logs, changes.calls, changes.requests)
        for field_, column in zip(rows.schema, rows.columns, strict=True)
        if field_.name.endswith(("_parts", "_content"))
    ]
    texts = changes.contents
    order = pa.chunked_array(used, type=pa.int64()).unique().drop_null()
    places = _places(order, texts.column("hash").combine_chunks())
    kinds = _beginnings(texts.column("text").combine_chunks()).take(places)
    return texts.take(places.take(pc.sort_indices(kinds)))  # pyright: ignore[reportAttributeAccessIssue]


def _beginnings(texts: pa.Array) -> pa.Array:
    """How JSON texts begin, "" of other texts: messages, arguments and results compress better one by one."""
    is_json = pc.or_(pc.starts_with(texts, "{"), pc.starts_with(texts, "["))  # pyright: ignore[reportAttributeAccessIssue]
    return pc.if_else(is_json, pc.utf8_slice_codeunits(texts, 0, 8), "")  # pyright: ignore[reportAttributeAccessIssue]


def _write_contents(con: DuckDBPyConnection, texts: pa.Table, notes: Notes) -> _Keys:
    """Store the texts that are not there yet."""
    if not texts.num_rows:
        return _Keys(texts, pa.array([], type=pa.int64()))
    with registered(con, new_texts=texts):
        alike = con.execute(
            "SELECT n.hash, c.hash FROM contents c JOIN new_texts n"  # noqa: S608
            f" ON n.check_hash = c.check_hash & {CHECK_BITS}"  # earlier versions stored all 64
        ).fetchall()
    names = texts.column("hash").combine_chunks()
    # 32 bits find the few that may be equal, so they are compared.
    stored: dict[int, int] = {}
    fresh = texts
    if alike:
        there = _by_key(texts_of(con, {key for _, key in alike}))
        same = pa.array({name for name, _ in alike}, type=pa.int64())
        batch = _by_key(texts.filter(_is_among(names, same)).select(["hash", "text"]))
        stored = {name: key for name, key in alike if batch[name] == there[key]}
        fresh = texts.filter(pc.invert(_is_among(names, pa.array(stored, type=pa.int64()))))  # pyright: ignore[reportAttributeAccessIssue]
    first = _counted_keys(con, fresh.num_rows, notes)
    counted = pa.array(range(first, first + fresh.num_rows), type=pa.int64())
    keys = counted
    if stored:
        added = iter(range(first, first + fresh.num_rows))
        found = (stored.get(name) for name in names.to_pylist())
        keys = pa.array([next(added) if key is None else key for key in found], type=pa.int64())
    fresh = fresh.set_column(fresh.column_names.index("hash"), "hash", counted)
    _insert(con, "contents", list(fresh.column_names), fresh, notes)
    return _Keys(texts, keys)


def _by_key(texts: pa.Table) -> dict[int, str]:
    """The two columns of a table as a dictionary."""
    return dict(zip(*(column.to_pylist() for column in texts.columns), strict=True))


def _counted_keys(con: DuckDBPyConnection, count: int, notes: Notes) -> int:
    """The first of `count` keys in a row that no text has, or had."""
    noted = notes.get(_NEXT_KEY)
    if noted is not None:
        first = int(noted)
    else:
        found = con.execute(
            f"SELECT coalesce(max(hash), 0) + 1 FROM contents WHERE hash BETWEEN 1 AND {_COUNTED_KEYS}"  # noqa: S608
        )
        first = found.fetchall()[0][0]
    # A database of an earlier version may have a hash there.
    while count and (
        taken := con.execute(
            "SELECT max(hash) FROM contents WHERE hash BETWEEN ? AND ?", [first, first + count - 1]
        ).fetchall()[0][0]
    ):
        first = taken + 1
    notes.set(_NEXT_KEY, str(first + count))
    return first


def _replace_spans(con: DuckDBPyConnection, changes: Changes, touched: _Touched, notes: Notes) -> None:
    if changes.old_spans:
        traces, spans, starts = zip(*changes.old_spans, strict=True)
        gone = {"trace_id": pa.array(traces, type=pa.string()), "span_id": pa.array(spans, type=pa.string())}
        with registered(con, old_spans=pa.table(gone)):
            removed = con.execute(
                "DELETE FROM span_rows WHERE start_ns BETWEEN ? AND ?"
                " AND (trace_id, span_id) IN (SELECT (trace_id, span_id) FROM old_spans)"
                " RETURNING attribute_parts, event_parts",
                [min(starts), max(starts)],
            ).fetchall()
        touched.keys |= _keys(removed)
    _insert(con, "span_rows", list(SPAN_COLUMNS), changes.spans, notes)


def _replace_logs(con: DuckDBPyConnection, changes: Changes, touched: _Touched, notes: Notes) -> None:
    if changes.old_logs:
        keys, times = zip(*changes.old_logs, strict=True)
        with registered(con, old_logs=pa.table({"log_key": pa.array(keys, type=pa.int64())})):
            removed = con.execute(
                "DELETE FROM log_rows WHERE time_ns BETWEEN ? AND ?"
                " AND log_key IN (SELECT log_key FROM old_logs) RETURNING attribute_parts, body_parts",
                [min(times), max(times)],
            ).fetchall()
        touched.keys |= _keys(removed)
    _insert(con, "log_rows", list(LOG_COLUMNS), changes.logs, notes)


def _replace_derived(
    con: DuckDBPyConnection,
    table: _Derived,
    fresh: pa.Table,
    before: list[TraceState],
    touched: _Touched,
    notes: Notes,
) -> int:
    """Make the derived rows of the traces be `fresh`, leaving alone those that are right already."""
    columns = _DERIVED[table]
    if before:
        # Of a backlog few rows, or none, are of traces that were here, and the others need not be looked at.
        # Those few are compared here: DuckDB would plan a comparison of 34 columns longer than it takes.
        wanted = ids_table(state.trace_id for state in before)
        with registered(con, wanted_traces=wanted):
            first = min(state.first_derived_ns or 0 for state in before)
            last = max(state.last_derived_ns or 0 for state in before)
            of_trace = "trace_id IN (SELECT trace_id FROM wanted_traces)"
            within = f"start_ns BETWEEN {first} AND {last} AND {of_trace}"
            found = rows_where(con, table, ["rowid AS id", *columns], within)
        here = _is_among(fresh.column("trace_id"), wanted.column("trace_id").combine_chunks())
        mine, rest = fresh.filter(here), fresh.filter(pc.invert(here))  # pyright: ignore[reportAttributeAccessIssue]
        # seq and turn of runs over several traces are counted afterwards, from trace_seq and trace_turn.
        compared = [name for name in columns if name not in ("seq", "turn")]
        old, new = _tuples(found, compared), _tuples(mine, compared)
        known, right = set(old), set(new)
        gone = found.filter(pa.array([row not in right for row in old], type=pa.bool_()))
        if gone.num_rows:
            with registered(con, gone_rows=gone.select(["id"])):
                con.execute(f"DELETE FROM {table} WHERE rowid IN (SELECT id FROM gone_rows)")  # noqa: S608
            touched.runs |= _spanning_runs(gone)
            touched.keys |= _keys(_tuples(gone, [n for n in columns if n.endswith(("_parts", "_content"))]))
        mine = mine.filter(pa.array([row not in known for row in new], type=pa.bool_()))
        fresh = pa.concat_tables([mine, rest])
    touched.runs |= _spanning_runs(fresh)
    _insert(con, table, list(columns), fresh, notes)
    return fresh.num_rows


def _spanning_runs(rows: pa.Table) -> set[str]:
    """The runs of derived rows that can span traces."""
    runs = zip(rows.column("run_id").to_pylist(), rows.column("run_source").to_pylist(), strict=True)
    return {run for run, source in runs if source in _SPANNING}


def _tuples(rows: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    """Rows as values that can be compared and hashed."""
    columns = [rows.column(name).to_pylist() for name in names]
    for at, name in enumerate(names):
        if name.endswith("_parts"):
            columns[at] = [None if keys is None else tuple(keys) for keys in columns[at]]
    return list(zip(*columns, strict=True))


_Derived = Literal["tool_call_rows", "llm_request_rows"]
_DERIVED: dict[_Derived, dict[str, pa.DataType]] = {
    "tool_call_rows": CALL_COLUMNS,
    "llm_request_rows": REQUEST_COLUMNS,
}
_SPANNING = ("conversation", "mcp_session", "transcript")  # run sources of runs that can span traces


def _write_traces(con: DuckDBPyConnection, changes: Changes, notes: Notes) -> None:
    if changes.known_traces:
        with registered(con, wanted_traces=ids_table(changes.known_traces)):
            con.execute("DELETE FROM trace_rows WHERE trace_id IN (SELECT trace_id FROM wanted_traces)")
    rows = arrow_table(TRACE_COLUMNS, [state.row() for state in changes.traces])
    # The fold that is under way makes the serial grow when it is done.
    serial = pa.array([int(notes.get("fold_serial") or 0) + 1] * rows.num_rows, type=pa.int64())
    rows = rows.append_column("changed_in", serial)
    _insert(con, "trace_rows", [*TRACE_COLUMNS, "changed_in"], rows, notes)


def _write_drops(con: DuckDBPyConnection, drops: list[Drop]) -> None:
    for drop in drops:
        con.execute(
            "INSERT INTO drop_counters VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET value = value + excluded.value, last_ns = greatest(last_ns, excluded.last_ns)",
            [drop.name, drop.source, drop.value, drop.at_ns],
        )


def _write_segments(con: DuckDBPyConnection, names: list[str], waiting: set[str]) -> None:
    with registered(con, waiting_segments=pa.table({"name": pa.array(sorted(waiting), type=pa.string())})):
        con.execute("DELETE FROM folded_segments WHERE name NOT IN (SELECT name FROM waiting_segments)")
    if names:
        with registered(con, new_segments=pa.table({"name": pa.array(names, type=pa.string())})):
            con.execute(
                "INSERT INTO folded_segments"
                " SELECT name, (now() AT TIME ZONE 'UTC')::TIMESTAMP FROM new_segments"
            )


def _insert(con: DuckDBPyConnection, table: str, names: list[str], rows: pa.Table, notes: Notes) -> None:
    if rows.num_rows:
        rows = rows_to_add(con, table, rows.select(names), notes)
        listed = ", ".join(names)
        with registered(con, new_rows=rows):
            con.execute(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM new_rows")  # noqa: S608


def _keys(rows: Iterable[Iterable[Any]]) -> set[int]:
    found: set[int] = set()
    for row in rows:
        for value in row:
            if isinstance(value, list | tuple):
                found.update(value)
            elif value is not None:
                found.add(value)
    return found
