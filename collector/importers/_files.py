"""Finding the files to import, and reading them in bounded memory."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from ._report import FormatError

__all__ = ["ByteSource", "Candidate", "find_files"]

# Names under which people keep traces. Only a filter for folders: what a file is decides its content.
_SUFFIXES = frozenset(
    (
        *(".json", ".jsonl", ".ndjson", ".jsonlines", ".pb", ".binpb", ".bin", ".otlp", ".proto"),
        *(".traj", ".eval", ".parquet", ".gz", ".zst", ".zstd"),
    )
)
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# A trace compresses 10 to 60 fold, a decompression bomb about 1,000 fold.
_BOMB_RATIO = 300
_BOMB_FROM = 64 << 20


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to import. `named`: the user gave this very path (a folder's other files may be anything)."""

    path: Path
    size: int
    named: bool


def find_files(path: Path, *, leave_out: Callable[[Path], bool] = lambda _: False) -> Iterator[Candidate]:
    """The file itself, or the files of a folder that could be traces, in the order of their names.

    Links to folders are not followed (they can form loops), hidden ones and those that `leave_out`
    says are not entered; a file reached twice is given once. Raises FormatError where the path is no
    readable file or folder.
    """
    try:
        info = path.stat()
    except FileNotFoundError:
        raise FormatError("no such file or folder", hint="check the path") from None
    except (OSError, ValueError) as error:  # no permission, a loop of links, a NUL in the name
        raise FormatError(f"cannot be read: {_reason(error)}") from None
    if stat.S_ISDIR(info.st_mode):
        yield from _walk(path, leave_out)
    elif stat.S_ISREG(info.st_mode):
        yield Candidate(path, info.st_size, named=True)
    else:
        raise FormatError("neither a file nor a folder", hint="save the stream to a file first")


def _walk(top: Path, leave_out: Callable[[Path], bool]) -> Iterator[Candidate]:
    seen: set[tuple[int, int]] = set()

    def refuse(error: OSError) -> None:
        raise FormatError(f"the folder {error.filename!r} cannot be read: {_reason(error)}")

    for folder, subfolders, names in os.walk(top, onerror=refuse):
        here = Path(folder)
        subfolders[:] = sorted(
            name for name in subfolders if not name.startswith(".") and not leave_out(here / name)
        )
        for name in sorted(names):
            path = here / name
            if name.startswith(".") or path.suffix.lower() not in _SUFFIXES:
                continue
            try:
                info = path.stat()
            except OSError:  # a link that points nowhere
                continue
            if stat.S_ISREG(info.st_mode) and (info.st_dev, info.st_ino) not in seen:
                seen.add((info.st_dev, info.st_ino))
                yield Candidate(path, info.st_size, named=False)


class ByteSource:
    """A file's bytes, unpacked where they are gzip or zstandard, with `done` for a progress bar.

    `read` raises FormatError for what a reader can run into: no permission, compressed data that is cut off
    or damaged, a decompression bomb.
    """

    def __init__(self, path: Path, on_progress: Callable[[int], None] | None = None) -> None:
        self.path = path
        self._on_progress = on_progress
        self._given = 0
        try:
            self._raw: BinaryIO = path.open("rb")
        except OSError as error:
            raise FormatError(f"cannot be read: {_reason(error)}") from None
        try:
            magic = self._raw.read(len(_ZSTD_MAGIC))
            self._raw.seek(0)
        except OSError as error:
            self._raw.close()
            raise FormatError(f"cannot be read: {_reason(error)}") from None
        self.packed = (
            "gzip" if magic.startswith(_GZIP_MAGIC) else "zstandard" if magic == _ZSTD_MAGIC else None
        )
        self._stream: Any = self._raw
        if self.packed == "gzip":
            self._stream = io.BufferedReader(gzip.GzipFile(fileobj=self._raw, mode="rb"))  # type: ignore[arg-type]
        elif self.packed:
            self._stream = pa.CompressedInputStream(pa.PythonFile(self._raw, "r"), "zstd")
        self._ahead = b""

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._raw.close()

    @property
    def done(self) -> int:
        """Bytes of the file (as it lies on disk) read so far."""
        return self._raw.tell()

    @property
    def size(self) -> int:
        """Bytes of the file, as it lies on disk."""
        return os.fstat(self._raw.fileno()).st_size

    def seekable(self) -> BinaryIO:
        """The file itself, for formats that are read from their end. Raises FormatError if it is packed."""
        if self.packed:
            raise FormatError(f"an archive inside {self.packed}", hint="unpack it first")
        return self._raw

    @property
    def on_progress(self) -> Callable[[int], None] | None:
        return self._on_progress

    def peek(self, size: int) -> bytes:
        """The next bytes, up to `size`, without consuming them."""
        while len(self._ahead) < size and (more := self._next(size - len(self._ahead))):
            self._ahead += more
        return self._ahead[:size]

    def read(self, size: int) -> bytes:
        """The next bytes, up to `size`; b'' only at the end."""
        if self._ahead:
            out, self._ahead = self._ahead[:size], self._ahead[size:]
            return out
        return self._next(size)

    def _next(self, size: int) -> bytes:
        try:
            out = bytes(self._stream.read(size))
        except EOFError:
            raise FormatError(
                "the gzip file is cut off",
                where=f"after {self._given:,} unpacked bytes",
                hint="copy it again",
            ) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise FormatError(
                f"the gzip file is damaged ({_reason(error)})", where=f"after {self._given:,} unpacked bytes"
            ) from None
        except (OSError, pa.ArrowException) as error:
            if self.packed == "zstandard" and getattr(error, "errno", None) is None:
                raise FormatError(
                    f"the zstandard data is cut off or damaged ({_reason(error)})",
                    where=f"after {self._given:,} unpacked bytes",
                    hint="copy it again",
                ) from None
            raise FormatError(f"cannot be read: {_reason(error)}") from None
        self._given += len(out)
        done = self.done
        if self.packed and self._given > max(_BOMB_FROM, done * _BOMB_RATIO):
            raise FormatError(
                f"unpacks to more than {_BOMB_RATIO} times its size, which no trace does",
                hint="if it is one all the same, unpack it first",
            )
        if self._on_progress is not None:
            self._on_progress(done)
        return out


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return " ".join(text.split())[:200] or type(error).__name__
