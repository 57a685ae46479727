"""What messages hold in each maker's notation, as parts of the GenAI conventions."""

from __future__ import annotations

from typing import Any

from .._pairing import as_text
from ._model import dumps

__all__ = [
    "anthropic_parts",
    "arguments_text",
    "count",
    "inner",
    "items_text",
    "responses_parts",
    "text_of",
    "text_part",
]

Part = dict[str, Any]
_TEXT_TYPES = ("text", "input_text", "output_text", "summary_text", "reasoning_text")


def inner(value: Any, key: str) -> dict[str, Any]:
    """The object under a key; an empty one where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def text_of(value: Any) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def kind_of(value: dict[str, Any], key: str = "type") -> str:
    """What an object says that it is; '' where it says nothing."""
    kind = value.get(key)
    return kind if isinstance(kind, str) else ""


def count(value: Any) -> int | None:
    """A number of tokens."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return value
    return None


def total(*values: int | None) -> int | None:
    """The sum of what is recorded."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def text_part(text: str) -> Part:
    return {"type": "text", "content": text}


def arguments_text(value: Any) -> str | None:
    """Arguments of a call, as the guard compares them."""
    return value if value is None or isinstance(value, str) else dumps(value)


def items_text(content: Any) -> str | None:
    """The text of a result: text as it is, texts of a list one after the other, else JSON.

    Pictures count as what they are, so that two results with other pictures are not the same.
    """
    if isinstance(content, list) and content:
        texts = [
            item["text"]
            for item in content
            if isinstance(item, dict) and kind_of(item) in _TEXT_TYPES and isinstance(item.get("text"), str)
        ]
        if len(texts) == len(content):
            return "".join(texts)
    return as_text(content)


def anthropic_parts(content: Any) -> list[Part]:
    """Parts of a Messages API content; results of tools, which belong to calls, are left to the caller."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    parts: list[Part] = []
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        kind = kind_of(block)
        if kind == "text":
            if isinstance(block.get("text"), str):
                parts.append(text_part(block["text"]))
        elif kind == "thinking":
            parts.append({"type": "reasoning", "content": as_text(block.get("thinking"))})
        elif kind in ("tool_use", "toolCall"):
            parts.append(
                call_part(block.get("id"), block.get("name"), block.get("input", block.get("arguments")))
            )
        elif kind != "tool_result":
            parts.append(_bulky(block))
    return parts


def call_part(call_id: Any, name: Any, arguments: Any) -> Part:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def result_part(call_id: str | None, response: str | None) -> Part:
    part: Part = {"type": "tool_call_response", "response": response}
    if call_id is not None:
        part["id"] = call_id
    return part


def responses_parts(content: Any) -> list[Part]:
    """Parts of a message's content in the Responses API."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    parts: list[Part] = []
    for item in content if isinstance(content, list) else ():
        if isinstance(item, dict):
            if kind_of(item) in _TEXT_TYPES and isinstance(item.get("text"), str):
                parts.append(text_part(item["text"]))
            else:
                parts.append(_bulky(item))
    return parts


def reasoning_parts(item: dict[str, Any]) -> list[Part]:
    """A reasoning item of the Responses API: its content or summary, if it can be read."""
    for key in ("content", "summary"):
        text = items_text(item.get(key)) if item.get(key) else None
        if text:
            return [{"type": "reasoning", "content": text}]
    return []


def _bulky(block: dict[str, Any]) -> Part:
    """Pictures and files without their bytes; anything else as it is."""
    out = {**block, "type": kind_of(block) or "unknown"}
    source = out.get("source")
    if isinstance(source, dict) and isinstance(source.get("data"), str):
        out["source"] = {**source, "data": f"({len(source['data'])} characters)"}
    for key in ("data", "image_url", "encrypted_content"):
        value = out.get(key)
        if isinstance(value, str) and len(value) > 1000:
            out[key] = f"({len(value)} characters)"
    return out
