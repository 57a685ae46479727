"""Opening the store for a command: what waits in the spool is folded first, then it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..guard import StoreError

if TYPE_CHECKING:
    import duckdb

__all__ = ["reading"]


def _other(db: Path) -> Path | None:
    """The one database that lies in the folder, where `db` is the default that nobody named."""
    if db != Path("traces.duckdb"):
        return None
    found = [path for path in Path().glob("*.duckdb") if path.is_file()]
    return found[0] if len(found) == 1 else None


@contextmanager
def reading(db: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A leased connection to an existing database, up to date with its spool.

    What waits in the spool before anybody made the database is there to be read, too.
    Raises StoreError where there is neither, StoreBusyError, StoreVersionError.
    """
    from ..collector import Folder, Spool, Store

    create = bool(Spool(db).pending())
    try:
        store = Store(db, create=create)
    except StoreError as error:
        other = None if create or db.exists() else _other(db)
        if other is None:
            raise
        raise StoreError(f"{error}; there is {other} here: --db {other}") from None
    Folder(store, role="cli").catch_up()
    with store.lease() as connection:
        yield connection
