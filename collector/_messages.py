"""The messages of LLM requests, out of every place where dialects keep them.

A request's messages become a list with one JSON text each. Where they were recorded as JSON
the texts are cut out of the recording unchanged; flattened attributes and events are put
together in the shape of OpenAI chat messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._attributes import PLACEHOLDERS, dump, first, load
from ._flattened import read_flattened
from ._records import LogRecord, SpanRecord
from .dialects import Keys, openinference, openllmetry, vercel_ai

__all__ = ["MessageReader", "Messages"]

_DETAILS = "gen_ai.client.inference.operation.details"
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE = "gen_ai.choice"
# Of semantic conventions 1.26, and of some who stay there: all messages in one event.
_PROMPT = "gen_ai.content.prompt"
_COMPLETION = "gen_ai.content.completion"
_LISTS_IN_BODIES = ("messages", "contents", "input", "prompt", "output", "choices", "generations", "update")
_FLATTENED = (
    (openinference.INPUT_MESSAGES, openinference.OUTPUT_MESSAGES),
    (openllmetry.INPUT_MESSAGES, openllmetry.OUTPUT_MESSAGES),
)
_MAX_DEPTH = 6
_SAME_START = 200  # histories that begin alike are taken for versions of one history
_AFTER_ELEMENT = frozenset(",] \t\r\n")


@dataclass(slots=True)
class Messages:
    """What a span says was sent and answered; None is "not recorded"."""

    input: list[str] | None = None
    output: list[str] | None = None
    partial: bool = False  # some of it is missing or cut


class MessageReader:
    """Reads the messages of the requests of one trace.

    Histories grow: each request repeats the last one with a few messages more. What two
    texts have in common at the start is cut up once.
    """

    def __init__(self) -> None:
        self._recorded: dict[str, bool] = {}
        self._last: dict[str, tuple[str, list[str], list[int]]] = {}

    def read(self, span: SpanRecord, logs: Sequence[LogRecord] = ()) -> Messages:
        """The messages of an LLM span: from attributes, else events and logs, else whole bodies."""
        attributes = span.attributes
        found = Messages()
        self._from_attributes(found, attributes)
        if found.input is None or found.output is None:
            self._from_flattened(found, span)
        if (found.input is None or found.output is None) and (span.events or logs):
            self._from_events(found, span, logs)
        if found.input is None and found.output is None:
            _from_event_list(found, attributes.get("events"))
        if found.output is None:
            found.output = _vercel_output(attributes)
        if found.input is None:
            found.input = _from_bodies(attributes, Keys.input_bodies)
        if found.output is None:
            found.output = _from_bodies(attributes, Keys.output_bodies)
        if found.input and not self._any_recorded(found.input):
            found.input = None
        if found.output and not self._any_recorded(found.output):
            found.output = None
        return found

    def read_list(self, value: Any, system: Any = None) -> Messages:
        """The messages of a list that stands elsewhere, as input."""
        found = Messages()
        found.input = self._list(value, found)
        if found.input is not None and system is not None:
            found.input = _with_system(found.input, system)
        if found.input and not self._any_recorded(found.input):
            found.input = None
        return found

    def _any_recorded(self, texts: list[str]) -> bool:
        """Is there content in any message? Where capture is off some write messages of a role only."""
        for text in texts:
            recorded = self._recorded.get(text)
            if recorded is None:
                recorded = self._recorded[text] = _is_recorded(load(text))
            if recorded:
                return True
        return False

    # -- attributes that hold a list ----------------------------------------------------------

    def _from_attributes(self, found: Messages, attributes: Mapping[str, Any]) -> None:
        if found.input is None:
            hit = first(attributes, Keys.input_messages)
            if hit is not None:
                found.input = self._list(hit[1], found)
                system = attributes.get("gen_ai.system_instructions")
                if found.input is not None and system is not None:
                    found.input = _with_system(found.input, system)
        if found.output is None:
            hit = first(attributes, Keys.output_messages)
            if hit is not None:
                found.output = self._list(hit[1], found)

    def _list(self, value: Any, found: Messages) -> list[str] | None:
        if isinstance(value, str):
            texts, whole = self._cut(value)
            if not whole:
                found.partial = found.partial or bool(texts)
            return texts
        if isinstance(value, list):
            return [dump(item) for item in value]
        if isinstance(value, dict):
            return [dump(value)]
        return None

    def _cut(self, text: str) -> tuple[list[str] | None, bool]:
        """The elements of a JSON array as they stand in the text; and was the text whole?"""
        start = _skip_space(text, 0)
        if text[start : start + 1] != "[":
            value = load(text)
            return ([dump(value)], True) if isinstance(value, dict) else (None, False)
        key = text[:_SAME_START]
        texts, ends = self._shared(key, text)
        position = ends[-1] if ends else start + 1
        whole = False
        try:
            while True:
                position = _skip_space(text, position)
                mark = text[position : position + 1]
                if mark == "]":
                    whole = True
                    break
                if mark == ",":
                    position = _skip_space(text, position + 1)
                elif texts:
                    break  # neither end nor comma
                try:
                    _, end = _SCANNER(text, position)
                    texts.append(text[position:end])
                except _NoNumberError:
                    value, end = _LENIENT_SCANNER(text, position)
                    texts.append(dump(value))
                ends.append(end)
                position = end
        except (ValueError, RecursionError):
            whole = False
        if not whole and not texts:
            return None, False
        self._last[key] = (text, texts, ends)
        return list(texts), whole

    def _shared(self, key: str, text: str) -> tuple[list[str], list[int]]:
        """The elements that `text` has in common with the last text that began alike."""
        last = self._last.get(key)
        if last is None:
            return [], []
        before, texts, ends = last
        low, high = 0, len(ends)
        while low < high:  # how many leading elements are the same
            middle = (low + high + 1) // 2
            end = ends[middle - 1]
            if end < len(text) and text[end] in _AFTER_ELEMENT and text.startswith(before[:end]):
                low = middle
            else:
                high = middle - 1
        return texts[:low], ends[:low]

    # -- flattened attributes ------------------------------------------------------------------

    def _from_flattened(self, found: Messages, span: SpanRecord) -> None:
        for input_prefix, output_prefix in _FLATTENED:
            inputs, outputs, partial = read_flattened(span.attributes, input_prefix, output_prefix)
            if inputs is None and outputs is None:
                continue
            # Flattened, a long history outgrows the SDK's attribute limit, and the oldest go first.
            found.partial = found.partial or partial or span.dropped_attributes > 0
            found.input = found.input if found.input is not None else inputs
            found.output = found.output if found.output is not None else outputs
            return

    # -- events --------------------------------------------------------------------------------

    def _from_events(self, found: Messages, span: SpanRecord, logs: Sequence[LogRecord]) -> None:
        inputs: list[str] = []
        outputs: list[str] = []
        for name, body, attributes in _events(span, logs):
            if name == _DETAILS:
                self._from_attributes(found, attributes)
            elif name == _CHOICE:
                outputs.append(dump(_choice(body)))
            elif name in _EVENT_ROLES:
                inputs.append(dump(_event_message(_EVENT_ROLES[name], body)))
            elif name == _PROMPT:
                inputs += _whole(attributes.get("gen_ai.prompt"), "user")
            elif name == _COMPLETION:
                outputs += _whole(attributes.get("gen_ai.completion"), "assistant")
        if found.input is None and inputs:
            found.input = inputs
        if found.output is None and outputs:
            found.output = outputs


class _NoNumberError(Exception):
    """NaN or Infinity, which Python reads and writes as JSON, and nobody else."""


def _refuse(constant: str) -> Any:
    raise _NoNumberError(constant)


_SCANNER = json.JSONDecoder(parse_constant=_refuse).raw_decode
_LENIENT_SCANNER = json.JSONDecoder().raw_decode


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\n", "\r", "\t"):
        position += 1
    return position


_LABELS = frozenset({"role", "name", "finish_reason", "id", "tool_call_id", "index", "type"})


def _is_recorded(message: Any) -> bool:
    """Does a message hold content, be it empty, or only labels and placeholders?"""
    if not isinstance(message, dict):
        return message is not None
    for key, value in message.items():
        if value is None or key in _LABELS or (isinstance(value, str) and value in PLACEHOLDERS):
            continue
        if key == "tool_calls" and isinstance(value, list):
            if any(_has_arguments(call) for call in value):
                return True
        elif not (isinstance(value, list) and value and all(_is_hidden(part) for part in value)):
            return True
    return False


def _has_arguments(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    holder = function if isinstance(function, dict) else call
    return not isinstance(holder, dict) or any(
        holder.get(key) is not None for key in ("arguments", "args", "input")
    )


def _is_hidden(part: Any) -> bool:
    return (
        isinstance(part, dict)
        and part.get("type", "text") == "text"
        and any(isinstance(part.get(key), str) and part[key] in PLACEHOLDERS for key in ("text", "content"))
    )


def _with_system(messages: list[str], system: Any) -> list[str]:
    parts = load(system) if isinstance(system, str) else system
    if parts is None:
        parts = [{"type": "text", "content": system}]
    return [dump({"role": "system", "parts": parts}), *messages]


def _events(
    span: SpanRecord, logs: Sequence[LogRecord]
) -> Iterable[tuple[str | None, Mapping[str, Any], Mapping[str, Any]]]:
    """Name, body and attributes of the span's events and logs, in order of time."""
    for event in span.events:
        yield event.name, {key: _decoded(value) for key, value in event.attributes.items()}, event.attributes
    for log in sorted(logs, key=lambda log: log.time_ns):
        body = load(log.body) if isinstance(log.body, str) else log.body
        yield log.event_name, body if isinstance(body, dict) else {"content": log.body}, log.attributes


