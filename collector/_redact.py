"""Leaving content out before anything is written: arguments, results, messages, error texts.

What is *kept* is listed (kept_attributes.txt), not what is dropped: an instrumentation nobody here has
heard of must not leak a prompt through a key of its own. Kept are names, ids, models, token counts,
kinds, error types and status codes: what tells that a tool was called, by whom, when, and whether it
failed. Everything else goes, free text in status messages, exception messages, stack traces and log
bodies included. Spans that lost something are marked `loopscope.redacted` = true, so that "dropped on
purpose" is told from "never recorded".

Whether content is captured is decided by the argument, else by `LOOPSCOPE_CAPTURE_CONTENT`, else
yes.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import MutableSequence
from importlib.resources import files
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ..guard import OtlpDecodeError

__all__ = [
    "CAPTURE_CONTENT_VARIABLE",
    "REDACTED_ATTRIBUTE",
    "captures_content",
    "redact_logs",
    "redact_traces",
]

_logger = logging.getLogger(__name__)

CAPTURE_CONTENT_VARIABLE = "LOOPSCOPE_CAPTURE_CONTENT"
REDACTED_ATTRIBUTE = "loopscope.redacted"

_ON = frozenset({"", "1", "true", "yes", "on"})
_OFF = frozenset({"0", "false", "no", "off"})

# No name, id or model is longer; a text beyond that under a kept key is content in disguise.
_MAX_TEXT = 256
_MAX_WORDS = 8
_MAX_ITEMS = 64
# Names of spans are operation plus tool, model or agent. Some instrumentations put a task's text there.
_MAX_NAME_WORDS = 4
_REDACTED_NAME = "redacted"


def _read_list() -> tuple[frozenset[str], tuple[str, ...]]:
    """Names and prefixes of kept_attributes.txt: a file, for whoever signs off what leaves an agent."""
    folder = files(__package__ or "loopscope.collector")
    lines = folder.joinpath("kept_attributes.txt").read_text(encoding="utf-8").splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    return frozenset(name for name in names if not name.endswith("*")), prefixes


_KEPT, _KEPT_PREFIXES = _read_list()

# JSON objects of numbers, kept although they are text that may be long.
_COUNTS_IN_JSON = frozenset(
    {"langfuse.observation.usage_details", "langfuse.observation.cost_details", "mlflow.chat.tokenUsage"}
)


def captures_content(argument: bool | None = None) -> bool:
    """Whether content is to be written: the argument, else the environment, else yes.

    A value of the variable that is neither yes nor no counts as no: a typo must not publish prompts.
    """
    if argument is not None:
        return argument
    value = os.environ.get(CAPTURE_CONTENT_VARIABLE, "").strip().lower()
    if value not in _ON and value not in _OFF:
        _logger.warning(
            "%s=%r is neither true nor false: content is not captured", CAPTURE_CONTENT_VARIABLE, value
        )
    return value in _ON


def redact_traces(data: bytes) -> bytes:
    """A serialized ExportTraceServiceRequest without arguments, results, messages and error texts.

    Raises OtlpDecodeError where the bytes are not such a message. Redacting twice changes nothing.
    """
    request = ExportTraceServiceRequest()
    _parse(request, data, "a trace request (ExportTraceServiceRequest)")
    for resource_spans in request.resource_spans:
        _filter(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            _filter(scope_spans.scope.attributes)
            for span in scope_spans.spans:
                _redact_span(span)
    return request.SerializeToString()


def redact_logs(data: bytes) -> bytes:
    """A serialized ExportLogsServiceRequest, redacted as `redact_traces` does it."""
    request = ExportLogsServiceRequest()
    _parse(request, data, "a logs request (ExportLogsServiceRequest)")
    for resource_logs in request.resource_logs:
        _filter(resource_logs.resource.attributes)
        for scope_logs in resource_logs.scope_logs:
            _filter(scope_logs.scope.attributes)
            for record in scope_logs.log_records:
                _redact_log(record)
    return request.SerializeToString()


def _parse(message: Any, data: bytes, what: str) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise OtlpDecodeError(f"not {what}: {error}") from error


def _redact_span(span: Span) -> None:
    dropped = _filter(span.attributes)
    if _tells_a_story(span.name):
        span.name = _REDACTED_NAME
        dropped = True
    if span.status.message:
        span.status.message = ""
        dropped = True
    for event in span.events:
        dropped |= _filter(event.attributes)
    for link in span.links:
        dropped |= _filter(link.attributes)
    if dropped:
        _mark(span.attributes)


def _tells_a_story(name: str) -> bool:
    """Whether a span's name looks like text of a task (OpenLLMetry's CrewAI: `{description}.task`)."""
    words = len(name.split())
    return words > _MAX_NAME_WORDS or len(name) > _MAX_TEXT or (words > 1 and name.endswith(".task"))


def _redact_log(record: LogRecord) -> None:
    dropped = _filter(record.attributes)
    if record.HasField("body") and not _names_the_event(record):
        if record.body.HasField("kvlist_value"):
            # The event form of the conventions: a map with ids and roles beside the content.
            dropped |= _filter(record.body.kvlist_value.values)
        else:
            record.ClearField("body")
            dropped = True
    if dropped:
        _mark(record.attributes)


def _names_the_event(record: LogRecord) -> bool:
    """Whether the body is but the event's name, as CLI agents write it."""
    body = record.body.string_value
    names = {record.event_name, *(a.value.string_value for a in record.attributes if a.key == "event.name")}
    return bool(body) and any(name and (body == name or body.endswith("." + name)) for name in names)


def _mark(attributes: MutableSequence[KeyValue]) -> None:
    if not any(attribute.key == REDACTED_ATTRIBUTE for attribute in attributes):
        attributes.append(KeyValue(key=REDACTED_ATTRIBUTE, value=AnyValue(bool_value=True)))


def _filter(attributes: MutableSequence[KeyValue]) -> bool:
    """Drop what is not on the list, in place; whether anything was dropped."""
    kept = [attribute for attribute in attributes if _is_kept(attribute)]
    if len(kept) == len(attributes):
        return False
    del attributes[:]
    attributes.extend(kept)
    return True


def _is_kept(attribute: KeyValue) -> bool:
    key = attribute.key
    if key in _COUNTS_IN_JSON:
        return _holds_only_numbers(attribute.value)
    return (key in _KEPT or key.startswith(_KEPT_PREFIXES)) and _is_short(attribute.value)


def _is_short(value: AnyValue) -> bool:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return len(value.string_value) <= _MAX_TEXT and len(value.string_value.split()) <= _MAX_WORDS
    if kind == "array_value":
        items = value.array_value.values
        return len(items) <= _MAX_ITEMS and all(
            item.WhichOneof("value") not in {"array_value", "kvlist_value"} and _is_short(item)
            for item in items
        )
    return kind not in {"kvlist_value", "bytes_value"}


def _holds_only_numbers(value: AnyValue) -> bool:
    """Whether it is a JSON object that maps short names to numbers."""
    if value.WhichOneof("value") != "string_value":
        return False
    text = value.string_value
    if len(text) > 16 * _MAX_TEXT:
        return False
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and all(
        len(key) <= 64 and isinstance(item, int | float | None) for key, item in found.items()
    )
