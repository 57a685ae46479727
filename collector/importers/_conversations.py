"""Conversations as requests, and what the readers of trajectories share in making them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ._otlp import Part, parts_of_request
from ._report import SkipList
from ._transcript import Conversation, content_digest, conversation_spans

__all__ = ["call", "conversation_parts", "fact", "text_of_parts"]


def conversation_parts(conversations: Iterable[Conversation], skipped: SkipList) -> Iterator[Part]:
    """Requests of each conversation. Equal ones of one file are different runs."""
    equal: Counter[bytes] = Counter()
    for conversation in conversations:
        digest = content_digest(conversation)
        data = conversation_spans(conversation, digest, equal[digest], skipped)
        equal[digest] += 1
        yield from parts_of_request("traces", data)


def call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A requested call as OpenAI's chats have it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def fact(conversation: Conversation, name: str, value: Any) -> None:
    """A fact of the source, for the root span; anything but a bare value is left out."""
    if isinstance(value, str):
        value = value[:1000]
    if isinstance(value, str | bool | float) or (isinstance(value, int) and abs(value) < 1 << 62):
        conversation.source[f"loopscope.source.{name}"] = value


def text_of_parts(content: Any) -> str | None:
    """Text, or a list of text parts joined; None if there is no text in it."""
    if isinstance(content, str) or content is None:
        return content
    parts = content if isinstance(content, list) else [content]
    texts: list[str] = [p["text"] for p in parts if isinstance(p, dict) and isinstance(p.get("text"), str)]
    return "\n".join(texts) if texts else None
