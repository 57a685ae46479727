"""A chat log as OTLP spans that follow the OTel GenAI conventions.

One conversation is one trace: a root span (`invoke_agent`), a `chat` span for each turn of a model,
and an `execute_tool` span for each call it asked for. Ids and times follow from the content alone, so
that importing the same conversation again, from wherever, stores nothing new.

Histories grow with every turn; written out in full, a log of 1,000 messages would take 500 times its
size. A chat span therefore holds only the messages that are new since the same party's last turn, and
`loopscope.history.after` names the span whose history and answer go before them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, Status

from .._transcripts import HISTORY_AFTER, TRANSCRIPT_SCOPE
from ._clock import Clock, parse_time
from ._pairing import Call, OpenCalls, as_text, calls_of, result_id
from ._report import SkipList, printable

__all__ = ["Conversation", "content_digest", "conversation_spans", "run_id", "set_attribute"]

_RESULT_ROLES = ("tool", "function")
_TIME_KEYS = ("timestamp", "created_at", "created")


@dataclass(slots=True)
class Conversation:
    """The messages of one conversation, and what its file says about it."""

    messages: list[dict[str, Any]]
    where: str  # place in the file, for messages to the user
    dialect: str
    service: str
    source: dict[str, str | int | float] = field(default_factory=dict)  # ids, reward…, for the root span
    session_id: str | None = None
    models: dict[str, str] = field(default_factory=dict)  # by party
    begun: int | None = None  # Unix nanoseconds
    failure: str | None = None  # why the conversation ended badly, if the file says so
    # Whether a result message reports a failure; None: the file has no flag or convention for it.
    failed: Callable[[dict[str, Any]], bool | None] = lambda _: None


def content_digest(conversation: Conversation) -> bytes:
    """16 bytes that stand for the ids that the source gave, and for every message."""
    text = json.dumps([conversation.source, conversation.session_id, conversation.messages], sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def run_id(conversation: Conversation, trace_id: bytes) -> str:
    """Readable and unique: the source's own ids, then a part of the trace id."""
    ids = [conversation.source.get(f"loopscope.source.{key}") for key in ("task_id", "trial")]
    parts = [str(part)[:60] for part in (conversation.session_id, *ids) if part is not None]
    return printable("/".join([conversation.dialect, *parts[-2:], trace_id.hex()[:16]]))


def conversation_spans(conversation: Conversation, digest: bytes, ordinal: int, skipped: SkipList) -> bytes:
    """A serialized ExportTraceServiceRequest that holds the whole conversation.

    `digest`: its `content_digest`. `ordinal`: how many equal conversations came before it in the file;
    equal conversations are different runs.
    """
    if ordinal:
        digest = hashlib.blake2b(digest + ordinal.to_bytes(8, "big"), digest_size=16).digest()
    return _Writer(conversation, digest, skipped).request()


