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

    Raises StoreError where there is no database, StoreBusyError, StoreVersionError.
    """
    from ..collector import Folder, Store

    store = Store(db, create=False)
    Folder(store, role="cli").catch_up()
    with store.lease() as connection:
        yield connection
