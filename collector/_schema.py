"""The schema of a Loopscope database: made, checked, brought up to date."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

from ..guard import StoreVersionError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = [
    "MIGRATIONS",
    "SCHEMA_VERSION",
    "create_schema",
    "refuse_newer",
    "schema_version",
    "sql_text",
    "upgrade_schema",
]

SCHEMA_VERSION = 3

# From a version to the next one: the name of a file in sql/. Views are made again after the last step.
MIGRATIONS: Mapping[int, str] = {1: "migrate_1_to_2.sql", 2: "migrate_2_to_3.sql"}


def sql_text(name: str) -> str:
    """The text of a file in collector/sql/."""
    return files(__package__ or "loopscope.collector").joinpath("sql", name).read_text(encoding="utf-8")


def create_schema(con: DuckDBPyConnection) -> None:
    """Make all tables and views in an empty database, in one transaction."""
    con.execute("BEGIN")
    con.execute(sql_text("schema.sql"))
    con.execute(sql_text("views.sql"))
    con.execute(
        "INSERT INTO meta VALUES"
        " ('schema_version', ?), ('version', ?), ('fold_serial', '0'), ('removals', '0'), ('store_id', ?)",
        # Versions are keys of readers' caches: a file made in the place of a deleted one must not repeat its.
        [str(SCHEMA_VERSION), str(time.time_ns() // 1_000_000), str(uuid.uuid4())],
    )
    con.execute("COMMIT")


def schema_version(con: DuckDBPyConnection, path: str) -> int | None:
    """The schema version of an open database; None if it holds no table at all.

    Raises:
        StoreVersionError: it has tables, but not those of a Loopscope database.
    """
    names = {
        name
        for (name,) in con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary"
            " AND database_name = current_database()"
        ).fetchall()
    }
    if not names:
        return None
    if {"meta", "span_rows", "tool_call_rows"} <= names:
        found = con.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall()
        if found and str(found[0][0]).isdecimal():
            return int(found[0][0])
    raise StoreVersionError(
        f"{path} is a DuckDB database, but not one of Loopscope's; nothing was changed."
        " Name another file with --db.",
        supported=SCHEMA_VERSION,
    )


def refuse_newer(found: int | None, path: str, *, supported: int = SCHEMA_VERSION) -> None:
    """Raise StoreVersionError if `found` is a later version than the supported one."""
    if found is not None and found > supported:
        raise StoreVersionError(
            f"{path} was written by a newer Loopscope (schema version {found}; this one reads up to"
            f" {supported}). Upgrade with: pip install -U loopscope",
            found=found,
            supported=supported,
        )


def upgrade_schema(
    con: DuckDBPyConnection,
    path: str,
    found: int,
    *,
    target: int = SCHEMA_VERSION,
    migrations: Mapping[int, str] = MIGRATIONS,
) -> None:
    """Bring a database from version `found` to `target`, in one transaction.

    `migrations` maps a version to the SQL text that leads to the next one, or to the name of a file of sql/.

    Raises:
        StoreVersionError: the database is newer than this Loopscope, or too old for it.
    """
    refuse_newer(found, path, supported=target)
    if found == target:
        return
    missing = [step for step in range(found, target) if step not in migrations]
    if missing:
        raise StoreVersionError(
            f"{path} has schema version {found}, and there is no migration from {missing[0]} to the next.",
            found=found,
            supported=target,
        )
    con.execute("BEGIN")
    try:
        for step in range(found, target):
            text = migrations[step]
            con.execute(sql_text(text) if text.endswith(".sql") else text)
        con.execute(sql_text("views.sql"))
        con.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", [str(target)])
        con.execute("COMMIT")
    except BaseException:
        con.execute("ROLLBACK")
        raise
