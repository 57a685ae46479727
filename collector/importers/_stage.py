"""What a file gave, kept aside until the whole file has proved good."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from ...guard import SpoolError
from .._segment import Signal
from ._otlp import Part

__all__ = ["Stage"]

# Small requests are joined to payloads, payloads to segments: fewer files, and still small folds.
_PAYLOAD_BYTES = 1 << 20
_SEGMENT_BYTES = 4 << 20
_IN_MEMORY = 4 << 20
_FRAME = struct.Struct("<BI")
_SIGNALS: tuple[Signal, ...] = ("traces", "logs")


class Stage:
    """Payloads of one file, in a nameless temporary file that goes away by itself."""

    def __init__(self, folder: Path, redact: Callable[[Signal, bytes], bytes] | None) -> None:
        self._redact = redact
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, dir=str(folder))  # noqa: SIM115
        self._held: dict[Signal, list[bytes]] = {"traces": [], "logs": []}
        self._held_bytes: dict[Signal, int] = {"traces": 0, "logs": 0}
        self.trace_ids: set[bytes] = set()
        self.spans = 0
        self.logs = 0
        self.logs_without_trace = False
        self.size = 0

    def add(self, part: Part) -> None:
        """Keep a request. Raises SpoolError where the disk is full."""
        self.trace_ids |= part.trace_ids
        if part.signal == "traces":
            self.spans += part.records
        else:
            self.logs += part.records
            self.logs_without_trace |= part.without_trace
        data = self._redact(part.signal, part.data) if self._redact else part.data
        self._held[part.signal].append(data)
        self._held_bytes[part.signal] += len(data)
        if self._held_bytes[part.signal] >= _PAYLOAD_BYTES:
            self._flush(part.signal)

    def finish(self) -> None:
        """No more requests follow."""
        for signal in _SIGNALS:
            if self._held[signal]:
                self._flush(signal)

    def segments(self) -> Iterator[list[tuple[Signal, bytes]]]:
        """The payloads, in portions for one segment each."""
        self._file.seek(0)
        portion: list[tuple[Signal, bytes]] = []
        size = 0
        while header := self._file.read(_FRAME.size):
            signal, length = cast("tuple[int, int]", _FRAME.unpack(header))
            portion.append((_SIGNALS[signal], self._file.read(length)))
            size += length
            if size >= _SEGMENT_BYTES:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion

    def close(self) -> None:
        self._file.close()

    def _flush(self, signal: Signal) -> None:
        # Serialized requests one behind the other are one request: protobuf joins repeated fields.
        payload = b"".join(self._held[signal])
        try:
            self._file.write(_FRAME.pack(_SIGNALS.index(signal), len(payload)))
            self._file.write(payload)
        except OSError as error:
            raise SpoolError(
                f"cannot keep what was read so far: {error.strerror}; make room first"
            ) from error
        self.size += len(payload)
        self._held[signal] = []
        self._held_bytes[signal] = 0
