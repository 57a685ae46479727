"""Who folds: one process at a time, elected by a lock on `<db>.lock`.

A running server folds for everybody. Agents fold at a flush, at exit, or when nobody has folded for
some seconds; a command that reads folds first what waits, when nobody else does.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from ..guard import SpoolError, StoreBusyError, StoreError
from ._build import Limits
from ._child import ChildBench
from ._fold import BATCH_BYTES, BATCH_RECORDS, FoldResult, Pace, fold, fold_with
from ._spool import Spool
from ._store import Store

__all__ = ["Folder", "Role", "folder_of"]

Role = Literal["server", "agent", "cli"]

_logger = logging.getLogger(__name__)
_WAIT = 0.02  # between looks while another process folds
_TROUBLE_PAUSE = 2.0  # after an error, in a server's loop

# A child costs a second to start and 100 MB: it is for a backlog of this size, or for so much within some
# seconds, and ends when it is idle. Without it the pages of a server wait for the interpreter a third of the
# time at 5,000 spans/s.
_CHILD_BYTES = 4 << 20
_CHILD_LATELY = 5.0  # seconds
_CHILD_SEGMENTS = 500  # looked at for their size
_CHILD_IDLE = 30.0  # seconds


class _Lock:
    """`<db>.lock`: an flock, and a note of who has it. The system lets go of it when the process dies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        _locks.add(self)

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self, role: str) -> bool:
        """Take it if it is free. Raises StoreError where the file cannot be made."""
        if self._descriptor is not None:
            if _is_at(self._descriptor, self.path):
                return True
            self._close()  # the file was deleted: others would lock a new one
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise StoreError(f"cannot open the lock file {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        note = {
            "pid": os.getpid(),
            "role": role,
            "command": " ".join(sys.argv)[:200],
            "since_ns": time.time_ns(),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(note).encode(), 0)
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            fcntl.flock(
                self._descriptor, fcntl.LOCK_UN
            )  # also where a child that was just forked has it open
            self._close()

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


_locks: weakref.WeakSet[_Lock] = weakref.WeakSet()


def _close_after_fork() -> None:
    # An flock is shared with a child: as long as the child had it open, it would outlive the parent. Closing
    # the child's copy leaves the parent's lock alone.
    for lock in list(_locks):
        lock._close()


os.register_at_fork(after_in_child=_close_after_fork)


def folder_of(db_path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Who holds `<db>.lock`: {"pid", "role", "command", "since_ns"}.

    {} if the holder left no note, None if nobody holds it.
    """
    path = Path(f"{os.fspath(db_path)}.lock")
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            try:
                note = json.loads(os.pread(descriptor, 4096, 0))
            except ValueError:
                return {}
            return note if isinstance(note, dict) else {}
        return None
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


class Folder:
    """Folds the spool of a store whenever no other process does.

    Args:
        role: noted in the lock file, so that others can say who folds. A server decodes a larger backlog in a
            child process.
        options: keyword arguments for `fold`.
    """

    def __init__(
        self, store: Store, *, role: Role = "agent", spool: Spool | None = None, **options: Any
    ) -> None:
        self.store = store
        self.spool = spool or Spool(store.path)
        self.role: Role = role
        self.pace = Pace()
        self._options = options
        self._lock = _Lock(Path(f"{store.path}.lock"))
        self._working = threading.Lock()
        self._child: ChildBench | None = None
        self._child_used = 0.0
        self._lately: deque[tuple[float, int]] = deque()  # when a fold began, and how many bytes waited

    def try_fold(self, *, settle: bool = True) -> FoldResult | None:
        """Fold what waits, unless another process (or thread) is the folder now: then None, at once.

        Raises:
            StoreBusyError, StoreVersionError, StoreError, SpoolError: as `fold`. The segments stay.
        """
        if not self._working.acquire(blocking=False):
            return None
        try:
            keep = self._lock.held
            if not self._lock.acquire(self.role):
                return None
            try:
                return self._fold(settle)
            finally:
                if not keep:
                    self._lock.release()
        finally:
            self._working.release()

    def _fold(self, settle: bool) -> FoldResult:
        options = dict(self._options)
        own = {"derive", "decode_traces", "decode_logs"} & options.keys()
        if self.role != "server" or own or not self._worth_a_child():
            return fold(self.store, self.spool, pace=self.pace, settle=settle, **options)
        child = self._child = self._child or ChildBench(self.store.path)
        limits = Limits(options.get("max_bytes", BATCH_BYTES), options.get("max_records", BATCH_RECORDS))
        stop = options.get("stop") or (lambda: False)
        try:
            return fold_with(
                child, self.store, self.spool, limits=limits, pace=self.pace, settle=settle, stop=stop
            )
        except BaseException:
            self._end_child()  # whatever it is in the middle of
            raise
        finally:
            self._child_used = time.monotonic()

    def _worth_a_child(self) -> bool:
        if self._child is not None:
            return True
        size = 0
        for path in self.spool.pending()[:_CHILD_SEGMENTS]:
            with suppress(OSError):
                size += path.stat().st_size
        now = time.monotonic()
        self._lately.append((now, size))
        while self._lately[0][0] < now - _CHILD_LATELY:
            self._lately.popleft()
        return sum(size for _, size in self._lately) >= _CHILD_BYTES

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def catch_up(self, timeout: float = 2.0) -> FoldResult | None:
        """For a reader: see to it that what waits now is in, by folding it or waiting for the one who folds.

        Returns what was folded here, None if nothing was. After `timeout` seconds of somebody else's folding
        the reader goes on with what is in the database.
        """
        waiting = {path.name for path in self.spool.pending()}
        deadline = time.monotonic() + timeout
        while waiting:
            result = self.try_fold()
            if result is not None:
                return result
            if time.monotonic() >= deadline:
                return None
            time.sleep(_WAIT)
            waiting &= {path.name for path in self.spool.pending()}
        return None

    def elect(self) -> bool:
        """Become the folder until `retire`; False if another process is."""
        return self._lock.acquire(self.role)

    def retire(self) -> None:
        """Let another process fold."""
        with self._working:
            self._end_child()
            self._lock.release()

    def run(
        self,
        stop: threading.Event,
        *,
        interval: float = 0.25,
        folded: Callable[[FoldResult], None] | None = None,
    ) -> None:
        """A server's loop: fold what comes in until `stop` is set, then once more.

        Never raises: trouble is logged (once per kind) and tried again. `folded` is told of every fold that
        did something.
        """
        settle = True  # a folder that died may have left traces that wait for derivation
        told = ""
        last = False
        while True:
            last = last or stop.is_set()
            try:
                if self.elect() and (settle or last or self.pace.ripe() or self.spool.pending()):
                    result = self.try_fold(settle=settle or last)
                    settle = False
                    if result and folded is not None:
                        folded(result)
                if self._child is not None and time.monotonic() - self._child_used > _CHILD_IDLE:
                    self._end_child()
                told = ""
                pause = interval
            except StoreBusyError as error:
                told, pause = _tell(told, f"{error}", "busy"), interval
            except (StoreError, SpoolError, OSError) as error:
                told = _tell(told, f"folding {self.store.path} failed, will be tried again: {error}")
                pause = _TROUBLE_PAUSE
            if last:
                break
            stop.wait(pause)
        with suppress(OSError):
            self.retire()


def _tell(told: str, message: str, kind: str | None = None) -> str:
    kind = kind or message.split(":", 1)[0]
    if kind != told:
        _logger.warning("%s", message)
    return kind
