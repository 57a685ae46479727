"""Spans as Phoenix exports them: the answers of its API, `px` downloads, rows of its data frames.

Their attributes are OpenInference's, nested or with columns for prefixes; here they become flat again. The
Python SDK's ConsoleSpanExporter prints spans in nearly the same form, and is read here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from .._attributes import as_list
from ._json_stream import JsonValue
from ._otlp import Part
from ._report import FormatError, SkipList
from ._spans import (
    Event,
    ExportedSpan,
    json_object,
    page,
    request_parts,
    span_id_of,
    status_of,
    text_of,
    time_of,
    trace_id_of,
)

__all__ = ["console_parts", "matches_console", "matches_phoenix", "phoenix_parts"]

_PREFIX = "attributes."
_MAX_KEYS = 100_000
_MAX_DEPTH = 64
_KINDS = {
    "SpanKind.SERVER": Span.SPAN_KIND_SERVER,
    "SpanKind.CLIENT": Span.SPAN_KIND_CLIENT,
    "SpanKind.PRODUCER": Span.SPAN_KIND_PRODUCER,
    "SpanKind.CONSUMER": Span.SPAN_KIND_CONSUMER,
}
# Attributes that are JSON text although they look like something to flatten.
_JSON_TEXT = (
    "metadata",
    "input.value",
    "output.value",
    "tool.parameters",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
)
_JSON_ENDINGS = (".json_schema", ".arguments", ".variables", ".invocation_parameters", ".result")


def matches_phoenix(value: Any) -> bool:
    rows = page(value, "data", "spans")
    return _ids(rows[0] if rows else value) is not None


def matches_console(value: Any) -> bool:
    """Whether this is a span as the ConsoleSpanExporter prints it."""
    return _ids(value) is not None and str(value.get("kind")).startswith("SpanKind.")


def _ids(row: Any) -> tuple[Any, Any] | None:
    """(trace id, span id) of a row; None if this is no span of Phoenix."""
    if not isinstance(row, dict) or "name" not in row:
        return None
    context = row.get("context")
    if isinstance(context, dict):
        found = context.get("trace_id"), context.get("span_id")
    else:
        found = row.get("context.trace_id"), row.get("context.span_id")
    return found if isinstance(found[0], str) and "start_time" in row else None


def phoenix_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of a Phoenix export. Raises FormatError with the place of what is none."""
    return request_parts(_spans(values), "phoenix")


def console_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of what a ConsoleSpanExporter printed. Raises FormatError with the place of what is none."""
    return request_parts(_spans(values), "otel-console")


def _spans(values: Iterable[JsonValue]) -> Iterator[ExportedSpan]:
    for item in values:
        rows = page(item.value, "data", "spans")
        for row in [item.value] if rows is None else rows:
            ids = _ids(row)
            if ids is None:
                raise FormatError("not a span of Phoenix", where=item.where)
            if not isinstance(ids[1], str) or not ids[1]:
                raise FormatError(
                    "a span without its id",
                    where=item.where,
                    hint="export the data frame with its index (to_parquet, or reset_index() first)",
                )
            yield _span(row, *ids, where=item.where)


def _span(row: dict[str, Any], trace_id: str, span_id: str, *, where: str) -> ExportedSpan:
    start = time_of(row.get("start_time"))
    if start is None:
        raise FormatError(f"the span {str(row.get('name'))[:80]!r} has no start time", where=where)
    attributes: dict[str, Any] = {}
    _flatten("", row.get("attributes"), attributes, 0)
    for key, value in row.items():
        if key.startswith(_PREFIX):
            _flatten(key.removeprefix(_PREFIX), value, attributes, 0)
    kind = row.get("span_kind")
    if isinstance(kind, str) and kind not in ("", "UNKNOWN"):
        attributes.setdefault("openinference.span.kind", kind)
    status = row.get("status")
    status = status if isinstance(status, dict) else row
    message = status.get("status_message") or status.get("description")
    parent = row.get("parent_id")
    resource: dict[str, Any] = {}
    _flatten("", json_object(row.get("resource")).get("attributes"), resource, 0)
    return ExportedSpan(
        trace_id_of(trace_id),
        span_id_of(span_id),
        span_id_of(parent) if isinstance(parent, str) and parent else None,
        str(row.get("name") or ""),
        start,
        time_of(row.get("end_time")),
        kind=_KINDS.get(str(row.get("kind")), Span.SPAN_KIND_INTERNAL),
        status=status_of(status.get("status_code")),
        status_message=message if isinstance(message, str) else None,
        attributes=attributes,
        events=[event for entry in as_list(row.get("events")) if (event := _event(entry)) is not None],
        resource=resource,
    )


def _flatten(path: str, value: Any, out: dict[str, Any], depth: int) -> None:
    """Put a nested value under flat keys: `{"llm": {"tools": [{…}]}}` to `llm.tools.0.…`."""
    if value is None or len(out) >= _MAX_KEYS:
        return
    nested = isinstance(value, dict) or (
        isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value)
    )
    if not nested:
        if path:
            out[path] = value
    elif path in _JSON_TEXT or path.endswith(_JSON_ENDINGS) or depth > _MAX_DEPTH:
        out[path] = text_of(_dense(value, 0))
    else:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            _flatten(f"{path}.{key}" if path else str(key), inner, out, depth + 1)


def _dense(value: Any, depth: int) -> Any:
    """Without the empty members that a data frame's columns give every row."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        return {key: _dense(inner, depth + 1) for key, inner in value.items() if inner is not None}
    return value


def _event(entry: Any) -> Event | None:
    if not isinstance(entry, dict):
        return None
    attributes: dict[str, Any] = {}
    _flatten("", entry.get("attributes"), attributes, 0)
    return Event(str(entry.get("name") or ""), time_of(entry.get("timestamp")) or 0, attributes)
