"""Jaeger's JSON: the answer of `/api/traces`, and what its page downloads."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from .._attributes import as_list
from ._json_stream import JsonValue
from ._otlp import Part
from ._report import FormatError, SkipList
from ._spans import (
    ERROR,
    UNSET,
    Event,
    ExportedSpan,
    page,
    request_parts,
    span_id_of,
    status_of,
    trace_id_of,
)

__all__ = ["jaeger_parts", "matches_jaeger"]

_KINDS = {
    "internal": Span.SPAN_KIND_INTERNAL,
    "server": Span.SPAN_KIND_SERVER,
    "client": Span.SPAN_KIND_CLIENT,
    "producer": Span.SPAN_KIND_PRODUCER,
    "consumer": Span.SPAN_KIND_CONSUMER,
}
# Tags that say what OTLP has fields for.
_FIELDS = frozenset(
    (
        "otel.status_code",
        "otel.status_description",
        "otel.scope.name",
        "otel.scope.version",
        "otel.library.name",
        "otel.library.version",
        "span.kind",
        "internal.span.format",
    )
)


def matches_jaeger(value: Any) -> bool:
    rows = page(value, "data")
    value = rows[0] if rows else value
    return isinstance(value, dict) and isinstance(value.get("spans"), list) and "processes" in value


def jaeger_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of a Jaeger export. Raises FormatError with the place of what is none."""
    return request_parts(_spans(values, skipped), "jaeger")


def _spans(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[ExportedSpan]:
    for item in values:
        rows = page(item.value, "data")
        for trace in [item.value] if rows is None else rows:
            if not isinstance(trace, dict) or not isinstance(trace.get("spans"), list):
                raise FormatError("not a Jaeger trace (an object with 'spans')", where=item.where)
            processes = trace.get("processes")
            for span in trace["spans"]:
                yield _span(span, trace, processes if isinstance(processes, dict) else {}, item.where)


def _span(span: Any, trace: dict[str, Any], processes: dict[str, Any], where: str) -> ExportedSpan:
    if not isinstance(span, dict) or not span.get("spanID"):
        raise FormatError("a span without a spanID", where=where)
    process = span.get("process") or processes.get(str(span.get("processID")))
    process = process if isinstance(process, dict) else {}
    start, duration = _number(span.get("startTime")), _number(span.get("duration"))
    if start is None:
        raise FormatError(f"the span {str(span['spanID'])[:40]!r} has no startTime", where=where)
    tags = _tags(span.get("tags"))
    resource = _tags(process.get("tags"))
    if isinstance(process.get("serviceName"), str):
        resource["service.name"] = process["serviceName"]
    failed = tags.get("error") in (True, "true")
    message = tags.get("otel.status_description")
    parent = _parent(span)
    return ExportedSpan(
        trace_id_of(span.get("traceID") or trace.get("traceID")),
        span_id_of(span["spanID"]),
        span_id_of(parent) if parent else None,
        str(span.get("operationName") or ""),
        start * 1000,
        (start + (duration or 0)) * 1000,
        kind=_KINDS.get(str(tags.get("span.kind")), Span.SPAN_KIND_UNSPECIFIED),
        status=status_of(tags.get("otel.status_code")) or (ERROR if failed else UNSET),
        status_message=message if isinstance(message, str) else None,
        attributes={key: value for key, value in tags.items() if key not in _FIELDS},
        events=[event for log in as_list(span.get("logs")) if (event := _event(log)) is not None],
        resource=resource,
        scope=_text(tags.get("otel.scope.name") or tags.get("otel.library.name")),
        scope_version=_text(tags.get("otel.scope.version") or tags.get("otel.library.version")),
    )


def _parent(span: dict[str, Any]) -> str | None:
    """The span that this is a child of, or follows, in the same trace."""
    references = [entry for entry in as_list(span.get("references")) if isinstance(entry, dict)]
    own = [entry for entry in references if entry.get("traceID", span.get("traceID")) == span.get("traceID")]
    own.sort(key=lambda entry: entry.get("refType") != "CHILD_OF")
    return _text(own[0].get("spanID")) if own else _text(span.get("parentSpanID"))


def _event(log: Any) -> Event | None:
    if not isinstance(log, dict):
        return None
    fields = _tags(log.get("fields"))
    name = fields.pop("event", None) or fields.pop("message", None) or "log"
    return Event(str(name), (_number(log.get("timestamp")) or 0) * 1000, fields)


def _tags(tags: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tag in as_list(tags):
        if isinstance(tag, dict) and isinstance(tag.get("key"), str):
            found[tag["key"]] = _value(tag.get("type"), tag.get("value"))
    return found


def _value(kind: Any, value: Any) -> Any:
    """A tag's value by its type: numbers that do not fit JavaScript stand as text."""
    if isinstance(value, str):
        try:
            if kind == "int64":
                return int(value) if len(value) <= 20 else value
            if kind == "float64":
                return float(value)
            if kind == "bool":
                return value.lower() == "true"
            if kind == "binary":
                return base64.b64decode(value, validate=True).decode("utf-8")
        except (ValueError, binascii.Error):
            return value
    return value


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isdigit() and len(value) <= 19:
        value = int(value)
    return int(value) if isinstance(value, int | float) and 0 <= value < 1 << 53 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
