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

__all__ = ["MERGED_BYTES", "NOTES_OF_GROUPS", "no_merging", "rows_to_add"]

# The largest group that is made by merging, and the most that one transaction writes again: 60-100 ms. At
# 4 MiB calls and requests of agent traces are joined once and not twice, and a span takes 10 B more.
MERGED_BYTES = 6 << 20
_MERGED_ROWS = 122_880
_JOINED = 4  # groups of about one size become one: at 2, rows are written twice as often
_REMEMBERED = 40  # groups at the end of a table
NOTES_OF_GROUPS = "row_groups_"  # and the name of a table: a key of `meta`

_Group = list[int]  # the row id of its first row, rows and bytes of a group


def no_merging(con: DuckDBPyConnection) -> None:
    """Turn DuckDB's own merging off, for all connections to this open file."""
    con.execute("SET max_vacuum_tasks = 0")


def rows_to_add(con: DuckDBPyConnection, table: str, rows: pa.Table, notes: Notes) -> pa.Table:
    """`rows`, and before them rows that were taken out of the end of the table to be written with them.

    To be called inside the transaction that adds the rows; `notes` are to be saved in it. What is taken out
    frees its blocks only at the commit, so the file grows by as much: where the transaction has written much
    again for other tables, nothing is taken and a later one finds more to join.
    """
    key = f"{NOTES_OF_GROUPS}{table}"
    groups = _noted(notes.get(key))
    end = sum(groups[-1][:2]) if groups else _end(con, table)
    taken, size = _alike(groups, rows.num_rows, rows.nbytes)
    if taken and notes.rewritten and notes.rewritten + size > MERGED_BYTES:
        taken = 0
    if taken and not groups[-1][0] < _end(con, table) <= end:  # the groups that were noted are not these
        groups, taken, end = [], 0, _end(con, table)
    if taken:
        names = ", ".join(rows.column_names)
        last = f"FROM {table} WHERE rowid >= {groups[-taken][0]}"
        before = con.sql(f"SELECT {names} {last} ORDER BY rowid").to_arrow_table()
        con.execute(f"DELETE {last}")
        import pyarrow as pa

        rows = pa.concat_tables([before.cast(rows.schema), rows])
        notes.rewritten += size
        del groups[-taken:]
    # The row ids of what was taken out are not given again: they are a hole before the new group.
    groups.append([end, rows.num_rows, rows.nbytes])
    notes.set(key, json.dumps(groups[-_REMEMBERED:]))
    return rows


def _noted(text: str | None) -> list[_Group]:
    """The groups at the end of a table, the last one last."""
    with suppress(ValueError, TypeError):
        groups = json.loads(text or "[]")
        if all(len(group) == 3 for group in groups):  # earlier versions did not note row ids
            return groups
    return []


def _alike(groups: list[_Group], count: int, size: int) -> tuple[int, int]:
    """How many groups at the end are to be joined with one of so many rows and bytes; the bytes of all then.

    What was joined may be of the size of those before it, and is joined with them at once.
    """
    taken = 0
    while True:
        more, rows, total = 0, count, size
        for _, rows_more, bytes_more in reversed(groups[: len(groups) - taken]):
            rows, total = rows + rows_more, total + bytes_more
            if bytes_more > 2 * size or total > MERGED_BYTES or rows > _MERGED_ROWS:
                break
            more += 1
        if more < _JOINED - 1:
            return taken, size
        joined = groups[len(groups) - taken - more : len(groups) - taken]
        count += sum(group[1] for group in joined)
        size += sum(group[2] for group in joined)
        taken += more


def _end(con: DuckDBPyConnection, table: str) -> int:
    """The row id behind the last row."""
    last = con.execute(f"SELECT max(rowid) FROM {table}").fetchall()[0][0]  # noqa: S608
    return 0 if last is None else last + 1
