"""An agent sees to it that its spans get into the database when nobody else does.

A running server folds within a second, and a command that reads folds first what waits. So an agent leaves
its segments alone as long as they are few and young: it has them folded when the oldest has lain there for
five seconds, or when there are megabytes of them, and at exit; in a process of its own (`_agent_child.py`).
It never fights for the file: whoever holds `<db>.lock` folds for everybody, and what is left in the spool is
durable and waits for the next one.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ._agent_child import AgentChild, NoChildError, fold_here, somebody_folds

if TYPE_CHECKING:
    from ._folder import Folder

__all__ = ["EXIT_SECONDS", "AgentFold"]

_logger = logging.getLogger(__name__)

EXIT_SECONDS = 5.0  # what folding may cost at exit
UNCLAIMED_AFTER = 5.0  # seconds after which nobody seems to fold
_FOLD_SECONDS = 5.0  # at a time, in the background
_LARGE_BACKLOG = 16 << 20  # bytes of own segments that are folded however young
_FEW_BYTES = 128 << 10  # of own segments that a process folds itself if it has DuckDB loaded anyway
_MIN_PAUSE = 1.0  # between two folds by one agent, however much comes in,
_COST_SHARE = 20  # and so many times what the last one took
_LOOK_EVERY = 1.0  # while segments wait
_RETRY_EVERY = 0.05  # at exit, while another process folds
_ROUND_SECONDS = 10.0  # more than a round of a fold takes, short of a disk that hangs


class AgentFold:
    """Folds the segments of this process, in a thread that starts with the first segment."""

    def __init__(self, db_path: Path) -> None:
        self._db_path = db_path
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._mine: deque[tuple[float, Path, int]] = deque()  # (monotonic time of writing, segment, bytes)
        self._ending = False
        self._folding = threading.Lock()
        self._child: AgentChild | None = None
        self._folder: Folder | None = None  # where no child can be started
        self._deadline = 0.0
        self._rounds = 0
        self._unsettled = False  # a large trace may wait for its derivation
        self._next_try = 0.0

    def after_fork(self) -> None:
        """In a child: the segments are the parent's to fold, the thread is gone."""
        self._reset()

    def wrote(self, segment: Path) -> None:
        """A segment of this process is in the spool."""
        size = 0
        with suppress(OSError):
            size = segment.stat().st_size
        with self._lock:
            self._mine.append((time.monotonic(), segment, size))
            if self._thread is None and not self._ending:
                thread = threading.Thread(target=self._run, name="loopscope-fold", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is shutting down: `finish` folds
                    return
                self._thread = thread
                _at_work.add(self)
        self._wake.set()

    def finish(self, seconds: float) -> int:
        """Fold until no segment of this process is left, for about `seconds`; how many are left.

        The background thread ends here: if it were inside of DuckDB when the interpreter ends, the
        unwinding of its stack would end in abort(). Call `finish` again where spans came later.
        """
        self._ending = True
        self._wake.set()
        try:
            return self._finish(time.monotonic() + seconds)
        finally:
            self.end()

    def end(self) -> None:
        """End the background thread, whatever is left."""
        self._ending = True
        self._wake.set()
        self._deadline = 0.0  # a fold that is under way ends after its present round
        child = self._child
        if child is not None:
            child.stop()
        if self._thread is not None:
            self._thread.join(_ROUND_SECONDS)
        _at_work.discard(self)

    def _finish(self, deadline: float) -> int:
        trouble = None
        while self._left() or self._unsettled:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            trouble = self._fold(remaining, settle=True)
            if self._left():
                time.sleep(_RETRY_EVERY)
        left = self._left()
        if left:
            _logger.warning(
                "%d segment(s) stay in %s.spool%s; the next agent or command on that database takes them in",
                left,
                self._db_path,
                f" ({trouble})" if trouble else "",
            )
        return left

    def _left(self) -> int:
        with self._lock:
            while self._mine and not self._mine[0][1].exists():
                self._mine.popleft()
            return len(self._mine)

    def _run(self) -> None:
        while not self._ending:
            self._wake.wait(_LOOK_EVERY if self._mine else None)
            self._wake.clear()
            if not self._ending and self._left():
                self._look()

    def _look(self) -> None:
        now = time.monotonic()
        with self._lock:
            waited = now - self._mine[0][0] if self._mine else 0.0
            size = sum(size for _, _, size in self._mine)
        if (waited >= UNCLAIMED_AFTER or size >= _LARGE_BACKLOG) and now >= self._next_try:
            trouble = self._fold(_FOLD_SECONDS, settle=False)
            ended = time.monotonic()
            pause = _FOLD_SECONDS if trouble else max(_MIN_PAUSE, _COST_SHARE * (ended - now))
            self._next_try = ended + pause

    def _fold(self, seconds: float, *, settle: bool) -> str | None:
        """Fold for `seconds` at most, unless another process does. Returns what went wrong."""
        if not self._folding.acquire(timeout=seconds):
            return None
        try:
            if self._ending and not settle:
                return None
            if somebody_folds(self._db_path):
                self._unsettled = False  # what is left to derive is that one's business, too
                return None
            done, trouble = self._fold_in_child(seconds, settle)
            self._unsettled = done and not settle
            return trouble
        finally:
            self._folding.release()

    def _fold_in_child(self, seconds: float, settle: bool) -> tuple[bool, str | None]:
        with self._lock:
            few = sum(size for _, _, size in self._mine) < _FEW_BYTES
        if few and "duckdb" in sys.modules:  # a child would take longer to start
            return self._fold_here(seconds, settle)
        try:
            child = self._child = AgentChild(self._db_path, seconds, settle=settle)
            if self._ending and not settle:
                child.stop()
            return child.result()
        except NoChildError:
            if self._ending and not settle:  # it was stopped before it had begun
                return False, None
            return self._fold_here(seconds, settle)
        finally:
            self._child = None

    def _over(self) -> bool:
        """Asked before each round of a fold; the first is not given up, however long it took to get there."""
        self._rounds += 1
        return self._rounds > 1 and time.monotonic() > self._deadline

    def _fold_here(self, seconds: float, settle: bool) -> tuple[bool, str | None]:
        # With DuckDB behind it: not before an agent needs it.
        from ._folder import Folder
        from ._store import FOLDING_MEMORY, Store

        if self._folder is None:
            store = Store(self._db_path, memory=FOLDING_MEMORY)
            self._folder = Folder(store, role="agent", stop=self._over)
        self._rounds = 0
        self._deadline = time.monotonic() + seconds
        if self._ending and not settle:
            self._deadline = 0.0
        self._folder.store.timeout = seconds
        return fold_here(self._folder, settle=settle)


_at_work: set[AgentFold] = set()  # those with a thread, whoever made them may be gone


def _end_all() -> None:
    for folds in list(_at_work):
        folds.end()


# The first to be registered, the last to be called: after the handlers of processors, which fold.
atexit.register(_end_all)
os.register_at_fork(after_in_child=_at_work.clear)  # their threads are the parent's
