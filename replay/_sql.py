"""The statements of `sql/`, and small helpers to run them.

The files hold standard SQL with named parameters (`$name`); a statement that builds on the
verdicts is put together from files by name, never from values.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["arrow", "filtered", "rows", "sql_text"]


@cache
def sql_text(*names: str) -> str:
    """The text of the files `sql/<name>.sql`, one behind the other."""
    folder = files("loopscope.replay").joinpath("sql")
    return "\n".join(folder.joinpath(f"{name}.sql").read_text(encoding="utf-8") for name in names)


def arrow(con: duckdb.DuckDBPyConnection, query: str, params: Mapping[str, Any] | None = None) -> pa.Table:
    """The answer of a query as an Arrow table."""
    return con.sql(query, params=dict(params or {})).to_arrow_table()


def rows(
    con: duckdb.DuckDBPyConnection, query: str, params: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The answer of a query as one dict per row. For small answers."""
    cursor = con.execute(query, dict(params or {}))
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def filtered(name: str, condition: str, base: str | None = None) -> str:
    """The text of `sql/<name>.sql`, behind that of `base`, with its filter set to a condition.

    Conditions come from `_filters`: fixed text with parameters, no values.
    """
    names = (name,) if base is None else (base, name)
    return sql_text(*names).replace("TRUE /* filter */", condition)
