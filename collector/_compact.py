"""Giving the space of removed rows back to the disk.

DuckDB reuses freed blocks but seldom makes the file shorter. So the database is copied into a new file, which
takes the old one's place.

No write of another process may fall between the copy and the change of places. The old file is therefore
held for reading from before the copy until after the renaming: a process that wants to write waits, and
then opens the new file.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path

from ..guard import StoreBusyError, StoreError
from ._folder import folder_of
from ._growth import NOTES_OF_GROUPS
from ._lease import turnstile
from ._store import BLOCK_BYTES, Store

__all__ = ["compact", "disturbs", "seconds_held"]

_BYTES_A_SECOND = 30e6  # 544 MB took 16.5 s of the processor, whatever the memory
_MEMORY = "256 MiB"  # without a limit those took 1.7 GB, with it 0.4 GB, and no longer
_SHORT = 5.0  # seconds that a page waits for the file without saying so
_TRIES = 20
# A process that had opened the old file just before the renaming fails to lock it meanwhile, and opens anew.
_LAST_OPENERS_SECONDS = 0.1


def seconds_held(store: Store) -> float:
    """About how long `compact` would hold the file."""
    return store.path.stat().st_size / _BYTES_A_SECOND


def disturbs(store: Store) -> str:
    """Why this is no moment for `compact`: the pages of a server would wait too long. "" if it is one."""
    holder = folder_of(store.path) or {}
    seconds = seconds_held(store)
    if holder.get("role") != "server" or seconds <= _SHORT:
        return ""
    return (
        f"{store.path} was not made smaller: its server (PID {holder.get('pid')}) could not use it for about"
        f" {seconds:.0f} s. Stop the server for that, or say --compact; the space inside the file is reused."
    )


def compact(store: Store) -> tuple[int, int]:
    """Rewrite the database file without its free space; its size before and after, in bytes.

    Takes as much free disk as the database is large, and holds the file all the while.

    Raises:
        StoreBusyError: others use the file all the time, this process among them.
        StoreError: there is not enough space. Nothing was changed.
    """
    import duckdb

    path = store.path.resolve()
    before = path.stat().st_size
    free = shutil.disk_usage(path.parent).free
    if free < before:
        raise StoreError(
            f"rewriting {path} takes {before:,} bytes of free disk, and there are {free:,};"
            " the space inside the file is reused."
        )
    draft = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.new")
    try:
        with _held(store, path) as connection:
            try:
                connection.execute(f"ATTACH '{_quoted(draft)}' AS fresh (BLOCK_SIZE {BLOCK_BYTES})")
                connection.execute("COPY FROM DATABASE old TO fresh")
                connection.execute(f"DELETE FROM fresh.meta WHERE starts_with(key, '{NOTES_OF_GROUPS}')")  # noqa: S608
                connection.execute("CHECKPOINT fresh")
                connection.execute("DETACH fresh")
            except duckdb.Error as error:
                raise StoreError(f"cannot rewrite {path}: {str(error).splitlines()[0]}") from error
            _settle(draft, path)
            os.replace(draft, path)
            time.sleep(_LAST_OPENERS_SECONDS)
    finally:
        for leftover in (draft, Path(f"{draft}.wal")):
            with suppress(OSError):
                leftover.unlink()
    return before, path.stat().st_size


class _held:  # noqa: N801  a context manager
    """The database attached as `old`, for reading, with nothing left in its write-ahead log."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path

    def __enter__(self):
        import duckdb

        gate = turnstile(self._path)
        deadline = time.monotonic() + self._store.timeout
        for _ in range(_TRIES):
            with self._store.lease() as cursor, suppress(duckdb.Error):  # another thread may be writing
                cursor.execute("CHECKPOINT")
            if gate.connection is not None:
                break  # another thread of this process uses it
            self._connection = duckdb.connect()
            self._connection.execute(f"SET memory_limit = '{_MEMORY}'")
            self._connection.execute(f"SET temp_directory = '{_quoted(self._path)}.compact.tmp'")
            try:
                self._connection.execute(f"ATTACH '{_quoted(self._path)}' AS old (READ_ONLY)")
            except duckdb.Error:
                pass  # another process was faster
            else:
                wal = Path(f"{self._path}.wal")
                if not wal.exists() or wal.stat().st_size == 0:
                    return self._connection
            self._connection.close()
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        raise StoreBusyError(
            f"{self._path} is used by others all the time, so it was not made smaller;"
            " the space inside it is reused.",
            path=str(self._path),
        )

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _settle(draft: Path, path: Path) -> None:
    """On the disk, and with the rights of the old one."""
    os.chmod(draft, path.stat().st_mode & 0o7777)
    for target in (draft, draft.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
