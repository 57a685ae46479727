"""OTLP/JSON to OTLP protobuf.

Read leniently, because the collector's `file` exporter, protobuf's own JSON and hand-made
tools all spell it differently: ids in hex or base64, enums by name or number, 64-bit integers
as text or number, lowerCamelCase or snake_case, unknown fields ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from ..guard import OtlpDecodeError

__all__ = ["logs_json_to_protobuf", "traces_json_to_protobuf"]

_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
_INT64 = 1 << 63
_UINT64 = 1 << 64
_UINT32_MAX = (1 << 32) - 1
# protobuf refuses messages nested deeper than 100; one level of a list or map in an attribute value
# costs three. What lies deeper becomes JSON text.
_MAX_VALUE_DEPTH = 24
_SPAN_KINDS = dict(trace_pb2.Span.SpanKind.items())
_STATUS_CODES = dict(trace_pb2.Status.StatusCode.items())
_SEVERITIES = dict(logs_pb2.SeverityNumber.items())


def traces_json_to_protobuf(obj: Any, faults: list[str] | None = None) -> bytes:
    """Serialized ExportTraceServiceRequest for a decoded OTLP/JSON object (or a list of them).

    Raises OtlpDecodeError where the object is not OTLP trace JSON. With `faults`, a span that cannot be read
    is left out and the reason added there, one a span; without, it raises.
    """
    request = ExportTraceServiceRequest()
    for item in _requests(obj, ("resourceSpans", "resource_spans"), "trace"):
        for raw in _list(item, "resourceSpans", "resource_spans"):
            resource_spans = request.resource_spans.add()
            _fill_resource(resource_spans.resource, raw)
            for raw_scope in _list(raw, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
                scope_spans = resource_spans.scope_spans.add()
                _fill_scope(scope_spans.scope, raw_scope)
                for raw_span in _list(raw_scope, "spans"):
                    _add(scope_spans.spans, _fill_span, raw_span, faults)
    return request.SerializeToString()


def logs_json_to_protobuf(obj: Any, faults: list[str] | None = None) -> bytes:
    """Serialized ExportLogsServiceRequest for a decoded OTLP/JSON object (or a list of them).

    Raises OtlpDecodeError where the object is not OTLP log JSON. `faults`: as for traces.
    """
    request = ExportLogsServiceRequest()
    for item in _requests(obj, ("resourceLogs", "resource_logs"), "log"):
        for raw in _list(item, "resourceLogs", "resource_logs"):
            resource_logs = request.resource_logs.add()
            _fill_resource(resource_logs.resource, raw)
            for raw_scope in _list(raw, "scopeLogs", "scope_logs", "instrumentationLibraryLogs"):
                scope_logs = resource_logs.scope_logs.add()
                _fill_scope(scope_logs.scope, raw_scope)
                for raw_record in _list(raw_scope, "logRecords", "log_records"):
                    _add(scope_logs.log_records, _fill_log, raw_record, faults)
    return request.SerializeToString()


def _add(
    records: Any, fill: Callable[[Any, dict[str, Any]], None], raw: dict[str, Any], faults: list[str] | None
) -> None:
    try:
        fill(records.add(), raw)
    except OtlpDecodeError as error:
        if faults is None:
            raise
        del records[-1]  # its neighbours are as good as before
        faults.append(str(error))


def _requests(obj: Any, keys: tuple[str, str], what: str) -> list[dict[str, Any]]:
    items = obj if isinstance(obj, list) else [obj]
    for item in items:
        if not isinstance(item, dict):
            raise OtlpDecodeError(
                f"not OTLP {what} JSON: expected an object with {keys[0]!r}, found {_type_name(item)}"
            )
        # An empty object is an empty request, which is valid.
        if item and not any(key in item for key in keys):
            found = ", ".join(repr(str(key)[:40]) for key in list(item)[:4])
            raise OtlpDecodeError(f"not OTLP {what} JSON: no {keys[0]!r} in an object with the keys {found}")
    return items


def _get(raw: dict[str, Any], *keys: str) -> Any:
    for key in keys:
        if key in raw:
            return raw[key]
    return None


def _list(raw: dict[str, Any], *keys: str) -> list[dict[str, Any]]:
    value = _get(raw, *keys)
    if value is None:
        return []
    if not isinstance(value, list):
        raise OtlpDecodeError(f"OTLP JSON: {keys[0]!r} must be a list, found {_type_name(value)}")
    for item in value:
        if not isinstance(item, dict):
            raise OtlpDecodeError(f"OTLP JSON: {keys[0]!r} must hold objects, found {_type_name(item)}")
    return value


def _fill_resource(resource: Resource, raw: dict[str, Any]) -> None:
    value = _get(raw, "resource")
    if isinstance(value, dict):
        _fill_attributes(resource.attributes, value)


def _fill_scope(scope: InstrumentationScope, raw: dict[str, Any]) -> None:
    value = _get(raw, "scope", "instrumentationLibrary")
    if isinstance(value, dict):
        scope.name = _text(_get(value, "name"))
        scope.version = _text(_get(value, "version"))
        _fill_attributes(scope.attributes, value)


def _fill_span(span: trace_pb2.Span, raw: dict[str, Any]) -> None:
    name = span.name = _text(_get(raw, "name"))
    span.trace_id = _id(_get(raw, "traceId", "trace_id"), _TRACE_ID_BYTES, "traceId", span.name)
    span.span_id = _id(_get(raw, "spanId", "span_id"), _SPAN_ID_BYTES, "spanId", span.name)
    parent = _get(raw, "parentSpanId", "parent_span_id")
    if parent:
        raw_parent = _id(parent, _SPAN_ID_BYTES, "parentSpanId", span.name)
        if any(raw_parent):
            span.parent_span_id = raw_parent
    span.trace_state = _text(_get(raw, "traceState", "trace_state"))
    span.flags = _uint32(_get(raw, "flags"))
    span.kind = _enum(_get(raw, "kind"), _SPAN_KINDS, "SPAN_KIND_")
    span.start_time_unix_nano = _nanoseconds(
        _get(raw, "startTimeUnixNano", "start_time_unix_nano"), span.name
    )
    span.end_time_unix_nano = _nanoseconds(_get(raw, "endTimeUnixNano", "end_time_unix_nano"), name)
    _fill_attributes(span.attributes, raw)
    span.dropped_attributes_count = _uint32(_get(raw, "droppedAttributesCount", "dropped_attributes_count"))
    span.dropped_events_count = _uint32(_get(raw, "droppedEventsCount", "dropped_events_count"))
    span.dropped_links_count = _uint32(_get(raw, "droppedLinksCount", "dropped_links_count"))
    for raw_event in _list(raw, "events"):
        event = span.events.add()
        event.name = _text(_get(raw_event, "name"))
        event.time_unix_nano = _nanoseconds(_get(raw_event, "timeUnixNano", "time_unix_nano"), span.name)
        _fill_attributes(event.attributes, raw_event)
        event.dropped_attributes_count = _uint32(
            _get(raw_event, "droppedAttributesCount", "dropped_attributes_count")
        )
    for raw_link in _list(raw, "links"):
        link = span.links.add()
        link.trace_id = _id(_get(raw_link, "traceId", "trace_id"), _TRACE_ID_BYTES, "traceId", span.name)
        link.span_id = _id(_get(raw_link, "spanId", "span_id"), _SPAN_ID_BYTES, "spanId", span.name)
        _fill_attributes(link.attributes, raw_link)
    status = _get(raw, "status")
    if isinstance(status, dict):
        span.status.code = _enum(_get(status, "code"), _STATUS_CODES, "STATUS_CODE_")
        span.status.message = _text(_get(status, "message"))


def _fill_log(record: logs_pb2.LogRecord, raw: dict[str, Any]) -> None:
    name = _text(_get(raw, "eventName", "event_name"))
    trace_id, span_id = _get(raw, "traceId", "trace_id"), _get(raw, "spanId", "span_id")
    if trace_id:
        record.trace_id = _id(trace_id, _TRACE_ID_BYTES, "traceId", name or "log record")
    if span_id:
        record.span_id = _id(span_id, _SPAN_ID_BYTES, "spanId", name or "log record")
    record.event_name = name
    record.time_unix_nano = _nanoseconds(_get(raw, "timeUnixNano", "time_unix_nano"), name)
    record.observed_time_unix_nano = _nanoseconds(
        _get(raw, "observedTimeUnixNano", "observed_time_unix_nano"), name
    )
    record.severity_text = _text(_get(raw, "severityText", "severity_text"))
    record.severity_number = _enum(
        _get(raw, "severityNumber", "severity_number"), _SEVERITIES, "SEVERITY_NUMBER_"
    )
    body = _get(raw, "body")
    if body is not None:
        _fill_value(record.body, body, 0)
    _fill_attributes(record.attributes, raw)
    record.dropped_attributes_count = _uint32(_get(raw, "droppedAttributesCount", "dropped_attributes_count"))
    record.flags = _uint32(_get(raw, "flags"))


def _fill_attributes(target: Any, raw: dict[str, Any], depth: int = 0) -> None:
    pairs = _get(raw, "attributes")
    if isinstance(pairs, dict):  # hand-made files write a plain map
        pairs = [{"key": key, "value": value} for key, value in pairs.items()]
    _fill_pairs(target, pairs, depth)


def _fill_pairs(target: Any, pairs: Any, depth: int) -> None:
    if pairs is None:
        return
    if not isinstance(pairs, list):
        raise OtlpDecodeError(f"OTLP JSON: 'attributes' must be a list, found {_type_name(pairs)}")
    for pair in pairs:
        if not isinstance(pair, dict) or "key" not in pair:
            raise OtlpDecodeError("OTLP JSON: an attribute must be an object with 'key' and 'value'")
        item = target.add()
        item.key = _text(pair["key"])
        value = pair.get("value")
        if value is not None:
            _fill_value(item.value, value, depth)


def _fill_value(target: AnyValue, raw: Any, depth: int) -> None:
    if not isinstance(raw, dict):
        _fill_plain(target, raw, depth)
        return
    if not raw:
        return
    for key, value in raw.items():
        kind = _VALUE_KINDS.get(key)
        if kind is None:
            continue
        if value is None:
            return
        if kind in ("array", "kvlist"):
            if depth >= _MAX_VALUE_DEPTH:
                target.string_value = _flat(value)
                return
            values = _get(value, "values") if isinstance(value, dict) else value
            if kind == "array":
                target.array_value.SetInParent()
                for item in values if isinstance(values, list) else ():
                    _fill_value(target.array_value.values.add(), item, depth + 1)
            else:
                target.kvlist_value.SetInParent()
                _fill_pairs(target.kvlist_value.values, values, depth + 1)
        elif kind == "bytes":
            target.bytes_value = _base64(value) or _text(value).encode("utf-8", "replace")
        elif kind == "string":
            target.string_value = _text(value)
        elif kind == "bool":
            target.bool_value = value is True or (isinstance(value, str) and value.lower() == "true")
        elif kind == "int":
            _fill_int(target, value)
        else:
            target.double_value = _double(value)
        return
    _fill_plain(target, raw, depth)  # a bare map in place of an AnyValue


_VALUE_KINDS = {
    f"{prefix}{suffix}": prefix
    for prefix in ("string", "bool", "int", "double", "array", "kvlist", "bytes")
    for suffix in ("Value", "_value")
}


def _fill_plain(target: AnyValue, raw: Any, depth: int) -> None:
    """A bare JSON value where OTLP wants {"stringValue": …}; lenient, since hand-made files do it."""
    if isinstance(raw, bool):
        target.bool_value = raw
    elif isinstance(raw, str):
        target.string_value = _text(raw)
    elif isinstance(raw, int):
        _fill_int(target, raw)
    elif isinstance(raw, float):
        target.double_value = raw
    elif isinstance(raw, list | dict):
        if depth >= _MAX_VALUE_DEPTH:
            target.string_value = _flat(raw)
        elif isinstance(raw, list):
            target.array_value.SetInParent()
            for item in raw:
                _fill_value(target.array_value.values.add(), item, depth + 1)
        else:
            target.kvlist_value.SetInParent()
            _fill_pairs(
                target.kvlist_value.values,
                [{"key": key, "value": item} for key, item in raw.items()],
                depth + 1,
            )


def _fill_int(target: AnyValue, value: Any) -> None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        target.string_value = _text(value)
        return
    if -_INT64 <= number < _INT64:
        target.int_value = number
    else:
        target.string_value = str(value)[:64]


def _double(value: Any) -> float:
    try:
        return float(value)  # also "NaN", "Infinity", "-Infinity"
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return _flat(value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate; protobuf text must be UTF-8
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def _flat(value: Any) -> str:
    try:
        return json.dumps(value)
    except (RecursionError, ValueError, TypeError):
        return "(value nested too deeply)"


def _id(value: Any, size: int, what: str, span_name: str) -> bytes:
    if isinstance(value, str) and value:
        digits = value[2:] if value.startswith("0x") else value
        if len(digits) <= 2 * size:
            try:
                return bytes.fromhex(digits.rjust(2 * size, "0"))
            except ValueError:
                pass
        raw = _base64(value)
        if raw is not None and len(raw) == size:
            return raw
    shown = repr(value)[:60] if value else "nothing"
    raise OtlpDecodeError(
        f"OTLP JSON: {what} of {span_name[:80]!r} must be {2 * size} hex digits, found {shown}"
    )


def _base64(value: Any) -> bytes | None:
    if not isinstance(value, str):
        return None
    text = value.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _nanoseconds(value: Any, span_name: str) -> int:
    if value is None or value == "":
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if isinstance(value, bool) or not 0 <= number < _UINT64:
        raise OtlpDecodeError(
            f"OTLP JSON: a time of {span_name[:80]!r} must be Unix nanoseconds, found {repr(value)[:60]}"
        )
    return number


def _uint32(value: Any) -> int:
    try:
        number = int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
    return min(max(number, 0), _UINT32_MAX)


def _enum(value: Any, names: Mapping[str, Any], prefix: str) -> Any:
    """The number of an enum given as number, digits, `STATUS_CODE_ERROR`, `ERROR` or `Error`; else 0."""
    if isinstance(value, str) and not value.isdigit():
        name = value.rsplit(".", 1)[-1].upper()
        return names.get(name if name.startswith(prefix) else prefix + name, 0)
    try:
        number = int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 <= number < len(names) else 0


def _type_name(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false", type(None): "null"}
    return names.get(type(value), "a number")
