"""Spans of other tools' exports as OTLP requests: ids, values, times, and their packing."""

from __future__ import annotations

import ast
import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from .._records import COPIED_FROM
from ._clock import parse_time
from ._otlp import Part, parts_of_request

__all__ = [
    "ERROR",
    "OK",
    "UNSET",
    "Event",
    "ExportedSpan",
    "json_object",
    "opened_repr",
    "page",
    "request_parts",
    "span_id_of",
    "status_of",
    "text_of",
    "time_of",
    "trace_id_of",
    "utf8",
]

UNSET, OK, ERROR = 0, 1, 2  # OTLP's status codes
# How many spans go into one request before it is closed: bounds memory, not the size of a request.
_SPANS_PER_REQUEST = 200
_MAX_DEPTH = 64
_MAX_LITERAL = 100_000
_INT64 = 1 << 63
_HEX = re.compile(r"[0-9a-f]+")


@dataclass(slots=True)
class Event:
    """An event of an exported span."""

    name: str
    time_ns: int
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ExportedSpan:
    """A span as an export tells it. Attribute values are any JSON; None is left out."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    start_ns: int
    end_ns: int | None  # None: it never ended
    kind: int = Span.SPAN_KIND_INTERNAL
    status: int = UNSET
    status_message: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    resource: dict[str, Any] = field(default_factory=dict)
    scope: str | None = None
    scope_version: str | None = None


def request_parts(spans: Iterable[ExportedSpan], copied_from: str | None = None) -> Iterator[Part]:
    """The spans as requests, in their order; those of one resource and scope lie together.

    `copied_from`: the tool whose export they are; recorded versions of the same spans win over them.
    """
    held: list[ExportedSpan] = []
    for span in spans:
        if copied_from is not None:
            span.attributes[COPIED_FROM] = copied_from
        held.append(span)
        if len(held) >= _SPANS_PER_REQUEST:
            yield from parts_of_request("traces", _request(held))
            held = []
    if held:
        yield from parts_of_request("traces", _request(held))


def _request(spans: list[ExportedSpan]) -> bytes:
    request = ExportTraceServiceRequest()
    scopes: dict[str, ScopeSpans] = {}
    for span in spans:
        place = json.dumps([span.resource, span.scope, span.scope_version], sort_keys=True, default=str)
        scope = scopes.get(place)
        if scope is None:
            outer = request.resource_spans.add()
            _set_all(outer.resource.attributes, span.resource)
            scope = scopes[place] = outer.scope_spans.add()
            scope.scope.name = utf8(span.scope or "")
            scope.scope.version = utf8(span.scope_version or "")
        _fill(scope.spans.add(), span)
    return request.SerializeToString()


def _fill(target: Span, span: ExportedSpan) -> None:
    target.trace_id, target.span_id = span.trace_id, span.span_id
    if span.parent_id is not None and span.parent_id != span.span_id:
        target.parent_span_id = span.parent_id
    target.name = utf8(span.name)
    target.kind = span.kind  # type: ignore[assignment]
    target.start_time_unix_nano = span.start_ns
    if span.end_ns is not None:
        target.end_time_unix_nano = max(span.end_ns, span.start_ns)
    target.status.code = span.status  # type: ignore[assignment]
    if span.status_message:
        target.status.message = utf8(span.status_message)
    _set_all(target.attributes, span.attributes)
    for event in span.events:
        added = target.events.add()
        added.name, added.time_unix_nano = utf8(event.name), event.time_ns
        _set_all(added.attributes, event.attributes)


def _set_all(target: Any, attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        if value is not None:
            _set_value(_added(target, key).value, value, 0)


def _added(target: Any, key: str) -> KeyValue:
    pair = target.add()
    pair.key = utf8(str(key))
    return pair


def _set_value(target: AnyValue, value: Any, depth: int) -> None:
    if isinstance(value, str):
        target.string_value = utf8(value)
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int) and -_INT64 <= value < _INT64:
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, dict | list) and depth >= _MAX_DEPTH:
        target.string_value = utf8(text_of(value) or "")
    elif isinstance(value, dict):
        target.kvlist_value.SetInParent()
        for key, inner in value.items():
            _set_value(_added(target.kvlist_value.values, key).value, inner, depth + 1)
    elif isinstance(value, list):
        target.array_value.SetInParent()
        for inner in value:
            _set_value(target.array_value.values.add(), inner, depth + 1)
    elif value is not None:
        target.string_value = utf8(str(value))


def utf8(text: str) -> str:
    """Text that protobuf takes: a lone surrogate, which JSON can escape, becomes '?'."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def text_of(value: Any) -> str | None:
    """A recorded value as text: text as it is, anything else as JSON; None stays None."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def json_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, or JSON text of one (twice encoded, too); else an empty object."""
    for _ in range(3):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def opened_repr(text: str) -> dict[str, Any] | None:
    """The dictionary whose JSON or Python repr the text is, which LangChain's callbacks write; else None."""
    if not text.startswith("{") or len(text) > _MAX_LITERAL:
        return None
    if found := json_object(text):
        return found
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None
    return value if isinstance(value, dict) else None


def page(value: Any, *keys: str) -> list[Any] | None:
    """The entries of an API's answer, `{"data": […], …}`; None if the value is no such thing."""
    for key in keys:
        if isinstance(value, dict) and isinstance(value.get(key), list):
            return value[key]
    return None


def trace_id_of(value: Any) -> bytes:
    """16 bytes: an id in hex (also shorter, with 0x, or as a UUID) or base64 as it is, any other by hash."""
    return _id_bytes(value, 16)


def span_id_of(value: Any) -> bytes:
    """8 bytes, as `trace_id_of`. A UUID that only pads an 8-byte id with zeros is that id."""
    return _id_bytes(value, 8)


def _id_bytes(value: Any, size: int) -> bytes:
    text = value if isinstance(value, str) else str(value)
    digits = text.lower().removeprefix("0x").replace("-", "")
    if _HEX.fullmatch(digits) and len(digits) >= size:
        digits = digits.lstrip("0") if len(digits) > 2 * size else digits
        if digits.strip("0") and len(digits) <= 2 * size:
            return bytes.fromhex(digits.rjust(2 * size, "0"))
    elif len(text) == len(base64.b64encode(bytes(size))):
        try:
            raw = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) == size and any(raw):
            return raw
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def time_of(*values: Any) -> int | None:
    """Unix nanoseconds of the first value that is a time (`_clock.parse_time`), else None.

    Digits in text are a number: APIs write nanoseconds so.
    """
    return next((found for value in values if (found := parse_time(_plain_time(value))) is not None), None)


def _plain_time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return int(value) if value.isdigit() and len(value) <= 20 else value.replace(" UTC", "+00:00")


def status_of(value: Any) -> int:
    """A status code from its name or number, with or without `STATUS_CODE_`."""
    name = str(value or "").upper().removeprefix("STATUSCODE.").removeprefix("STATUS_CODE_")
    return {"OK": OK, "1": OK, "ERROR": ERROR, "2": ERROR}.get(name, UNSET)