def _decoded(value: Any) -> Any:
    """Event attributes cannot hold structure, so some frameworks write it as JSON text."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        decoded = load(value)
        return value if decoded is None else decoded
    return value


def _event_message(role: str, body: Mapping[str, Any]) -> dict[str, Any]:
    message = {"role": role, **body}
    if role == "tool" and "tool_call_id" not in message and "id" in message:
        message["tool_call_id"] = message.pop("id")
    return message


def _choice(body: Mapping[str, Any]) -> Any:
    message = body.get("message")
    if isinstance(message, dict):
        return message if "role" in message else {"role": "assistant", **message}
    if message is not None:
        return {"role": "assistant", "content": message}
    return {"role": "assistant", **{key: value for key, value in body.items() if key != "index"}}


def _from_event_list(found: Messages, value: Any) -> None:
    """Events as a JSON list in an attribute: Logfire, and Pydantic AI's first format."""
    if not isinstance(value, str) or '"event.name"' not in value:
        return
    events = load(value)
    inputs: list[str] = []
    outputs: list[str] = []
    for event in events if isinstance(events, list) else ():
        name = event.get("event.name") if isinstance(event, dict) else None
        if not isinstance(name, str):
            continue
        body = {key: item for key, item in event.items() if key not in ("event.name", "gen_ai.message.index")}
        if name == _CHOICE:
            outputs.append(dump(_choice(body)))
        elif name in _EVENT_ROLES:
            inputs.append(dump(_event_message(_EVENT_ROLES[name], body)))
    found.input, found.output = inputs or None, outputs or None


