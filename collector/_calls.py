"""Tool spans to calls: what a call's one or several spans say about it, taken together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._attributes import as_text, dump, first, first_text, is_json, load
from ._envelopes import Content, is_schema, open_arguments, open_result
from ._errors import Failure, failure_of, is_quiet, is_vague
from ._log_events import CUT
from ._records import LogRecord, SpanRecord
from ._runs import Run
from ._transcripts import is_transcript, recorded_text
from ._tree import Node
from .dialects import Shape, dialect_of
from .dialects.cli_agents import COMMAND, EXECUTION, OUTPUT_EVENT
from .dialects.mcp import SESSION
from .dialects.openinference import TOOL_PARAMETERS

__all__ = ["CallDraft", "draft_call", "is_cut", "is_half_an_object", "tool_name"]

_NAME_PREFIXES = ("execute_tool ", "tools/call ", "MCP send tools/call ", "running tool: ", "tool_call ")
_NAME_SUFFIXES = (".tool", ".run")
_ADK_RESPONSE = "gcp.vertex.agent.tool_response"
_ADK_ARGUMENTS = "gcp.vertex.agent.tool_call_args"
_CUT_MARK = re.compile(
    r"(?:\.\.\.|…) ?[\[(<]?(?:truncated|TRUNCATED)|[\[(<](?:truncated|TRUNCATED)[^\])>]{0,80}[\])>]\s*$"
)


@dataclass(slots=True)
class CallDraft:
    """A tool call while its facts come together. Times and id are those of the outermost span."""

    node: Node
    run: Run
    trace_id: str
    span_id: str
    start_ns: int
    end_ns: int | None
    dialect: str
    agent_name: str | None
    service_name: str | None
    name: str
    call_id: str | None
    arguments: str | None
    result: str | None
    failed: bool | None
    explicit: bool  # `failed` is the source's own flag
    error_type: str | None
    error_text: str | None
    jsonrpc_code: int | None
    http_status: int | None
    cut: bool  # arguments or result were cut by somebody's limit
    result_failed: bool | None = None  # what the message with the result says
    turn: int | None = None
    claimed: bool = False  # the answer that asked for it was found
    position: int = 0  # ordinal inside a span that is not the call's own
    rough: bool = False  # the arguments are a summary, and better ones are welcome
    unread: bool = False  # whether the arguments stop in the middle of an object is still to be seen


def tool_name(node: Node) -> str:
    """The name of the tool that a tool span ran; '' where it does not say."""
    span = node.span
    name = first_text(span.attributes, node.shape.tool_name)
    if name is not None:
        return name
    name = span.name
    if name == EXECUTION:
        return ""  # said by its parent
    for prefix in _NAME_PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    for suffix in _NAME_SUFFIXES:
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def mcp_session(members: Sequence[Node]) -> str | None:
    """The MCP session that the request of a call went over."""
    for member in members:
        if SESSION in member.shape.names:
            session = member.span.attributes[SESSION]
            if session is not None:
                return as_text(session)
    return None


def draft_call(members: Sequence[Node], run: Run, logs: Mapping[str, Sequence[LogRecord]]) -> CallDraft:
    """One call out of its spans, outermost first."""
    outer = members[0]
    span = outer.span
    call_id: str | None = None
    arguments: str | None = None
    result: str | None = None
    named: str | None = None
    result_failed: bool | None = None
    cut = unread = False
    for member in members:
        attributes, shape = member.span.attributes, member.shape
        call_id = call_id or first_text(attributes, shape.call_id)
        cut = cut or member.span.dropped_attributes > 0 or attributes.get(CUT) is True
        if arguments is None:
            content, key_cut = _arguments(member.span, shape)
            arguments = content.text
            cut = cut or key_cut
            call_id = call_id or content.call_id
            unread = content.unread
        if result is None:
            content, key_cut = _result(member.span, shape)
            result = content.text
            cut = cut or key_cut
            call_id = call_id or content.call_id
            result_failed = content.failed
            named = content.tool_name
    rough = arguments is None and COMMAND in span.attributes
    if rough:
        arguments = dump({"command": span.attributes[COMMAND]})
    name = outer.name
    if named is not None and name.endswith("Tool.task"):  # LlamaIndex: the span names only the class
        name = named
    failure = _failure(members, logs)
    failed = failure.failed
    if not failure.explicit:
        if result_failed:
            failed = True
        elif failed is not True and result is None and failure.error_type is not None:
            failed = True  # an exception event, and a status that nobody set or that was set too early
    # By position, in the order of the fields: naming so many arguments takes 2 µs longer.
    draft = CallDraft(
        outer,
        run,
        span.trace_id,
        span.span_id,
        span.start_ns,
        span.end_ns,
        dialect_of(span, outer.shape),
        first_text(span.attributes, outer.shape.agent) or outer.agent_name,
        as_text(span.resource.get("service.name")),
        name,
        call_id,
        arguments,
        result,
        failed,
        failure.explicit,
        failure.error_type,
        failure.text,
        failure.jsonrpc_code,
        failure.http_status,
        cut,
    )
    draft.rough = rough
    draft.unread = unread
    return draft


_NOTHING = Content(None)


def _arguments(span: SpanRecord, shape: Shape) -> tuple[Content, bool]:
    attributes = span.attributes
    if is_transcript(span):
        return Content(recorded_text(span, "gen_ai.tool.call.arguments")), False
    hit = first(attributes, shape.arguments)
    if hit is None:
        hit = first(attributes, (TOOL_PARAMETERS,))
        if hit is not None and is_schema(hit[1]):
            hit = None
    elif hit[0] == _ADK_ARGUMENTS and hit[1] == "{}" and attributes.get(_ADK_RESPONSE) == "{}":
        return _NOTHING, False  # ADK 1 writes empty objects where capture is off
    if hit is None:
        return _from_event(span, "gen_ai.tool.message", "content")
    content = open_arguments(*hit)
    content.unread = content.text is hit[1]  # reading them for their fingerprint will tell
    return content, is_cut(hit[1], attributes) or (not content.unread and is_half_an_object(hit[1]))


def _result(span: SpanRecord, shape: Shape) -> tuple[Content, bool]:
    attributes = span.attributes
    if is_transcript(span):
        return Content(recorded_text(span, "gen_ai.tool.call.result")), False
    hit = first(attributes, shape.result)
    if hit is None:
        for key in ("output", "content", "diff") if span.events else ():
            content, cut = _from_event(span, OUTPUT_EVENT, key)
            if content.text is not None:
                return content, cut
        return _from_event(span, "gen_ai.choice", "message")
    key, value = hit
    if key == _ADK_RESPONSE and _is_adk_placeholder(value, attributes):
        return _NOTHING, False
    # @ai-sdk/otel writes text results as JSON under the convention's own key.
    content = open_result(key, value, json_text=span.scope_name == "gen_ai")
    return content, is_cut(value, attributes)


def _is_adk_placeholder(value: Any, attributes: Mapping[str, Any]) -> bool:
    if value == "{}":
        return attributes.get(_ADK_ARGUMENTS) == "{}"
    return (
        isinstance(value, str) and "<not specified>" in value and load(value) == {"result": "<not specified>"}
    )


def _from_event(span: SpanRecord, event_name: str, key: str) -> tuple[Content, bool]:
    """Strands keeps arguments and result of a call in events of its span."""
    for event in span.events:
        if event.name == event_name:
            value = event.attributes.get(key)
            if value is not None:
                opened = open_arguments(key, value) if key == "content" else open_result(key, value)
                return opened, is_cut(value, event.attributes)
    return _NOTHING, False


def is_cut(value: Any, attributes: Mapping[str, Any]) -> bool:
    """Was the value cut, by a marker in it or by the look of an SDK's length limit?

    A limit leaves no trace but the length, and holds for all values of the span. So no value is
    longer, and the length is round; that alone is chance. What makes it sure is JSON that stops in
    the middle, or a second value of just this length.
    """
    if not isinstance(value, str) or len(value) < 64:
        return False
    size = len(value)
    tail = value[-200:]
    if ("runcated" in tail or "TRUNCATED" in tail) and _CUT_MARK.search(tail):
        return True
    if not (size & (size - 1) == 0 or (size + 1) & size == 0 or size % 100 == 0):
        return False
    as_long = 0
    for other in attributes.values():
        if isinstance(other, str):
            if len(other) > size:
                return False
            # One text under two keys, as when two dialects describe one span, says nothing.
            as_long += len(other) == size and other != value
    if value[:1] in ("{", "[") and _stops_in_the_middle(value):
        return True
    return as_long > 0 and size >= 128


def is_half_an_object(value: Any) -> bool:
    """Arguments are an object. One that stops in the middle was cut at any length, by a limit or a model.

    What it was meant to be is unknown, so two of them that are equal may have been two calls.
    """
    return isinstance(value, str) and value.lstrip()[:2] == '{"' and _stops_in_the_middle(value)


def _stops_in_the_middle(text: str) -> bool:
    """Is it JSON as far as it goes? Text in brackets is not."""
    if is_json(text):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text) - 6 or error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        pass
    return False


# -- failure ------------------------------------------------------------------------------------------


_ENDED_WELL, _UNSAID = Failure(False, False), Failure(None, False)


def _failure(members: Sequence[Node], logs: Mapping[str, Sequence[LogRecord]]) -> Failure:
    """How the call ended, by all its spans: failed if the outer one failed, or the last attempt inside it.

    To be read only: what says nothing is shared.
    """
    if len(members) == 1:
        span, shape = members[0].span, members[0].shape
        own_logs = logs.get(span.span_id, ()) if logs else ()
        if is_quiet(span, shape, own_logs):
            return _ENDED_WELL if span.status_code == 1 else _UNSAID
        return failure_of(span, shape, own_logs)
    said = {
        member.span.span_id: failure_of(member.span, member.shape, logs.get(member.span.span_id, ()))
        for member in members
    }
    _spread(members, said)
    outer = said[members[0].span.span_id]
    for failure in said.values():
        if failure.explicit:
            return failure
    if outer.failed is not True:
        if outer.failed is None and any(failure.failed is False for failure in said.values()):
            outer.failed = False
        return outer
    for failure in (said[member.span.span_id] for member in members[1:]):
        if failure.failed is not True:
            continue
        # The inner span is nearer to the cause: its name for the error tells more.
        if not is_vague(failure.error_type) or outer.error_type is None:
            outer.error_type = failure.error_type
        outer.text = outer.text or failure.text
        outer.jsonrpc_code = outer.jsonrpc_code if outer.jsonrpc_code is not None else failure.jsonrpc_code
        outer.http_status = outer.http_status if outer.http_status is not None else failure.http_status
    return outer


def _spread(members: Sequence[Node], said: Mapping[str, Failure]) -> None:
    """A span that does not say it failed takes over the end of the last span inside it."""
    last: dict[str, SpanRecord] = {}
    for member in reversed(members):  # children before parents
        span = member.span
        inner = last.get(span.span_id)
        if inner is not None and said[inner.span_id].failed is True:
            said[span.span_id].failed = True
        if member.inside is not None:
            above = member.inside.span.span_id
            other = last.get(above)
            if other is None or _end(span) > _end(other):
                last[above] = span


def _end(span: SpanRecord) -> tuple[int, int, str]:
    return span.end_ns or 0, span.start_ns, span.span_id
