"""The spool: a folder of segments beside the database, where data is durable before it is acknowledged."""

from __future__ import annotations

import itertools
import json
import os
import re
import socket
import stat
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..guard import SpoolError
from ._reserve import PREFIX, left_behind
from ._segment import Segment, Signal, encode_segment, read_segment

__all__ = ["Spool", "network_file_system"]

_SUFFIX = ".seg"
_TEMPORARY = ".tmp-"
_QUARANTINE = "quarantine"
_STALE_SECONDS = 3600.0  # a temporary file this old has no writer any more

# Rename, fsync and locks do not mean there what the spool needs them to mean.
_NETWORK = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|ncpfs|afs|ceph|glusterfs|lustre|gpfs|beegfs|ocfs2|davfs\d*"
    r"|fuse\.(sshfs|s3fs|gcsfuse|glusterfs|ceph.*|rclone|goofys|blobfuse.*|smbnetfs|davfs.*|juicefs)"
)


class Spool:
    """The segments that wait to be folded into one database.

    Args:
        db_path: the database file; the spool is the folder `<db_path>.spool` beside it.

    Safe to use from several threads and processes. Nothing is touched before the first `write`.
    """

    def __init__(self, db_path: str | os.PathLike[str]) -> None:
        self.path = Path(f"{os.fspath(db_path)}.spool")
        self._ready = False
        self._lock = threading.Lock()
        self._count = itertools.count()

    def __repr__(self) -> str:
        return f"Spool({str(self.path)!r})"

    def write(
        self,
        payloads: Iterable[tuple[Signal, bytes]],
        *,
        meta: dict[str, Any] | None = None,
    ) -> Path:
        """Write one segment; it is on the disk when this returns.

        Args:
            payloads: serialized ExportTraceServiceRequest ("traces") and ExportLogsServiceRequest ("logs")
                messages.
            meta: facts about the segment. Whole numbers under keys that start with "dropped" or "refused" are
                added up in the database, per `meta["service"]` (else per host and process): each counts what
                was lost since the writer's last segment.

        Raises:
            SpoolError: the folder cannot be used or the disk is full; nothing was written.
        """
        self.prepare()
        now = time.time_ns()
        data = encode_segment(payloads, received_ns=now, meta=meta)
        final = self.name(now)
        draft = self.path / f"{_TEMPORARY}{final.name}"
        try:
            try:
                self._store(draft, final, data)
            except FileNotFoundError:  # the folder was removed under us
                self._ready = False
                self.prepare()
                self._store(draft, final, data)
        except OSError as error:
            for leftover in (draft, final):  # renamed, but the folder could not be synced
                with suppress(OSError):
                    leftover.unlink()
            raise SpoolError(f"cannot write to the spool {self.path}: {error.strerror}") from error
        return final

    def name(self, now_ns: int) -> Path:
        """Where a segment of this process and time goes; never the same twice."""
        pieces = (f"{now_ns:020d}", _host(), os.getpid(), next(self._count), uuid.uuid4().hex)
        return self.path / ("-".join(map(str, pieces)) + _SUFFIX)

    def pending(self) -> list[Path]:
        """The segments that wait, oldest first."""
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise SpoolError(f"cannot read the spool {self.path}: {error.strerror}") from error
        for name in [name for name in names if name.startswith(PREFIX)]:
            if segment := left_behind(self.path / name):
                names.append(segment.name)
        return [self.path / name for name in sorted(names) if name.endswith(_SUFFIX) and name[0] != "."]

    def read(self, path: Path) -> Segment:
        """Same as `read_segment`."""
        return read_segment(path)

    def remove(self, path: Path) -> None:
        """Delete a segment whose records are in the database."""
        with suppress(FileNotFoundError):
            path.unlink()

    def quarantine(self, path: Path, reason: str) -> None:
        """Move a segment aside, with the reason in a file beside it. No error if it is gone.

        Raises:
            SpoolError: it cannot be moved (a full disk, say); it stays where it is.
        """
        folder = self.path / _QUARANTINE
        note = {"reason": reason[:2000], "at_ns": time.time_ns()}
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            # The reason first: a crash in between must not leave a segment that nobody can explain.
            _write_new(folder / f"{path.name}.reason", json.dumps(note).encode())
            os.replace(path, folder / path.name)
        except FileNotFoundError:
            if not (folder / path.name).exists():
                with suppress(OSError):
                    (folder / f"{path.name}.reason").unlink()
        except OSError as error:
            raise SpoolError(f"cannot move {path} to quarantine: {error.strerror}") from error

    def quarantined(self) -> list[tuple[str, str]]:
        """(name, reason) of every segment in quarantine."""
        folder = self.path / _QUARANTINE
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return []
        found = []
        for name in names:
            if name.endswith(_SUFFIX):
                try:
                    reason = str(
                        json.loads((folder / f"{name}.reason").read_text(encoding="utf-8"))["reason"]
                    )
                except (OSError, ValueError, KeyError, TypeError):
                    reason = "unknown"
                found.append((name, reason))
        return found

    def sweep(self) -> None:
        """Remove temporary files that a killed writer left behind."""
        with suppress(OSError):
            for name in os.listdir(self.path):
                draft = self.path / name
                if name.startswith(_TEMPORARY) and time.time() - draft.stat().st_mtime > _STALE_SECONDS:
                    with suppress(OSError):
                        draft.unlink()

    def _store(self, draft: Path, final: Path, data: bytes) -> None:
        _write_new(draft, data)
        os.rename(draft, final)
        _sync_folder(self.path)

    def prepare(self) -> None:
        """Make the folder, or check the one that is there. `write` does it too; earlier refuses earlier.

        Raises:
            SpoolError: it cannot be used.
        """
        if self._ready:
            return
        with self._lock:
            parent = self.path.parent
            if not parent.is_dir():
                raise SpoolError(f"cannot make the spool {self.path}: there is no folder {parent}.")
            kind = network_file_system(parent)
            if kind is not None:
                raise SpoolError(
                    f"{parent} is on a network file system ({kind}), where nothing is safe against a crash"
                    " or a second machine. Put the database on a local disk."
                )
            try:
                self.path.mkdir(mode=0o700)
            except FileExistsError:
                self._check_folder()
            except OSError as error:
                raise SpoolError(f"cannot make the spool {self.path}: {error.strerror}") from error
            else:
                _sync_folder(parent)
            self._ready = True

    def _check_folder(self) -> None:
        status = os.lstat(self.path)
        if not stat.S_ISDIR(status.st_mode):
            raise SpoolError(
                f"{self.path} is in the way: the spool must be a folder (and no link). Move it away."
            )
        if os.geteuid() not in (0, status.st_uid):
            raise SpoolError(f"the spool {self.path} belongs to another user (uid {status.st_uid}).")
        if status.st_mode & 0o077:
            with suppress(OSError):
                os.chmod(self.path, 0o700)


def _write_new(path: Path, data: bytes) -> None:
    # O_TRUNC, not O_EXCL: names are unique, except for the note of a segment that is quarantined again.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "_", socket.gethostname())[:40] or "host"


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """The type of the network file system that holds `path`; None for a local or an unknown one.

    `mounts` is the text of /proc/self/mounts, for tests.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
    target = os.path.realpath(path)
    best, kind = "", None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), fields[1])
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of two mounts on one point, the later hides the earlier
            best, kind = point, fields[2]
    return kind if kind is not None and _NETWORK.fullmatch(kind) else None
