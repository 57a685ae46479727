"""Records to rows of the base tables, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..guard._override import REASON_KEY
from ._contents import INLINE_CHARS, Contents, Packer, clean_text, finite, json_text, strict_json, unpack
from ._records import LlmRequest, LogRecord, SpanEvent, SpanLink, SpanRecord, ToolCall
from ._session_ids import unit_of_log

__all__ = [
    "CALL_COLUMNS",
    "LOG_COLUMNS",
    "REQUEST_COLUMNS",
    "SPAN_COLUMNS",
    "Resources",
    "arrow_table",
    "call_row",
    "log_from_row",
    "log_key",
    "log_row",
    "request_row",
    "row_keys",
    "service_name",
    "span_from_row",
    "span_row",
    "tidy_log",
    "tidy_span",
]

_text, _long, _int, _tiny = pa.string(), pa.int64(), pa.int32(), pa.int8()
_keys = pa.list_(pa.int64())
_LONGEST = 2**63 - 1

# Column names and types of the base tables, in the order of the row tuples below.
SPAN_COLUMNS: dict[str, pa.DataType] = {
    "trace_id": _text,
    "span_id": _text,
    "parent_span_id": _text,
    "name": _text,
    "kind": _tiny,
    "service_name": _text,
    "start_ns": _long,
    "end_ns": _long,
    "status_code": _tiny,
    "status_message": _text,
    "attributes": _text,
    "attribute_parts": _keys,
    "events": _text,
    "event_parts": _keys,
    "links": _text,
    "resource": _text,
    "scope_name": _text,
    "scope_version": _text,
    "dropped_attributes": _long,
    "dropped_events": _long,
    "received_ns": _long,
}
LOG_COLUMNS: dict[str, pa.DataType] = {
    "log_key": _long,
    "trace_id": _text,
    "span_id": _text,
    "time_ns": _long,
    "event_name": _text,
    "severity": _text,
    "service_name": _text,
    "body": _text,
    "body_parts": _keys,
    "attributes": _text,
    "attribute_parts": _keys,
    "resource": _text,
    "scope_name": _text,
    "scope_version": _text,
    "dropped_attributes": _long,
    "received_ns": _long,
    "session_trace": _text,
}
CALL_COLUMNS: dict[str, pa.DataType] = {
    "trace_id": _text,
    "span_id": _text,
    "position": _int,
    "run_id": _text,
    "parent_run_id": _text,
    "run_source": _text,
    "session_id": _text,
    "service_name": _text,
    "agent_name": _text,
    "seq": _long,
    "turn": _long,
    "tool_name": _text,
    "call_id": _text,
    "arguments": _text,
    "arguments_content": _long,
    "result": _text,
    "result_content": _long,
    "outcome": _text,
    "error_kind": _text,
    "error_type": _text,
    "error_message": _text,
    "error_message_content": _long,
    "http_status": _int,
    "start_ns": _long,
    "end_ns": _long,
    "fingerprint": _long,
    "fingerprint_version": _int,
    "result_hash": _long,
    "scope_key": _long,
    "content_state": _text,
    "recorded_verdict": _text,
    "dialect": _text,
    "trace_seq": _long,
    "trace_turn": _long,
}
REQUEST_COLUMNS: dict[str, pa.DataType] = {
    "trace_id": _text,
    "span_id": _text,
    "run_id": _text,
    "run_source": _text,
    "session_id": _text,
    "service_name": _text,
    "agent_name": _text,
    "turn": _long,
    "provider": _text,
    "model": _text,
    "input_parts": _keys,
    "output_parts": _keys,
    "input_tokens": _long,
    "output_tokens": _long,
    "cost": pa.float64(),
    "status": _text,
    "http_status": _int,
    "error_type": _text,
    "error_text": _text,
    "error_text_content": _long,
    "error_class": _text,
    "content_state": _text,
    "start_ns": _long,
    "end_ns": _long,
    "dialect": _text,
    "trace_turn": _long,
}


def arrow_table(columns: Mapping[str, pa.DataType], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows as an Arrow table. A value that its column cannot hold becomes NULL (a hostile number), a text
    that is not UTF-8 loses the offending characters."""
    transposed = zip(*rows, strict=True) if rows else ([] for _ in columns)
    arrays = [_array(values, kind) for values, kind in zip(transposed, columns.values(), strict=True)]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError, ValueError):
        return pa.array([_fitting(value, kind) for value in values], type=kind)


