"""OTLP files: JSON in every arrangement, and protobuf, bare or length-prefixed.

Everything becomes serialized Export…ServiceRequests of a few hundred kB, the spool's currency.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ...guard import OtlpDecodeError
from .._otlp import decode_logs, logs_json_to_protobuf, traces_json_to_protobuf
from .._segment import Signal
from .._session_ids import unit_of_log
from ._detect import OTLP_KEYS, not_a_trace
from ._json_stream import JsonValue, json_values
from ._report import FormatError, NotATraceError, SkipList

__all__ = ["Part", "json_parts", "parts_of_request", "proto_parts"]

# A request larger than this is split: what the fold takes in one go must stay small.
_PART_BYTES = 1 << 20
# The longest single message of a protobuf file.
_MAX_MESSAGE = 256 << 20
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# A trace compresses 10 to 60 fold; see also `_files`.
_BOMB_RATIO = 300
_BOMB_FROM = 64 << 20
_FIELD_1 = 0x0A  # tag of `resource_spans` and `resource_logs`: field 1, length-delimited
_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8


@dataclass(slots=True)
class Part:
    """A serialized request and what is in it."""

    signal: Signal
    data: bytes
    trace_ids: set[bytes]
    records: int
    without_trace: bool = False  # log records that belong to no trace


def json_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of an OTLP/JSON file. Raises FormatError with the line of what is not OTLP."""
    for item in values:
        value = item.value
        if value == {}:
            continue  # an empty request
        if not isinstance(value, dict) or not any(key in value for key in OTLP_KEYS):
            raise FormatError(f"not an OTLP request: {not_a_trace(value)}", where=item.where)
        signals = {OTLP_KEYS[key] for key in value if key in OTLP_KEYS}
        for signal in sorted(signals - {"traces", "logs"}):
            skipped.add(item.where, f"OTLP {signal}; only traces and logs are read")
        try:
            if "traces" in signals:
                yield from parts_of_request("traces", traces_json_to_protobuf(_only(value, "traces")))
            if "logs" in signals:
                yield from parts_of_request("logs", logs_json_to_protobuf(_only(value, "logs")))
        except OtlpDecodeError as error:
            raise FormatError(str(error), where=item.where) from None


def _only(value: dict[str, Any], signal: str) -> dict[str, Any]:
    return {key: content for key, content in value.items() if OTLP_KEYS.get(key) == signal}


def proto_parts(read: Callable[[int], bytes], skipped: SkipList) -> Iterator[Part]:
    """Requests of a protobuf file, bare or length-prefixed. Raises FormatError.

    Both layouts are taken apart into frames, so memory is bounded by the largest one. With `compression`
    the collector packs each message on its own, JSON ones too, and puts the length before them.
    """
    reader = _Reader(read)
    first = reader.take(1)
    if not first:
        return
    reader.push_back(first)
    frames = _bare_frames(reader) if first[0] == _FIELD_1 else _unpacked(_prefixed_frames(reader))
    signal: Signal | None = None
    for where, data in frames:
        if data.startswith(b"{"):
            yield from json_parts(_one_value(data, where), skipped)
            continue
        found = _signal_of(data)
        if found is None:
            if not _is_empty(data):
                kind = FormatError if signal else NotATraceError
                raise kind("not an OTLP trace or log request", where=where)
            continue
        if signal is not None and found != signal:
            raise FormatError(f"{found} in a file of {signal}: one signal a file", where=where)
        signal = found
        try:
            yield from parts_of_request(signal, data)
        except OtlpDecodeError as error:
            raise FormatError(str(error), where=where) from None


def parts_of_request(signal: Signal, data: bytes) -> Iterator[Part]:
    """The request as it is, or in pieces where it is large. Raises OtlpDecodeError for unusable ids."""
    request: Any = ExportTraceServiceRequest() if signal == "traces" else ExportLogsServiceRequest()
    try:
        request.ParseFromString(data)
    except DecodeError as error:
        raise OtlpDecodeError(f"not an OTLP {signal} request: {error}") from None
    if len(data) <= _PART_BYTES:
        part = _part(signal, data, request)
        if part.records:
            yield part
        return
    for piece in _split(signal, request):
        yield _part(signal, piece.SerializeToString(), piece)


def _split(signal: Signal, request: Any) -> Iterator[Any]:
    piece: Any = type(request)()
    size = 0
    for outer in request.resource_spans if signal == "traces" else request.resource_logs:
        for scope in outer.scope_spans if signal == "traces" else outer.scope_logs:
            target: Any = None
            for record in scope.spans if signal == "traces" else scope.log_records:
                if size >= _PART_BYTES:
                    yield piece
                    piece, size, target = type(request)(), 0, None
                if target is None:
                    target = _same_place(signal, piece, outer, scope)
                    size += target.ByteSize() + outer.resource.ByteSize()
                (target.spans if signal == "traces" else target.log_records).append(record)
                size += record.ByteSize()
    if size:
        yield piece


def _same_place(signal: Signal, piece: Any, outer: Any, scope: Any) -> Any:
    """An empty scope of the same resource and scope, added to `piece`."""
    new_outer = (piece.resource_spans if signal == "traces" else piece.resource_logs).add()
    new_outer.resource.CopyFrom(outer.resource)
    new_outer.schema_url = outer.schema_url
    new_scope = (new_outer.scope_spans if signal == "traces" else new_outer.scope_logs).add()
    new_scope.scope.CopyFrom(scope.scope)
    new_scope.schema_url = scope.schema_url
    return new_scope


