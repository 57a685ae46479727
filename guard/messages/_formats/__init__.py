"""The message formats, each in a module of its own, and which one a history is in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from .._words import FORMATS, MessageFormat
from ._base import STUB_MARKER, Format, get, is_stub_result
from .anthropic import Anthropic
from .bedrock_converse import BedrockConverse
from .gemini import Gemini
from .openai_chat import OpenAIChat
from .openai_responses import CALL_TYPES, OpenAIResponses

__all__ = ["STUB_MARKER", "Format", "detect_format", "format_of", "is_stub_result"]

_BY_NAME: dict[str, Format] = {
    one.name: one for one in (OpenAIChat(), OpenAIResponses(), Anthropic(), Gemini(), BedrockConverse())
}


def format_of(name: MessageFormat | str) -> Format:
    """The format of this name. ValueError for a name that is none."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise ValueError(f"unknown message format {name!r}; known are {', '.join(FORMATS)}") from None


_CHAT_ROLES = frozenset({"tool", "function"})
_CHAT_PARTS = frozenset({"image_url", "input_audio", "file"})
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})
_ANTHROPIC_PARTS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "image", "document"}
)
_BEDROCK_PARTS = (
    "toolUse",
    "toolResult",
    "reasoningContent",
    "cachePoint",
    "guardContent",
    "image",
    "document",
    "video",
)
_NO_MESSAGE = frozenset({"", "message"})


def detect_format(messages: Iterable[Any]) -> MessageFormat:
    """The format of a history; `openai-chat` where nothing in it tells (plain texts are the same in most)."""
    guess: MessageFormat | None = None
    for raw in messages:
        found = _told_by(raw)
        if found is None:
            continue
        if not found.endswith("?"):
            return cast(MessageFormat, found)
        guess = guess or cast(MessageFormat, found[:-1])
    return guess or "openai-chat"


def _told_by(raw: Any) -> str | None:
    """The format one message is in; with "?" where a later message may know better."""
    kind = get(raw, "type")
    if isinstance(kind, str) and kind not in _NO_MESSAGE:
        # Anthropic's SDK gives a whole answer as an object of type "message"; any other type is an item.
        if (
            kind in CALL_TYPES
            or kind.endswith(("_call", "_output"))
            or kind in ("reasoning", "item_reference")
        ):
            return "openai-responses"
        return "openai-responses?"
    if get(raw, "parts") is not None:
        return "gemini"
    role = get(raw, "role")
    if not isinstance(role, str):
        role = ""
    if role in _CHAT_ROLES or get(raw, "tool_calls") or get(raw, "function_call"):
        return "openai-chat"
    content = get(raw, "content")
    if role == "model":
        return "gemini"
    return _told_by_parts(content) if isinstance(content, Sequence) and not isinstance(content, str) else None


def _told_by_parts(content: Sequence[Any]) -> str | None:
    guess = None
    for part in content[:50]:
        kind = get(part, "type")
        if not isinstance(kind, str):
            if any(get(part, key) is not None for key in _BEDROCK_PARTS):
                return "bedrock-converse"
            if type(get(part, "text")) is str:
                guess = guess or "bedrock-converse?"
        elif kind in _RESPONSES_PARTS:
            return "openai-responses"
        elif kind in _ANTHROPIC_PARTS or kind.endswith("_tool_result"):
            return "anthropic"
        elif kind in _CHAT_PARTS:
            guess = guess or "openai-chat?"
    return guess
