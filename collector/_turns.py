"""Who waits for a database file, so that a process that takes it again and again lets others in.

DuckDB knows one holder and no queue. A server that folds and draws pages opens the file a few milliseconds
after it let go; one that comes by now and then would meet a closed door each time. So who is refused puts a
shared lock on `<db>.spool/.waiting`, and who had the file a moment ago looks for such a lock first. It is a
hint: where the spool cannot be written, or a waiter dies, nothing but the courtesy is lost.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

__all__ = ["Waiting", "is_locked", "others_wait"]

_open: set[int] = set()  # descriptors of waiters of this process


class Waiting:
    """A context; inside it, `show` tells other processes that this one waits."""

    def __init__(self, path: str) -> None:
        self._path = _mark(path)
        self._descriptor: int | None = None

    def show(self) -> None:
        """Call it at every refusal: the first time may fail while another process looks."""
        if self._descriptor is not None:
            return
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return
            self._descriptor = descriptor
            _open.add(descriptor)

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None and descriptor in _open:
            _open.discard(descriptor)
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # also where a child that was just forked has it open
            os.close(descriptor)


def others_wait(path: str) -> bool:
    """Whether another process waits for the database file at `path`."""
    return is_locked(_mark(path), fcntl.LOCK_EX)


def is_locked(path: str, wanted: int) -> bool:
    """Whether somebody holds a lock on the file that keeps `wanted` (LOCK_SH or LOCK_EX) out; only looks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, wanted | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _mark(path: str) -> str:
    return f"{os.path.realpath(path)}.spool/.waiting"


def _close_after_fork() -> None:
    # A lock lives as long as any copy of its descriptor: a child would wait for ever.
    for descriptor in _open:
        with suppress(OSError):
            os.close(descriptor)
    _open.clear()


os.register_at_fork(after_in_child=_close_after_fork)