def _part(signal: Signal, data: bytes, request: Any) -> Part:
    part = Part(signal, data, set(), 0)
    if signal == "traces":
        for outer in request.resource_spans:
            for scope in outer.scope_spans:
                for span in scope.spans:
                    _check_ids(span)
                    part.trace_ids.add(span.trace_id.rjust(_TRACE_ID_BYTES, b"\0"))
                part.records += len(scope.spans)
    else:
        for outer in request.resource_logs:
            for scope in outer.scope_logs:
                for record in scope.log_records:
                    if any(record.trace_id):
                        part.trace_ids.add(record.trace_id)
                    else:
                        part.without_trace = True
                part.records += len(scope.log_records)
        if part.without_trace:
            sessions = (unit_of_log(log) for log in decode_logs(data) if log.trace_id is None)
            part.trace_ids.update(bytes.fromhex(session) for session in sessions if session is not None)
    return part


def _check_ids(span: Any) -> None:
    for what, raw, size in (
        ("trace", span.trace_id, _TRACE_ID_BYTES),
        ("span", span.span_id, _SPAN_ID_BYTES),
        ("parent span", span.parent_span_id or b"-", _SPAN_ID_BYTES),
    ):
        if not raw or len(raw) > size:
            raise OtlpDecodeError(
                f"span {span.name[:80]!r} has a {what} id of {len(raw)} bytes where OTLP has {size}"
            )


def _signal_of(data: bytes) -> Signal | None:
    """Traces and logs share their outer layout; the fields of a record tell them apart."""
    traces = _parsed(ExportTraceServiceRequest(), data)
    spans = [
        span
        for outer in (traces.resource_spans if traces else ())
        for scope in outer.scope_spans
        for span in scope.spans
    ]
    if spans and all(s.trace_id and s.span_id and len(s.span_id) <= _SPAN_ID_BYTES for s in spans):
        return "traces"
    logs = _parsed(ExportLogsServiceRequest(), data)
    records = [
        record
        for outer in (logs.resource_logs if logs else ())
        for scope in outer.scope_logs
        for record in scope.log_records
    ]
    if records and all(
        r.time_unix_nano or r.observed_time_unix_nano or r.event_name or r.HasField("body") for r in records
    ):
        return "logs"
    return None


def _parsed(request: Any, data: bytes) -> Any:
    """The message, or None: what is a name in one kind of record is a message in the other."""
    try:
        request.ParseFromString(data)
    except DecodeError:
        return None
    return request


def _is_empty(data: bytes) -> bool:
    """A request without records, such as a collector writes at the end of an interval."""
    request = _parsed(ExportTraceServiceRequest(), data)
    if request is None or (data and data[0] != _FIELD_1):
        return False
    return all(not scope.spans for outer in request.resource_spans for scope in outer.scope_spans)


def _prefixed_frames(reader: _Reader) -> Iterator[tuple[str, bytes]]:
    """Each message behind its length, a big-endian uint32 (the collector's `file` exporter)."""
    number = 0
    while header := reader.take(4):
        number += 1
        where = f"message {number:,}"
        size = int.from_bytes(header, "big")
        if len(header) < 4 or size > _MAX_MESSAGE:
            raise _unknown(where, number)
        data = reader.take(size)
        if len(data) < size:
            if number == 1:
                raise NotATraceError("neither JSON nor OTLP protobuf, or cut off in its first message")
            raise FormatError("the file is cut off in this message", where=where, hint="copy it again")
        yield where, data


def _unpacked(frames: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """The messages, those in zstandard unpacked. Raises FormatError for a decompression bomb."""
    packed = given = 0
    for where, data in frames:
        packed += len(data)
        if not data.startswith(_ZSTD_MAGIC):
            yield where, data
            continue
        limit = max(_BOMB_FROM, packed * _BOMB_RATIO) - given
        try:
            unpacked = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(limit + 1)
        except (OSError, pa.ArrowException):
            raise FormatError("zstandard data that is damaged", where=where, hint="copy it again") from None
        if len(unpacked) > limit:
            raise FormatError(f"unpacks to more than {_BOMB_RATIO} times its size", where=where)
        given += len(unpacked)
        yield where, unpacked


def _one_value(data: bytes, where: str) -> Iterator[JsonValue]:
    """The JSON values of one message."""
    stream = io.BytesIO(data)
    for item in json_values(stream.read):
        yield replace(item, frame=where)


def _bare_frames(reader: _Reader) -> Iterator[tuple[str, bytes]]:
    """Each ResourceSpans (or ResourceLogs) of a bare request, as a request of its own."""
    number = 0
    while tag := reader.take(1):
        number += 1
        where = f"resource {number:,}"
        header = tag
        size = shift = 0
        while True:
            byte = reader.take(1)
            header += byte
            if tag[0] != _FIELD_1 or not byte or shift > 28:
                raise _unknown(where, number)
            size |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                break
        if size > _MAX_MESSAGE:
            raise _unknown(where, number)
        data = reader.take(size)
        if len(data) < size:
            raise FormatError(
                "OTLP protobuf that is cut off, or not OTLP at all", where=where, hint="export it again"
            )
        yield where, header + data


def _unknown(where: str, number: int) -> FormatError:
    if number == 1:
        return NotATraceError(
            "not a trace file that Loopscope knows: neither JSON nor OTLP protobuf",
            hint="docs/importing.md lists the formats",
        )
    return FormatError("neither JSON nor OTLP protobuf from here on", where=where)


class _Reader:
    """Exact reads over a function that may give less than asked for."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._held = b""

    def push_back(self, data: bytes) -> None:
        self._held = data + self._held

    def take(self, size: int) -> bytes:
        """`size` bytes, less only at the end."""
        parts = [self._held[:size]]
        self._held = self._held[size:]
        missing = size - len(parts[0])
        while missing > 0:
            # A small file can claim a huge size; ask for no more than it can have in one go.
            data = self._read(min(missing, 1 << 20))
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)