class _Writer:
    def __init__(self, conversation: Conversation, trace_id: bytes, skipped: SkipList) -> None:
        self._log = conversation
        self._trace_id = trace_id
        self._skipped = skipped
        self._times = [_time_of(message) for message in conversation.messages]
        self._clock = Clock(conversation.begun, self._times)
        self._open = OpenCalls()
        self._opened: list[Span] = []  # one for each call, in the order of asking
        self._chats: dict[str, bytes] = {}  # party: span id of its last turn
        self._unseen: dict[str, list[dict[str, Any]]] = {"assistant": [], "user": []}
        self._two_parties = any(
            message.get("role") == "user" and _is_turn(message) for message in conversation.messages
        )
        self._request = ExportTraceServiceRequest()
        resource_spans = self._request.resource_spans.add()
        set_attribute(resource_spans.resource, "service.name", conversation.service)
        set_attribute(
            resource_spans.resource, "loopscope.times", "recorded" if self._clock.recorded else "synthetic"
        )
        self._scope: ScopeSpans = resource_spans.scope_spans.add()
        self._scope.scope.name = TRANSCRIPT_SCOPE
        self._root_id = self._span_id("root", 0)

    def request(self) -> bytes:
        root = self._add_root()
        for index, message in enumerate(self._log.messages):
            if foreign := _foreign_blocks(message.get("content")):
                where = f"{self._log.where}, message {index + 1}"
                self._skipped.add(where, f"{foreign} blocks are not OpenAI chat; calls in them are not read")
            if message.get("role") in _RESULT_ROLES:
                self._result(index, message)
            elif message.get("role") == "assistant" or _is_turn(message):
                self._turn(index, message)
            else:
                self._unseen["assistant"].append(_plain_message(message))
        root.end_time_unix_nano = self._clock.tick()
        return self._request.SerializeToString()

    def _add_root(self) -> Span:
        root = self._add("root", 0, "invoke_agent" if self._two_parties else "invoke_agent assistant")
        root.kind = Span.SPAN_KIND_INTERNAL
        root.start_time_unix_nano = self._clock.start
        set_attribute(root, "gen_ai.operation.name", "invoke_agent")
        if not self._two_parties:
            set_attribute(root, "gen_ai.agent.name", "assistant")
        set_attribute(root, "loopscope.run.id", run_id(self._log, self._trace_id))
        for key, value in self._log.source.items():
            set_attribute(root, key, value)
        if self._log.failure is not None:
            root.status.code = Status.STATUS_CODE_ERROR
            root.status.message = _utf8(self._log.failure)
        return root

    def _turn(self, index: int, message: dict[str, Any]) -> None:
        """A model's answer: a chat span, and one span for each call it asks for."""
        party = "user" if message.get("role") == "user" else "assistant"
        name = message.get("name")
        agent = name if isinstance(name, str) and name else party
        model = _first_text(message.get("model"), self._log.models.get(party))
        chat = self._add("chat", index, f"chat {model}" if model else "chat")
        chat.parent_span_id = self._root_id
        chat.kind = Span.SPAN_KIND_CLIENT
        chat.start_time_unix_nano = self._clock.now
        chat.end_time_unix_nano = self._clock.tick(self._times[index])
        set_attribute(chat, "gen_ai.operation.name", "chat")
        set_attribute(chat, "gen_ai.agent.name", agent)
        if model:
            set_attribute(chat, "gen_ai.request.model", model)
        usage = message.get("usage")
        if isinstance(usage, dict):
            _set_count(chat, "gen_ai.usage.input_tokens", usage, "prompt_tokens", "input_tokens")
            _set_count(chat, "gen_ai.usage.output_tokens", usage, "completion_tokens", "output_tokens")
        set_attribute(chat, "gen_ai.input.messages", _json(self._unseen[party]))
        set_attribute(chat, "gen_ai.output.messages", _json([_own_message(message)]))
        if party in self._chats:
            set_attribute(chat, HISTORY_AFTER, self._chats[party].hex())
        self._chats[party] = chat.span_id
        self._unseen[party] = []
        self._tell_the_other(party, message)
        for position, (call_id, tool_name, arguments) in enumerate(calls_of(message)):
            if tool_name is None:
                where = f"{self._log.where}, message {index + 1}, call {position + 1}"
                self._skipped.add(where, "the call has no tool name")
                continue
            self._call(
                Call(party, agent, tool_name, call_id, as_text(arguments), index, position, len(self._opened))
            )

    def _tell_the_other(self, party: str, message: dict[str, Any]) -> None:
        """What one party says is the other's next input; its calls are its own affair."""
        if party == "assistant" and not self._two_parties:
            return
        if parts := _content_parts(message.get("content")):
            other = "user" if party == "assistant" else "assistant"
            self._unseen[other].append({"role": "user", "parts": parts})

    def _call(self, call: Call) -> None:
        span = self._add("call", call.order, f"execute_tool {call.tool_name}")
        span.parent_span_id = self._root_id
        span.kind = Span.SPAN_KIND_INTERNAL
        span.start_time_unix_nano = self._clock.tick()
        set_attribute(span, "gen_ai.operation.name", "execute_tool")
        set_attribute(span, "gen_ai.tool.name", call.tool_name)
        set_attribute(span, "gen_ai.tool.type", "function")
        set_attribute(span, "gen_ai.agent.name", call.agent)
        if call.call_id is not None:
            set_attribute(span, "gen_ai.tool.call.id", call.call_id)
        if call.arguments is not None:
            set_attribute(span, "gen_ai.tool.call.arguments", call.arguments)
        self._open.add(call)
        self._opened.append(span)

    def _result(self, index: int, message: dict[str, Any]) -> None:
        content = as_text(message.get("content"))
        call = self._open.answer(message)
        party = call.party if call else "user" if message.get("requestor") == "user" else "assistant"
        self._unseen[party].append(_result_message(message, call, content))
        if call is None:
            self._skipped.add(
                f"{self._log.where}, message {index + 1}",
                f"a result for {found!r}, which no open call has"
                if (found := result_id(message))
                else "a result without an id, and not exactly one open call it could belong to",
            )
            return
        span = self._opened[call.order]
        span.end_time_unix_nano = self._clock.tick(self._times[index])
        if content is not None:
            set_attribute(span, "gen_ai.tool.call.result", content)
        failed = self._log.failed(message)
        if failed is not None:
            set_attribute(span, "loopscope.outcome.failed", failed)
            if failed:
                span.status.code = Status.STATUS_CODE_ERROR

    def _add(self, kind: str, index: int, name: str) -> Span:
        span = self._scope.spans.add()
        span.trace_id = self._trace_id
        span.span_id = self._span_id(kind, index)
        span.name = _utf8(name)
        set_attribute(span, "loopscope.dialect", self._log.dialect)
        if self._log.session_id is not None:
            set_attribute(span, "gen_ai.conversation.id", self._log.session_id)
        return span

    def _span_id(self, kind: str, index: int) -> bytes:
        return hashlib.blake2b(f"{kind}:{index}".encode(), key=self._trace_id, digest_size=8).digest()


