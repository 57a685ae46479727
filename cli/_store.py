"""Opening the store for a command: what waits in the spool is folded first, then it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

__all__ = ["reading"]


@contextmanager
def reading(db: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A leased connection to an existing database, up to date with its spool.

    What waits in the spool before anybody made the database is there to be read, too.
    Raises StoreError where there is neither, StoreBusyError, StoreVersionError.
    """
    from ..collector import Folder, Spool, Store

    store = Store(db, create=bool(Spool(db).pending()))
    Folder(store, role="cli").catch_up()
    with store.lease() as connection:
        yield connection
