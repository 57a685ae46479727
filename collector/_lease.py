"""Taking turns on a DuckDB file.

DuckDB lets one process at a time hold a database file, readers included. So nobody holds
it for long: take it, work, let go. Inside a process all threads share one open database,
each with a cursor of its own; it is opened for the first and closed after the last.

The lock is a POSIX record lock, which a process loses when it closes *any* descriptor of the file. So
no code of this package opens a database file by itself (to copy it, or to look at its first bytes).
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import random
import re
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..guard import StoreBusyError, StoreError, StoreVersionError
from ._schema import SCHEMA_VERSION
from ._turns import Waiting, others_wait

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["OpenInProcessError", "Turnstile", "connect", "describe_process", "trouble_of", "turnstile"]

# Waits between attempts: the holders that matter are folds (up to 200 ms) and page queries.
_FIRST_WAIT = 0.004
_LONGEST_WAIT = 0.08

# Courtesy to other processes that wait (see _turns.py), in seconds.
_RECENT = 1.0  # who let go of the file so short a time ago
_YIELD = 0.5  # gives others so long to take it: more than they sleep between two attempts, on a busy machine
_LOOKS = 60  # and at least so many looks, which take longer where all processes wait for the processor
_LONG_OPEN = 0.5  # who had it open for so long
_SERVER_PATIENCE = 2  # times the timeout are waited in addition where a server has the file
_LOOK_EVERY = 0.01  # who keeps it open without using it looks so often whether others wait
# Programs that do not know of the turns get theirs when it is closed, and what a crash leaves to be read from
# the write-ahead log is bounded. Closing costs 20-100 ms.
_LONGEST_OPEN = 5.0
_DRAIN = 5.0  # lets its own threads wait so long for it to be closed
# When the process ends, its threads come out of DuckDB first.
_ENDS_BY_ITSELF = 1.0  # what takes longer is interrupted
_EXIT_SECONDS = 60.0
_LAST_BREATH = 0.05  # for a thread that destroys a closed cursor at that moment


class OpenInProcessError(StoreBusyError):
    """This process has the file open already, through a connection that is not ours."""


class Turnstile:
    """One database file as this process sees it: the shared connection and who is inside."""

    def __init__(self, path: str, file: str) -> None:
        self.path = path
        self._file = file  # the same, whatever directory the process changes to
        self.lock = threading.RLock()
        self.writing = threading.RLock()
        self.connection: DuckDBPyConnection | None = None
        self.inside: Counter[int] = Counter()  # leases by thread
        self._cursors: dict[int, tuple[int, DuckDBPyConnection]] = {}  # of the leases, with the thread
        self._given: weakref.WeakSet[DuckDBPyConnection] = weakref.WeakSet()  # cursors, also closed ones
        self._keepers = 0  # who wants the file to stay open between leases
        self._watcher: threading.Thread | None = None
        self._opened = 0.0  # when the connection was made
        self._left = float("-inf")  # when the last one was closed
        self.known: tuple[int, int] | None = None  # device and inode of the file looked at last

    @contextmanager
    def enter(
        self, timeout: float, open_: Callable[[Turnstile, float], DuckDBPyConnection]
    ) -> Iterator[DuckDBPyConnection]:
        """A cursor on the shared connection; `open_(self, deadline)` makes it if there is none."""
        deadline = time.monotonic() + timeout
        pid, thread = os.getpid(), threading.get_ident()
        self._acquire(thread, timeout, deadline)
        try:
            # No name here for the connection: who lets go of the last one destroys it, outside the lock.
            if self.connection is None:
                self.connection = open_(self, deadline)
                self._opened = time.monotonic()
            cursor = self.connection.cursor()
            self._cursors[id(cursor)] = (thread, cursor)
            self._given.add(cursor)
            self.inside[thread] += 1
        finally:
            self.lock.release()
        try:
            yield cursor
        finally:
            if os.getpid() == pid:  # a child forked in here has no part in the file
                self._leave(cursor, thread)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Leave the file open between the leases of the block, for as long as no other process waits for it.

        Opening and closing it, with a checkpoint, costs more than to store a small batch.
        """
        with self.lock:
            self._keepers += 1
        pid = os.getpid()
        try:
            yield
        finally:
            if os.getpid() == pid:
                with self.lock:
                    self._keepers -= 1
                    if not self.inside and not self._keepers:
                        self._close()

    def _watch(self) -> None:
        """Close the file for others while it is kept open without a lease."""
        while True:
            time.sleep(_LOOK_EVERY)
            with self.lock:
                if self.connection is None or not self._keepers:
                    self._watcher = None
                    return
                if not self.inside and (others_wait(self._file) or not self.in_place()):
                    self._close()

    def empty(self, deadline: float) -> None:
        """Wait until other threads have left, interrupting those that take long, and close the file."""
        patient_until = time.monotonic() + _ENDS_BY_ITSELF
        while self.lock.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            try:
                me, now = threading.get_ident(), time.monotonic()
                others = [cursor for thread, cursor in self._cursors.values() if thread != me]
                if not others:
                    _kept.extend(self._given)
                    if not self.inside:
                        self._close()
                    return
                if now >= deadline:
                    return
                for cursor in others if now >= patient_until else ():
                    cursor.interrupt()
            finally:
                self.lock.release()
            time.sleep(_LOOK_EVERY)

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
            self._left = time.monotonic()

    def _acquire(self, thread: int, timeout: float, deadline: float) -> None:
        """Take the lock, with no connection or one on the file that is there now."""
        started = time.monotonic()
        yields_until = min(started + _YIELD, deadline)
        drains_until = min(started + _DRAIN, deadline)
        looks = 0
        while True:
            if not self.lock.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
                raise _busy(self.path, f"another thread of this process (PID {os.getpid()})", timeout)
            if _ends_without(thread):
                self.lock.release()
                raise _ending(self.path)
            now = time.monotonic()
            if thread in self.inside:
                return
            if not self.inside and self.connection is not None and not self._may_stay(now):
                self._close()
            if self.connection is None:
                over = now >= deadline or (now >= yields_until and looks >= _LOOKS)
                long_ago = not looks and now - self._left > _RECENT
                if over or long_ago or not others_wait(self._file):
                    return
                looks += 1
            # Where the file was deleted, those inside go on with what has no name any more; who comes now
            # waits until they have left. DuckDB would give them the old one under the same path.
            elif not self.in_place():
                if now >= deadline:
                    holder = f"threads of this process (PID {os.getpid()}), though deleted"
                    self.lock.release()
                    raise _busy(self.path, holder, timeout)
            elif now >= drains_until or now - self._opened < _LONG_OPEN or not others_wait(self._file):
                return
            else:  # threads that overlap would keep the file for ever: let those inside come out
                yields_until = max(yields_until, now + _YIELD)
            self.lock.release()
            time.sleep(_FIRST_WAIT)

    def in_place(self) -> bool:
        """Whether the path still names the file that was opened last, which was not deleted or replaced."""
        try:
            status = os.stat(self._file)
        except OSError:
            return False
        return self.known == (status.st_dev, status.st_ino)

    def _leave(self, cursor: DuckDBPyConnection, thread: int) -> None:
        with self.lock:
            cursor.close()
            del self._cursors[id(cursor)]
            self.inside[thread] -= 1
            self.inside += Counter()  # drops zeros
            if self.inside or self.connection is None:
                return
            if not self._keepers or not self._may_stay(time.monotonic()):
                self._close()
            elif self._watcher is None:
                watcher = threading.Thread(target=self._watch, name="loopscope-file", daemon=True)
                try:
                    watcher.start()
                except RuntimeError:  # no more threads, or the interpreter is shutting down
                    self._close()
                else:
                    self._watcher = watcher

    def _may_stay(self, now: float) -> bool:
        """Whether the file may stay open with nobody inside."""
        return now - self._opened < _LONGEST_OPEN and not others_wait(self._file) and self.in_place()


