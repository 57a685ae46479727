"""Events of the official conventions that arrive without the span they belong to, as that span.

Messages can be exported as log records and spans left out (or be sampled away). The records of one request
share a span id; records without any are told apart by their order: an answer ends a request.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from ._attributes import as_text
from ._log_events import LOG_SCOPE, log_id, order_of
from ._records import LogRecord, SpanRecord
from .dialects.cli_agents import event_of

__all__ = ["DETAILS", "spans_of_lone_events"]

DETAILS = "gen_ai.client.inference.operation.details"
_CHOICE = "gen_ai.choice"
_MESSAGES = frozenset(
    {
        "gen_ai.system.message",
        "gen_ai.user.message",
        "gen_ai.assistant.message",
        "gen_ai.tool.message",
        _CHOICE,
    }
)
_CONTENT = frozenset({"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"})


def spans_of_lone_events(
    trace_id: str, logs: Iterable[LogRecord], known: Container[str | None]
) -> list[tuple[SpanRecord, list[LogRecord]]]:
    """A span for each request whose span is not in `known` (span ids), with the records that tell of it."""
    groups: dict[str, list[LogRecord]] = {}
    loose: list[LogRecord] = []
    for log in sorted(logs, key=order_of):
        if log.span_id in known or (log.event_name != DETAILS and log.event_name not in _MESSAGES):
            continue
        if event_of(log) is not None:
            continue  # told again by an agent that has events of its own
        if log.span_id is not None:
            groups.setdefault(log.span_id, []).append(log)
        elif log.event_name == DETAILS:
            groups[log_id(log)] = [log]
        else:
            loose.append(log)
            if log.event_name == _CHOICE:
                groups[log_id(log)] = loose
                loose = []
    return [(_span(trace_id, span_id, members), members) for span_id, members in groups.items()]


def _span(trace_id: str, span_id: str, logs: list[LogRecord]) -> SpanRecord:
    attributes = {"gen_ai.operation.name": "chat"}
    for log in logs:
        for key, value in log.attributes.items():
            if key not in _CONTENT and key != "event.name":
                attributes.setdefault(key, value)
        if log.event_name == DETAILS:
            operation = as_text(log.attributes.get("gen_ai.operation.name"))
            attributes["gen_ai.operation.name"] = operation or "chat"
    first, last = logs[0], logs[-1]
    return SpanRecord(
        trace_id=first.trace_id or trace_id,
        span_id=span_id,
        parent_span_id=None,
        name="chat",
        kind=3,
        start_ns=first.time_ns,
        end_ns=last.time_ns,
        attributes=attributes,
        resource=first.resource,
        scope_name=first.scope_name or LOG_SCOPE,
        scope_version=first.scope_version,
        received_ns=max(log.received_ns for log in logs),
    )
