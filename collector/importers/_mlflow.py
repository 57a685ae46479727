"""MLflow traces as JSON: `Trace.to_json()`, lists of them, and the artifact `traces.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

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

__all__ = ["matches_mlflow", "mlflow_parts"]

_BODIES = ("mlflow.spanInputs", "mlflow.spanOutputs")


def matches_mlflow(value: Any) -> bool:
    rows = page(value, "traces")
    return _spans_of(rows[0] if rows else value) is not None


def _spans_of(value: Any) -> list[Any] | None:
    """The spans of a trace; None if this is none of MLflow's. A trace without spans needs its `info`."""
    if not isinstance(value, dict):
        return None
    info, spans = value.get("info"), json_object(value.get("data")).get("spans", value.get("spans"))
    if not isinstance(spans, list):
        return None
    if isinstance(info, dict) and ("trace_id" in info or "request_id" in info):
        return spans
    first = spans[0] if spans else None
    attributes = first.get("attributes") if isinstance(first, dict) else None
    known = isinstance(attributes, dict) and any(str(key).startswith("mlflow.") for key in attributes)
    return spans if known else None


def mlflow_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of an MLflow export. Raises FormatError with the place of what is none."""
    return request_parts(_spans(values, skipped), "mlflow")


def _spans(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[ExportedSpan]:
    for item in values:
        rows = page(item.value, "traces")
        for trace in [item.value] if rows is None else rows:
            spans = _spans_of(trace)
            if spans is None:
                raise FormatError("not an MLflow trace", where=item.where)
            if not spans:
                skipped.add(item.where, "a trace without spans")
            info = json_object(trace.get("info"))
            for span in spans:
                yield _span(span, info, item.where)


def _span(span: Any, info: dict[str, Any], where: str) -> ExportedSpan:
    if not isinstance(span, dict):
        raise FormatError("a span that is no object", where=where)
    context = json_object(span.get("context"))  # the layout of MLflow 2
    trace_id = (
        span.get("trace_id") or context.get("trace_id") or info.get("trace_id") or info.get("request_id")
    )
    span_id = span.get("span_id") or context.get("span_id")
    if not isinstance(trace_id, str) or not isinstance(span_id, str) or not span_id:
        raise FormatError(f"the span {str(span.get('name'))[:80]!r} has no ids", where=where)
    start = time_of(span.get("start_time_unix_nano"), span.get("start_time"))
    if start is None:
        raise FormatError(f"the span {str(span.get('name'))[:80]!r} has no start time", where=where)
    raw = json_object(span.get("attributes"))
    attributes = {
        key: _encoded(key, value) if context else _decoded(key, value) for key, value in raw.items()
    }
    metadata = json_object(info.get("trace_metadata") or info.get("request_metadata"))
    session = metadata.get("mlflow.trace.session")
    if isinstance(session, str):
        attributes.setdefault("session.id", session)
    status = span.get("status")
    status = status if isinstance(status, dict) else {"code": span.get("status_code")}
    message = status.get("message") or span.get("status_message")
    parent = span.get("parent_span_id") or span.get("parent_id")
    return ExportedSpan(
        trace_id_of(trace_id.rpartition("/")[2].removeprefix("tr-")),
        span_id_of(span_id),
        span_id_of(parent) if isinstance(parent, str) and parent else None,
        str(span.get("name") or ""),
        start,
        time_of(span.get("end_time_unix_nano"), span.get("end_time")),
        status=status_of(status.get("code")),
        status_message=message if isinstance(message, str) else None,
        attributes=attributes,
        events=[event for entry in as_list(span.get("events")) if (event := _event(entry)) is not None],
        resource={"service.name": _service(info)},
        scope="mlflow",
    )


def _decoded(key: str, value: Any) -> Any:
    """An attribute of MLflow 3, where each is JSON text: bare values are opened, bodies stay as they are."""
    if key in _BODIES or not isinstance(value, str) or len(value) > 10_000:
        return text_of(value) if isinstance(value, dict | list) else value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return value if isinstance(found, dict | list) else found


def _encoded(key: str, value: Any) -> Any:
    """An attribute of MLflow 2, which stands decoded: as MLflow 3 and the dialect tables have it."""
    if key in _BODIES and value is not None:
        return json.dumps(value, ensure_ascii=False)
    return text_of(value) if isinstance(value, dict | list) else value


def _service(info: dict[str, Any]) -> str | None:
    tags, metadata = json_object(info.get("tags")), json_object(info.get("trace_metadata"))
    for value in (
        tags.get("service.name"),
        metadata.get("mlflow.source.name"),
        tags.get("mlflow.source.name"),
    ):
        if isinstance(value, str) and value:
            # A path says whose machine it was; its last part says which program.
            return value.replace("\\", "/").rpartition("/")[2][:200] or None
    return None


def _event(entry: Any) -> Event | None:
    if not isinstance(entry, dict):
        return None
    when = time_of(entry.get("time_unix_nano"), entry.get("timestamp"))
    return Event(str(entry.get("name") or ""), when or 0, json_object(entry.get("attributes")))