_turnstiles: dict[str, Turnstile] = {}
_turnstiles_lock = threading.Lock()


def turnstile(path: str | os.PathLike[str]) -> Turnstile:
    """The one turnstile of this process for a database file.

    Raises:
        StoreBusyError: the file was open when this process was forked.
    """
    key = os.path.realpath(path)
    with _turnstiles_lock:
        if key in _inherited:
            raise StoreBusyError(
                f"{path} was in use when PID {os.getppid()} forked this process, so it cannot be opened here."
                " Start the process in another way (spawn).",
                path=os.fspath(path),
            )
        return _turnstiles.setdefault(key, Turnstile(os.fspath(path), key))


# -- the end of the process ----------------------------------------------------------------------------
# A thread that is inside of DuckDB when the interpreter ends has its stack unwound when it wants to come back
# to Python, and DuckDB's part of the stack does not allow that: abort(), with SIGABRT for an exit code.

_ending_thread: int | None = None  # the one that runs the exit handlers; it may still fold
_kept: list[
    DuckDBPyConnection
] = []  # cursors that other threads may still name: to destroy one is DuckDB, too


def _at_exit() -> None:
    global _ending_thread  # noqa: PLW0603
    _ending_thread = threading.get_ident()
    deadline = time.monotonic() + _EXIT_SECONDS
    for gate in list(_turnstiles.values()):
        gate.empty(deadline)
    if _turnstiles and threading.active_count() > 1:
        time.sleep(_LAST_BREATH)


def _ends_without(thread: int) -> bool:
    """Whether the process ends, and another thread ends it."""
    return _ending_thread is not None and thread != _ending_thread


def _ending(path: str) -> StoreError:
    return StoreError(f"{path} is not opened: PID {os.getpid()} is ending.")


atexit.register(_at_exit)


