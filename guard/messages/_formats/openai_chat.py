"""OpenAI chat completions: `tool_calls` of an assistant message, each result a message of role `tool`.

Also the older pair `function_call` / role `function`, which has no ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._model import Call, Message, Other, Result
from ._base import (
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
    word,
)

__all__ = ["OpenAIChat"]

_ROLES = {"developer": "system", "function": "tool", "latest_reminder": "system"}

# Keys beside the content that make a turn one that says something.
_SAYING_KEYS = (
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "reasoning_text",
    "thinking",
    "thinking_blocks",
    "codex_reasoning_items",
    "codex_message_items",
    "refusal",
    "audio",
)
_SAYING = frozenset(_SAYING_KEYS)
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})
_ID_KEYS = ("id", "call_id", "response_item_id")


class OpenAIChat(Format):
    name = "openai-chat"
    placement = "after"
    wire_roles = frozenset(
        {"system", "developer", "user", "assistant", "tool", "function", "latest_reminder"}
    )

    def read(self, raw: Any, index: int | None) -> Message:
        is_dict = type(raw) is dict
        role = raw.get("role") if is_dict else get(raw, "role")
        if type(role) is not str:
            role = role_word(role)
        content = raw.get("content") if is_dict else get(raw, "content")
        if role == "tool":
            return Message(role, (self._result(raw, content),), raw, index, role)
        if role == "function":
            result = Result((), wire_text(get(raw, "name")), content, None, is_stub_content(content), raw)
            result.kind = "function_call"
            return Message("tool", (result,), raw, index, role)
        if type(content) is str:
            blocks: list[Any] = [Other("text", not content or content.isspace(), content, content)]
        elif content is None:
            blocks = []
        else:
            blocks = [_part(part) for part in parts_of(content)]
        empty = False
        if role == "assistant":
            if not is_dict or not _SAYING.isdisjoint(raw):
                for key in _SAYING_KEYS:
                    value = get(raw, key)
                    if value:
                        blocks.append(Other("reasoning", False, value, None, key))
            listed = raw.get("tool_calls") if is_dict else get(raw, "tool_calls")
            if listed and isinstance(listed, (list, tuple)):
                blocks.extend(map(_call, listed))
            else:
                empty = "tool_calls" in raw if is_dict else listed is not None
            legacy = raw.get("function_call") if is_dict else get(raw, "function_call")
            if legacy:
                blocks.append(
                    Call((), wire_text(get(legacy, "name")), get(legacy, "arguments"), legacy, None, False)
                )
                blocks[-1].kind = "function_call"
        return Message(_ROLES.get(role, role), tuple(blocks), raw, index, role, empty)

    @staticmethod
    def _result(raw: Any, content: Any) -> Result:
        if type(raw) is dict:
            text, name = raw.get("tool_call_id"), raw.get("name")
        else:
            text, name = get(raw, "tool_call_id"), get(raw, "name")
        if text is None:
            text = get(raw, "call_id")
        return Result(
            one_id(text), wire_text(name), content, None, is_stub_content(content), raw, wire_text(text)
        )

    def needs_id(self, call: Call) -> bool:
        return call.kind != "function_call"

    def result_messages(self, results: Sequence[Result]) -> list[Message]:
        return [
            Message(
                "tool",
                (result,),
                None,
                None,
                "function" if result.kind == "function_call" else "tool",
                changed=True,
            )
            for result in results
        ]

    def _written(self, message: Message) -> Any:
        raw = message.raw
        made: dict[str, Any] = {} if raw is None else plain(raw)
        made["role"] = message.wire_role
        if message.role == "tool":
            return _written_result(message, made)
        said = [block for block in message.blocks if isinstance(block, Other)]
        calls = [block for block in message.blocks if isinstance(block, Call)]
        content = [block for block in said if not block.key]
        kept = {block.key for block in said}
        for key in _SAYING_KEYS:
            if key in made and key not in kept and get(raw, key):
                del made[key]
        was = get(raw, "content")
        if not (isinstance(was, (list, tuple)) and _same(content, was)):
            if not content:
                if was or not calls:
                    made["content"] = None
            elif len(content) == 1 and content[0].kind == "text" and not isinstance(was, (list, tuple)):
                made["content"] = content[0].text if content[0].text is not None else content[0].raw
            else:
                made["content"] = [_written_part(block) for block in content]
        legacy = [call for call in calls if call.kind == "function_call"]
        usual = [_written_call(call) for call in calls if call.kind != "function_call"]
        made.pop("tool_calls", None)
        made.pop("function_call", None)
        if usual:
            made["tool_calls"] = usual
        if legacy:
            made["function_call"] = merge(
                legacy[0].raw, {"name": legacy[0].name or "", "arguments": legacy[0].arguments}
            )
        return made


def _part(part: Any) -> Other:
    if type(part) is str:
        return text_other(part, part)
    kind = get(part, "type")
    if not isinstance(kind, str):
        return Other("media", False, part)
    if kind in _TEXT_PARTS:
        return text_other(get(part, "refusal" if kind == "refusal" else "text"), part)
    if kind in ("thinking", "reasoning"):
        return Other("reasoning", False, part)
    return Other("media", False, part)


def _call(raw: Any) -> Call:
    if type(raw) is dict:
        text = raw.get("id")
        inner, kind = raw.get("function"), ""
        if inner is None and "custom" in raw:
            inner, kind = raw["custom"], "custom"
        other, item = raw.get("call_id"), raw.get("response_item_id")
    else:
        text = get(raw, "id")
        inner, kind = get(raw, "function"), ""
        if inner is None and get(raw, "custom") is not None:
            inner, kind = get(raw, "custom"), "custom"
        other, item = get(raw, "call_id"), get(raw, "response_item_id")
    if type(inner) is dict:
        name, arguments = inner.get("name"), inner.get("input" if kind else "arguments")
    else:
        name, arguments = get(inner, "name"), get(inner, "input" if kind else "arguments")
    if other is None and item is None:
        ids = one_id(text)
    else:
        ids = id_variants(text, other, item)
        if not one_id(text):
            text = other if one_id(other) else item
    return Call(ids, wire_text(name), arguments, raw, wire_text(text), False, kind)


def _same(blocks: Sequence[Other], was: Sequence[Any]) -> bool:
    return len(blocks) == len(was) and all(block.raw is raw for block, raw in zip(blocks, was, strict=True))


def _written_part(block: Other) -> Any:
    if block.kind == "text" and (block.raw is None or type(block.raw) is str):
        return {"type": "text", "text": block.text or ""}
    return plain(block.raw) if callable(get(block.raw, "model_dump")) else block.raw


def _written_call(call: Call) -> Any:
    inner_key = "custom" if call.kind == "custom" else "function"
    arguments_key = "input" if call.kind == "custom" else "arguments"
    raw = call.raw
    inner = merge(get(raw, inner_key), {"name": call.name or "", arguments_key: call.arguments})
    changes: dict[str, Any] = {inner_key: inner}
    if raw is None:
        changes = {"id": call.id, "type": inner_key, **changes}
    else:
        was = _call(raw)
        if was.id != call.id:
            # Every key that held the old id gets the new one, so that all passes see one id.
            old = (was.id or "").strip()
            keys = [key for key in _ID_KEYS if old and word(get(raw, key)).strip() == old]
            changes.update(dict.fromkeys(keys or ["id"], call.id))
    return merge(raw, changes)


def _written_result(message: Message, made: dict[str, Any]) -> Any:
    result = next(block for block in message.blocks if isinstance(block, Result))
    if result.name is not None:
        made["name"] = result.name
    elif message.raw is not None:
        made.pop("name", None)
    legacy = result.kind == "function_call"
    made["role"] = "function" if legacy else "tool"
    if legacy:
        made.pop("tool_call_id", None)
    else:
        key = "call_id" if "tool_call_id" not in made and "call_id" in made else "tool_call_id"
        if result.id is None:
            made.pop(key, None)
        else:
            made[key] = result.id
    made["content"] = result.content
    return made
