"""The records that move through the collector, as plain data.

Decoders make `SpanRecord`/`LogRecord` out of OTLP; `derive_trace` makes `ToolCall` and
`LlmRequest` out of the span records of one trace; the store keeps all four.
Missing is None and never '' or 0: an instrumentation that recorded nothing must not
look like one that recorded an empty value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "COPIED_FROM",
    "Derived",
    "LlmRequest",
    "LogRecord",
    "SpanEvent",
    "SpanLink",
    "SpanRecord",
    "ToolCall",
]

# Attribute of a span that came by another tool's export, with the tool's name: less than what was recorded,
# so that a version of the span without it is always preferred.
COPIED_FROM = "loopscope.copied_from"


@dataclass(slots=True)
class SpanEvent:
    """An event of a span (an exception, a message)."""

    name: str
    time_ns: int
    attributes: dict[str, Any] = field(default_factory=dict)
    dropped_attributes: int = 0


@dataclass(slots=True)
class SpanLink:
    """A link from a span to another one."""

    trace_id: str
    span_id: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SpanRecord:
    """One OTLP span, whole.

    Attribute values are str, bool, int, float, None, list or dict (bytes become base64 text).
    """

    trace_id: str  # 32 lower-case hex digits
    span_id: str  # 16 lower-case hex digits
    parent_span_id: str | None
    name: str
    kind: int  # OTLP: 0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer
    start_ns: int  # Unix nanoseconds
    end_ns: int | None  # None: not ended yet (a start record), or never ended
    status_code: int = 0  # 0 unset, 1 ok, 2 error
    status_message: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    links: list[SpanLink] = field(default_factory=list)
    dropped_attributes: int = 0
    dropped_events: int = 0
    resource: dict[str, Any] = field(default_factory=dict)
    scope_name: str | None = None
    scope_version: str | None = None
    received_ns: int = 0  # when the segment that holds it was written


@dataclass(slots=True)
class LogRecord:
    """One OTLP log record, whole. `body` is any attribute value."""

    trace_id: str | None
    span_id: str | None
    time_ns: int
    event_name: str | None
    severity: str | None
    body: Any
    attributes: dict[str, Any] = field(default_factory=dict)
    resource: dict[str, Any] = field(default_factory=dict)
    scope_name: str | None = None
    scope_version: str | None = None
    dropped_attributes: int = 0
    received_ns: int = 0


@dataclass(slots=True)
class ToolCall:
    """One executed (or refused) tool call, as the guard counts it. Field names are the store's columns."""

    trace_id: str
    span_id: str
    position: int  # 0 for a tool span; ordinal inside the span where one span holds several calls
    run_id: str
    parent_run_id: str | None  # the run this one is nested in
    run_source: str  # agent_span | conversation | mcp_session | trace | transcript
    session_id: str | None
    service_name: str | None
    agent_name: str | None
    turn: int | None  # ordinal (from 1) of the LLM response that requested the call, in its run
    tool_name: str
    call_id: str | None
    arguments: str | None  # text as recorded, unwrapped from the dialect's envelope; None: not recorded
    result: str | None  # text as recorded, the recorded guard's note stripped; None: not recorded
    outcome: str | None  # success | schema_error | general_tool_error | None (unknown: never counted)
    error_kind: str | None
    error_type: str | None
    error_message: str | None
    http_status: int | None
    start_ns: int
    end_ns: int | None
    fingerprint: int | None  # signed 64 bit; None where tool arguments were not recorded
    result_hash: int | None
    scope_key: int | None  # hash of (run, agent, fingerprint)
    content_state: str  # full | truncated | missing (arguments or result of a finished call)
    recorded_verdict: str | None  # nudge | block: what a live guard wrote into the recorded result
    dialect: str
    seq: int | None = None  # order of counting inside the run, from 1; None: never ended, not counted


@dataclass(slots=True)
class LlmRequest:
    """One request to a model. Field names are the store's columns."""

    trace_id: str
    span_id: str
    run_id: str
    run_source: str
    session_id: str | None
    service_name: str | None
    agent_name: str | None
    turn: int | None  # ordinal (from 1) among the run's answered requests; None for a refused one
    provider: str | None
    model: str | None
    input_messages: list[str] | None  # one JSON text per message; None: not recorded
    output_messages: list[str] | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None  # US dollars; None is unknown
    status: str  # ok | error
    http_status: int | None
    error_type: str | None
    error_text: str | None
    error_class: str | None
    content_state: str  # full | truncated | missing
    start_ns: int
    end_ns: int | None
    dialect: str


@dataclass(slots=True)
class Derived:
    """What one trace says about calls and requests."""

    tool_calls: list[ToolCall] = field(default_factory=list)
    llm_requests: list[LlmRequest] = field(default_factory=list)