def _fitting(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str) and pa.types.is_string(kind):
        return clean_text(value)
    try:
        return pa.scalar(value, type=kind).as_py()
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError, ValueError):
        return clean_text(str(value)) if pa.types.is_string(kind) else None


def row_keys(columns: Mapping[str, pa.DataType], rows: Iterable[tuple[Any, ...]]) -> set[int]:
    """The keys of `contents` that rows refer to."""
    lists = [at for at, name in enumerate(columns) if name.endswith("_parts")]
    single = [at for at, name in enumerate(columns) if name.endswith("_content")]
    keys: set[int] = set()
    for row in rows:
        for at in lists:
            if row[at]:
                keys.update(row[at])
        for at in single:
            if row[at] is not None:
                keys.add(row[at])
    return keys


# -- spans --------------------------------------------------------------------------------------------


class Resources:
    """JSON texts of resources: all spans of a request share one dictionary, so its text is made once."""

    def __init__(self) -> None:
        self._texts: dict[
            int, tuple[dict[str, Any], str]
        ] = {}  # by id(); the dictionary is kept so that ids stay

    def text(self, resource: dict[str, Any]) -> str:
        """The JSON text. Raises ValueError for a number that is not finite."""
        found = self._texts.get(id(resource))
        if found is None:
            found = self._texts[id(resource)] = (resource, strict_json(resource))
        return found[1]


def tidy_span(span: SpanRecord, received_ns: int) -> None:
    """Set the receive time, and bring numbers into the range of their columns, before anything reads them."""
    span.received_ns = _in_range(received_ns)
    end_ns = span.end_ns
    if not 0 <= span.start_ns <= _LONGEST:
        span.start_ns = _in_range(span.start_ns)
    if end_ns is not None and not 0 <= end_ns <= _LONGEST:
        span.end_ns = _in_range(end_ns)
    if not 0 <= span.kind < 128:
        span.kind = 0
    if not 0 <= span.status_code < 128:
        span.status_code = 0
    for event in span.events:
        event.time_ns = _in_range(event.time_ns)


def _in_range(time_ns: int) -> int:
    return time_ns if 0 <= time_ns <= _LONGEST else min(max(time_ns, 0), _LONGEST)


def span_row(span: SpanRecord, packer: Packer, resources: Resources) -> tuple[Any, ...]:
    """A row of span_rows."""
    parts: list[int] = []
    event_parts: list[int] = []
    try:
        attributes = packer.attributes(span.attributes, parts)
        events = _events_text(span.events, packer, event_parts) if span.events else None
        links = _links_text(span.links) if span.links else None
        resource = resources.text(span.resource)
    except ValueError:
        # A NaN somewhere: from here on the record itself says it as text, so that it is read back the same.
        span.attributes = finite(span.attributes)
        span.resource = finite(span.resource)
        for item in (*span.events, *span.links):
            item.attributes = finite(item.attributes)
        return span_row(span, packer, resources)
    return (
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.name,
        span.kind,
        service_name(span.resource),
        span.start_ns,
        span.end_ns,
        span.status_code,
        span.status_message,
        attributes,
        parts or None,
        events,
        event_parts or None,
        links,
        resource,
        span.scope_name,
        span.scope_version,
        span.dropped_attributes,
        span.dropped_events,
        span.received_ns,
    )


def service_name(resource: Mapping[str, Any]) -> str | None:
    """`service.name` of a resource, if it is a text."""
    name = resource.get("service.name")
    return name if isinstance(name, str) else None


