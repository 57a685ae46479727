"""The DuckDB database that holds spans, logs, tool calls, LLM requests, labels and policies."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..guard import StoreError
from ._growth import no_merging
from ._lease import OpenInProcessError, Turnstile, connect, trouble_of, turnstile
from ._schema import create_schema, refuse_newer, schema_version, upgrade_schema

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["BLOCK_BYTES", "FOLDING_MEMORY", "Store", "counter", "grow"]

_logger = logging.getLogger(__name__)

# Two writes inside one tick of the file system's clock could leave the same signature.
_SETTLED_NS = 100_000_000
# A batch leaves a partly filled block per table: with DuckDB's own 262144, 40,000 tool spans take 728 B each
# instead of 574, agent traces 1,144 instead of 953. At 16384 texts compress worse.
BLOCK_BYTES = 65536
_MOST_MEMORY = 4 << 30  # bytes that DuckDB may use for blocks of the file and for queries
# Of a process that folds and asks nothing. A backlog takes 40 to 80 MB; with 64 MiB it was folded as fast.
FOLDING_MEMORY = 1 << 30


class Store:
    """A Loopscope database file.

    The file is opened for each lease and let go after it, so that agents, the dashboard and the command line
    can use it at the same time. Making a Store opens nothing.

    Args:
        path: the database file, by custom `traces.duckdb`.
        timeout: how long a lease waits for another process that holds the file, in seconds.
        create: make the file, with the schema, when it is absent.
        memory: the most that DuckDB may use where this store opens the file, in bytes: for blocks of the file
            and for queries; what needs more is done on the disk. At most half of what it would use by itself.

    Raises:
        StoreError: `create` is false and there is no such file; or the path cannot be a database file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = 10.0,
        create: bool = True,
        memory: int = _MOST_MEMORY,
    ) -> None:
        self.path = Path(path)
        self.timeout = timeout
        self._create = create
        self._memory = memory
        self._seen: tuple[tuple[tuple[int, int, int], ...], int] | None = None
        if str(path) == ":memory:":
            raise StoreError(
                "a Loopscope database is a file; ':memory:' cannot be shared. Name a file with --db."
            )
        if self.path.is_dir():
            raise StoreError(f"{path} is a folder; name a database file inside it with --db.")
        if not create and not self.path.exists():
            raise StoreError(f"no database at {path}. Fill one with: loopscope import FILE --db {path}")

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    @contextmanager
    def lease(self, *, timeout: float | None = None) -> Iterator[DuckDBPyConnection]:
        """A cursor on the database while the block runs; keep the block short.

        Threads may hold leases side by side; each has its own cursor. A cursor is of no use after its block.

        Raises:
            StoreBusyError: another process held the file for longer than the timeout.
            StoreVersionError: not a Loopscope database, or one of a newer version.
            StoreError: the file cannot be opened or made, is damaged, or its disk is full.
        """
        gate = turnstile(self.path)
        import duckdb

        try:
            with gate.enter(self.timeout if timeout is None else timeout, self._open) as cursor:
                yield cursor
        except duckdb.Error as error:
            trouble = trouble_of(str(self.path), str(error))
            if trouble is None:
                raise
            raise trouble from error

    @contextmanager
    def write(self, *, timeout: float | None = None) -> Iterator[DuckDBPyConnection]:
        """A lease with a transaction: committed at the end of the block, rolled back by an exception.

        Writers of one process take turns. The commit makes `version()` grow.
        """
        with self.lease(timeout=timeout) as cursor, turnstile(self.path).writing:
            pid = os.getpid()
            cursor.execute("BEGIN")
            try:
                yield cursor
                if os.getpid() == pid:  # a child forked in here has no part in the transaction
                    grow(cursor, "version")
                    cursor.execute("COMMIT")
            except BaseException:
                with suppress(Exception):
                    if os.getpid() == pid:
                        cursor.execute("ROLLBACK")
                raise

    def version(self) -> int:
        """A number that grows with every commit that changes what readers see: a key for their caches.

        Costs two `stat` calls while the file has not changed, a short lease otherwise.
        """
        if self._seen is not None and self._seen[0] == self._signature():
            return self._seen[1]
        with self.lease() as cursor:
            # Signature first: a commit by another thread after it makes the next call look again.
            signature = self._signature()
            version = counter(cursor, "version")
        settled = time.time_ns() - max((mtime for _, mtime, _ in signature), default=0) > _SETTLED_NS
        self._seen = (signature, version) if settled else None
        return version

    def _signature(self) -> tuple[tuple[int, int, int], ...]:
        found = []
        for name in (str(self.path), f"{self.path}.wal"):
            with suppress(OSError):
                status = os.stat(name)
                found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)

    def _open(self, gate: Turnstile, deadline: float) -> DuckDBPyConnection:
        path = str(self.path)
        if not self.path.exists():
            if not self._create:
                raise StoreError(f"the database {path} is gone.")
            _make(self.path)
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if gate.known != identity:
            # A file of somebody else's is looked at read-only: opening it to write could already change it.
            # Where code of this process has it open to write, that has happened.
            patience = deadline - time.monotonic()
            with suppress(OpenInProcessError), connect(path, deadline, read_only=True) as looker:
                refuse_newer(schema_version(looker, path), path)
            # It had its turn, and has to queue again: who waited long for the first would fail at the second.
            deadline = time.monotonic() + patience
        connection = connect(path, deadline)
        try:
            found = schema_version(connection, path)
            if found is None:
                create_schema(connection)
            else:
                upgrade_schema(connection, path, found)
            no_merging(connection)
            _checkpoint_at_once(connection)
            _limit_memory(connection, self._memory)
        except BaseException:
            connection.close()
            raise
        gate.known = identity
        return connection


