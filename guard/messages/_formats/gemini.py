"""Gemini: `functionCall` parts of a model turn, `functionResponse` parts in the turn right behind it.

Calls mostly have no ids: responses go by position and name, and their number must be the same.
Both spellings are read, the API's camelCase and the SDK's snake_case.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .._model import Block, Call, Message, Other, Result
from ._base import (
    STUB_TEXT,
    Format,
    get,
    is_stub_result,
    merge,
    one_id,
    parts_of,
    plain,
    role_of,
    text_other,
    wire_text,
)

__all__ = ["Gemini"]

_ROLES = {"model": "assistant", "function": "user", "tool": "user", "": "user"}
_MEDIA = ("inlineData", "inline_data", "fileData", "file_data")
SNAKE = "function_call"  # `kind` of a call or result in the SDK's spelling


class Gemini(Format):
    name = "gemini"
    placement = "grouped"
    mixes = False
    positional = True
    wire_roles = frozenset({"", "user", "model", "function", "tool", "system"})
    name_limit = 128
    name_letters = "A-Za-z0-9_.:-"

    def read(self, raw: Any, index: int | None) -> Message:
        if type(raw) is str:  # the SDK takes plain text for a user's turn
            return Message("user", (text_other(raw, raw),), raw, index)
        role, parts = role_of(raw), get(raw, "parts")
        if parts is None and not role:  # a part on its own
            parts = raw
        if type(parts) is list and len(parts) == 1:
            blocks: tuple[Block, ...] = (_part(parts[0]),)
        else:
            blocks = tuple([_part(part) for part in ((parts,) if type(parts) is str else parts_of(parts))])
        return Message(_ROLES.get(role, role), blocks, raw, index, role)

    def stub(self, call: Call) -> Result:
        return Result(
            one_id(call.id), call.name, {"error": STUB_TEXT}, None, True, None, call.id, kind=call.kind
        )

    def result_messages(self, results: Sequence[Result]) -> list[Message]:
        return [Message("user", tuple(results), None, None, "user", changed=True)] if results else []

    def _written(self, message: Message) -> Any:
        raw = message.raw
        made: dict[str, Any] = {} if raw is None or type(raw) is str else plain(raw)
        if get(raw, "parts") is None:
            made = {}
        if message.wire_role or not made:
            made["role"] = message.wire_role or "user"
        made["parts"] = [_written(block) for block in message.blocks]
        return made


def _part(raw: Any) -> Block:
    if type(raw) is dict and len(raw) == 1 and type(text := raw.get("text")) is str:  # the usual one first
        return text_other(text, raw)
    inner, kind = get(raw, "functionCall"), ""
    if inner is None:
        inner, kind = get(raw, "function_call"), SNAKE
    if inner is not None:
        member = inner.get if type(inner) is dict else partial(get, inner)
        text, name, arguments = member("id"), wire_text(member("name")), member("args")
        return Call(one_id(text), name, arguments, raw, wire_text(text), False, kind)
    inner, kind = get(raw, "functionResponse"), ""
    if inner is None:
        inner, kind = get(raw, "function_response"), SNAKE
    if inner is not None:
        member = inner.get if type(inner) is dict else partial(get, inner)
        text, content, name = member("id"), member("response"), wire_text(member("name"))
        synthetic = is_stub_result(get(content, "error"))
        return Result(one_id(text), name, content, None, synthetic, raw, wire_text(text), False, kind)
    if type(raw) is str:
        return text_other(raw, raw)
    if get(raw, "thought") is True:
        return Other("reasoning", False, raw)
    signed = get(raw, "thoughtSignature") is not None or get(raw, "thought_signature") is not None
    text = get(raw, "text")
    if type(text) is str:
        block = text_other(text, raw)
        return Other("reasoning", False, raw) if signed and block.empty else block
    if any(get(raw, key) is not None for key in _MEDIA):
        return Other("media", False, raw)
    return Other("unknown", not raw, raw)


def _written(block: Block) -> Any:
    if isinstance(block, Call):
        return _inner(
            block, "functionCall", "function_call", {"name": block.name or "", "args": block.arguments}
        )
    if isinstance(block, Result):
        values = {"response": block.content} | ({} if block.name is None else {"name": block.name})
        return _inner(block, "functionResponse", "function_response", values)
    if block.kind == "text":
        if block.raw is None or type(block.raw) is str:
            return {"text": block.text or ""}
        return merge(block.raw, {"text": block.text})
    return block.raw


def _inner(block: Call | Result, camel: str, snake: str, values: dict[str, Any]) -> Any:
    key = snake if block.kind == SNAKE else camel
    inner = get(block.raw, key)
    changed = merge(inner, {"id": block.id} | values)
    return block.raw if block.raw is not None and changed is inner else merge(block.raw, {key: changed})
