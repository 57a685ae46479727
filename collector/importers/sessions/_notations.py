"""How the Anthropic Messages API and the OpenAI Responses API write a conversation."""

from __future__ import annotations

import json
from typing import Any

from .._pairing import as_text
from ._blocks import (
    anthropic_parts,
    arguments_text,
    call_part,
    count,
    inner,
    items_text,
    kind_of,
    reasoning_parts,
    responses_parts,
    result_part,
    text_of,
    total,
)
from ._exchanges import Asked, Exchange, envelope
from ._model import Usage

__all__ = ["ANTHROPIC", "RESPONSES", "tells_anthropic", "tells_other", "tells_responses"]

_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})
_MARKS = ("anthropic_version", "anthropic-version", "anthropic_beta", "anthropic-beta")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_MODEL_ITEMS = frozenset(
    {
        "reasoning", "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
        "computer_call", "mcp_call", "mcp_list_tools",
    }
) | set(_CALLS)  # fmt: skip
_TEXTS = frozenset({"input_text", "output_text", "input_image", "input_file", "refusal"})


def _body(value: Any) -> Any:
    """A request or response, out of what a proxy keeps around it; JSON in a text is read."""
    for _ in range(3):
        if isinstance(value, str) and value.lstrip()[:1] == "{":
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None
        elif isinstance(value, dict) and isinstance(value.get("body"), dict | str):
            value = value["body"]
        else:
            break
    return value


def _pair(value: dict[str, Any]) -> tuple[Any, Any]:
    """Request and response of an entry of a log."""
    return _body(value.get("request")), _body(value.get("response"))


def _error(response: Any) -> tuple[str, str | None] | None:
    """The text of an error that came back, and its type."""
    found = response.get("error") if isinstance(response, dict) else None
    if isinstance(found, str) and found:
        return found, None
    if not isinstance(found, dict):
        return None
    return json.dumps(response, ensure_ascii=False), text_of(kind_of(found)) or text_of(found.get("code"))


# -- Anthropic ------------------------------------------------------------------------------------------


def _messages(value: Any) -> list[dict[str, Any]] | None:
    if not isinstance(value, list):
        return None
    good = all(
        isinstance(message, dict) and message.get("role") in ("user", "assistant") for message in value
    )
    return value if good else None


def tells_anthropic(message: Any) -> bool:
    """Whether a message can only be Anthropic's."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or tells_other(message):
        return False
    return any(isinstance(block, dict) and kind_of(block) in _BLOCKS for block in content)


def tells_other(message: Any) -> bool:
    """Whether a message can only be one of OpenAI's chat."""
    return isinstance(message, dict) and (
        message.get("role") in ("tool", "function") or "tool_calls" in message or "function_call" in message
    )


def _is_response(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and kind_of(value) == "message"
        and value.get("role") == "assistant"
        and isinstance(value.get("content"), list)
        and ("stop_reason" in value or "usage" in value)
    )


