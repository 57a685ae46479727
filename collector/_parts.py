"""The tool calls and tool results inside one message, whatever the provider's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..guard import STUB_MARKER, fingerprint, is_stub_result
from ._attributes import as_text, block_text, dump, load, utf8

__all__ = ["MessageFacts", "Requested", "Responded", "bare_key", "facts_of", "is_stub"]

_MAX_PARTS = 10_000  # of one message


@dataclass(slots=True, eq=False)
class Requested:
    """A tool call that a model asked for."""

    call_id: str | None
    name: str | None
    arguments: str | None
    taken: bool = False  # by the span of its execution

    def key(self) -> int | None:
        """What makes two requests for a call equal."""
        if self.name is None or self.arguments is None:
            return None
        return fingerprint(self.name, self.arguments)

    def bare(self) -> tuple[str, str] | None:
        """See `bare_key`."""
        return None if self.name is None else bare_key(self.name, self.arguments)


@dataclass(slots=True, eq=False)
class Responded:
    """The result of a tool call as it was sent to the model."""

    call_id: str | None
    name: str | None
    text: str | None
    failed: bool | None


@dataclass(slots=True)
class MessageFacts:
    """What a message asks for and what it answers."""

    calls: list[Requested]
    results: list[Responded]


def bare_key(name: str, arguments: str | None) -> tuple[str, str] | None:
    """Name and the one value of arguments that hold one string: LangChain spans reduce them to that."""
    if arguments is None or not arguments.startswith("{"):
        return None
    value = load(arguments)
    if isinstance(value, dict) and len(value) == 1:
        only = next(iter(value.values()))
        if isinstance(only, str):
            return name, only
    return None


def is_stub(text: str | None) -> bool:
    """Is it a stub that a repair of a history put in the place of a result? As text or inside of JSON."""
    if text is None:
        return False
    if text[:1] != "{" and "[" not in text[:96]:
        return False  # a stub begins with a bracket: most results need no closer look
    if is_stub_result(text):
        return True
    if text[:1] not in _OPENING or not any(mark in text[:_STUB_WITHIN] for mark in _STUB_MARKS):
        return False
    value = load(text)
    for _ in range(_STUB_DEPTH):
        if isinstance(value, list):
            value = value[0] if value else None
        elif isinstance(value, dict):
            value = next((value[key] for key in _STUB_KEYS if value.get(key) is not None), None)
        else:
            break
    return is_stub_result(value)


# Where the words of a result stand in a result that is an object.
_STUB_KEYS = ("error", "text", "content", "output", "result", "response", "stderr", "value")
_STUB_MARKS = (STUB_MARKER, "[Result unavailable")
_STUB_WITHIN = 400
_STUB_DEPTH = 5
_OPENING = ("{", "[")


def facts_of(text: str) -> MessageFacts:
    """The calls and results in the JSON text of one message. Never raises."""
    facts = MessageFacts([], [])
    message = load(text)
    if isinstance(message, dict):
        _read_message(message, facts)
    return facts


def _read_message(message: dict[str, Any], facts: MessageFacts) -> None:
    inner = message.get("message")
    if isinstance(inner, dict) and "role" not in message:  # a choice
        message = inner
    if message.get("lc") == 1 and isinstance(message.get("kwargs"), dict):
        message = message["kwargs"]
    elif isinstance(message.get("data"), dict) and "type" in message:
        message = message["data"]
    calls = message.get("tool_calls")
    if not calls and isinstance(message.get("additional_kwargs"), dict):
        calls = message["additional_kwargs"].get("tool_calls")
    if isinstance(calls, list):
        for call in calls[:_MAX_PARTS]:
            if isinstance(call, dict):
                _add_openai_call(call, facts)
    kind = message.get("type")
    kind = kind if isinstance(kind, str) else None
    if kind in _PART_TYPES and "role" not in message:  # an item of the OpenAI Responses API
        _read_part(message, facts)
    elif message.get("role") in ("tool", "function") or kind == "tool":
        parts = message.get("parts")
        call_id = as_text(message.get("tool_call_id")) or as_text(message.get("id"))
        if not isinstance(parts, list) and not _holds_results(message.get("content")):
            flagged = message.get("is_error") is True or message.get("status") == "error"
            _add_result(
                facts, call_id, message.get("name"), message.get("content"), True if flagged else None
            )
            return
    for name in ("parts", "content"):
        parts = message.get(name)
        if isinstance(parts, list):
            for part in parts[:_MAX_PARTS]:
                if isinstance(part, dict):
                    _read_part(part, facts)


def _holds_results(content: Any) -> bool:
    return isinstance(content, list) and any(
        isinstance(part, dict) and (str(part.get("type")) in _RESULT_TYPES or not _WRAPPERS.isdisjoint(part))
        for part in content[:_MAX_PARTS]
    )


_RESULT_TYPES = frozenset({"tool_call_response", "tool_result", "tool-result", "function_call_output"})
_CALL_TYPES = frozenset({"tool_call", "tool_use", "tool-call", "function_call"})
_PART_TYPES = _RESULT_TYPES | _CALL_TYPES
_WRAPPERS = frozenset(
    {
        "toolUse", "toolResult", "functionCall", "functionResponse", "function_response",
        "toolRequest", "toolResponse",
    }
)  # fmt: skip


def _add_openai_call(call: dict[str, Any], facts: MessageFacts) -> None:
    inner = call.get("tool_call")
    if isinstance(inner, dict):
        call = inner
    function = call.get("function")
    if isinstance(function, dict):
        name, arguments = function.get("name"), function.get("arguments")
    else:
        name, arguments = call.get("name"), call.get("arguments", call.get("args"))
    _add_call(facts, call.get("id") or call.get("call_id"), name, arguments)


def _read_part(part: dict[str, Any], facts: MessageFacts) -> None:
    kind = part.get("type")
    kind = kind if isinstance(kind, str) else None
    if kind in _CALL_TYPES:
        arguments = next((part[key] for key in ("arguments", "input", "args") if key in part), None)
        call_id = _one_of(part, "call_id", "toolCallId", "id")
        _add_call(facts, call_id, part.get("name") or part.get("toolName"), arguments)
    elif kind in _RESULT_TYPES:
        content = next(
            (part[key] for key in ("response", "result", "output", "content") if key in part), None
        )
        failed = True if part.get("is_error") is True or part.get("isError") is True else None
        call_id = _one_of(part, "tool_use_id", "call_id", "toolCallId", "id")
        _add_result(facts, call_id, part.get("name") or part.get("toolName"), content, failed)
    elif not _WRAPPERS.isdisjoint(part) or isinstance(part.get("function_call"), dict):
        _read_wrapped_part(part, facts)


def _read_wrapped_part(part: dict[str, Any], facts: MessageFacts) -> None:
    """Parts that name their kind by a key: Bedrock, Gemini, Genkit."""
    for key, inner in part.items():
        if not isinstance(inner, dict):
            continue
        if key == "toolUse":
            _add_call(facts, inner.get("toolUseId"), inner.get("name"), inner.get("input"))
        elif key == "toolResult":
            failed = True if inner.get("status") == "error" else None
            _add_result(facts, inner.get("toolUseId"), inner.get("name"), inner.get("content"), failed)
        elif key in ("functionCall", "function_call"):
            _add_call(facts, inner.get("id"), inner.get("name"), inner.get("args"))
        elif key in ("functionResponse", "function_response"):
            _add_result(facts, inner.get("id"), inner.get("name"), inner.get("response"), None)
        elif key == "toolRequest":
            _add_call(facts, inner.get("ref"), inner.get("name"), inner.get("input"))
        elif key == "toolResponse":
            _add_result(facts, inner.get("ref"), inner.get("name"), inner.get("output"), None)


def _one_of(part: dict[str, Any], *keys: str) -> Any:
    return next((part[key] for key in keys if part.get(key) is not None), None)


def _add_call(facts: MessageFacts, call_id: Any, name: Any, arguments: Any) -> None:
    text = arguments if isinstance(arguments, str) else None if arguments is None else dump(arguments)
    facts.calls.append(Requested(utf8(as_text(call_id)), utf8(as_text(name)), utf8(text)))


def _add_result(facts: MessageFacts, call_id: Any, name: Any, content: Any, failed: bool | None) -> None:
    text = utf8(_result_text(content))
    facts.results.append(Responded(utf8(as_text(call_id)), utf8(as_text(name)), text, failed))


def _result_text(content: Any) -> str | None:
    """The text of a result: text blocks joined, anything else as JSON."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("value"), str):
        return content["value"]  # Vercel: {"type": "text", "value": …}
    text = block_text(content)
    return dump(content) if text is None else text
