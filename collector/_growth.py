"""How tables grow on the disk.

DuckDB keeps a table in groups of up to 122,880 rows. What a new connection appends becomes a group of its
own, and by itself the checkpoint merges small groups, by their number of rows, however many bytes those are.
So with 160,000 tool spans in the database a fold held the file for a second while a group of 120 MB was read,
decompressed and written again; a thousand results of 400 kB were, whole in memory, at every fold.

So DuckDB is told not to merge (`no_merging`), and `rows_to_add` does it: it takes the last small groups of a
table together with what is added, by bytes. Four groups of about one size become one, so a row is written
about as often as a group can be multiplied by four on its way to the largest one; what a batch of a backlog
adds to the tables with texts is not merged at all.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from ._notes import Notes

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

__all__ = ["MERGED_BYTES", "no_merging", "rows_to_add"]

MERGED_BYTES = 4 << 20  # the largest group that is made by merging: writing it takes 50-80 ms
_MERGED_ROWS = 122_880
_JOINED = 4  # groups of about one size become one: at 2, rows are written twice as often
_REMEMBERED = 40  # groups at the end of a table
_TAIL = "row_groups_"


def no_merging(con: DuckDBPyConnection) -> None:
    """Turn DuckDB's own merging off, for all connections to this open file."""
    con.execute("SET max_vacuum_tasks = 0")


def rows_to_add(con: DuckDBPyConnection, table: str, rows: pa.Table, notes: Notes) -> pa.Table:
    """`rows`, and before them rows that were taken out of the end of the table to be written with them.

    To be called inside the transaction that adds the rows; `notes` are to be saved in it.
    """
    groups: list[list[int]] = []  # rows and bytes of the groups at the end of the table, the last one last
    with suppress(ValueError, TypeError):
        groups = json.loads(notes.get(f"{_TAIL}{table}") or "[]")
    count, size = rows.num_rows, rows.nbytes
    while taken := _alike(groups, count, size):
        for more, bytes_more in groups[-taken:]:
            count, size = count + more, size + bytes_more
        del groups[-taken:]
    first = _first_of_last(con, table, count - rows.num_rows)
    if first is not None:
        names = ", ".join(rows.column_names)
        last = f"FROM {table} WHERE rowid >= {first}"
        before = con.sql(f"SELECT {names} {last} ORDER BY rowid").to_arrow_table()
        con.execute(f"DELETE {last}")
        import pyarrow as pa

        rows = pa.concat_tables([before.cast(rows.schema), rows])
    # Behind a large group nothing is at the end of the table any more.
    groups = [*groups, [count, size]] if size < MERGED_BYTES else []
    notes.set(f"{_TAIL}{table}", json.dumps(groups[-_REMEMBERED:]))
    return rows


def _alike(groups: list[list[int]], count: int, size: int) -> int:
    """How many groups at the end are to be joined with one of so many rows and bytes behind them."""
    taken, total = 0, size
    for more, bytes_more in reversed(groups):
        count, total = count + more, total + bytes_more
        if bytes_more > 2 * size or total > MERGED_BYTES or count > _MERGED_ROWS:
            break
        taken += 1
    return taken if taken >= _JOINED - 1 else 0


def _first_of_last(con: DuckDBPyConnection, table: str, count: int) -> int | None:
    """The row id from which on the last groups of a table stand, of `count` rows; None: take none of them.

    Groups went since they were noted, it may be; then these are others, and their texts could be large.
    """
    if not count:
        return None
    last = con.execute(f"SELECT max(rowid) FROM {table}").fetchall()[0][0]  # noqa: S608
    if last is None:
        return None
    first = last + 1 - count
    if table != "contents":
        return first
    sizes = "SELECT rowid AS id, sum(strlen(text)) OVER (ORDER BY rowid DESC) AS size FROM contents"
    small = f"SELECT min(id) FROM ({sizes} WHERE rowid >= {first}) WHERE size <= {MERGED_BYTES}"  # noqa: S608
    return con.execute(small).fetchall()[0][0]