# -- fork ---------------------------------------------------------------------------------------------
# A child that used, or even closed, an inherited connection would be a second writer. And duckdb.connect in
# the child would give it that very connection, because DuckDB remembers open databases by their path.

_FORK_WAIT = 1.0  # seconds a fork waits for leases of other threads to end
_paused: dict[int, list[Turnstile]] = {}  # by the thread that forks
_inherited: set[str] = set()


def _before_fork() -> None:
    deadline = time.monotonic() + _FORK_WAIT
    paused = _paused.setdefault(threading.get_ident(), [])
    for gate in list(_turnstiles.values()):
        while gate.lock.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            if not gate.inside or threading.get_ident() in gate.inside or time.monotonic() >= deadline:
                if not gate.inside:
                    gate._close()  # kept open for the next lease
                paused.append(gate)
                break
            gate.lock.release()
            time.sleep(_FIRST_WAIT)


def _after_fork_in_parent() -> None:
    for gate in _paused.pop(threading.get_ident(), ()):
        gate.lock.release()


def _after_fork_in_child() -> None:
    global _turnstiles_lock, _ending_thread  # noqa: PLW0603
    _turnstiles_lock = threading.Lock()
    _ending_thread = None
    _paused.clear()
    for key, gate in _turnstiles.items():
        if gate.connection is not None:
            _inherited.add(key)
            # Kept alive for ever: the destructor would close the database, that is, write to it.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(gate.connection))
    _turnstiles.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
)


def connect(path: str, deadline: float, *, read_only: bool = False) -> DuckDBPyConnection:
    """Open an existing database file, waiting for its holder until `deadline` (monotonic seconds).

    Where a running server has it, which lets go in any case, three times as long.

    Raises:
        StoreBusyError: another process still held it at the deadline.
        StoreVersionError: not a DuckDB file, or of a DuckDB version that this one cannot read.
        StoreError: it cannot be opened for another reason (permission, a folder, a full disk).
    """
    import duckdb

    started = time.monotonic()
    patience = deadline - started
    wait = _FIRST_WAIT
    with Waiting(path) as waiting:
        while True:
            try:
                return duckdb.connect(path, read_only=read_only)
            except duckdb.Error as error:
                text = str(error)
                if read_only and _MIXED in text:
                    raise OpenInProcessError(str(_busy(path, _holder(path, text), 0.0)), path=path) from error
                if not _is_busy(text):
                    raise _cannot_open(path, text) from error
                if _ends_without(threading.get_ident()):
                    raise _ending(path) from error
                if time.monotonic() >= deadline:
                    # A server lets go, however slow the machine is at the moment; a shell may never.
                    if deadline - started <= patience and _held_by_server(path, text):
                        deadline += patience * _SERVER_PATIENCE
                    else:
                        raise _busy(path, _holder(path, text), time.monotonic() - started) from error
            waiting.show()
            # The jitter keeps processes that were refused together from coming back together.
            pause = wait * random.uniform(0.5, 1.5)  # noqa: S311
            time.sleep(min(pause, max(deadline - time.monotonic(), 0.001)))
            wait = min(wait * 1.6, _LONGEST_WAIT)


_MIXED = "with a different configuration"


def _is_busy(text: str) -> bool:
    return "Could not set lock on file" in text or _MIXED in text


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
    if trouble := trouble_of(path, text):
        return trouble
    if "WAL does not match" in text:
        first = (
            f"{path}.wal belongs to another database file, one that was deleted or replaced."
            " Move it away; nothing of this file is in it."
        )
    return StoreError(f"cannot open {path}: {first}")


_DAMAGE = ("Corrupt database file", "Could not read enough bytes", "Failed to load metadata pointer")
_DISK = ("No space left", "Could not write file", "Disk quota", "has been invalidated")


def trouble_of(path: str, text: str) -> StoreError | None:
    """What an error of DuckDB says about the file or its disk, in one line; None for a bad statement."""
    first = text.splitlines()[0] if text else ""
    if any(sign in text for sign in _DAMAGE):
        return StoreError(
            f"{path} is damaged ({first[:200]}). Move it away and put back a copy, or let a new one be made:"
            " what waits in the spool is not in it."
        )
    if any(sign in text for sign in _DISK):
        return StoreError(f"cannot work on {path}: {first}")
    return None


def _busy(path: str, holder: str | None, waited: float) -> StoreBusyError:
    return StoreBusyError(
        f"{path} is held by {holder or 'another process'}, still after {waited:.1f} s."
        " Close that program, or try again.",
        path=path,
        holder=holder,
    )


def _held_by_server(path: str, text: str) -> bool:
    found = re.search(r"PID (\d+)", text)
    try:
        noted = json.loads(Path(f"{path}.lock").read_text(encoding="utf-8")[:4096])
        return found is not None and noted["role"] == "server" and noted["pid"] == int(found[1])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _holder(path: str, text: str) -> str | None:
    if _MIXED in text:
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
