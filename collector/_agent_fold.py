"""An agent's process folds its own spans when nobody else does.

A running server folds within a second, so an agent waits: it folds after a flush, when its
oldest segment has lain there for five seconds, and at exit. It never fights for the file: whoever
holds `<db>.lock` folds for everybody, and what is left in the spool is durable and waits for the
next one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from ..guard import LoopscopeError

if TYPE_CHECKING:
    from ._folder import Folder

__all__ = ["EXIT_SECONDS", "AgentFold"]

_logger = logging.getLogger(__name__)

EXIT_SECONDS = 5.0  # what folding may cost at exit
UNCLAIMED_AFTER = 5.0  # seconds after which nobody seems to fold
_FOLD_SECONDS = 5.0  # at a time, in the background
_MIN_PAUSE = 1.0  # between two folds by one agent, however often it flushes
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
        self._mine: deque[tuple[float, Path]] = deque()  # (monotonic time of writing, segment)
        self._asked = False
        self._ending = False
        self._folding = threading.Lock()
        self._folder: Folder | None = None
        self._deadline = 0.0
        self._unsettled = False  # a large trace may wait for its derivation
        self._next_try = 0.0

    def after_fork(self) -> None:
        """In a child: the segments are the parent's to fold, the thread is gone."""
        self._reset()

    def wrote(self, segment: Path) -> None:
        """A segment of this process is in the spool."""
        with self._lock:
            self._mine.append((time.monotonic(), segment))
            if self._thread is None and not self._ending:
                thread = threading.Thread(target=self._run, name="loopscope-fold", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is shutting down: `finish` folds
                    return
                self._thread = thread
        self._wake.set()

    def soon(self) -> None:
        """Fold at the next opportunity (after a flush)."""
        self._asked = True
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
            self._deadline = 0.0  # a fold that is under way ends after its present round
            if self._thread is not None:
                self._thread.join(_ROUND_SECONDS)

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
        if (self._asked or waited >= UNCLAIMED_AFTER) and now >= self._next_try:
            self._asked = False
            trouble = self._fold(_FOLD_SECONDS, settle=False)
            self._next_try = now + (_FOLD_SECONDS if trouble else _MIN_PAUSE)

    def _fold(self, seconds: float, *, settle: bool) -> str | None:
        """Fold for `seconds` at most, unless another process does. Returns what went wrong.

        Nothing is raised: a traceback would keep connections alive in frames that end outside the lock.
        """
        if not self._folding.acquire(timeout=seconds):
            return None
        try:
            if self._ending and not settle:
                return None
            # With DuckDB behind it: not before an agent needs it.
            from ._folder import Folder
            from ._store import Store

            if self._folder is None:
                store = Store(self._db_path)
                self._folder = Folder(store, role="agent", stop=lambda: time.monotonic() > self._deadline)
            self._deadline = time.monotonic() + seconds
            self._folder.store.timeout = seconds
            done = self._folder.try_fold(settle=settle)
            # Where another process folds, what is left to derive is its business too.
            self._unsettled = done is not None and not settle
        except (LoopscopeError, OSError) as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  folding is a service to the agent, never its problem
            return f"{type(error).__name__}: {error}"
        finally:
            self._folding.release()
        return None