def counter(con: DuckDBPyConnection, key: str) -> int:
    """The value of a counter of `meta`."""
    return int(con.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchall()[0][0])


def grow(con: DuckDBPyConnection, key: str) -> int:
    """Add one to a counter of `meta`; returns the new value."""
    rows = con.execute(
        "UPDATE meta SET value = (value::BIGINT + 1)::VARCHAR WHERE key = ? RETURNING value", [key]
    ).fetchall()
    return int(rows[0][0])


def _checkpoint_at_once(con: DuckDBPyConnection) -> None:
    # What a large transaction adds goes straight into the file at its commit, and not into the write-ahead
    # log first: 19 instead of 29 µs a span, and closing the file finds nothing left to do.
    con.execute("SET wal_autocheckpoint = '1B'")


def _limit_memory(con: DuckDBPyConnection, most: int) -> None:
    # By default each process may take 80 % of the machine, and several may have the file open in turn, beside
    # the agents. What needs more is done on the disk.
    amount, unit = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    half = float(amount) / 2 * 1024 ** _UNITS.index(unit) if unit in _UNITS else most
    con.execute(f"SET memory_limit = '{min(half, most):.0f} B'")


_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def _make(path: Path) -> None:
    # Made under another name and linked: nobody ever sees a half-made database, whenever this process dies.
    import duckdb

    _set_aside_log(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.new")
    try:
        try:
            with duckdb.connect(str(draft), config={"default_block_size": BLOCK_BYTES}) as connection:
                create_schema(connection)
        except duckdb.Error as error:
            raise StoreError(f"cannot make the database {path}: {str(error).splitlines()[0]}") from error
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was faster; its file is as good
        except OSError:  # no hard links here
            if not path.exists():
                os.rename(draft, path)
    finally:
        for leftover in (draft, Path(f"{draft}.wal")):
            with suppress(OSError):
                leftover.unlink()


def _set_aside_log(path: Path) -> None:
    """A write-ahead log whose database was deleted: beside a new file, DuckDB would refuse to open that."""
    log = Path(f"{path}.wal")
    with suppress(OSError):
        inode = log.stat().st_ino
        # In this order: a log that was there before there was no database is not that of a newer one.
        if not path.exists() and log.stat().st_ino == inode:
            os.replace(log, f"{log}.orphan")
            _logger.warning("%s belonged to a database that is gone; it is %s.orphan now", log, log)
