"""Bedrock Converse: `toolUse` blocks, and `toolResult` blocks in the user message behind them."""

from __future__ import annotations

from collections.abc import Sequence
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
    same,
    text_other,
    wire_text,
)

__all__ = ["BedrockConverse"]

_MEDIA = ("image", "document", "video", "audio")


class BedrockConverse(Format):
    name = "bedrock-converse"
    placement = "grouped"
    wire_roles = frozenset({"user", "assistant", "system", "developer"})

    def read(self, raw: Any, index: int | None) -> Message:
        role, content = role_of(raw), get(raw, "content")
        if type(content) is str:
            return Message(role, (text_other(content, content),), raw, index, role)
        # A tool that the provider runs has its call and its result in one assistant message.
        of_assistant = role == "assistant"
        if type(content) is list and len(content) == 1:
            return Message(role, (_block(content[0], of_assistant),), raw, index, role)
        blocks = tuple([_block(part, of_assistant) for part in parts_of(content)])
        return Message(role, blocks, raw, index, role)

    def stub(self, call: Call) -> Result:
        return Result(one_id(call.id), call.name, [{"text": STUB_TEXT}], True, True, None, call.id)

    def result_messages(self, results: Sequence[Result]) -> list[Message]:
        return [Message("user", tuple(results), None, None, "user", changed=True)] if results else []

    def _written(self, message: Message) -> Any:
        made: dict[str, Any] = {} if message.raw is None else plain(message.raw)
        made["role"] = message.wire_role
        made["content"] = [_written(block) for block in message.blocks]
        return made


def _block(raw: Any, of_assistant: bool) -> Block:
    if type(raw) is dict and type(text := raw.get("text")) is str:  # the usual one first
        return text_other(text, raw)
    inner = get(raw, "toolUse")
    if inner is not None:
        member = inner.get if type(inner) is dict else partial(get, inner)
        text, server = member("toolUseId"), member("type") == "server_tool_use"
        name, arguments = wire_text(member("name")), member("input")
        return Call(one_id(text), name, arguments, raw, wire_text(text), server)
    inner = get(raw, "toolResult")
    if inner is not None:
        member = inner.get if type(inner) is dict else partial(get, inner)
        text, content, status = member("toolUseId"), member("content"), member("status")
        failed = None if status is None else same(status, "error")
        server = of_assistant and member("type") is not None
        return Result(
            one_id(text), None, content, failed, is_stub_content(content), raw, wire_text(text), server
        )
    text = raw if type(raw) is str else get(raw, "text")
    if type(text) is str:
        return text_other(text, raw)
    if get(raw, "reasoningContent") is not None:
        return Other("reasoning", False, raw)
    if any(get(raw, key) is not None for key in _MEDIA):
        return Other("media", False, raw)
    return Other("unknown", not raw, raw)


def _written(block: Block) -> Any:
    if isinstance(block, Call):
        inner = get(block.raw, "toolUse")
        changed = merge(inner, {"toolUseId": block.id, "name": block.name or "", "input": block.arguments})
        return (
            block.raw
            if block.raw is not None and changed is inner
            else merge(block.raw, {"toolUse": changed})
        )
    if isinstance(block, Result):
        inner = get(block.raw, "toolResult")
        values: dict[str, Any] = {"toolUseId": block.id, "content": block.content}
        status = get(inner, "status")
        if block.failed is not None and block.failed != same(status, "error"):
            values["status"] = "error" if block.failed else "success"
        changed = merge(inner, values)
        return (
            block.raw
            if block.raw is not None and changed is inner
            else merge(block.raw, {"toolResult": changed})
        )
    if block.kind == "text":
        if block.raw is None or type(block.raw) is str:
            return {"text": block.text or ""}
        return merge(block.raw, {"text": block.text})
    return block.raw
