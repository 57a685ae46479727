"""LangSmith runs as JSON, JSON lines or rows of a bulk export.

They get the attributes that LangSmith's own OpenTelemetry exporter writes. Ids: a run that came to LangSmith
by OpenTelemetry keeps its span id; other runs have UUIDs, from which span ids are derived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ._json_stream import JsonValue
from ._otlp import Part
from ._report import FormatError, SkipList
from ._spans import (
    ERROR,
    OK,
    UNSET,
    Event,
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

__all__ = ["langsmith_parts", "matches_langsmith"]

_OPERATIONS = {"llm": "chat", "tool": "execute_tool"}


def matches_langsmith(value: Any) -> bool:
    rows = page(value, "runs")
    return _is_run(rows[0] if rows else value)


def _is_run(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("run_type"), str)
        and "id" in value
        and ("trace_id" in value or "dotted_order" in value or "inputs" in value)
    )


def langsmith_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of a LangSmith export. Raises FormatError with the place of what is none."""
    return request_parts(_spans(values, skipped), "langsmith")


def _spans(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[ExportedSpan]:
    for item in values:
        rows = page(item.value, "runs")
        # Runs can hold the runs below them; the stack is ours, so that no depth is too deep.
        waiting: list[tuple[Any, ExportedSpan | None]] = [
            (row, None) for row in reversed([item.value] if rows is None else rows)
        ]
        while waiting:
            row, above = waiting.pop()
            if not _is_run(row):
                raise FormatError("not a LangSmith run (an object with 'run_type')", where=item.where)
            span = _span(row, above, item.where, skipped)
            yield span
            children = row.get("child_runs")
            for child in reversed(children if isinstance(children, list) else []):
                waiting.append((child, span))


def _span(row: dict[str, Any], above: ExportedSpan | None, where: str, skipped: SkipList) -> ExportedSpan:
    run_id, kind = str(row["id"]), str(row["run_type"])
    path = _path(row.get("dotted_order"))
    start, end = time_of(row.get("start_time")), time_of(row.get("end_time"))
    if start is None:
        skipped.add(where, f"the run {run_id[:80]!r} has no start time: its end is taken")
    extra = json_object(row.get("extra"))
    metadata = json_object(extra.get("metadata"))
    error = row.get("error")
    status = str(row.get("status") or "").lower()
    failed = bool(error) or status == "error"
    trace_id = row.get("trace_id") or (path[0] if path else None)
    parent = row.get("parent_run_id") or (path[-2] if len(path) > 1 else None)
    span = ExportedSpan(
        above.trace_id if above and not trace_id else trace_id_of(trace_id or run_id),
        span_id_of(run_id),
        span_id_of(str(parent)) if parent else above.span_id if above else None,
        str(row.get("name") or kind),
        start or end or 0,
        end,
        status=ERROR if failed else OK if end else UNSET,
        attributes=_attributes(row, kind, extra, metadata),
        resource={"service.name": _text(row.get("session_name"))},
        scope="langsmith",
    )
    if failed:
        text = text_of(error) or "error"
        span.events.append(
            Event(
                "exception", end or span.start_ns, {"exception.type": "Exception", "exception.message": text}
            )
        )
    return span


def _attributes(
    row: dict[str, Any], kind: str, extra: dict[str, Any], metadata: dict[str, Any]
) -> dict[str, Any]:
    inputs, outputs = _body(row.get("inputs")), _body(row.get("outputs"))
    parameters = json_object(extra.get("invocation_params"))
    attributes: dict[str, Any] = {
        f"langsmith.metadata.{key}": value if isinstance(value, str | int | float) else text_of(value)
        for key, value in metadata.items()
    }
    attributes |= {
        "langsmith.span.kind": kind,
        "langsmith.trace.session_id": _text(row.get("session_id")),  # LangSmith's word for a project
        "langsmith.trace.session_name": _text(row.get("session_name")),
        "gen_ai.operation.name": _OPERATIONS.get(kind, kind),
    }
    if kind == "tool":
        attributes["gen_ai.tool.name"] = _text(row.get("name"))
        attributes["gen_ai.tool.call.id"] = _text(extra.get("tool_call_id") or metadata.get("tool_call_id"))
        inputs = _tool_arguments(inputs)
    elif kind == "llm":
        used = _usage(row, outputs)
        attributes |= {
            "gen_ai.request.model": _text(
                metadata.get("ls_model_name") or parameters.get("model") or parameters.get("model_name")
            ),
            "gen_ai.system": _text(metadata.get("ls_provider")),
            "gen_ai.usage.input_tokens": _count(row.get("prompt_tokens"), used.get("input_tokens")),
            "gen_ai.usage.output_tokens": _count(row.get("completion_tokens"), used.get("output_tokens")),
        }
    attributes["gen_ai.prompt"] = text_of(inputs)
    attributes["gen_ai.completion"] = text_of(outputs)
    return attributes


def _tool_arguments(inputs: Any) -> Any:
    """LangChain writes a tool's arguments as `{"input": "{'query': 'x'}"}`: the repr of a dictionary."""
    if not isinstance(inputs, dict) or list(inputs) != ["input"] or not isinstance(inputs["input"], str):
        return inputs
    return opened_repr(inputs["input"]) or inputs


def _usage(row: dict[str, Any], outputs: Any) -> dict[str, Any]:
    """The token counts that LangSmith or the model's answer holds."""
    for holder in (row, json_object(row.get("extra")).get("metadata"), outputs):
        if isinstance(holder, dict) and (found := json_object(holder.get("usage_metadata"))):
            return found
    return {}


def _body(value: Any) -> Any:
    """Inputs or outputs; in a bulk export they stand as JSON text. None where there are none."""
    return json_object(value) or value if isinstance(value, str) else value


def _path(value: Any) -> list[str]:
    """The run ids of a dotted order, `<time>Z<id>.<time>Z<id>`, from the root on."""
    if not isinstance(value, str):
        return []
    return [part.partition("Z")[2] for part in value.split(".") if "Z" in part]


def _count(*values: Any) -> int | None:
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 0), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
