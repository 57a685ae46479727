"""`loopscope query`: SQL on the store, taking its turn on the file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..guard import LoopscopeError
from ._options import Db, Format, FormatOption
from ._output import one_line, print_csv, print_error, print_json, print_table
from ._store import reading

__all__ = ["query"]


def query(
    sql: Annotated[
        str,
        typer.Argument(help='One statement, e.g. "SELECT tool_name, count(*) FROM tool_calls GROUP BY 1".'),
    ],
    db: Db,
    format: FormatOption = Format.TABLE,
    limit: Annotated[
        int, typer.Option(min=0, help="Most rows to print; 0 prints all. A cut is said on stderr.")
    ] = 1000,
) -> None:
    """Run SQL on the store, read-only, while agents and the dashboard use it.

    docs/store.md has the schema.
    """
    columns, rows, more = _run(db, sql, limit)
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    if format is Format.JSON:
        print_json(records)
    elif format is Format.CSV:
        print_csv(columns, records)
    else:
        print_table({column: column for column in columns}, records, width=120)
    if more:
        print_error(f"only the first {limit:,} rows are printed; --limit 0 prints all")


def _run(db: Path, sql: str, limit: int) -> tuple[list[str], list[tuple[Any, ...]], bool]:
    import duckdb

    with reading(db) as connection:
        connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            result = connection.execute(sql)
            names = _distinct([column[0] for column in result.description or []])
            rows = result.fetchall() if limit == 0 else result.fetchmany(limit + 1)
        except duckdb.Error as error:
            raise LoopscopeError(f"the database refused the query: {one_line(str(error), 600)}") from error
        finally:
            # Rolled back whatever happened: a query changes nothing.
            connection.execute("ROLLBACK")
    more = limit != 0 and len(rows) > limit
    return names, rows[:limit] if more else rows, more


def _distinct(names: list[str]) -> list[str]:
    """Column names made unique, so that `SELECT a, a` loses no column: a, a_2."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return result