def _events_text(events: list[SpanEvent], packer: Packer, parts: list[int]) -> str:
    items = [
        f'{{"name":{json_text(event.name)},"time_ns":{event.time_ns},'
        f'"attributes":{packer.attributes(event.attributes, parts)},'
        f'"dropped_attributes":{event.dropped_attributes}}}'
        for event in events
    ]
    return "[" + ",".join(items) + "]"


def _links_text(links: list[SpanLink]) -> str:
    return strict_json(
        [
            {"trace_id": link.trace_id, "span_id": link.span_id, "attributes": link.attributes}
            for link in links
        ]
    )


def span_from_row(
    row: Mapping[str, Any], texts: Mapping[int, str], resources: dict[str, dict[str, Any]]
) -> SpanRecord:
    """The record that `span_row` was given. `resources` remembers parsed resources by their text."""
    events = []
    if row["events"] is not None:
        for item in json.loads(unpack(row["events"], row["event_parts"], texts)):
            events.append(
                SpanEvent(item["name"], item["time_ns"], item["attributes"], item["dropped_attributes"])
            )
    links = []
    if row["links"] is not None:
        links = [
            SpanLink(item["trace_id"], item["span_id"], item["attributes"])
            for item in json.loads(row["links"])
        ]
    # By position, in the order of the fields: naming them takes 1.2 µs longer.
    return SpanRecord(
        row["trace_id"],
        row["span_id"],
        row["parent_span_id"],
        row["name"],
        row["kind"],
        row["start_ns"],
        row["end_ns"],
        row["status_code"],
        row["status_message"],
        json.loads(unpack(row["attributes"], row["attribute_parts"], texts)),
        events,
        links,
        row["dropped_attributes"],
        row["dropped_events"],
        _resource(row["resource"], resources),
        row["scope_name"],
        row["scope_version"],
        row["received_ns"],
    )