class _Anthropic:
    name = "anthropic"
    provider = "anthropic"

    def matches(self, value: Any) -> bool:
        """Whether the first value of a file is of this format. Messages without blocks are anybody's."""
        if isinstance(value, list):
            return _messages(value) is not None and any(map(tells_anthropic, value))
        if not isinstance(value, dict):
            return False
        request, response = _pair(value)
        if isinstance(request, dict) and _messages(request.get("messages")) is not None:
            failed = isinstance(response, dict) and kind_of(response) == "error"
            return _is_response(response) or failed or self.matches(request)
        if _is_response(value) or tells_anthropic(value):
            return True
        messages = _messages(value.get("messages"))
        if messages is None:
            return False
        if any(key in value for key in _MARKS) or ("system" in value and "max_tokens" in value):
            return True
        return any(map(tells_anthropic, messages))

    def is_item(self, value: Any) -> bool:
        return (
            isinstance(value, dict)
            and value.get("role") in ("user", "assistant", "system")
            and "content" in value
            and not _is_response(value)
        )

    def read(self, value: Any) -> Exchange | None:
        if isinstance(value, list):
            value = {"messages": value}
        if not isinstance(value, dict):
            return None
        request, response = _pair(value)
        if not isinstance(request, dict):
            request = value if "messages" in value else {}
        if _is_response(value):
            response = value
        messages = _messages(request.get("messages", []))
        if messages is None or (not request and not isinstance(response, dict)):
            return None
        exchange = envelope(value, request, response)
        exchange.items = messages
        system = request.get("system")
        if system:
            exchange.items = [{"role": "system", "content": system}, *messages]
        if _is_response(response):
            usage = inner(response, "usage")
            read, written = (count(usage.get(f"cache_{kind}_input_tokens")) for kind in ("read", "creation"))
            exchange.answer = [{"role": "assistant", "content": response["content"]}]
            exchange.usage = Usage(
                total(count(usage.get("input_tokens")), read, written),
                count(usage.get("output_tokens")),
                read,
                written,
            )
            exchange.response_id = text_of(response.get("id"))
            if exchange.session_id == exchange.response_id:
                exchange.session_id = None
        elif (failed := _error(response) or (_error(value) if "request" in value else None)) is not None:
            exchange.refused = failed[0]
            exchange.error_type = text_of(inner(response, "error").get("type")) or failed[1]
        return exchange

    def is_answer(self, item: dict[str, Any]) -> bool:
        return item.get("role") == "assistant"

    def grouped(self) -> bool:
        return False

    def normal(self, item: dict[str, Any]) -> Any:
        kept = []
        content = item.get("content")
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if isinstance(block, dict) and kind_of(block) not in ("thinking", "redacted_thinking"):
                keys = ("type", "text", "id", "name", "input", "tool_use_id", "content", "is_error")
                kept.append({key: block[key] for key in keys if block.get(key) is not None})
        return [item.get("role"), kept]

    def parts(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        return anthropic_parts(item.get("content"))

    def role(self, item: dict[str, Any]) -> str:
        return str(item.get("role"))

    def calls(self, item: dict[str, Any]) -> list[Asked]:
        content = item.get("content") if item.get("role") == "assistant" else None
        return [
            Asked(text_of(block.get("id")), text_of(block.get("name")), arguments_text(block.get("input")))
            for block in (content if isinstance(content, list) else ())
            if isinstance(block, dict) and kind_of(block) == "tool_use"
        ]

    def results(self, item: dict[str, Any]) -> list[tuple[str | None, str | None, bool | None]]:
        content = item.get("content")
        return [
            (
                text_of(block.get("tool_use_id")),
                items_text(block.get("content")),
                block.get("is_error") is True,
            )
            for block in (content if isinstance(content, list) else ())
            if isinstance(block, dict) and kind_of(block) == "tool_result"
        ]

    def result_part(self, call_id: str | None, text: str | None) -> dict[str, Any]:
        return result_part(call_id, text)


# -- OpenAI Responses -----------------------------------------------------------------------------------


def tells_responses(item: Any) -> bool:
    """Whether a value can only be an item of the Responses API."""
    if not isinstance(item, dict):
        return False
    kind = kind_of(item)
    if kind in _CALLS or kind in _OUTPUTS:
        return "call_id" in item
    if kind == "reasoning":
        return "summary" in item or "encrypted_content" in item
    content = item.get("content")
    return isinstance(content, list) and any(
        isinstance(part, dict) and kind_of(part) in _TEXTS for part in content
    )


def _items(value: Any) -> list[dict[str, Any]] | None:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list):
        return None
    good = all(isinstance(item, dict) and ("role" in item or "type" in item) for item in value)
    return value if good else None


def _is_object(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("object") == "response"
        and isinstance(value.get("output"), list)
    )


