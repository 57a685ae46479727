"""Anthropic messages: `tool_use` blocks, and `tool_result` blocks in the user message behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .._model import Block, Call, Message, Other, Result
from ._base import (
    STUB_TEXT,
    Format,
    get,
    is_stub_content,
    merge,
    one_id,
    parts_of,
    plain,
    role_of,
    text_other,
    wire_text,
)

__all__ = ["Anthropic"]


class Anthropic(Format):
    name = "anthropic"
    placement = "grouped"
    results_first = True
    wire_roles = frozenset({"user", "assistant", "system", "developer"})
    name_limit = 128

    def read(self, raw: Any, index: int | None) -> Message:
        role, content = role_of(raw), get(raw, "content")
        if type(content) is str:
            return Message(role, (text_other(content, content),), raw, index, role)
        if type(content) is list and len(content) == 1:
            return Message(role, (_block(content[0]),), raw, index, role)
        return Message(role, tuple([_block(part) for part in parts_of(content)]), raw, index, role)

    def stub(self, call: Call) -> Result:
        return Result(one_id(call.id), call.name, STUB_TEXT, True, True, None, call.id)

    def result_messages(self, results: Sequence[Result]) -> list[Message]:
        return [Message("user", tuple(results), None, None, "user", changed=True)] if results else []

    def _written(self, message: Message) -> Any:
        # A whole answer of the SDK carries ids and usage, which no request may hold.
        made: dict[str, Any] = plain(message.raw) if isinstance(message.raw, Mapping) else {}
        made["role"] = message.wire_role
        blocks = message.blocks
        if len(blocks) == 1 and isinstance(blocks[0], Other) and type(blocks[0].raw) is str:
            made["content"] = blocks[0].text
        else:
            made["content"] = [_written(block) for block in blocks]
        return made


def _block(raw: Any) -> Block:
    member = raw.get if type(raw) is dict else partial(get, raw)
    kind = member("type")
    if not isinstance(kind, str):
        return text_other(raw, raw) if type(raw) is str else Other("unknown", raw is None, raw)
    if kind == "text":
        return text_other(member("text"), raw)
    if kind == "tool_use":
        text = member("id")
        return Call(one_id(text), wire_text(member("name")), member("input"), raw, wire_text(text))
    if kind == "tool_result":
        text, content, failed = member("tool_use_id"), member("content"), member("is_error")
        return Result(one_id(text), None, content, failed, is_stub_content(content), raw, wire_text(text))
    if kind in ("thinking", "redacted_thinking"):
        return Other("reasoning", False, raw)
    if kind in ("server_tool_use", "mcp_tool_use"):
        text = get(raw, "id")
        return Call(
            one_id(text), wire_text(get(raw, "name")), get(raw, "input"), raw, wire_text(text), True, kind
        )
    if kind.endswith("_tool_result"):
        text = get(raw, "tool_use_id")
        return Result(one_id(text), None, get(raw, "content"), None, False, raw, wire_text(text), True, kind)
    return Other("media" if kind in ("image", "document") else "unknown", False, raw)


def _written(block: Block) -> Any:
    if isinstance(block, Call):
        if block.server:
            return block.raw
        fixed = {} if block.raw is not None else {"type": "tool_use"}
        return merge(block.raw, fixed | {"id": block.id, "name": block.name or "", "input": block.arguments})
    if isinstance(block, Result):
        if block.server:
            return block.raw
        fixed = {} if block.raw is not None else {"type": "tool_result"}
        return merge(
            block.raw,
            fixed | {"tool_use_id": block.id, "content": block.content, "is_error": block.failed},
        )
    if block.kind == "text":
        if block.raw is None or type(block.raw) is str:
            return {"type": "text", "text": block.text or ""}
        return merge(block.raw, {"text": block.text})
    return block.raw
