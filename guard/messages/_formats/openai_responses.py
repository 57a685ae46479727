"""OpenAI responses: a flat list of items, calls and their outputs among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._model import Block, Call, Message, Other, Result
from ._base import (
    STUB_TEXT,
    Format,
    get,
    id_variants,
    is_stub_content,
    merge,
    one_id,
    parts_of,
    plain,
    role_word,
    text_other,
    wire_text,
)

__all__ = ["OpenAIResponses"]

# Type of a call item: (key of its arguments, key of its result). All have `<type>_output` for a result.
CALL_TYPES = {
    "function_call": ("arguments", "output"),
    "custom_tool_call": ("input", "output"),
    "local_shell_call": ("action", "output"),
    "shell_call": ("action", "output"),
    "apply_patch_call": ("operation", "output"),
    "computer_call": ("action", "output"),
    "tool_search_call": ("arguments", "tools"),
}
_OUTPUT_TYPES = {
    "tool_search_output" if kind == "tool_search_call" else f"{kind}_output": kind for kind in CALL_TYPES
}
_OUTPUT_OF = {kind: output for output, kind in _OUTPUT_TYPES.items()}
# Kinds of results that may answer a kind of call; a call of any other kind only by its own output.
_ANSWERS = {"local_shell_call": ("local_shell_call", "")}
_NAMED = frozenset({"function_call", "custom_tool_call"})
_TEXT_PARTS = frozenset({"input_text", "output_text", "text", "refusal"})
_ROLES = {"developer": "system"}


class OpenAIResponses(Format):
    name = "openai-responses"
    placement = "anywhere"
    unique_items = True
    # Items that are no messages have no role.
    wire_roles = frozenset({"", "system", "developer", "user", "assistant"})

    def read(self, raw: Any, index: int | None) -> Message:
        is_dict = type(raw) is dict
        kind = raw.get("type") if is_dict else get(raw, "type")
        if not isinstance(kind, str):
            kind = ""
        if kind in CALL_TYPES:
            return Message("assistant", (_call(raw, kind),), raw, index)
        if kind in _OUTPUT_TYPES:
            return Message("tool", (_result(raw, _OUTPUT_TYPES[kind]),), raw, index)
        role = raw.get("role") if is_dict else get(raw, "role")
        if kind in ("", "message") and role is not None:
            role = role_word(role)
            content = raw.get("content") if is_dict else get(raw, "content")
            if type(content) is str:
                blocks: tuple[Block, ...] = (text_other(content, content),)
            else:
                blocks = tuple(_part(part) for part in parts_of(content))
            return Message(_ROLES.get(role, role), blocks, raw, index, role)
        if kind == "reasoning":
            return Message("assistant", (Other("reasoning", False, raw),), raw, index)
        if kind == "item_reference" or (not kind and isinstance(get(raw, "id"), str)):
            return Message("reference", (Other("reference", False, raw),), raw, index)
        if not kind or kind == "message":
            return Message("unknown", (Other("unknown", False, raw),), raw, index, "unknown")
        # What the provider itself does: web_search_call, mcp_call, image_generation_call, …; or asks for.
        role = "assistant" if kind.endswith("_call") or kind == "mcp_approval_request" else "item"
        return Message(role, (Other("unknown", False, raw),), raw, index)

    def stub(self, call: Call) -> Result:
        content: Any = STUB_TEXT
        if call.kind == "shell_call":
            content = [{"stdout": "", "stderr": STUB_TEXT, "outcome": {"type": "timeout"}}]
        elif call.kind == "tool_search_call":
            content = []
        failed = True if call.kind == "apply_patch_call" else None
        return Result(one_id(call.id), call.name, content, failed, True, None, call.id, kind=call.kind)

    def call_keys(self, call: Call) -> list[tuple[str, str]]:
        if not call.kind:
            return [(one, one) for one in call.ids]
        return [(one, _key(kind, one)) for one in call.ids for kind in self.call_kinds(call)]

    def result_keys(self, result: Result) -> list[tuple[str, str]]:
        return [(one, _key(result.kind, one)) for one in result.ids]

    def call_kinds(self, call: Call) -> tuple[str, ...]:
        return _ANSWERS.get(call.kind) or (call.kind,)

    def has_name(self, call: Call) -> bool:
        return (call.kind or "function_call") in _NAMED

    def can_stub(self, call: Call) -> bool:
        """The result of a `computer_call` is a screenshot, and there is none to give."""
        return call.kind != "computer_call"

    def result_messages(self, results: Sequence[Result]) -> list[Message]:
        return [Message("tool", (result,), None, None, changed=True) for result in results]

    def item_id(self, message: Message) -> str | None:
        if message.role != "assistant" or message.raw is None:
            return None
        text = get(message.raw, "id")
        return text.strip() or None if isinstance(text, str) else None

    def _written(self, message: Message) -> Any:
        block = message.blocks[0] if message.blocks else None
        if isinstance(block, Call):
            arguments, _ = CALL_TYPES[block.kind or "function_call"]
            changes = {"call_id": block.id, arguments: block.arguments}
            if (block.kind or "function_call") in _NAMED:
                changes["name"] = block.name or ""
            if block.raw is None:
                changes["type"] = block.kind or "function_call"
            elif not one_id(get(block.raw, "call_id")) and block.id == wire_text(get(block.raw, "id")):
                del changes["call_id"]
            return merge(message.raw, changes)
        if isinstance(block, Result):
            return _written_result(block, message.raw)
        if not message.wire_role:
            return message.raw
        made: dict[str, Any] = {} if message.raw is None else plain(message.raw)
        made["role"] = message.wire_role
        if len(message.blocks) == 1 and isinstance(block, Other) and type(block.raw) is str:
            made["content"] = block.text
        elif not isinstance(get(message.raw, "content"), (list, tuple)) and isinstance(block, Other):
            made["content"] = "\n".join(one.text or "" for one in message.blocks if isinstance(one, Other))
        else:
            made["content"] = [_written_part(one, message.role) for one in message.blocks]
        return made


def _key(kind: str, one: str) -> str:
    return f"{kind}\0{one}" if kind else one


def _call(raw: Any, kind: str) -> Call:
    arguments_key, _ = CALL_TYPES[kind]
    text, item = get(raw, "call_id"), get(raw, "id")
    ids = id_variants(text, item)
    if not one_id(text):
        text = item
    # A tool search that the provider runs may come without its output.
    server = kind == "tool_search_call" and get(raw, "execution") != "client"
    return Call(
        ids,
        wire_text(get(raw, "name")) if kind in _NAMED else None,
        get(raw, arguments_key),
        raw,
        wire_text(text),
        server,
        "" if kind == "function_call" else kind,
    )


def _result(raw: Any, kind: str) -> Result:
    text = get(raw, "call_id")
    if text is None and kind == "local_shell_call":
        text = get(raw, "id")
    content = get(raw, CALL_TYPES[kind][1])
    failed = True if kind == "apply_patch_call" and get(raw, "status") == "failed" else None
    synthetic = is_stub_content(content)
    if kind == "shell_call" and isinstance(content, list) and content:
        synthetic = is_stub_content(get(content[0], "stderr"))
    server = kind == "tool_search_call" and get(raw, "execution") != "client"
    return Result(
        one_id(text),
        None,
        content,
        failed,
        synthetic,
        raw,
        wire_text(text),
        server,
        "" if kind == "function_call" else kind,
    )


def _written_result(result: Result, raw: Any) -> Any:
    kind = result.kind or "function_call"
    changes: dict[str, Any] = {CALL_TYPES[kind][1]: result.content}
    by_item = kind == "local_shell_call" and get(raw, "call_id") is None  # as the SDK's type has it
    changes["id" if by_item else "call_id"] = result.id
    if raw is None:
        changes["type"] = _OUTPUT_OF[kind]
        if kind == "apply_patch_call":
            changes["status"] = "failed"
        elif kind == "tool_search_call":
            changes |= {"execution": "client", "status": "incomplete"}
    return merge(raw, changes)


def _part(part: Any) -> Other:
    kind = get(part, "type")
    if isinstance(kind, str) and kind in _TEXT_PARTS:
        return text_other(get(part, "refusal" if kind == "refusal" else "text"), part)
    return text_other(part, part) if type(part) is str else Other("media", False, part)


def _written_part(block: Any, role: str) -> Any:
    if block.kind == "text" and (block.raw is None or type(block.raw) is str):
        return {"type": "output_text" if role == "assistant" else "input_text", "text": block.text or ""}
    return block.raw