def _whole(value: Any, role: str) -> list[str]:
    """The messages in a prompt or completion that was written down as one text."""
    parsed = load(value) if isinstance(value, str) and value.lstrip()[:1] in ("[", "{") else value
    messages = _find_messages(parsed, 0) if isinstance(parsed, dict | list) else None
    if messages is not None:
        return [dump(message) for message in messages]
    return [] if value is None else [dump({"role": role, "content": value})]


def _vercel_output(attributes: Mapping[str, Any]) -> list[str] | None:
    text = attributes.get(vercel_ai.RESPONSE_TEXT)
    calls = attributes.get(vercel_ai.RESPONSE_TOOL_CALLS)
    if text is None and calls is None:
        return None
    parts: list[Any] = [{"type": "text", "text": text}] if isinstance(text, str) and text else []
    listed = load(calls) if isinstance(calls, str) else calls
    if isinstance(listed, list):
        parts += [{"type": "tool-call", **call} for call in listed if isinstance(call, dict)]
    return [dump({"role": "assistant", "content": parts})]


# -- whole bodies -------------------------------------------------------------------------------------


def _from_bodies(attributes: Mapping[str, Any], keys: Sequence[str]) -> list[str] | None:
    """Messages from somewhere inside a recorded request or response body."""
    hit = first(attributes, keys)
    if hit is None:
        return None
    value = hit[1]
    if isinstance(value, str):
        if value.lstrip()[:1] not in ("[", "{"):
            return None
        value = load(value)
    found = _find_messages(value, 0)
    return None if found is None else [dump(message) for message in found]


def _find_messages(value: Any, depth: int) -> list[dict[str, Any]] | None:
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, list):
        flat: list[dict[str, Any]] = []
        for item in value:
            inner = _find_messages(item, depth + 1)
            if inner is None:
                return None
            flat += inner
        return flat or None
    if isinstance(value, dict):
        if _is_message(value):
            return [value]
        message = value.get("message")
        if isinstance(message, dict):
            return _find_messages(message, depth + 1)
        content = value.get("content")
        if isinstance(content, dict) and isinstance(content.get("role"), str):  # Gemini, ADK
            return [content]
        for key in _LISTS_IN_BODIES:
            inner = value.get(key)
            if isinstance(inner, list | dict):
                return _find_messages(inner, depth + 1)
    return None


def _is_message(value: dict[str, Any]) -> bool:
    if isinstance(value.get("role"), str):
        return True
    if value.get("lc") == 1 or isinstance(value.get("data"), dict):  # LangChain
        return True
    return value.get("type") in ("function_call", "function_call_output", "human", "ai", "tool", "system")
