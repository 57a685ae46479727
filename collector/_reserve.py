"""A place on the disk where a writer can still say what it lost when the disk is full.

A small file in the spool, made while there is room, and locked for as long as its writer lives. To say
something it is overwritten where it lies, with a segment without records; unsaid it is when the writer could
write after all. Once the writer is gone, who lists the spool takes it for a segment like any other. (A file
system that never overwrites, such as btrfs or ZFS, may refuse when it is full.)
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ._segment import MAGIC, encode_segment
from ._turns import is_locked

__all__ = ["PREFIX", "Reserve", "left_behind"]

PREFIX = ".reserve-"
_BYTES = 4096


class Reserve:
    """One writer's. Nothing is raised: where it cannot be kept, the writer is as well off as without it."""

    def __init__(self) -> None:
        self.said = False
        self._path: Path | None = None
        self._descriptor: int | None = None

    def keep(self, segment: Path) -> None:
        """See to it that it is there; to be called when the disk has just taken something.

        `segment` is a name that no other segment has.
        """
        if self._descriptor is not None:
            if os.fstat(self._descriptor).st_nlink:
                return
            self.close()  # it was deleted, with the spool it may be
        path = segment.with_name(f"{PREFIX}{segment.name}")
        try:
            # For reading: a file that is open to write would keep the disk from being made read-only.
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            return
        self._path, self._descriptor = path, descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(path, bytes(_BYTES))  # not a hole, which would have no place on the disk
        except OSError:
            self.close()

    def say(self, meta: dict[str, Any]) -> None:
        """Leave these facts, in place of what was said before."""
        data = encode_segment([], received_ns=time.time_ns(), meta=meta)
        if self._path is not None and self._descriptor is not None and len(data) <= _BYTES:
            with suppress(OSError):
                self.said = True
                _write(self._path, data, whole=True)

    def unsay(self) -> None:
        """Nothing is lost any more."""
        if self._path is not None and self._descriptor is not None and self.said:
            with suppress(OSError):
                _write(self._path, bytes(len(MAGIC)))
                self.said = False

    def close(self) -> None:
        """The writer writes no more: what was said is for all to see, and the file goes where nothing was."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None or self._path is None:
            return
        if not self.said:
            with suppress(OSError):
                self._path.unlink()
        self.said = False
        os.close(descriptor)

    def forked(self) -> None:
        """In a child: it is the parent's, whose lock would last as long as any copy of the descriptor."""
        descriptor, self._descriptor, self.said = self._descriptor, None, False
        if descriptor is not None:
            os.close(descriptor)


def _write(path: Path, data: bytes, *, whole: bool = False) -> None:
    """Over the beginning of a file, or over all of it."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if whole:
            os.ftruncate(descriptor, len(data))
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def left_behind(path: Path) -> Path | None:
    """The segment that this file of a writer that is gone has become; None if there is none."""
    if is_locked(os.fspath(path), fcntl.LOCK_SH):
        return None
    try:
        with path.open("rb") as file:
            said = file.read(len(MAGIC)) == MAGIC
        if said:
            segment = path.with_name(path.name.removeprefix(PREFIX))
            os.rename(path, segment)
            return segment
        path.unlink()
    except OSError:  # another process was faster
        pass
    return None
