"""Recorded messages as a format of the guard: natively where they stand in one, else as openai-chat.

What a recording does not hold is missing and never a fault: arguments, names and results that were
left out get a neutral value, and ids that were left out are reported (`Parts.without_ids`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from ...guard.messages._words import MessageFormat

__all__ = ["Parts", "Shape", "as_chat", "common_format", "fill_missing", "shape_of"]

Shape = Literal[
    "openai-chat", "openai-responses", "anthropic", "gemini", "bedrock-converse", "text", "foreign"
]
"""How one message was written down. text: reads the same in openai-chat, -responses and anthropic."""

NOT_RECORDED = "(not recorded)"
_MAX_PARTS = 10_000  # of one message
_MAX_DEPTH = 3  # of wrappers around a message

_CHAT_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_ROLES = {
    "human": "user", "ai": "assistant", "aimessagechunk": "assistant", "model": "assistant",
    "tool-call": "assistant", "tool-response": "user", "toolresult": "tool", "function": "tool",
}  # fmt: skip
_ITEMS = frozenset(
    {
        "reasoning", "item_reference", "compaction", "mcp_list_tools", "mcp_approval_request",
        "mcp_approval_response",
    }
)  # fmt: skip
_ITEM_ENDS = ("_call", "_call_output", "_search_output")
_ANTHROPIC = frozenset(
    {
        "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use",
        "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result", "mcp_tool_use",
        "mcp_tool_result", "document", "search_result", "container_upload",
    }
)  # fmt: skip
_ITEM_TEXT = frozenset({"input_text", "output_text", "input_image", "input_file"})
_CHAT_PARTS = frozenset({"text", "image_url", "input_audio", "file", "refusal"})
_BEDROCK_KEYS = frozenset(
    {
        "text", "toolUse", "toolResult", "image", "document", "video", "audio", "reasoningContent",
        "guardContent", "cachePoint", "citationsContent", "searchResult",
    }
)  # fmt: skip
_GEMINI_KEYS = frozenset(
    {
        "text", "functionCall", "function_call", "functionResponse", "function_response", "inlineData",
        "inline_data", "fileData", "file_data", "thought", "executableCode", "executable_code",
        "codeExecutionResult", "code_execution_result",
    }
)  # fmt: skip


def shape_of(message: Any) -> Shape:
    """The shape of one decoded message."""
    if not isinstance(message, dict):
        return "foreign"
    kind, role = _word(message.get("type")), message.get("role")
    if role is None and (kind in _ITEMS or (kind.endswith(_ITEM_ENDS) and kind != "tool_call")):
        return "openai-responses"
    if not isinstance(role, str) or "lc" in message:
        return "foreign"
    if kind == "message":
        return "openai-responses"
    content = message.get("content")
    if "parts" in message:
        parts = message["parts"]
        native = (
            content is None
            and role in ("user", "model", "function")
            and isinstance(parts, list)
            and bool(parts)
            and all(
                isinstance(part, dict) and "type" not in part and _GEMINI_KEYS & part.keys() for part in parts
            )
        )
        return "gemini" if native else "foreign"
    if role not in _CHAT_ROLES:
        return "foreign"
    if not _plain_calls(message):
        return "foreign"
    with_calls = "tool_calls" in message or "function_call" in message
    if isinstance(content, list):
        return _shape_of_parts(content, role, with_calls)
    if content is not None and not isinstance(content, str):
        return "foreign"
    return "openai-chat" if with_calls or role in ("tool", "function") else "text"


def _word(value: Any) -> str:
    """A type as it is compared with those we know; '' for none and for what is no text."""
    return value if isinstance(value, str) else ""


def _plain_calls(message: dict[str, Any]) -> bool:
    """Are its tool calls, if any, written as in openai-chat?"""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return True
    return all(
        isinstance(call, dict)
        and (isinstance(call.get("function"), dict) or isinstance(call.get("custom"), dict))
        for call in calls
    )


def _shape_of_parts(parts: list[Any], role: str, with_calls: bool) -> Shape:
    if not all(isinstance(part, dict) for part in parts):
        return "foreign"
    typed = [part for part in parts if "type" in part]
    kinds = {part["type"] for part in typed if isinstance(part["type"], str)}
    if not typed and parts:
        native = role in ("user", "assistant") and all(_BEDROCK_KEYS & part.keys() for part in parts)
        return "bedrock-converse" if native and not with_calls else "foreign"
    if len(typed) != len(parts):
        return "foreign"
    if kinds & _ANTHROPIC or kinds in ({"image"}, {"text", "image"}):
        return "anthropic" if role in ("user", "assistant") and not with_calls else "foreign"
    if kinds & _ITEM_TEXT:
        return (
            "openai-responses"
            if kinds <= _ITEM_TEXT | {"refusal", "input_audio"} and not with_calls
            else "foreign"
        )
    if not kinds <= _CHAT_PARTS:
        return "foreign"
    if with_calls or role in ("tool", "function") or kinds - {"text"}:
        return "openai-chat"
    return "text"


def common_format(shapes: set[Shape]) -> tuple[MessageFormat, bool]:
    """The format to read a history of these shapes in, and whether its messages stand in it already."""
    native = shapes - {"text"}
    if not native:
        return "openai-chat", True
    if len(native) == 1:
        (only,) = native
        if only in ("openai-chat", "openai-responses", "anthropic"):
            return only, True
        if only in ("gemini", "bedrock-converse") and "text" not in shapes:
            return only, True
    return "openai-chat", False


def fill_missing(message: dict[str, Any], form: MessageFormat) -> dict[str, Any]:
    """The message with a neutral value for arguments, names and results that were not recorded."""
    if form == "openai-responses":
        if message.get("type") == "function_call" and message.get("arguments") is None:
            return {**message, "arguments": "{}"}
        if message.get("type") == "function_call_output" and message.get("output") is None:
            return {**message, "output": NOT_RECORDED}
        return message
    if form != "openai-chat":
        return message
    if message.get("role") in ("tool", "function"):
        return {**message, "content": NOT_RECORDED} if message.get("content") is None else message
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    filled = message
    if calls and "content" not in message:
        filled = {**message, "content": ""}  # beside calls null and "" are told apart by some providers
    if any(_lacks(call) for call in calls):
        filled = {**filled, "tool_calls": [_filled(call) for call in calls]}
    return filled


def _lacks(call: dict[str, Any]) -> bool:
    function = call.get("function")
    return isinstance(function, dict) and (function.get("arguments") is None or function.get("name") is None)


def _filled(call: dict[str, Any]) -> dict[str, Any]:
    if not _lacks(call):
        return call
    function = dict(call["function"])
    if function.get("arguments") is None:
        function["arguments"] = "{}"
    if function.get("name") is None:
        function["name"] = "not_recorded"
    return {**call, "function": function}


@dataclass(slots=True)
class Parts:
    """What one message holds, whatever its shape."""

    role: str = ""
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)  # as openai-chat
    results: list[dict[str, Any]] = field(default_factory=list)  # messages as openai-chat
    media: int = 0  # parts that are no text
    empty_calls: bool = False  # `tool_calls: []`
    without_ids: int = 0  # calls and results whose id was not recorded
    item_ids: int = 0  # calls recorded under the id of their item (`fc_…`), which is not the one to answer
    silent: bool = False  # only a role was recorded: what was said or asked for is not known


def as_chat(message: Any) -> tuple[list[dict[str, Any]], Parts]:
    """One recorded message of any shape as openai-chat messages (a message of n results is n messages)."""
    parts = Parts()
    if isinstance(message, str):
        parts.texts.append(message)
    elif isinstance(message, dict):
        _read(message, parts, 0)
    else:
        parts.silent = True
    role = _role(parts)
    chat = list(parts.results)
    if role == "tool" and parts.results:
        role = "user"
    rest = parts.texts or parts.media or parts.calls or parts.reasoning
    if rest or not parts.results:
        text = "\n".join(parts.texts)
        said: dict[str, Any] = {"role": role, "content": text}
        if parts.media:
            said["content"] = [{"type": "text", "text": text}] if text else []
            said["content"] += [{"type": "file", "file": {"filename": NOT_RECORDED}}] * parts.media
        if parts.calls:
            said["tool_calls"] = parts.calls
        elif parts.empty_calls and role == "assistant" and not parts.silent:
            said["tool_calls"] = []
        if parts.reasoning and role == "assistant":
            said["reasoning_content"] = "\n".join(parts.reasoning)
        if role == "tool":  # a result whose text alone was recorded
            parts.without_ids += 1
        chat.append(said)
    return chat, parts


def _role(parts: Parts) -> str:
    role = _ROLES.get(parts.role.lower(), parts.role)
    if role in _CHAT_ROLES:
        return "assistant" if parts.calls else role
    return "assistant" if parts.calls else "tool" if parts.results else "user"


def _read(message: dict[str, Any], into: Parts, depth: int) -> None:
    if depth > _MAX_DEPTH:
        into.silent = True
        return None
    inner = message.get("message")
    if isinstance(inner, dict) and "role" not in message:  # a choice
        return _read(inner, into, depth + 1)
    if isinstance(message.get("kwargs"), dict) and message.get("lc") is not None:
        path = message.get("id")
        kind = path[-1] if isinstance(path, list) and path and isinstance(path[-1], str) else ""
        inner = message["kwargs"]
        named = (
            inner
            if "type" in inner or "role" in inner
            else {"type": kind.removesuffix("Message").lower(), **inner}
        )
        return _read(named, into, depth + 1)
    if isinstance(message.get("data"), dict) and isinstance(message.get("type"), str):
        return _read({"type": message["type"], **message["data"]}, into, depth + 1)
    kind, role = _word(message.get("type")), message.get("role")
    into.role = role if isinstance(role, str) else kind
    if role is None and (kind in _PART_CALLS or kind in _PART_RESULTS):
        into.role = ""
        _read_part(message, into, False)
        return None
    calls = message.get("tool_calls")
    if not calls and isinstance(message.get("additional_kwargs"), dict):
        calls = message["additional_kwargs"].get("tool_calls") or calls
    if isinstance(calls, list):
        # Native APIs write an empty list on purpose; LangChain's objects always hold one.
        into.empty_calls = not calls and "lc" not in message and isinstance(role, str)
        for call in calls[:_MAX_PARTS]:
            if isinstance(call, dict):
                _add_chat_call(call, into)
    content = message.get("content")
    if into.role.lower() in ("tool", "function", "toolresult") and not _holds_results(message):
        _add_result(into, message.get("tool_call_id", message.get("id")), content)
        return None
    before = (len(into.texts), len(into.calls), len(into.results), into.media, len(into.reasoning))
    _read_content(message.get("parts"), into, bool(into.calls))
    _read_content(content, into, bool(into.calls))
    after = (len(into.texts), len(into.calls), len(into.results), into.media, len(into.reasoning))
    nothing = before == after and not into.calls and not into.empty_calls
    into.silent = nothing and not (isinstance(content, list) and "parts" not in message)
    return None


def _read_content(content: Any, into: Parts, has_calls: bool) -> None:
    if isinstance(content, str):
        into.texts.append(content)
    elif isinstance(content, dict):
        _read_part(content, into, has_calls)
    elif isinstance(content, list):
        for part in content[:_MAX_PARTS]:
            if isinstance(part, str):
                into.texts.append(part)
            elif isinstance(part, dict):
                # LangChain lists a call among the blocks and again in `tool_calls`: it is one call.
                _read_part(part, into, has_calls)


_PART_CALLS = frozenset({"tool_call", "tool_use", "tool-call", "function_call"})
_PART_RESULTS = frozenset({"tool_call_response", "tool_result", "tool-result", "function_call_output"})
_WRAPPED_CALLS = {
    "toolUse": ("toolUseId", "input"), "functionCall": ("id", "args"), "function_call": ("id", "args"),
    "toolRequest": ("ref", "input"),
}  # fmt: skip
_WRAPPED_RESULTS = {
    "toolResult": ("toolUseId", "content"), "functionResponse": ("id", "response"),
    "function_response": ("id", "response"), "toolResponse": ("ref", "output"),
}  # fmt: skip
_REASONING = frozenset({"reasoning", "thinking", "redacted_thinking"})


def _holds_results(message: dict[str, Any]) -> bool:
    for name in ("parts", "content"):
        parts = message.get(name)
        if isinstance(parts, list) and any(
            isinstance(part, dict)
            and (_word(part.get("type")) in _PART_RESULTS or not _WRAPPED_RESULTS.keys().isdisjoint(part))
            for part in parts[:_MAX_PARTS]
        ):
            return True
    return False


def _read_part(part: dict[str, Any], into: Parts, has_calls: bool) -> None:
    kind = _word(part.get("type"))
    if kind in _PART_CALLS:
        if not has_calls:
            arguments = _first(part, "arguments", "input", "args")
            _add_call(
                into,
                _first(part, "call_id", "toolCallId", "id"),
                part.get("name") or part.get("toolName"),
                arguments,
            )
        return
    if kind in _PART_RESULTS:
        call_id = _first(part, "tool_use_id", "tool_call_id", "call_id", "toolCallId", "id")
        _add_result(into, call_id, _first(part, "response", "result", "output", "content"))
        return
    for key, (id_key, value_key) in _WRAPPED_CALLS.items():
        inner = part.get(key)
        if isinstance(inner, dict):
            if not has_calls:
                _add_call(into, inner.get(id_key), inner.get("name"), inner.get(value_key))
            return
    for key, (id_key, value_key) in _WRAPPED_RESULTS.items():
        inner = part.get(key)
        if isinstance(inner, dict):
            _add_result(into, inner.get(id_key), inner.get(value_key))
            return
    text = _first(part, "text", "content", "thinking", "reasoning")
    if kind in _REASONING or part.get("thought") is True or "reasoningContent" in part:
        into.reasoning.append(text if isinstance(text, str) else NOT_RECORDED)
    elif isinstance(text, str) and kind in ("", "text", "input_text", "output_text", "refusal"):
        into.texts.append(text)
    elif kind in ("text", "input_text", "output_text"):
        pass  # its text was not recorded
    else:
        into.media += 1


def _first(part: dict[str, Any], *keys: str) -> Any:
    return next((part[key] for key in keys if part.get(key) is not None), None)


def _add_chat_call(call: dict[str, Any], into: Parts) -> None:
    inner = call.get("tool_call")
    if isinstance(inner, dict):
        call = inner
    function = call.get("function")
    source = function if isinstance(function, dict) else call
    _add_call(into, _first(call, "id", "call_id"), source.get("name"), _first(source, "arguments", "args"))


def _add_call(into: Parts, call_id: Any, name: Any, arguments: Any) -> None:
    if not isinstance(arguments, str):
        arguments = "{}" if arguments is None else _dump(arguments)
    call: dict[str, Any] = {
        "type": "function",
        "function": {
            "name": name if isinstance(name, str) and name else "not_recorded",
            "arguments": arguments,
        },
    }
    if call_id is None:
        into.without_ids += 1
    else:
        call["id"] = call_id if isinstance(call_id, str) else str(call_id)
        into.item_ids += call["id"].startswith("fc_")
    into.calls.append(call)


def _add_result(into: Parts, call_id: Any, content: Any) -> None:
    # Not the name: recorders write down names of their own there.
    result: dict[str, Any] = {"role": "tool", "content": _result_text(content)}
    if call_id is None:
        into.without_ids += 1
    else:
        result["tool_call_id"] = call_id if isinstance(call_id, str) else str(call_id)
    into.results.append(result)


def _result_text(content: Any) -> str:
    """The text of a result: text blocks joined, anything else as JSON."""
    if content is None:
        return NOT_RECORDED
    if isinstance(content, str):
        return content
    if isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("value"), str):
        return content["value"]  # Vercel: {"type": "text", "value": …}
    if (
        isinstance(content, list)
        and content
        and all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content)
    ):
        return "\n".join(part["text"] for part in content)
    return _dump(content)


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return NOT_RECORDED
