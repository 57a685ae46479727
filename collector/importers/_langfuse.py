"""Langfuse exports: traces with their observations, and observations alone.

An observation that came to Langfuse by OpenTelemetry carries what was recorded in `metadata`:
`attributes`, `resourceAttributes` and `scope`. They become the span's own again, and what Langfuse itself
keeps of the observation goes under the names that its SDK writes, which the dialect tables read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ._json_stream import JsonValue
from ._otlp import Part
from ._report import FormatError, SkipList
from ._spans import (
    ERROR,
    UNSET,
    ExportedSpan,
    json_object,
    opened_repr,
    page,
    request_parts,
    span_id_of,
    text_of,
    time_of,
    trace_id_of,
)

__all__ = ["langfuse_parts", "matches_langfuse"]

_TYPES = frozenset(
    (
        "SPAN",
        "EVENT",
        "GENERATION",
        "AGENT",
        "TOOL",
        "CHAIN",
        "RETRIEVER",
        "EVALUATOR",
        "EMBEDDING",
        "GUARDRAIL",
    )
)


def matches_langfuse(value: Any) -> bool:
    if isinstance(rows := page(value, "data"), list) and rows:
        value = rows[0]
    return _is_trace(value) or _is_observation(value)


def _is_trace(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("observations"), list)
        and (isinstance(value.get("trace"), dict) or ("id" in value and "timestamp" in value))
    )


def _is_observation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("traceId"), str)
        and isinstance(value.get("type"), str)
        and value["type"].upper() in _TYPES
        and "startTime" in value
    )


def langfuse_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of a Langfuse export. Raises FormatError with the place of what is none."""
    return request_parts(_spans(values, skipped), "langfuse")


def _spans(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[ExportedSpan]:
    for item in values:
        rows = page(item.value, "data")
        for row in [item.value] if rows is None else rows:
            if _is_trace(row):
                yield from _of_trace(row, item.where, skipped)
            elif _is_observation(row):
                yield _span(row, {}, item.where, skipped)
            elif row != {}:
                raise FormatError("neither a Langfuse trace nor an observation", where=item.where)


def _of_trace(value: dict[str, Any], where: str, skipped: SkipList) -> Iterator[ExportedSpan]:
    trace = value["trace"] if isinstance(value.get("trace"), dict) else value
    if not value["observations"]:
        skipped.add(where, f"the trace {str(trace.get('id'))[:80]!r} has no observations")
    for observation in value["observations"]:
        if isinstance(observation, dict) and isinstance(observation.get("type"), str):
            yield _span(observation, trace, where, skipped)
        else:
            skipped.add(where, "an observation that is only named; export observations, or traces one by one")


def _span(row: dict[str, Any], trace: dict[str, Any], where: str, skipped: SkipList) -> ExportedSpan:
    metadata = json_object(row.get("metadata"))
    scope = json_object(metadata.get("scope"))
    attributes = json_object(metadata.get("attributes"))
    resource = json_object(metadata.get("resourceAttributes"))
    start, end = time_of(row.get("startTime")), time_of(row.get("endTime"))
    if start is None:
        skipped.add(where, f"the observation {str(row.get('id'))[:80]!r} has no start time: its end is taken")
    if str(row["type"]).upper() == "EVENT":
        end = end or start  # a point in time
    failed = str(row.get("level") or "").upper() == "ERROR"
    message = row.get("statusMessage")
    kind, given = _kind(row, attributes), row.get("input")
    if kind == "tool" and isinstance(given, str):
        given = opened_repr(given) or given
    attributes |= {
        "langfuse.observation.type": kind,
        "langfuse.observation.level": row.get("level"),
        "langfuse.observation.input": text_of(given),
        "langfuse.observation.output": text_of(row.get("output")),
        "langfuse.observation.model.name": _text(row.get("model") or row.get("providedModelName")),
        "langfuse.observation.usage_details": _usage(row),
        "langfuse.observation.cost_details": text_of(row.get("costDetails") or None),
        "langfuse.session.id": _text(row.get("sessionId") or trace.get("sessionId")),
        "langfuse.trace.name": _text(row.get("traceName") or trace.get("name")),
        "langfuse.environment": _text(row.get("environment")),
    }
    parent = row.get("parentObservationId")
    return ExportedSpan(
        trace_id_of(row.get("traceId") or trace.get("id")),
        span_id_of(row.get("id")),
        span_id_of(parent) if isinstance(parent, str) and parent else None,
        _text(row.get("name")) or str(row["type"]).lower(),
        start or end or 0,
        end,
        status=ERROR if failed else UNSET,
        status_message=message if isinstance(message, str) else None,
        attributes=attributes,
        resource=resource,
        scope=_text(scope.get("name")) or "langfuse",
        scope_version=_text(scope.get("version")),
    )


def _kind(row: dict[str, Any], attributes: dict[str, Any]) -> str:
    """The observation's type. Older servers call a tool run a span: what marks a tool decides then."""
    kind = str(row["type"]).lower()
    if kind != "span":
        return kind
    if "gen_ai.tool.name" in attributes and "gen_ai.tool.call.id" in attributes:
        return "tool"
    # LangChain's callback writes the tool message that a tool run gave.
    output = json_object(row.get("output"))
    return "tool" if output.get("type") == "tool" and "tool_call_id" in output else kind


def _usage(row: dict[str, Any]) -> str | None:
    """Token counts: `usageDetails`, or the older `usage` and `promptTokens`."""
    for key in ("usageDetails", "usage"):
        if found := json_object(row.get(key)):
            return text_of(found)
    old = {"input": row.get("promptTokens"), "output": row.get("completionTokens")}
    return text_of(old) if any(old.values()) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
