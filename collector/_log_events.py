"""Log events of command-line agents, as spans of the calls and requests that they report.

One event is one finished call or request: it says when it ended and how long it took. What comes out are span
records of the official conventions, so that everything behind reads them as any other span.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._attributes import as_int, as_text, dump, first_text, load
from ._records import LogRecord, SpanRecord
from .dialects.cli_agents import CLAUDE_CODE, CODEX, GEMINI_CLI, event_of

__all__ = ["CUT", "LOG_SCOPE", "log_id", "order_of", "spans_of_events"]

LOG_SCOPE = "loopscope.logs"  # scope name of spans made here
CUT = "loopscope.logs.cut"  # true where the agent says that it cut arguments or result

# Claude Code cuts each value of a tool's input, and the whole.
_CLAUDE_VALUE = 512
_CLAUDE_INPUT = 4_000
_NANO = 1_000_000


def log_id(log: LogRecord) -> str:
    """Sixteen hex digits that tell a log record from any other; the same one sent twice has the same."""
    said = repr((log.time_ns, log.trace_id, log.span_id, log.event_name, log.body, dump(log.attributes)))
    return hashlib.blake2b(said.encode("utf-8", "replace"), digest_size=8).hexdigest()


def order_of(log: LogRecord) -> tuple[int, int, str]:
    """By time; within one instant by the agent's own counter."""
    return log.time_ns, as_int(log.attributes.get("event.sequence")) or 0, log_id(log)


def spans_of_events(trace_id: str, logs: Iterable[LogRecord]) -> list[SpanRecord]:
    """Spans of the calls and requests of one session, from all its events in any order."""
    session = _Session(trace_id)
    known: dict[str, LogRecord] = {log_id(log): log for log in logs}
    for log in sorted(known.values(), key=order_of):
        event = event_of(log)
        if event is not None:
            reader = _READERS.get(event)
            if reader is not None:
                reader(session, log)
    return session.spans


@dataclass(slots=True)
class _Session:
    """What earlier events of the session said that later ones lack."""

    trace_id: str
    spans: list[SpanRecord] = field(default_factory=list)
    provider: str | None = None
    # Messages of requests to come, by model or prompt.
    sent: deque[tuple[str | None, str]] = field(default_factory=lambda: deque(maxlen=100))
    of_request: dict[str, SpanRecord] = field(default_factory=dict)  # by the provider's request id
    last: SpanRecord | None = None  # request
    details: LogRecord | None = None  # messages of the next request, if it comes at once

    def add(self, log: LogRecord, name: str, attributes: Mapping[str, Any], **fields: Any) -> SpanRecord:
        """A span that ended when the event was written."""
        took = as_int(log.attributes.get("duration_ms"))
        span = SpanRecord(
            trace_id=log.trace_id or self.trace_id,
            span_id=log_id(log),
            parent_span_id=log.span_id,
            name=name,
            kind=1,
            start_ns=max(0, log.time_ns - max(0, took or 0) * _NANO),
            end_ns=log.time_ns,
            attributes={key: value for key, value in attributes.items() if value is not None},
            dropped_attributes=log.dropped_attributes,
            resource=log.resource,
            scope_name=LOG_SCOPE,
            received_ns=log.received_ns,
            **fields,
        )
        self.spans.append(span)
        return span

    def tool(self, log: LogRecord, dialect: str, attributes: Mapping[str, Any], error: Any) -> None:
        """A tool call; `success` of the event says how it ended."""
        said = str(log.attributes.get("success")).lower()
        failed = said == "false"
        self.add(
            log,
            "execute_tool",
            {
                "gen_ai.operation.name": "execute_tool",
                "loopscope.dialect": dialect,
                "error.type": as_text(log.attributes.get("error_type")) if failed else None,
                **attributes,
            },
            status_code=2 if failed else 1 if said == "true" else 0,
            status_message=as_text(error) if failed else None,
        )

    def request(
        self, log: LogRecord, dialect: str, attributes: Mapping[str, Any], *, status: Any, error: Any
    ) -> SpanRecord:
        """A request to the model; a status of 400 and more, or an error, is a refusal."""
        code = as_int(status)
        text = as_text(error)
        failed = (code is not None and code >= 400) or text is not None
        self.last = self.add(
            log,
            "chat",
            {
                "gen_ai.operation.name": "chat",
                "loopscope.dialect": dialect,
                "http.response.status_code": code,
                "gen_ai.provider.name": self.provider,
                "gen_ai.request.model": as_text(log.attributes.get("model")),
                **attributes,
            },
            status_code=2 if failed else 1,
            status_message=text if failed else None,
        )
        return self.last

    def take_sent(self, key: str | None) -> str | None:
        """The messages noted first for this key."""
        for item in self.sent:
            if item[0] == key:
                self.sent.remove(item)
                return item[1]
        return None


