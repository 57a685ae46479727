"""The file format of a spool segment.

    magic     8 bytes   b"LOOPSEG1"
    length    4 bytes   of the header, little endian like all numbers here
    header    JSON      {"format": 1, "received_ns": …, "meta": {…}}
    frame     1 + 4 bytes + payload, once per payload: b"T" (traces) or b"L" (logs), its length, the
                        serialized ExportTraceServiceRequest or ExportLogsServiceRequest
    end       b"E", then blake2b-128 over everything before it

The checksum stands at the end: a file that was cut, or written over, is never taken for a whole one.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..guard import SpoolError

__all__ = ["MAGIC", "MAX_SEGMENT_BYTES", "Segment", "Signal", "encode_segment", "read_segment"]

Signal = Literal["traces", "logs"]

MAX_SEGMENT_BYTES = 1 << 28  # a fold reads a segment whole
MAGIC = b"LOOPSEG1"
_FORMAT = 1
_DIGEST = 16
_LETTERS: dict[Signal, bytes] = {"traces": b"T", "logs": b"L"}
_SIGNALS: dict[int, Signal] = {b"T"[0]: "traces", b"L"[0]: "logs"}


@dataclass(frozen=True, slots=True)
class Segment:
    """What a segment holds: when it was written, what its writer notes, its OTLP requests in order."""

    received_ns: int
    meta: dict[str, Any]
    payloads: list[tuple[Signal, bytes]]


def encode_segment(
    payloads: Iterable[tuple[Signal, bytes]], *, received_ns: int, meta: dict[str, Any] | None = None
) -> bytes:
    """The bytes of a segment file.

    Raises:
        SpoolError: more than `MAX_SEGMENT_BYTES`; write several segments instead.
    """
    header = json.dumps({"format": _FORMAT, "received_ns": received_ns, "meta": meta or {}}).encode()
    chunks = [MAGIC, struct.pack("<I", len(header)), header]
    for signal, payload in payloads:
        chunks += (_LETTERS[signal], struct.pack("<I", len(payload)), payload)
    chunks.append(b"E")
    body = b"".join(chunks)
    if len(body) > MAX_SEGMENT_BYTES:
        raise SpoolError(
            f"a segment of {len(body)} bytes; at most {MAX_SEGMENT_BYTES} fit. Send smaller requests."
        )
    return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()


def read_segment(path: str | os.PathLike[str]) -> Segment:
    """Read and check a segment file.

    Raises:
        SpoolError: the file is torn, garbage, or of a newer format.
        FileNotFoundError: it is gone; another process folded it.
        OSError: the system failed (too many open files, a broken disk), which says nothing about the segment.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MAX_SEGMENT_BYTES + _DIGEST:
            raise SpoolError(f"{path.name}: larger than a segment can be")
        data = path.read_bytes()
    except PermissionError as error:
        raise SpoolError(f"{path.name}: cannot be read: {error.strerror}") from error
    if not data:
        raise SpoolError(f"{path.name}: an empty file")
    if not data.startswith(MAGIC):
        raise SpoolError(f"{path.name}: not a spool segment")
    body, digest = memoryview(data)[:-_DIGEST], data[-_DIGEST:]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise SpoolError(f"{path.name}: cut short or damaged (the checksum does not match)")
    try:
        return _parse(body)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise SpoolError(f"{path.name}: not a segment this version can read ({error})") from error


def _parse(body: memoryview) -> Segment:
    (length,) = struct.unpack_from("<I", body, len(MAGIC))
    at = len(MAGIC) + 4
    header = json.loads(bytes(body[at : at + length]))
    if header["format"] != _FORMAT:
        raise ValueError(f"format {header['format']}")
    at += length
    payloads: list[tuple[Signal, bytes]] = []
    while body[at] != b"E"[0]:
        signal = _SIGNALS[body[at]]
        (size,) = struct.unpack_from("<I", body, at + 1)
        at += 5
        if at + size >= len(body):
            raise ValueError("a frame beyond the end")
        payloads.append((signal, bytes(body[at : at + size])))
        at += size
    meta = header["meta"]
    return Segment(int(header["received_ns"]), meta if isinstance(meta, dict) else {}, payloads)
