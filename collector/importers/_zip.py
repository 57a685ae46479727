"""Members of a zip archive, read in place and in bounded memory. Nothing is ever unpacked to disk.

Inspect compresses the members of `.eval` files with deflate or zstandard. Python reads the first only, so the
members are found with `zipfile` and read here. Their names are looked at and never used as paths.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import BinaryIO

import pyarrow as pa

from ._report import FormatError, NotATraceError, printable

__all__ = ["Archive"]

_STORED, _DEFLATED, _ZSTANDARD = 0, 8, 93
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_LOCAL_MAGIC = b"PK\x03\x04"
_CHUNK = 1 << 18
_ENCRYPTED = 1
# As for gzip: what is worth reading compresses 10 to 60 fold. Counted over the whole archive, so that many
# members which share their data do not add up to a bomb either.
_BOMB_RATIO = 300
_BOMB_FROM = 64 << 20


class Archive:
    """A zip file that is open for reading. Raises FormatError where it is damaged."""

    def __init__(self, raw: BinaryIO, size: int, on_progress: Callable[[int], None] | None = None) -> None:
        self._raw = raw
        self._size = size
        self._on_progress = on_progress
        self._given = 0
        try:
            self._members = {info.filename: info for info in zipfile.ZipFile(raw).infolist()}
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
            raise FormatError(
                f"the zip archive is damaged or cut off ({printable(str(error))[:100]})", hint="copy it again"
            ) from None

    def names(self) -> list[str]:
        return list(self._members)

    def reader(self, name: str) -> Callable[[int], bytes]:
        """`read(size)` over a member's content, b'' at its end. Checks length and checksum there."""
        info = self._members[name]
        if info.flag_bits & _ENCRYPTED:
            raise FormatError("the archive is encrypted", where=printable(name))
        try:
            self._raw.seek(info.header_offset)
            magic, name_size, extra_size = _LOCAL_HEADER.unpack(self._raw.read(_LOCAL_HEADER.size))
            start = info.header_offset + _LOCAL_HEADER.size + name_size + extra_size
        except (struct.error, OSError, ValueError):
            magic, start = b"", 0
        if magic != _LOCAL_MAGIC or start + info.compress_size > self._size:
            raise FormatError("the zip archive is damaged", where=printable(name), hint="copy it again")
        return _Member(self, info, _Slice(self._raw, start, info.compress_size)).read

    def count(self, size: int, at: int) -> None:
        """Note that `size` bytes were unpacked. Raises FormatError for a decompression bomb."""
        self._given += size
        if self._given > max(_BOMB_FROM, self._size * _BOMB_RATIO):
            raise FormatError(
                f"unpacks to more than {_BOMB_RATIO} times its size, which no log does",
                hint="if it is one all the same, convert it to JSON first",
            )
        if self._on_progress is not None:
            self._on_progress(at)


class _Slice:
    """A part of a file, as a file to read from."""

    closed = False

    def __init__(self, raw: BinaryIO, start: int, size: int) -> None:
        self._raw = raw
        self.at = start
        self._end = start + size

    def read(self, size: int = -1) -> bytes:
        left = self._end - self.at
        self._raw.seek(self.at)
        data = self._raw.read(left if size < 0 else min(size, left))
        self.at += len(data)
        return data

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True

    def flush(self) -> None:
        pass


class _Member:
    def __init__(self, archive: Archive, info: zipfile.ZipInfo, packed: _Slice) -> None:
        self._archive = archive
        self._info = info
        self._packed = packed
        self._sum = self._length = 0
        if info.compress_type == _STORED:
            self._next: Callable[[int], bytes] = packed.read
        elif info.compress_type == _DEFLATED:
            self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            self._next = self._inflate
        elif info.compress_type == _ZSTANDARD:
            self._next = pa.CompressedInputStream(pa.PythonFile(packed, "r"), "zstd").read
        else:
            raise NotATraceError(
                f"compressed in a way that is not read here (zip method {info.compress_type})",
                where=printable(info.filename),
            )

    def read(self, size: int) -> bytes:
        try:
            data = bytes(self._next(min(size, _CHUNK)))
        except (zlib.error, OSError, pa.ArrowException) as error:
            raise self._damaged(printable(str(error))[:100]) from None
        self._length += len(data)
        self._sum = zlib.crc32(data, self._sum)
        if self._length > self._info.file_size:
            raise self._damaged("longer than it says")
        if not data and (self._length < self._info.file_size or self._sum != self._info.CRC):
            raise self._damaged("cut off, or its checksum is wrong")
        self._archive.count(len(data), self._packed.at)
        return data

    def _inflate(self, size: int) -> bytes:
        while not self._inflater.eof:
            waiting = self._inflater.unconsumed_tail
            packed = waiting or self._packed.read(_CHUNK)
            data = self._inflater.decompress(packed, size)
            if data or not packed:
                return data
        return b""

    def _damaged(self, why: str) -> FormatError:
        return FormatError(
            f"this member of the zip archive is damaged ({why})",
            where=printable(self._info.filename),
            hint="copy it again",
        )