class _Responses:
    name = "openai-responses"
    provider = "openai"

    def matches(self, value: Any) -> bool:
        """Whether the first value of a file is of this format."""
        if isinstance(value, list):
            return _items(value) is not None and any(map(tells_responses, value))
        if not isinstance(value, dict):
            return False
        request, response = _pair(value)
        if _is_object(value) or _is_object(response) or tells_responses(value):
            return True
        if isinstance(request, dict) and "response" in value and _items(request.get("input")) is not None:
            return _error(response) is not None or _error(value) is not None
        for key in ("input", "output", "items"):
            found = value.get(key)
            if isinstance(found, list) and _items(found) is not None and any(map(tells_responses, found)):
                return True
        return False

    def is_item(self, value: Any) -> bool:
        if not isinstance(value, dict) or _is_object(value):
            return False
        return (
            tells_responses(value)
            or ("role" in value and "content" in value)
            or kind_of(value) in _MODEL_ITEMS
        )

    def read(self, value: Any) -> Exchange | None:
        if isinstance(value, list):
            value = {"input": value}
        if not isinstance(value, dict):
            return None
        request, response = _pair(value)
        if _is_object(value):
            request, response = {}, value
        elif not isinstance(request, dict):
            request = value
        items = _items(request.get("input", request.get("items", [])))
        if items is None:
            return None
        exchange = envelope(value, request, response)
        system = request.get("instructions")
        exchange.items = [{"role": "system", "content": system}, *items] if system else items
        # With `previous_response_id` the items before are the provider's to know.
        for holder in (request, response if isinstance(response, dict) else {}):
            exchange.previous_id = exchange.previous_id or text_of(holder.get("previous_response_id"))
        if (
            isinstance(response, dict)
            and isinstance(response.get("output"), list)
            and not response.get("error")
        ):
            exchange.answer = [item for item in response["output"] if isinstance(item, dict)]
            usage = inner(response, "usage")
            exchange.usage = Usage(
                count(usage.get("input_tokens")),
                count(usage.get("output_tokens")),
                count(inner(usage, "input_tokens_details").get("cached_tokens")),
            )
            exchange.response_id = text_of(response.get("id"))
            if exchange.session_id == exchange.response_id:
                exchange.session_id = None
        elif isinstance(output := request.get("output"), list) and response is None:
            exchange.items = [*exchange.items, *(item for item in output if isinstance(item, dict))]
        elif (failed := _error(response) or (_error(value) if "request" in value else None)) is not None:
            exchange.refused, exchange.error_type = failed
        return exchange

    def is_answer(self, item: dict[str, Any]) -> bool:
        return item.get("role") == "assistant" or kind_of(item) in _MODEL_ITEMS

    def grouped(self) -> bool:
        return True

    def normal(self, item: dict[str, Any]) -> Any:
        kind = kind_of(item) or "message"
        if kind == "reasoning":
            return [kind]
        keys = ("role", "call_id", "name", "arguments", "input", "action", "output")
        kept = {key: item[key] for key in keys if item.get(key) is not None}
        return [kind, kept, as_text(responses_parts(item.get("content")))]

    def parts(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        kind = kind_of(item)
        if kind in _CALLS:
            call_id = item.get("call_id") or item.get("id")
            return [call_part(call_id, _tool_name(item), item.get(_CALLS[kind]))]
        if kind in _OUTPUTS:
            return []
        if kind == "reasoning":
            return reasoning_parts(item)
        if kind in _MODEL_ITEMS:
            return [item]
        return responses_parts(item.get("content"))

    def role(self, item: dict[str, Any]) -> str:
        role = item.get("role")
        return "system" if role in ("system", "developer") else str(role or "user")

    def calls(self, item: dict[str, Any]) -> list[Asked]:
        kind = kind_of(item)
        if kind not in _CALLS:
            return []
        call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
        return [Asked(call_id, _tool_name(item), arguments_text(item.get(_CALLS[kind])))]

    def results(self, item: dict[str, Any]) -> list[tuple[str | None, str | None, bool | None]]:
        if kind_of(item) not in _OUTPUTS:
            return []
        failed = True if item.get("status") == "failed" else None  # the format itself has no flag
        return [
            (text_of(item.get("call_id")) or text_of(item.get("id")), items_text(item.get("output")), failed)
        ]

    def result_part(self, call_id: str | None, text: str | None) -> dict[str, Any]:
        return result_part(call_id, text)


def _tool_name(item: dict[str, Any]) -> str | None:
    own = "local_shell" if kind_of(item) == "local_shell_call" else None
    return text_of(item.get("name")) or own


ANTHROPIC = _Anthropic()
RESPONSES = _Responses()