def _resource(text: str, resources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    resource = resources.get(text)
    if resource is None:
        resource = resources[text] = json.loads(text)
    return resource


# -- logs ---------------------------------------------------------------------------------------------


def tidy_log(log: LogRecord, received_ns: int) -> None:
    """As `tidy_span`."""
    log.received_ns = min(max(received_ns, 0), _LONGEST)
    log.time_ns = min(max(log.time_ns, 0), _LONGEST)


def log_row(log: LogRecord, key: int, packer: Packer, resources: Resources) -> tuple[Any, ...]:
    """A row of log_rows; `key` is its `log_key`."""
    parts: list[int] = []
    body_parts: list[int] = []
    try:
        body = None if log.body is None else packer.value(log.body, body_parts)
        attributes = packer.attributes(log.attributes, parts)
        resource = resources.text(log.resource)
    except ValueError:
        log.body, log.attributes, log.resource = (
            finite(log.body),
            finite(log.attributes),
            finite(log.resource),
        )
        return log_row(log, key, packer, resources)
    return (
        key,
        log.trace_id,
        log.span_id,
        log.time_ns,
        log.event_name,
        log.severity,
        service_name(log.resource),
        body,
        body_parts or None,
        attributes,
        parts or None,
        resource,
        log.scope_name,
        log.scope_version,
        log.dropped_attributes,
        log.received_ns,
        unit_of_log(log) if log.trace_id is None else None,
    )


def log_key(log: LogRecord) -> int:
    """What tells two log records apart: a hash of all that was sent, signed 64 bit."""
    sent = [
        log.trace_id,
        log.span_id,
        log.time_ns,
        log.event_name,
        log.severity,
        log.body,
        log.attributes,
        log.resource,
        log.scope_name,
        log.scope_version,
        log.dropped_attributes,
    ]
    return Contents.hash(json_text(sent))


def log_from_row(
    row: Mapping[str, Any], texts: Mapping[int, str], resources: dict[str, dict[str, Any]]
) -> LogRecord:
    """The record that `log_row` was given."""
    return LogRecord(
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        time_ns=row["time_ns"],
        event_name=row["event_name"],
        severity=row["severity"],
        body=None if row["body"] is None else json.loads(unpack(row["body"], row["body_parts"], texts)),
        attributes=json.loads(unpack(row["attributes"], row["attribute_parts"], texts)),
        resource=_resource(row["resource"], resources),
        scope_name=row["scope_name"],
        scope_version=row["scope_version"],
        dropped_attributes=row["dropped_attributes"],
        received_ns=row["received_ns"],
    )


# -- what is derived ----------------------------------------------------------------------------------


_CALL_REQUIRED = (
    "trace_id",
    "span_id",
    "position",
    "run_id",
    "run_source",
    "tool_name",
    "start_ns",
    "content_state",
    "dialect",
)
_REQUEST_REQUIRED = (
    "trace_id",
    "span_id",
    "run_id",
    "run_source",
    "status",
    "start_ns",
    "content_state",
    "dialect",
)


def _require(record: ToolCall | LlmRequest, names: tuple[str, ...]) -> None:
    """Raise ValueError where one of these is neither a text nor a number that a column can hold."""
    for name in names:
        value = getattr(record, name)
        if not isinstance(value, str) and not (type(value) is int and 0 <= value <= _LONGEST):
            raise ValueError(f"{type(record).__name__}.{name} is {value!r}")


# What the replay looks for in rows, without a join: words of an error at the beginning of short results, and
# arguments that bring a reason.
_SEARCHED_CHARS = 256


def _placed(
    text: str | None, contents: Contents, longest: int = INLINE_CHARS
) -> tuple[str | None, int | None]:
    if text is None or len(text) <= longest:
        return text, None
    return None, contents.key(text)


def call_row(call: ToolCall, contents: Contents, fingerprint_version: int) -> tuple[Any, ...]:
    """A row of tool_call_rows. Raises ValueError where a value that every call has is missing."""
    if not (  # a look at the types: of a thousand calls, a thousand are right
        type(call.trace_id)
        is type(call.span_id)
        is type(call.run_id)
        is type(call.run_source)
        is type(call.tool_name)
        is type(call.content_state)
        is type(call.dialect)
        is str
        and type(call.position) is type(call.start_ns) is int
        and 0 <= call.position <= _LONGEST
        and 0 <= call.start_ns <= _LONGEST
    ):
        _require(call, _CALL_REQUIRED)
    reasoned = call.arguments is not None and REASON_KEY in call.arguments
    arguments, arguments_key = _placed(
        call.arguments, contents, _SEARCHED_CHARS if reasoned else INLINE_CHARS
    )
    result, result_key = _placed(call.result, contents, _SEARCHED_CHARS)
    message, message_key = _placed(call.error_message, contents)
    return (
        call.trace_id,
        call.span_id,
        call.position,
        call.run_id,
        call.parent_run_id,
        call.run_source,
        call.session_id,
        call.service_name,
        call.agent_name,
        call.seq,
        call.turn,
        call.tool_name,
        call.call_id,
        arguments,
        arguments_key,
        result,
        result_key,
        call.outcome,
        call.error_kind,
        call.error_type,
        message,
        message_key,
        call.http_status,
        call.start_ns,
        call.end_ns,
        call.fingerprint,
        fingerprint_version,
        call.result_hash,
        call.scope_key,
        call.content_state,
        call.recorded_verdict,
        call.dialect,
        call.seq,
        call.turn,
    )


def request_row(request: LlmRequest, contents: Contents) -> tuple[Any, ...]:
    """A row of llm_request_rows. Raises ValueError where a value that every request has is missing."""
    _require(request, _REQUEST_REQUIRED)
    error_text, error_key = _placed(request.error_text, contents)
    return (
        request.trace_id,
        request.span_id,
        request.run_id,
        request.run_source,
        request.session_id,
        request.service_name,
        request.agent_name,
        request.turn,
        request.provider,
        request.model,
        None if request.input_messages is None else [contents.key(text) for text in request.input_messages],
        None if request.output_messages is None else [contents.key(text) for text in request.output_messages],
        request.input_tokens,
        request.output_tokens,
        request.cost,
        request.status,
        request.http_status,
        request.error_type,
        error_text,
        error_key,
        request.error_class,
        request.content_state,
        request.start_ns,
        request.end_ns,
        request.dialect,
        request.turn,
    )
