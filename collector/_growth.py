"""How tables grow on the disk, in databases that hold large texts.

DuckDB keeps a table in groups of up to 122,880 rows. What a new connection appends becomes a group of its
own, and the checkpoint merges small groups, by their number of rows, however many bytes those are: a thousand
results of 400 kB were read, decompressed and written again at every fold, whole in memory.

So once a database holds large texts (`note_texts`), DuckDB is told not to merge (`spare_large`), and
`rows_to_add` does it: it takes the last small groups of a table together with what is added, by bytes. Groups
double before they are merged again, so a row is written about as often as a group doubles on its way to the
largest one.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

__all__ = ["LARGE_TEXT", "LARGE_TOTAL", "MERGED_BYTES", "note_texts", "rows_to_add", "spare_large"]

LARGE_TEXT = 16 << 10  # bytes from which on a text is large: a full group of such takes 2 GB
LARGE_TOTAL = 32 << 20  # bytes of large texts that DuckDB may still merge
MERGED_BYTES = 16 << 20  # the largest group that is made by merging
_MERGED_ROWS = 122_880
_REMEMBERED = 40  # groups at the end of a table
_LARGE, _TAIL = "large_text_bytes", "row_groups_"


def spare_large(con: DuckDBPyConnection) -> bool:
    """Turn DuckDB's merging off if the database holds many large texts; whether it does."""
    large = int(_noted(con, _LARGE) or 0) > LARGE_TOTAL
    if large:
        con.execute("SET max_vacuum_tasks = 0")
    return large


def note_texts(con: DuckDBPyConnection, texts: pa.Table) -> None:
    """Tell that these texts are added to `contents`."""
    con.register("added_texts", texts)
    sizes = "SELECT strlen(text) AS size FROM added_texts"
    found = con.execute(f"SELECT sum(size)::BIGINT FROM ({sizes}) WHERE size >= {LARGE_TEXT}")  # noqa: S608
    large = found.fetchall()[0][0]
    con.unregister("added_texts")
    if large:
        _note(con, _LARGE, str(int(_noted(con, _LARGE) or 0) + large))
        spare_large(con)


def rows_to_add(con: DuckDBPyConnection, table: str, rows: pa.Table) -> pa.Table:
    """`rows`, and before them rows that were taken out of the end of the table to be written with them.

    Only where DuckDB does not merge. To be called inside the transaction that adds the rows.
    """
    if not spare_large(con):
        return rows
    groups: list[list[int]] = []  # rows and bytes of the groups at the end of the table, the last one last
    with suppress(ValueError, TypeError):
        groups = json.loads(_noted(con, f"{_TAIL}{table}") or "[]")
    count, size = rows.num_rows, rows.nbytes
    while groups:
        more, bytes_more = groups[-1]
        fits = size + bytes_more <= MERGED_BYTES and count + more <= _MERGED_ROWS
        if not fits or bytes_more > 2 * size:
            break
        groups.pop()
        count, size = count + more, size + bytes_more
    first = _first_of_last(con, table, count - rows.num_rows)
    if first is not None:
        names = ", ".join(rows.column_names)
        last = f"FROM {table} WHERE rowid >= {first}"
        taken = con.sql(f"SELECT {names} {last} ORDER BY rowid").to_arrow_table()
        con.execute(f"DELETE {last}")
        import pyarrow as pa

        rows = pa.concat_tables([taken.cast(rows.schema), rows])
    # Behind a large group nothing is at the end of the table any more.
    groups = [*groups, [count, size]] if size < MERGED_BYTES else []
    _note(con, f"{_TAIL}{table}", json.dumps(groups[-_REMEMBERED:]))
    return rows


def _first_of_last(con: DuckDBPyConnection, table: str, count: int) -> int | None:
    """The row id from which on the last `count` rows of a table stand; None: take none of them.

    Rows were removed since the groups were noted, it may be; then these are others, and could be large.
    """
    if not count:
        return None
    last = f"SELECT rowid AS id FROM {table} ORDER BY rowid DESC LIMIT {count}"  # noqa: S608
    first = con.execute(f"SELECT min(id) FROM ({last})").fetchall()[0][0]  # noqa: S608
    if first is None or table != "contents":
        return first
    sizes = "SELECT rowid AS id, sum(strlen(text)) OVER (ORDER BY rowid DESC) AS size FROM contents"
    small = f"SELECT min(id) FROM ({sizes} WHERE rowid >= {first}) WHERE size <= {MERGED_BYTES}"  # noqa: S608
    return con.execute(small).fetchall()[0][0]


def _noted(con: DuckDBPyConnection, key: str) -> str | None:
    found = con.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchall()
    return found[0][0] if found else None


def _note(con: DuckDBPyConnection, key: str, value: str) -> None:
    con.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", [key, value]
    )
