"""Messages in openai-chat, and what providers say of histories that do not fit together."""

from __future__ import annotations

from typing import Any

__all__ = ["DUPLICATE", "LOOP", "MISSING", "ORPHAN", "Message", "asks", "gives", "says"]

Message = dict[str, Any]

DUPLICATE = "Error code: 400 - Invalid parameter: Duplicate value for 'tool_call_id' of '{}' found."
MISSING = (
    "Error code: 400 - An assistant message with 'tool_calls' must be followed by tool messages responding "
    "to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}"
)
ORPHAN = (
    "Error code: 400 - Invalid parameter: messages with role 'tool' must be a response to a preceding "
    "message with 'tool_calls'."
)
LOOP = (
    "<400> InternalError.Algo.InvalidParameter: Repetitive tool calls detected: the same tool has been "
    "called with the same arguments too many times."
)


def says(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def asks(*ids: str, text: str = "", name: str = "search", args: str = '{"q": "refund"}') -> Message:
    calls = [{"id": one, "type": "function", "function": {"name": name, "arguments": args}} for one in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def gives(call_id: str, text: str = "nothing found") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}
