"""Short spellings of message histories, for tests.

    A("k1", "k2:g", text="t")   an assistant turn with calls (id, or id:function)
    T("k1", "result")           a tool result
    U("text")                   a user turn

and the same for the other formats.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from loopscope.guard import SanitizeResult, is_stub_result, sanitize_messages

Json = dict[str, Any]


def U(text: Any = "q") -> Json:
    return {"role": "user", "content": text}


def S(text: str = "s") -> Json:
    return {"role": "system", "content": text}


def call(name: str, function: str = "f", arguments: str = "{}", **more: Any) -> Json:
    return {"id": name, "type": "function", "function": {"name": function, "arguments": arguments}, **more}


def A(*calls: str | Json, text: Any = "", **more: Any) -> Json:
    made = [one if isinstance(one, dict) else call(*one.split(":", 1)) for one in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {}), **more}


def T(call_id: Any, text: Any = "r", **more: Any) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text, **more}


def show(messages: list[Any]) -> str:
    """A chat history in one line; stubs as ~."""
    out = []
    for one in messages:
        if one["role"] == "tool":
            stub = is_stub_result(one["content"])
            out.append(f"~T({one['tool_call_id']})" if stub else f"T({one['tool_call_id']}){one['content']}")
        elif one["role"] == "assistant":
            calls = ",".join(one_call["id"] for one_call in one.get("tool_calls", ()))
            out.append(f"A[{calls}]{one['content'] or ''}")
        else:
            out.append(f"{one['role'][0].upper()}{one['content']}")
    return " ".join(out)


def sanitized(messages: list[Any], **options: Any) -> SanitizeResult:
    """Sanitise, and hold what must hold for every history: input untouched, once is enough."""
    before = copy.deepcopy(messages)
    result = sanitize_messages(messages, **options)
    assert messages == before, "the input was modified"
    assert len(result.origins) == len(result.messages)
    again = sanitize_messages(result.messages, **{**options, "format": result.format})
    assert again.messages == result.messages
    assert again.repairs == ()
    for one, origin in zip(result.messages, result.origins, strict=True):
        if origin is not None and one == messages[origin]:
            assert one is messages[origin], "an unchanged message is the caller's own object"
    if not result.repairs:
        assert len(result.messages) == len(messages)
        assert all(one is other for one, other in zip(result.messages, messages, strict=True))
    return result


def kinds(result: SanitizeResult) -> list[str]:
    return [str(repair.kind) for repair in result.repairs]


# The same in the other formats.


def responses_call(name: str, function: str = "f", arguments: str = "{}", **more: Any) -> Json:
    return {"type": "function_call", "call_id": name, "name": function, "arguments": arguments, **more}


def responses_output(name: Any, text: Any = "r") -> Json:
    return {"type": "function_call_output", "call_id": name, "output": text}


def use(name: str, function: str = "f", **arguments: Any) -> Json:
    return {"type": "tool_use", "id": name, "name": function, "input": arguments}


def tool_result(name: Any, text: Any = "r", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": text, **more}


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def bedrock_use(name: str, function: str = "f", **arguments: Any) -> Json:
    return {"toolUse": {"toolUseId": name, "name": function, "input": arguments}}


def bedrock_result(name: Any, text: str = "r", **more: Any) -> Json:
    return {"toolResult": {"toolUseId": name, "content": [{"text": text}], **more}}


def gemini_call(function: str = "f", **more: Any) -> Json:
    return {"functionCall": {"name": function, "args": {}, **more}}


def gemini_response(function: str = "f", text: str = "r", **more: Any) -> Json:
    return {"functionResponse": {"name": function, "response": {"output": text}, **more}}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def turn(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def as_json(messages: list[Any]) -> Any:
    return json.loads(json.dumps(messages))
