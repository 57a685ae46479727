"""Failures that a tool reports inside a result which its caller took for a success.

Only the fixed shapes in which protocols mark a failure count: MCP's `isError`, the
`is_error` of Anthropic, AutoGen and others, a LangChain ToolMessage or Strands tool result
with `"status": "error"`, and ADK's `{"status": "error"}`. They are looked up in parsed
JSON. A word in a text is never evidence.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["failure_envelope", "text_of"]

# Longer results are not parsed: this runs for every recorded call.
_MAX_CHARS = 4_000_000
# Objects that carry the result of a call one level further in.
_WRAPPERS = ("output", "result", "data", "kwargs", "toolResult", "tool_result", "response", "value")
# A status belongs to a tool message, and not to the tool's own data, if one of these is beside it.
_MESSAGE_KEYS = ("tool_call_id", "toolUseId", "tool_use_id")
_CALL_KEYS = (*_MESSAGE_KEYS, "call_id", "type")
_TEXT_KEYS = ("error_message", "errorMessage", "error", "content", "message", "text", "detail", *_WRAPPERS)


def failure_envelope(result: str | None) -> object | None:
    """The parsed object in `result` that says "this failed", or None."""
    if not result or len(result) > _MAX_CHARS:
        return None
    # What "isError", "is_error" and "error" have in common is looked for first: most results are long and
    # hold none of them, and every look through one takes its time.
    if "rror" not in result or (
        "isError" not in result
        and "is_error" not in result
        and not ("status" in result and "error" in result)
    ):
        return None
    value = _parse(result)
    if isinstance(value, str):
        value = _parse(value)
    if isinstance(value, dict) and value.get("status") == "error":
        return value
    if isinstance(value, list):
        if len(value) == 1:
            return _failed_inside(value[0])
        marked = (item for item in value if isinstance(item, dict) and any(key in item for key in _CALL_KEYS))
        return next((item for item in marked if _is_marked(item)), None)
    return _failed_inside(value)


def _parse(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_marked(value: dict[str, Any]) -> bool:
    if value.get("isError") is True or value.get("is_error") is True:
        return True
    return value.get("status") == "error" and (
        value.get("type") == "tool" or any(key in value for key in _MESSAGE_KEYS)
    )


def _failed_inside(value: Any, levels: int = 4) -> object | None:
    if not isinstance(value, dict):
        return None
    if _is_marked(value):
        return value
    if levels:
        for key in _WRAPPERS:
            found = _failed_inside(value.get(key), levels - 1)
            if found is not None:
                return found
    return None


def text_of(value: object, levels: int = 4) -> str | None:
    """The message in a parsed result: its first text under the usual names, or None."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [text for item in value if (text := text_of(item, levels - 1))] if levels else []
        return "\n".join(texts) or None
    if isinstance(value, dict) and levels:
        for key in _TEXT_KEYS:
            text = text_of(value.get(key), levels - 1)
            if text:
                return text
    return None


def text_of_result(result: str | None) -> str | None:
    """The message in the result of a failed call: out of its JSON wrapping, if it has one."""
    if not result or len(result) > _MAX_CHARS:
        return result
    value = _parse(result)
    return result if value is None else text_of(value) or result


def jsonrpc_code_of(result: str | None) -> int | None:
    """The code of a JSON-RPC error object in the result of a failed call."""
    if not result or len(result) > _MAX_CHARS or '"code"' not in result:
        return None
    value = _parse(result)
    error = value.get("error", value) if isinstance(value, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) and -32800 <= code <= -32000 else None
