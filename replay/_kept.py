"""Tables in memory whose rows come and go, while older readers still see what was there before.

Each row says in which generation it came (`born`) and in which it is gone (`died`). A reader sees one
generation: whatever is done to the table meanwhile, its answers fit together. Only what differs is
replaced, so a run that grows by a call costs one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

__all__ = ["ALIVE", "alive", "make", "replace_rows"]

ALIVE = 2**31 - 1  # `died` of a row that is there


def alive(generation: int) -> str:
    """The condition under which a row is there in a generation."""
    return f"born <= {generation:d} AND died > {generation:d}"


def make(con: duckdb.DuckDBPyConnection, table: str, query: str, generation: int) -> None:
    """Make a table out of a query: all its rows are there from this generation on."""
    con.execute(
        f"CREATE TABLE {table} AS "  # noqa: S608 - fixed text and numbers
        f"SELECT *, CAST({generation:d} AS INTEGER) AS born, CAST({ALIVE} AS INTEGER) AS died FROM ({query})"
    )


def replace_rows(
    con: duckdb.DuckDBPyConnection,
    table: str,
    key: Sequence[str],
    fresh: str,
    old: str,
    generation: int,
) -> int:
    """Put the rows of a query in the place of those that fulfil a condition; how many are gone.

    `key` names the columns that tell rows apart. Rows that are the same stay.
    """
    columns = con.execute(f"SELECT * FROM {table} LIMIT 0").description or ()  # noqa: S608
    names = ", ".join(name for name, *_ in columns if name not in _OWN)
    con.execute(f"CREATE OR REPLACE TEMP TABLE rows_now AS SELECT {names} FROM ({fresh}) AS fresh")  # noqa: S608
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE rows_then AS SELECT rowid AS place, {names} FROM {table} "  # noqa: S608
        f"WHERE died = {ALIVE} AND ({old})"
    )
    same = " AND ".join(f"g.{name} IS NOT DISTINCT FROM t.{name}" for name in key)
    gone = con.execute(
        f"SELECT t.place FROM rows_then AS t JOIN ("  # noqa: S608
        f"SELECT {names} FROM rows_then EXCEPT SELECT {names} FROM rows_now) AS g ON {same}"
    ).fetchall()
    if gone:
        places = [place for (place,) in gone]
        con.execute(
            f"UPDATE {table} SET died = {generation:d} "  # noqa: S608
            f"WHERE rowid BETWEEN {min(places)} AND {max(places)} AND rowid IN (SELECT unnest($places))",
            {"places": places},
        )
    con.execute(
        f"INSERT INTO {table} SELECT {names}, {generation:d}, {ALIVE} FROM ("  # noqa: S608
        f"SELECT {names} FROM rows_now EXCEPT SELECT {names} FROM rows_then)"
    )
    con.execute("DROP TABLE rows_now; DROP TABLE rows_then")
    return len(gone)


_OWN = ("born", "died")
