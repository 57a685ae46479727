"""Taking turns on a DuckDB file.

DuckDB lets one process at a time hold a database file, readers included. So nobody holds
it for long: take it, work, let go. Inside a process all threads share one open database,
each with a cursor of its own; it is opened for the first and closed after the last.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..guard import StoreBusyError, StoreError, StoreVersionError
from ._schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["Turnstile", "connect", "describe_process", "turnstile"]

# Waits between attempts: the holders that matter are folds (up to 200 ms) and page queries.
_FIRST_WAIT = 0.004
_LONGEST_WAIT = 0.08


class Turnstile:
    """One database file as this process sees it: the shared connection and who is inside."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.RLock()
        self.writing = threading.RLock()
        self.connection: DuckDBPyConnection | None = None
        self.inside = 0
        self.known: tuple[int, int] | None = None  # device and inode of a file already looked at

    @contextmanager
    def enter(
        self, timeout: float, open_: Callable[[Turnstile, float], DuckDBPyConnection]
    ) -> Iterator[DuckDBPyConnection]:
        """A cursor on the shared connection; `open_(self, deadline)` makes it if there is none."""
        deadline = time.monotonic() + timeout
        if not self.lock.acquire(timeout=max(timeout, 0.0)):
            raise _busy(self.path, f"another thread of this process (PID {os.getpid()})", timeout)
        try:
            connection = self.connection
            if connection is None:
                connection = self.connection = open_(self, deadline)
            cursor = connection.cursor()
            self.inside += 1
        finally:
            self.lock.release()
        pid = os.getpid()
        try:
            yield cursor
        finally:
            if os.getpid() == pid:  # a child forked in here has no part in the file
                self._leave(cursor)

    def _leave(self, cursor: DuckDBPyConnection) -> None:
        with self.lock:
            cursor.close()
            self.inside -= 1
            if self.inside == 0 and self.connection is not None:
                connection, self.connection = self.connection, None
                connection.close()


_turnstiles: dict[str, Turnstile] = {}
_turnstiles_lock = threading.Lock()


def turnstile(path: str | os.PathLike[str]) -> Turnstile:
    """The one turnstile of this process for a database file."""
    key = os.path.realpath(path)
    with _turnstiles_lock:
        return _turnstiles.setdefault(key, Turnstile(os.fspath(path)))


def _forget_after_fork() -> None:
    # A child that used, or even closed, an inherited connection would be a second writer. The objects are
    # kept alive for ever, because their destructor closes the database too.
    global _turnstiles_lock  # noqa: PLW0603
    _turnstiles_lock = threading.Lock()
    for gate in _turnstiles.values():
        if gate.connection is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(gate.connection))
    _turnstiles.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


def connect(path: str, deadline: float, *, read_only: bool = False) -> DuckDBPyConnection:
    """Open an existing database file, waiting for its holder until `deadline` (monotonic seconds).

    Raises:
        StoreBusyError: another process still held it at the deadline.
        StoreVersionError: not a DuckDB file, or of a DuckDB version that this one cannot read.
        StoreError: it cannot be opened for another reason (permission, a folder, a full disk).
    """
    import duckdb

    started = time.monotonic()
    wait = _FIRST_WAIT
    while True:
        try:
            return duckdb.connect(path, read_only=read_only)
        except duckdb.Error as error:
            text = str(error)
            if not _is_busy(text):
                raise _cannot_open(path, text) from error
            if time.monotonic() >= deadline:
                raise _busy(path, _holder(path, text), time.monotonic() - started) from error
        # The jitter keeps processes that were refused together from coming back together.
        time.sleep(min(wait * random.uniform(0.5, 1.5), max(deadline - time.monotonic(), 0.001)))  # noqa: S311
        wait = min(wait * 1.6, _LONGEST_WAIT)


def _is_busy(text: str) -> bool:
    return "Could not set lock on file" in text or "with a different configuration" in text


def _cannot_open(path: str, text: str) -> StoreError:
    first = text.splitlines()[0] if text else ""
    if "not a valid DuckDB database" in text:
        empty = os.path.exists(path) and os.path.getsize(path) == 0
        what = "is an empty file" if empty else "is not a DuckDB database"
        return StoreVersionError(
            f"{path} {what}; nothing was changed. Name another file with --db, or move this one away.",
            supported=SCHEMA_VERSION,
        )
    if "database file with version number" in text or "storage version" in text.lower():
        return StoreVersionError(
            f"{path} was written by a DuckDB version that this one cannot read: {first}",
            supported=SCHEMA_VERSION,
        )
    return StoreError(f"cannot open {path}: {first}")


def _busy(path: str, holder: str | None, waited: float) -> StoreBusyError:
    return StoreBusyError(
        f"{path} is held by {holder or 'another process'}, still after {waited:.1f} s."
        " Close that program, or try again.",
        path=path,
        holder=holder,
    )


def _holder(path: str, text: str) -> str | None:
    if "with a different configuration" in text:
        return (
            f"this process itself (PID {os.getpid()}): it opened the file with duckdb.connect in another way"
        )
    found = re.search(r"held in (.*?) \(PID (\d+)\)", text)
    if found:
        return describe_process(int(found[2]), found[1])
    found = re.search(r"PID (\d+)", text)
    if found:
        return describe_process(int(found[1]), None)
    try:
        noted = json.loads(Path(f"{path}.lock").read_text(encoding="utf-8")[:4096])
        return describe_process(int(noted["pid"]), str(noted.get("command", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def describe_process(pid: int, program: str | None) -> str:
    """ "PID 4711 (python agent.py)"; the command line comes from /proc where there is one."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        command = " ".join(raw.decode("utf-8", "replace").split("\0")).strip() or program
    except OSError:
        command = program
    if not command:
        return f"PID {pid}"
    shown = "".join(ch if ch.isprintable() else "?" for ch in command)
    return f"PID {pid} ({shown if len(shown) <= 120 else shown[:117] + '...'})"