# -- Claude Code ---------------------------------------------------------------------------------------


def _claude_tool(session: _Session, log: LogRecord) -> None:
    a = log.attributes
    arguments, cut = _claude_arguments(a)
    session.tool(
        log,
        CLAUDE_CODE.name,
        {
            "gen_ai.tool.name": first_text(a, ("tool_name", "name")),
            "gen_ai.tool.call.id": as_text(a.get("tool_use_id")),
            "gen_ai.tool.call.arguments": arguments,
            CUT: True if cut else None,
            "gen_ai.conversation.id": as_text(a.get("session.id")),
            "gen_ai.agent.name": as_text(a.get("agent_id")),
        },
        a.get("error"),
    )


def _claude_arguments(attributes: Mapping[str, Any]) -> tuple[str | None, bool]:
    """What a tool was asked for, and was some of it cut."""
    given = attributes.get("tool_input")
    if given is not None:
        text = given if isinstance(given, str) else dump(given)
        value = load(text)
        if not isinstance(value, dict):
            return text, True
        longest = max((len(item) for item in value.values() if isinstance(item, str)), default=0)
        return text, longest >= _CLAUDE_VALUE or len(text) >= _CLAUDE_INPUT
    # Older versions: a summary, which holds all of a command and little of anything else.
    given = attributes.get("tool_parameters")
    value = load(given) if isinstance(given, str) else given
    command = value.get("full_command") if isinstance(value, dict) else None
    return (dump({"command": command}), False) if isinstance(command, str) else (None, False)


def _claude_sent(session: _Session, log: LogRecord) -> None:
    messages = _list_in(log.attributes.get("body"), "messages")
    if messages is not None:
        session.sent.append((as_text(log.attributes.get("model")), messages))


def _claude_request(session: _Session, log: LogRecord) -> None:
    a = log.attributes
    span = session.request(
        log,
        CLAUDE_CODE.name,
        {
            "gen_ai.provider.name": "anthropic",
            "gen_ai.conversation.id": as_text(a.get("session.id")),
            "gen_ai.agent.name": as_text(a.get("agent_id")),
            "gen_ai.usage.input_tokens": as_int(a.get("input_tokens")),
            "gen_ai.usage.output_tokens": as_int(a.get("output_tokens")),
            "gen_ai.usage.cost": a.get("cost_usd") if isinstance(a.get("cost_usd"), int | float) else None,
            "gen_ai.input.messages": session.take_sent(as_text(a.get("model"))),
            "request_id": as_text(a.get("request_id")),
        },
        status=a.get("status_code"),
        error=a.get("error"),
    )
    request_id = as_text(a.get("request_id"))
    if request_id is not None:
        session.of_request[request_id] = span


def _claude_answer(session: _Session, log: LogRecord) -> None:
    span = session.of_request.get(as_text(log.attributes.get("request_id")) or "") or session.last
    body = log.attributes.get("body")
    value = load(body) if isinstance(body, str) else body
    if span is not None and isinstance(value, dict) and isinstance(value.get("content"), list):
        message = {"role": "assistant", "content": value["content"]}
        span.attributes.setdefault("gen_ai.output.messages", dump([message]))


# -- Codex ---------------------------------------------------------------------------------------------


def _codex_start(session: _Session, log: LogRecord) -> None:
    session.provider = as_text(log.attributes.get("provider_name")) or session.provider


def _codex_tool(session: _Session, log: LogRecord) -> None:
    a = log.attributes
    output = a.get("output")
    session.tool(
        log,
        CODEX.name,
        {
            "gen_ai.tool.name": as_text(a.get("tool_name")),
            "gen_ai.tool.call.id": as_text(a.get("call_id")),
            "gen_ai.tool.call.arguments": a.get("arguments"),
            "gen_ai.tool.call.result": output,
            CUT: True if str(a.get("output_truncated")).lower() == "true" else None,
            "gen_ai.conversation.id": first_text(a, ("conversation.id", "conversation_id")),
        },
        output,
    )


def _codex_request(session: _Session, log: LogRecord) -> None:
    a = log.attributes
    session.request(
        log,
        CODEX.name,
        {"gen_ai.conversation.id": first_text(a, ("conversation.id", "conversation_id"))},
        status=a.get("http.response.status_code"),
        error=a.get("error.message"),
    )


def _codex_stream(session: _Session, log: LogRecord) -> None:
    """Token counts come with the end of the answer."""
    a = log.attributes
    span = session.last
    if span is None or span.status_code == 2 or a.get("event.kind") != "response.completed":
        return
    for key, name in (("input_tokens", "input_token_count"), ("output_tokens", "output_token_count")):
        number = as_int(a.get(name))
        if number is not None:
            span.attributes.setdefault(f"gen_ai.usage.{key}", number)
    span.end_ns = max(span.end_ns or 0, log.time_ns)


