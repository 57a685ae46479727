"""Inspect AI evaluation logs: JSON logs, and the samples of `.eval` archives.

A sample (of one epoch) is a run. Its events say what was asked and executed, and when: `model` events become
requests, `tool` events calls, agents nested in others runs of their own. A log without events, which
filtered logs are, is read from the sample's messages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from .._attributes import as_list
from .._transcripts import HISTORY_AFTER, TRANSCRIPT_SCOPE
from ._clock import SYNTHETIC_BASE_NS
from ._conversations import call, conversation_parts, fact, text_of_parts
from ._json_stream import JsonValue
from ._otlp import Part
from ._report import FormatError, SkipList, printable
from ._spans import ERROR, UNSET, ExportedSpan, json_object, request_parts, text_of, time_of
from ._transcript import Conversation

__all__ = ["DIALECT", "inspect_parts", "matches_inspect", "sample_parts"]

DIALECT = "inspect"
_ATTACHMENT = "attachment://"
_MAX_DEPTH = 64
# Inspect's words for what a tool raised, and the exceptions that they stand for.
_EXCEPTIONS = {
    "parsing": "ToolParsingError",
    "timeout": "TimeoutError",
    "unicode_decode": "UnicodeDecodeError",
    "permission": "PermissionError",
    "file_not_found": "FileNotFoundError",
    "is_a_directory": "IsADirectoryError",
    "approval": "ToolApprovalError",
    "cancelled": "CancelledError",
    "limit": "LimitExceededError",
}


def matches_inspect(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("eval"), dict)
        and "task" in value["eval"]
        and ("samples" in value or "status" in value)
    )


def inspect_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of JSON logs. Raises FormatError with the place of what is none."""
    for item in values:
        if not matches_inspect(item.value):
            raise FormatError("not an evaluation log of Inspect", where=item.where)
        samples = item.value.get("samples")
        if not isinstance(samples, list) or not samples:
            skipped.add(item.where, "the log has no samples")
        for number, sample in enumerate(samples if isinstance(samples, list) else [], 1):
            where = item.frame or f"sample {number}"
            yield from sample_parts(sample, item.value["eval"], where, skipped)


def sample_parts(sample: Any, about: dict[str, Any], where: str, skipped: SkipList) -> Iterator[Part]:
    """Requests of one sample. `about`: the log's `eval`. Raises FormatError."""
    if not isinstance(sample, dict) or "id" not in sample:
        raise FormatError("not a sample (an object with an id)", where=where)
    events = [event for event in as_list(sample.get("events")) if isinstance(event, dict)]
    if any(event.get("event") in ("model", "tool") for event in events):
        yield from request_parts(_Sample(sample, about, events).spans())
        return
    conversation = _from_messages(sample, about, where)
    if conversation.messages:
        yield from conversation_parts([conversation], skipped)
    else:
        skipped.add(where, "the sample has neither events nor messages")


@dataclass(slots=True)
class _Thread:
    """An agent, and the history that its next request goes on with."""

    name: str
    span_id: bytes
    run: str | None = None  # an agent inside another one is a run of its own
    keys: list[str] = field(default_factory=list)
    chat: bytes | None = None


