"""The store as Parquet files, a folder per day, for engines that read it (Spark, Polars, DuckDB, pandas).

    DIR/tool_calls/day=2026-01-31/tool_calls.parquet

The columns are those of the public views (docs/store.md), texts whole; `day` is the UTC day of `started_at`
(`logged_at` for logs). An export replaces the one before as a whole, so that days which are gone from the
store are gone from the folder.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..guard import StoreError
from ._rows import CALL_COLUMNS, LOG_COLUMNS, REQUEST_COLUMNS, SPAN_COLUMNS
from ._schema import SCHEMA_VERSION, create_schema
from ._store import Store
from ._stored import registered

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

__all__ = ["EXPORTED_VIEWS", "ExportReport", "export_parquet"]

_DAY_NS = 86_400_000_000_000
# View: the table that knows its times cheaply, the column of its time, rows of a row group. A reader holds a
# row group in memory, and a request with its history may be 100 kB.
EXPORTED_VIEWS = {
    "tool_calls": ("tool_call_rows", "start_ns", 20_480),
    "llm_requests": ("llm_request_rows", "start_ns", 2_048),
    "spans": ("span_rows", "start_ns", 8_192),
    "logs": ("log_rows", "time_ns", 8_192),
}
_COLUMNS = {
    "tool_call_rows": CALL_COLUMNS,
    "llm_request_rows": REQUEST_COLUMNS,
    "span_rows": SPAN_COLUMNS,
    "log_rows": LOG_COLUMNS,
}
_BATCH_ROWS = 10_000
_NOTE = "_loopscope.json"  # readers of Parquet skip names that begin with _


@dataclass(slots=True)
class ExportReport:
    """What was written: rows by view, the number of files and their bytes."""

    folder: Path
    rows: dict[str, int] = field(default_factory=dict)
    days: set[str] = field(default_factory=set)
    files: int = 0
    size: int = 0


def export_parquet(
    store: Store,
    folder: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> ExportReport:
    """Write the public views as Parquet below `folder`, in place of an earlier export there.

    The database is held while the rows of one day of one view are copied. What comes in meanwhile may be in
    some files and not in others; it is in the next export.

    Args:
        progress: called with (files written, files in all).

    Raises:
        StoreError: the database cannot be used; the folder cannot be written, or holds something else
            under the name of a view. The earlier export is then as it was.
    """
    target = Path(folder).expanduser().absolute()
    report = ExportReport(target)
    for view in EXPORTED_VIEWS:
        _refuse_foreign(target / view)
    draft = target / f".export-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        try:
            draft.mkdir(parents=True)
            work = [(view, day) for view in EXPORTED_VIEWS for day in _days(store, view)]
            with _Day(draft / "day.duckdb") as day_store:
                for done, (view, day) in enumerate(work):
                    if progress is not None:
                        progress(done, len(work))
                    _write_day(store, day_store, view, day, draft, report)
            _put_in_place(draft, target, report)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise StoreError(f"cannot write the export to {target}: {error.strerror or error}") from error
    return report


def _refuse_foreign(folder: Path) -> None:
    """Only what an export wrote is ever replaced."""
    if not os.path.lexists(folder):
        return
    try:
        ours = folder.is_dir() and not folder.is_symlink() and all(map(_is_ours, folder.iterdir()))
    except OSError as error:
        raise StoreError(f"cannot read {folder}: {error.strerror}") from error
    if not ours:
        raise StoreError(f"{folder} holds other things than an export; name another folder.")


def _is_ours(path: Path) -> bool:
    return path.is_dir() and path.name.startswith("day=")


def _days(store: Store, view: str) -> list[int]:
    """The days of a view, as numbers since 1970."""
    table, column, _ = EXPORTED_VIEWS[view]
    with store.lease() as con:
        rows = con.sql(
            f"SELECT DISTINCT {column} // {_DAY_NS} AS day FROM {table} ORDER BY day"  # noqa: S608
        ).fetchall()
    return [day for (day,) in rows]


class _Day:
    """A database of its own for the rows of one day of one view, and no other texts than theirs.

    The store is held only while they are copied; and joining a day to all texts of a large store takes
    seconds where joining it to its own takes none.
    """

    def __init__(self, path: Path) -> None:
        import duckdb

        self._path = path
        self.con = duckdb.connect(str(path))
        create_schema(self.con)

    def __enter__(self) -> _Day:
        return self

    def __exit__(self, *_: object) -> None:
        self.con.close()
        for leftover in (self._path, Path(f"{self._path}.wal")):
            with suppress(OSError):
                leftover.unlink()

    def take(self, store: Store, view: str, first_ns: int, last_ns: int) -> None:
        """Have the rows of a view whose time is between the two."""
        table, column, _ = EXPORTED_VIEWS[view]
        names = list(_COLUMNS[table])
        for emptied in (table, "contents"):
            self.con.execute(f"TRUNCATE {emptied}")
        with store.lease() as con:
            rows = con.sql(
                f"SELECT {', '.join(names)} FROM {table} WHERE {column} BETWEEN {first_ns} AND {last_ns}"  # noqa: S608
            )
            self._insert(table, names, rows)
            keys = " UNION ".join(
                f"SELECT {f'unnest({name})' if name.endswith('_parts') else name} AS hash FROM {table}"  # noqa: S608
                for name in names
                if name.endswith(("_parts", "_content"))
            )
            wanted = self.con.sql(f"SELECT hash FROM ({keys}) WHERE hash IS NOT NULL").to_arrow_table()  # noqa: S608
            with registered(con, wanted_texts=wanted):
                texts = con.sql(
                    "SELECT hash, check_hash, text FROM contents"
                    " WHERE hash IN (SELECT hash FROM wanted_texts)"
                )
                self._insert("contents", ["hash", "check_hash", "text"], texts)

    def _insert(self, table: str, names: list[str], rows: DuckDBPyRelation) -> None:
        listed = ", ".join(names)
        with registered(self.con, new_rows=rows.to_arrow_reader(_BATCH_ROWS)):
            self.con.execute(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM new_rows")  # noqa: S608

    def write(self, view: str, file: Path) -> int:
        """The view as a Parquet file; the number of its rows."""
        _, column, row_group = EXPORTED_VIEWS[view]
        quoted = str(file).replace("'", "''")
        return self.con.execute(
            f"COPY (SELECT * FROM {view} ORDER BY {column}, trace_id, span_id)"  # noqa: S608
            f" TO '{quoted}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {row_group})"
        ).fetchall()[0][0]


def _write_day(store: Store, day_store: _Day, view: str, day: int, draft: Path, report: ExportReport) -> None:
    import duckdb

    name = (date(1970, 1, 1) + timedelta(days=day)).isoformat()
    folder = draft / view / f"day={name}"
    folder.mkdir(parents=True)
    file = folder / f"{view}.parquet"
    try:
        day_store.take(store, view, day * _DAY_NS, min((day + 1) * _DAY_NS, 1 << 63) - 1)
        count = day_store.write(view, file)
    except duckdb.Error as error:
        raise StoreError(f"cannot export {view} of {name}: {str(error).splitlines()[0]}") from error
    report.rows[view] = report.rows.get(view, 0) + count
    report.days.add(name)
    report.files += 1
    report.size += file.stat().st_size


def _put_in_place(draft: Path, target: Path, report: ExportReport) -> None:
    note = {
        "loopscope_schema_version": SCHEMA_VERSION,
        "rows": {view: report.rows.get(view, 0) for view in EXPORTED_VIEWS},
    }
    (draft / _NOTE).write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
    old = draft / "old"
    old.mkdir()
    replaced: list[str] = []
    try:
        for view in EXPORTED_VIEWS:
            if (target / view).exists():
                os.rename(target / view, old / view)
            replaced.append(view)
            if (draft / view).exists():
                os.rename(draft / view, target / view)
        os.replace(draft / _NOTE, target / _NOTE)
    except OSError:
        for view in replaced:  # the earlier export, as it was
            with suppress(OSError):
                if (target / view).exists():
                    os.rename(target / view, draft / view)
                if (old / view).exists():
                    os.rename(old / view, target / view)
        raise