# -- Gemini CLI ----------------------------------------------------------------------------------------


def _gemini_tool(session: _Session, log: LogRecord) -> None:
    a = log.attributes
    session.tool(
        log,
        GEMINI_CLI.name,
        {
            "gen_ai.tool.name": as_text(a.get("function_name")),
            "gen_ai.tool.call.arguments": a.get("function_args"),
            "gen_ai.conversation.id": as_text(a.get("session.id")),
        },
        a.get("error"),
    )


def _gemini_sent(session: _Session, log: LogRecord) -> None:
    text = log.attributes.get("request_text")
    value = load(text) if isinstance(text, str) else text
    if isinstance(value, dict):
        value = value.get("contents")
    if isinstance(value, list):
        session.sent.append((as_text(log.attributes.get("prompt_id")), dump(value)))


def _gemini_request(session: _Session, log: LogRecord) -> None:
    a = log.attributes
    span = session.request(
        log,
        GEMINI_CLI.name,
        {
            "gen_ai.provider.name": "gcp.gemini",
            "gen_ai.conversation.id": as_text(a.get("session.id")),
            "gen_ai.usage.input_tokens": as_int(a.get("input_token_count")),
            "gen_ai.usage.output_tokens": as_int(a.get("output_token_count")),
            "gen_ai.input.messages": session.take_sent(as_text(a.get("prompt_id"))),
            "gen_ai.output.messages": _gemini_answer(a.get("response_text")),
            "error.type": as_text(a.get("error_type")),
        },
        status=a.get("status_code"),
        error=a.get("error.message", a.get("error")),
    )
    if session.details is not None and _together(span, session.details):
        _take_messages(span, session.details)
    session.details = None


def _gemini_details(session: _Session, log: LogRecord) -> None:
    """The convention's own event, written beside Gemini CLI's: before it or after it."""
    span = session.last
    if span is not None and _together(span, log) and "gen_ai.input.messages" not in span.attributes:
        _take_messages(span, log)
    else:
        session.details = log


def _together(span: SpanRecord, log: LogRecord) -> bool:
    return abs((span.end_ns or 0) - log.time_ns) <= 1_000 * _NANO


def _take_messages(span: SpanRecord, log: LogRecord) -> None:
    for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
        if log.attributes.get(key) is not None:
            span.attributes.setdefault(key, log.attributes[key])


def _gemini_answer(text: Any) -> str | None:
    """The contents of the candidates in a response, or in the chunks of a streamed one."""
    value = load(text) if isinstance(text, str) else text
    found = [
        candidate["content"]
        for chunk in (value if isinstance(value, list) else [value])
        if isinstance(chunk, dict) and isinstance(chunk.get("candidates"), list)
        for candidate in chunk["candidates"][:1]
        if isinstance(candidate, dict) and isinstance(candidate.get("content"), dict)
    ]
    return dump(found) if found else None


def _list_in(body: Any, key: str) -> str | None:
    """The list under a key of a JSON object, also of one that was cut: then what is left of it."""
    if isinstance(body, dict):
        value: Any = body
    elif isinstance(body, str):
        value = load(body)
        if value is None:
            at = body.find(f'"{key}"')
            start = body.find("[", at) if at >= 0 else -1
            return body[start:] if start >= 0 else None
    else:
        return None
    found = value.get(key) if isinstance(value, dict) else None
    return dump(found) if isinstance(found, list) else None


_READERS: Mapping[tuple[str, str], Callable[[_Session, LogRecord], None]] = {
    (CLAUDE_CODE.name, "tool_result"): _claude_tool,
    (CLAUDE_CODE.name, "api_request"): _claude_request,
    (CLAUDE_CODE.name, "api_error"): _claude_request,
    (CLAUDE_CODE.name, "api_request_body"): _claude_sent,
    (CLAUDE_CODE.name, "api_response_body"): _claude_answer,
    (CODEX.name, "conversation_starts"): _codex_start,
    (CODEX.name, "tool_result"): _codex_tool,
    (CODEX.name, "api_request"): _codex_request,
    (CODEX.name, "sse_event"): _codex_stream,
    (GEMINI_CLI.name, "tool_call"): _gemini_tool,
    (GEMINI_CLI.name, "api_request"): _gemini_sent,
    (GEMINI_CLI.name, "gen_ai.client.inference.operation.details"): _gemini_details,
    (GEMINI_CLI.name, "api_response"): _gemini_request,
    (GEMINI_CLI.name, "api_error"): _gemini_request,
}