class _Sample:
    """Makes spans of one sample's events."""

    def __init__(self, sample: dict[str, Any], about: dict[str, Any], events: list[dict[str, Any]]) -> None:
        self._sample = sample
        self._about = about
        self._events = events
        self._attachments = json_object(sample.get("attachments"))
        self._pool = as_list(json_object(sample.get("events_data")).get("messages"))
        ids = [
            about.get("eval_id") or about.get("run_id"),
            sample.get("uuid"),
            sample["id"],
            sample.get("epoch"),
        ]
        if ids[0] is None and ids[1] is None:
            ids.append(events)
        text = json.dumps([DIALECT, ids], sort_keys=True, default=str)
        self._trace_id = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        names = (about.get("task"), sample["id"], sample.get("epoch"))
        parts = [str(name)[:60] for name in names if name is not None]
        self._run = printable("/".join([DIALECT, *parts, self._trace_id.hex()[:16]]))
        self._resource = {
            "service.name": _service(about),
            "loopscope.times": "recorded"
            if any(time_of(e.get("timestamp")) for e in events)
            else "synthetic",
        }
        self._now = min(
            (time for event in events if (time := time_of(event.get("timestamp"))) is not None),
            default=SYNTHETIC_BASE_NS,
        )
        self._begun = time_of(sample.get("started_at")) or self._now
        self._root = _Thread("assistant", self._span_id("root", 0))
        self._places: dict[str, tuple[str | None, str | None, str | None]] = {}  # span: parent, type, name
        self._threads: dict[str | None, _Thread] = {None: self._root}
        self._answers: dict[str, dict[str, Any]] = {}  # tool messages, by call id
        self._asked: dict[str, tuple[dict[str, Any], _Thread, int]] = {}  # calls that no event tells of, yet

    def spans(self) -> Iterator[ExportedSpan]:
        agents: list[ExportedSpan] = []
        last = self._begun
        for index, (event, above) in enumerate(_walk(self._events)):
            self._now = time_of(event.get("timestamp")) or self._now + 1_000_000
            kind, place = event.get("event"), event.get("span_id") or above
            last = max(last, self._now, time_of(event.get("completed")) or 0)
            if kind == "span_begin" and isinstance(event.get("id"), str):
                self._places[event["id"]] = (event.get("parent_id"), event.get("type"), event.get("name"))
                if event.get("type") == "agent" and (nested := self._nested(event)) is not None:
                    agents.append(nested)
            elif kind == "model":
                yield self._chat(index, event, self._thread(place))
            elif kind == "tool":
                yield self._tool(index, event, self._thread(place))
        yield from self._untold()
        last = max(last, time_of(self._sample.get("completed_at")) or 0)
        for agent in agents:
            agent.end_ns = last if agent.end_ns is None else agent.end_ns
            yield agent
        yield self._whole(last)

    # -- agents ---------------------------------------------------------------------------------------

    def _nested(self, event: dict[str, Any]) -> ExportedSpan | None:
        """The span of an agent inside another one; the outermost agent is the run itself."""
        above = self._agent_above(event.get("parent_id"))
        if above is None:
            return None
        outer = self._thread(event.get("parent_id"))
        thread = _Thread(str(event.get("name") or "agent")[:200], self._span_id("agent", event["id"]))
        thread.run = f"{self._run}/{thread.span_id.hex()}"
        self._threads[event["id"]] = thread
        span = self._span(thread, f"invoke_agent {thread.name}", self._now, None)
        span.span_id, span.parent_id = thread.span_id, outer.span_id
        parent = outer.run or self._run
        span.attributes |= {"gen_ai.operation.name": "invoke_agent", "loopscope.run.id": thread.run}
        span.attributes["loopscope.run.parent"] = parent
        ends = (e for e in self._events if e.get("event") == "span_end" and e.get("id") == event["id"])
        span.end_ns = time_of(next(ends, {}).get("timestamp"))
        return span

    def _agent_above(self, place: Any) -> str | None:
        seen: set[str] = set()
        while isinstance(place, str) and place in self._places and place not in seen:
            seen.add(place)
            parent, kind, _ = self._places[place]
            if kind == "agent":
                return place
            place = parent
        return None

    def _thread(self, place: Any) -> _Thread:
        """The agent that acts at a place: the nearest one around it, or the scorer."""
        if place in self._threads:
            return self._threads[place]
        seen: list[str] = []
        at = place
        found: _Thread | None = None
        while isinstance(at, str) and at in self._places and at not in seen:
            seen.append(at)
            parent, kind, name = self._places[at]
            if kind in ("agent", "scorer", "scorers"):
                label = str(name or "agent")[:200] if kind == "agent" else "scorer"
                found = self._threads.get(at) or _Thread(label, self._root.span_id)
                break
            at = parent
        thread = found or self._root
        for step in seen:
            self._threads.setdefault(step, thread)
        return thread

    # -- spans ----------------------------------------------------------------------------------------

    def _chat(self, index: int, event: dict[str, Any], thread: _Thread) -> ExportedSpan:
        output = json_object(event.get("output"))
        choices = [choice for choice in as_list(output.get("choices")) if isinstance(choice, dict)]
        model = event.get("model") if isinstance(event.get("model"), str) else output.get("model")
        error = event.get("error") or output.get("error")
        ended = time_of(event.get("completed"))
        took = output.get("time")
        if ended is None and not event.get("pending"):
            ended = self._now + int(took * 1e9 if isinstance(took, int | float) and 0 <= took < 1e6 else 0)
        span = self._span(thread, f"chat {model}" if model else "chat", self._now, ended)
        span.span_id, span.kind = self._span_id("chat", event.get("uuid") or index), Span.SPAN_KIND_CLIENT
        history = self._input(event)
        keys = [_key(message) for message in history]
        new = history
        if thread.chat is not None and keys[: len(thread.keys)] == thread.keys:
            new = history[len(thread.keys) :]
            span.attributes[HISTORY_AFTER] = thread.chat.hex()
        answer = self._whole_message(choices[0].get("message")) if choices and not error else None
        usage = json_object(output.get("usage"))
        provider, slash, _ = str(model or "").partition("/")
        span.attributes |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.provider.name": provider if slash else None,
            "gen_ai.usage.input_tokens": _count(usage.get("input_tokens")),
            "gen_ai.usage.output_tokens": _count(usage.get("output_tokens")),
            "gen_ai.usage.cache_read.input_tokens": _count(usage.get("input_tokens_cache_read")),
            "gen_ai.usage.cache_creation.input_tokens": _count(usage.get("input_tokens_cache_write")),
            "gen_ai.input.messages": _json([_parts(message) for message in new]),
            "gen_ai.output.messages": _json([_parts(answer)]) if answer else None,
        }
        if error:
            span.status, span.status_message = ERROR, text_of(error)
        elif answer:
            thread.keys, thread.chat = [*keys, _key(answer)], span.span_id
            for asked in as_list(answer.get("tool_calls")):
                if isinstance(asked, dict) and isinstance(asked.get("id"), str):
                    self._asked[asked["id"]] = (asked, thread, ended or self._now)
        return span

    def _tool(self, index: int, event: dict[str, Any], thread: _Thread) -> ExportedSpan:
        call_id = event.get("id") if isinstance(event.get("id"), str) else None
        if call_id is not None:
            # Calls that stood in one answer belong to the agent that got it, not to one handed off to.
            _, thread, _ = self._asked.pop(call_id, (None, thread, 0))
        error = json_object(event.get("error"))
        failed = bool(error) or event.get("failed") is True
        ended = time_of(event.get("completed"))
        if ended is None and not event.get("pending") and (failed or event.get("result") not in (None, "")):
            ended = self._now
        result = error.get("message") if error else self._resolved(event.get("result"), 0)
        span = self._call_span(
            thread, event.get("uuid") or f"{call_id}:{index}", event.get("function"), self._now, ended
        )
        span.attributes |= {
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.call.arguments": text_of(self._resolved(event.get("arguments"), 0)),
        }
        if ended is not None:
            self._outcome(span, result, failed, error)
        return span

    def _outcome(self, span: ExportedSpan, result: Any, failed: bool, error: dict[str, Any]) -> None:
        text = text_of_parts(result)
        span.attributes |= {
            "gen_ai.tool.call.result": text if text is not None else text_of(result),
            "loopscope.outcome.failed": failed,
        }
        if failed:
            kind = error.get("type")
            span.status = ERROR
            span.attributes["error.type"] = _EXCEPTIONS.get(str(kind), "ToolError")

    def _untold(self) -> Iterator[ExportedSpan]:
        """Calls that were asked for, but have no event: answered in a later history, or never."""
        for message in [*self._pool, *as_list(self._sample.get("messages"))]:
            self._note_answer(message)
        for call_id, (asked, thread, when) in self._asked.items():
            answer = self._answers.get(call_id)
            span = self._call_span(thread, f"asked:{call_id}", asked.get("function"), when, None)
            span.attributes |= {
                "gen_ai.tool.call.id": call_id,
                "gen_ai.tool.call.arguments": text_of(self._resolved(asked.get("arguments"), 0)),
            }
            if answer is not None:
                span.end_ns = when
                error = json_object(answer.get("error"))
                content = error.get("message") if error else self._resolved(answer.get("content"), 0)
                self._outcome(span, content, bool(error), error)
            yield span

    def _call_span(self, thread: _Thread, key: str, name: Any, start: int, end: int | None) -> ExportedSpan:
        name = str(name or "unknown")
        span = self._span(thread, f"execute_tool {name}", start, end)
        span.span_id = self._span_id("call", key)
        span.attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        return span

    def _whole(self, last: int) -> ExportedSpan:
        root = self._span(self._root, "invoke_agent", self._begun, last)
        root.span_id, root.parent_id = self._root.span_id, None
        error, limit = json_object(self._sample.get("error")), json_object(self._sample.get("limit"))
        if error:
            root.status, root.status_message = ERROR, str(error.get("message"))[:1000]
        elif limit:
            root.status, root.status_message = ERROR, f"the sample ended at its limit of {limit.get('type')}"
        root.attributes |= {
            "gen_ai.operation.name": "invoke_agent",
            "loopscope.run.id": self._run,
            **_facts(self._sample, self._about),
        }
        return root

    def _span(self, thread: _Thread, name: str, start: int, end: int | None) -> ExportedSpan:
        return ExportedSpan(
            self._trace_id,
            b"",
            thread.span_id,
            name,
            max(start, self._begun),
            end,
            status=UNSET,
            attributes={"loopscope.dialect": DIALECT, "gen_ai.agent.name": thread.name},
            resource=self._resource,
            scope=TRANSCRIPT_SCOPE,
        )

    def _span_id(self, kind: str, key: Any) -> bytes:
        text = f"{kind}:{key}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._trace_id, digest_size=8).digest()

    # -- messages -------------------------------------------------------------------------------------

    def _input(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """The history of a request: written out, or as ranges of the sample's pool of messages."""
        found = as_list(event.get("input"))
        for span in as_list(event.get("input_refs")):
            if isinstance(span, list) and len(span) == 2 and all(isinstance(at, int) for at in span):
                found = [*found, *self._pool[max(span[0], 0) : max(span[1], 0)]]
        for message in found:
            self._note_answer(message)
        return [self._whole_message(message) for message in found if isinstance(message, dict)]

    def _note_answer(self, message: Any) -> None:
        if isinstance(message, dict) and message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if isinstance(call_id, str):
                self._answers.setdefault(call_id, message)

    def _whole_message(self, message: Any) -> dict[str, Any]:
        return json_object(self._resolved(message, 0))

    def _resolved(self, value: Any, depth: int) -> Any:
        """With the texts that the log keeps apart, as attachments, in their place."""
        if isinstance(value, str):
            if value.startswith(_ATTACHMENT):
                return self._attachments.get(value.removeprefix(_ATTACHMENT), value)
            return value
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, list):
            return [self._resolved(entry, depth + 1) for entry in value]
        if isinstance(value, dict):
            return {key: self._resolved(entry, depth + 1) for key, entry in value.items()}
        return value