def _is_turn(message: dict[str, Any]) -> bool:
    """Whether a message that is not the assistant's was written by a model (a user simulator)."""
    return bool(calls_of(message)) or isinstance(message.get("usage"), dict)


def _own_message(message: dict[str, Any]) -> dict[str, Any]:
    """A turn as its own party sees it."""
    parts: list[dict[str, Any]] = []
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str) and message[key]:
            parts.append({"type": "reasoning", "content": message[key]})
            break
    parts += _content_parts(message.get("content"))
    for call_id, name, arguments in calls_of(message):
        parts.append({"type": "tool_call", "id": call_id, "name": name, "arguments": arguments})
    return {"role": "assistant", "parts": parts}


def _plain_message(message: dict[str, Any]) -> dict[str, Any]:
    role = message.get("role")
    return {
        "role": "system" if role == "developer" else str(role),
        "parts": _content_parts(message.get("content")),
    }


def _result_message(message: dict[str, Any], call: Call | None, content: str | None) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_call_response", "response": content}
    call_id = result_id(message) or (call.call_id if call else None)
    if call_id is not None:
        part["id"] = call_id
    return {"role": "tool", "parts": [part]}


def _content_parts(content: Any) -> list[dict[str, Any]]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    if not isinstance(content, list):
        return [{"type": "text", "content": as_text(content)}]
    parts: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            parts.append({"type": "text", "content": part["text"]})
        elif isinstance(part, dict) and isinstance(part.get("type"), str):
            parts.append(part)
        else:
            parts.append({"type": "text", "content": as_text(part)})
    return parts


def _foreign_blocks(content: Any) -> str | None:
    """The kind of tool blocks that other providers' chats hold in the content."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") in (
            "tool_use",
            "tool_result",
            "tool-call",
            "toolCall",
        ):
            return str(part["type"])
    return None


def _time_of(message: dict[str, Any]) -> int | None:
    for key in _TIME_KEYS:
        if (time := parse_time(message.get(key))) is not None:
            return time
    return None


def _first_text(*values: Any) -> str | None:
    return next((value for value in values if isinstance(value, str) and value), None)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _utf8(text: str) -> str:
    """Text that protobuf takes: a lone surrogate, which JSON can escape, becomes '?'."""
    return text.encode("utf-8", "replace").decode("utf-8")


def set_attribute(target: Any, key: str, value: str | bool | int | float) -> None:
    pair = target.attributes.add()
    pair.key = key
    if isinstance(value, bool):
        pair.value.bool_value = value
    elif isinstance(value, int):
        pair.value.int_value = value
    elif isinstance(value, float):
        pair.value.double_value = value
    else:
        pair.value.string_value = _utf8(value)


def _set_count(span: Span, attribute: str, usage: dict[str, Any], *keys: str) -> None:
    for key in keys:
        value = usage.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
            set_attribute(span, attribute, value)
            return
