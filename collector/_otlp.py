"""OTLP in: protobuf to the collector's own records.

Protobuf is the one form that is kept (in spool segments); OTLP/JSON is turned into it first,
by `_otlp_json`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as ProtoLogRecord
from opentelemetry.proto.logs.v1.logs_pb2 import SeverityNumber
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ..guard import OtlpDecodeError
from ._otlp_json import logs_json_to_protobuf, traces_json_to_protobuf
from ._records import LogRecord, SpanEvent, SpanLink, SpanRecord

__all__ = ["decode_logs", "decode_traces", "logs_json_to_protobuf", "traces_json_to_protobuf"]

_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
_NO_PARENT = (b"", b"\0" * _SPAN_ID_BYTES)


def decode_traces(data: bytes) -> list[SpanRecord]:
    """The spans of a serialized ExportTraceServiceRequest (TracesData has the same layout).

    Attribute dictionaries of a resource are shared by its spans: treat them as read-only.
    Raises OtlpDecodeError where the bytes are not such a message, or a span has no usable id.
    """
    message = ExportTraceServiceRequest()
    _parse(message, data, "a trace request (ExportTraceServiceRequest)")
    spans: list[SpanRecord] = []
    add = spans.append
    # The spans of a trace mostly follow each other: they share one text, hashed once and pickled once.
    raw_trace, trace_id = b"", ""
    for resource_spans in message.resource_spans:
        resource = _attributes(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            scope_name = scope_spans.scope.name or None
            scope_version = scope_spans.scope.version or None
            for span in scope_spans.spans:
                name = span.name
                if span.trace_id != raw_trace or not raw_trace:
                    raw_trace = span.trace_id
                    trace_id = _hex_id(raw_trace, _TRACE_ID_BYTES, "trace", name)
                parent = span.parent_span_id
                status_code, status_message = 0, None
                if span.HasField("status"):
                    status = span.status
                    status_code = status.code
                    status_message = status.message or None
                add(
                    SpanRecord(
                        trace_id,
                        _hex_id(span.span_id, _SPAN_ID_BYTES, "span", name),
                        None if parent in _NO_PARENT else _hex_id(parent, _SPAN_ID_BYTES, "parent", name),
                        name,
                        span.kind,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano or None,
                        status_code,
                        status_message,
                        _attributes(span.attributes),
                        [_event(event) for event in events] if (events := span.events) else [],
                        [link for item in links if (link := _link(item)) is not None]
                        if (links := span.links)
                        else [],
                        span.dropped_attributes_count,
                        span.dropped_events_count,
                        resource,
                        scope_name,
                        scope_version,
                    )
                )
    return spans


def decode_logs(data: bytes) -> list[LogRecord]:
    """The log records of a serialized ExportLogsServiceRequest. Raises OtlpDecodeError."""
    message = ExportLogsServiceRequest()
    _parse(message, data, "a log request (ExportLogsServiceRequest)")
    records: list[LogRecord] = []
    for resource_logs in message.resource_logs:
        resource = _attributes(resource_logs.resource.attributes)
        for scope_logs in resource_logs.scope_logs:
            scope_name = scope_logs.scope.name or None
            scope_version = scope_logs.scope.version or None
            for record in scope_logs.log_records:
                attributes = _attributes(record.attributes)
                event_name = record.event_name or attributes.get("event.name")
                records.append(
                    LogRecord(
                        trace_id=record.trace_id.hex() if any(record.trace_id) else None,
                        span_id=record.span_id.hex() if any(record.span_id) else None,
                        time_ns=record.time_unix_nano or record.observed_time_unix_nano,
                        event_name=event_name if isinstance(event_name, str) else None,
                        severity=_severity(record),
                        body=_value(record.body),
                        attributes=attributes,
                        resource=resource,
                        scope_name=scope_name,
                        scope_version=scope_version,
                        dropped_attributes=record.dropped_attributes_count,
                    )
                )
    return records


def _parse(message: Any, data: bytes, what: str) -> None:
    try:
        message.ParseFromString(data)
    except (DecodeError, TypeError, ValueError) as error:
        raise OtlpDecodeError(f"these {len(data)} bytes are not {what}: {_one_line(error)}") from None


def _hex_id(raw: bytes, size: int, what: str, span_name: str) -> str:
    if len(raw) == size:
        return raw.hex()
    if not raw or len(raw) > size:
        raise OtlpDecodeError(
            f"span {span_name[:80]!r} has a {what} id of {len(raw)} bytes where OTLP asks for {size}"
        )
    return raw.rjust(size, b"\0").hex()  # 64-bit trace ids of older tracers


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for pair in pairs:
        value = pair.value
        # Most are texts that are not empty, and then there is no need to ask which kind it is.
        out[pair.key] = value.string_value or _value(value)
    return out


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode("ascii")
    return None if kind is None else getattr(value, kind)


def _event(event: Span.Event) -> SpanEvent:
    return SpanEvent(
        event.name, event.time_unix_nano, _attributes(event.attributes), event.dropped_attributes_count
    )


def _link(link: Span.Link) -> SpanLink | None:
    if len(link.trace_id) != _TRACE_ID_BYTES or len(link.span_id) != _SPAN_ID_BYTES:
        return None  # points nowhere
    return SpanLink(link.trace_id.hex(), link.span_id.hex(), _attributes(link.attributes))


def _severity(record: ProtoLogRecord) -> str | None:
    if record.severity_text:
        return record.severity_text
    if not record.severity_number:
        return None
    try:
        return SeverityNumber.Name(record.severity_number).removeprefix("SEVERITY_NUMBER_")
    except ValueError:
        return str(record.severity_number)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