def _walk(events: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each event, those inside tool and sub-task events too; with the place that it inherits."""
    waiting: list[tuple[dict[str, Any], Any]] = [(event, None) for event in reversed(events)]
    while waiting:
        event, above = waiting.pop()
        yield event, above
        inner = [entry for entry in as_list(event.get("events")) if isinstance(entry, dict)]
        waiting += [(entry, event.get("span_id") or above) for entry in reversed(inner)]


def _key(message: dict[str, Any]) -> str:
    """What makes a message the same one in the next history."""
    if isinstance(message.get("id"), str) and message["id"]:
        return message["id"]
    text = json.dumps(message, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _parts(message: dict[str, Any]) -> dict[str, Any]:
    """A message as the GenAI conventions have it."""
    role, content = str(message.get("role")), message.get("content")
    error = json_object(message.get("error"))
    if role == "tool":
        text = error.get("message") if error else text_of_parts(content)
        part = {"type": "tool_call_response", "id": message.get("tool_call_id")}
        return {"role": "tool", "parts": [part | {"response": text if text is not None else content}]}
    parts: list[dict[str, Any]] = []
    for block in [content] if isinstance(content, str) else as_list(content):
        if isinstance(block, str):
            parts += [{"type": "text", "content": block}] if block else []
        elif isinstance(block, dict) and block.get("type") == "reasoning":
            parts.append({"type": "reasoning", "content": block.get("reasoning")})
        elif isinstance(block, dict) and isinstance(block.get("text"), str):
            parts.append({"type": "text", "content": block["text"]})
        elif isinstance(block, dict):
            parts.append(block)
    for asked in as_list(message.get("tool_calls")):
        if isinstance(asked, dict):
            part = {"type": "tool_call", "id": asked.get("id"), "name": asked.get("function")}
            parts.append(part | {"arguments": asked.get("arguments")})
    return {"role": role, "parts": parts}


def _from_messages(sample: dict[str, Any], about: dict[str, Any], where: str) -> Conversation:
    conversation = Conversation([], where, DIALECT, service=_service(about), failed=_failed)
    conversation.source = {key: value for key, value in _facts(sample, about).items() if value is not None}
    fact(conversation, "uuid", sample.get("uuid"))
    conversation.begun = time_of(sample.get("started_at"))
    error = json_object(sample.get("error"))
    conversation.failure = str(error.get("message"))[:1000] if error else None
    if isinstance(about.get("model"), str):
        conversation.models["assistant"] = about["model"]
    attachments = _Sample(sample, about, [])
    for entry in as_list(sample.get("messages")):
        message = attachments._whole_message(entry)
        if not isinstance(message.get("role"), str):
            raise FormatError("a message without a role", where=where)
        calls = [entry for entry in as_list(message.get("tool_calls")) if isinstance(entry, dict)]
        if calls:
            message["tool_calls"] = [
                call(entry.get("id"), entry.get("function"), entry.get("arguments")) for entry in calls
            ]
        if failure := json_object(message.get("error")):
            message["content"] = failure.get("message")
        conversation.messages.append({key: value for key, value in message.items() if key != "id"})
    return conversation


def _failed(message: dict[str, Any]) -> bool | None:
    return bool(message.get("error"))


def _facts(sample: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """What the log says of the sample, for its root span."""
    facts: dict[str, Any] = {
        "sample_id": str(sample["id"])[:200],
        "epoch": _count(sample.get("epoch")),
        "task": text_of(about.get("task")),
        "eval_id": text_of(about.get("eval_id")),
        "limit": text_of(json_object(sample.get("limit")).get("type")),
    }
    for name, score in list(json_object(sample.get("scores")).items())[:20]:
        value = json_object(score).get("value")
        facts[f"score.{name[:80]}"] = value if isinstance(value, str | bool | float) else text_of(value)
    return {f"loopscope.source.{key}": value for key, value in facts.items() if value is not None}


def _service(about: dict[str, Any]) -> str:
    task = about.get("task")
    return f"inspect/{task[:80]}" if isinstance(task, str) and task else DIALECT


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None
