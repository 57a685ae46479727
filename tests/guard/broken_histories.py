"""Valid histories of each format, and ways to break them."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock-converse")


@dataclass
class Turn:
    """One exchange: what the user says, the rounds of calls that follow, the answer."""

    user: str
    rounds: list[list[tuple[str, str, str]]]  # (id, name, result) per call of each round
    answer: str


@st.composite
def conversations(draw: st.DrawFn, may_recur: bool = True) -> list[Turn]:
    """Conversations with ids that are unique over the history, or recur in each round as some servers do."""
    recurring = may_recur and draw(st.booleans())
    count = 0
    turns = []
    for number in range(draw(st.integers(1, 3))):
        rounds = []
        for _ in range(draw(st.integers(0, 3))):
            calls = []
            for at in range(draw(st.integers(1, 3))):
                count += 1
                name = draw(st.sampled_from(["read", "search", "run"]))
                calls.append((f"c{at if recurring else count:08d}", name, f"result {count}"))
            rounds.append(calls)
        turns.append(Turn(f"question {number}", rounds, f"answer {number}"))
    return turns


def write(turns: list[Turn], form: str) -> list[dict[str, Any]]:
    """The conversation in one of the formats, as a client writes it."""
    return [message for turn in turns for message in _WRITERS[form](turn)]


def _chat(turn: Turn) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [{"role": "user", "content": turn.user}]
    for calls in turn.rounds:
        made = [
            {
                "id": key,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps({"of": result})},
            }
            for key, name, result in calls
        ]
        out.append({"role": "assistant", "content": "", "tool_calls": made})
        out += [{"role": "tool", "tool_call_id": key, "content": result} for key, _, result in calls]
    out.append({"role": "assistant", "content": turn.answer})
    return out


def _responses(turn: Turn) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [{"role": "user", "content": turn.user}]
    for calls in turn.rounds:
        out.append({"type": "reasoning", "id": f"rs_{calls[0][2]}", "summary": []})
        for key, name, result in calls:
            arguments = json.dumps({"of": result})
            item = f"fc_{result}".replace(" ", "")
            out.append(
                {"type": "function_call", "id": item, "call_id": key, "name": name, "arguments": arguments}
            )
        out += [
            {"type": "function_call_output", "call_id": key, "output": result} for key, _, result in calls
        ]
    out.append({"role": "assistant", "content": turn.answer})
    return out


def _anthropic(turn: Turn) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [{"role": "user", "content": turn.user}]
    for calls in turn.rounds:
        uses = [
            {"type": "tool_use", "id": key, "name": name, "input": {"of": result}}
            for key, name, result in calls
        ]
        out.append({"role": "assistant", "content": [{"type": "text", "text": "looking"}, *uses]})
        results = [{"type": "tool_result", "tool_use_id": key, "content": result} for key, _, result in calls]
        out.append({"role": "user", "content": results})
    out.append({"role": "assistant", "content": [{"type": "text", "text": turn.answer}]})
    return out


def _gemini(turn: Turn) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": turn.user}]}]
    for calls in turn.rounds:
        out.append(
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"id": key, "name": name, "args": {"of": result}}}
                    for key, name, result in calls
                ],
            }
        )
        out.append(
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": key, "name": name, "response": {"result": result}}}
                    for key, name, result in calls
                ],
            }
        )
    out.append({"role": "model", "parts": [{"text": turn.answer}]})
    return out


def _bedrock(turn: Turn) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [{"role": "user", "content": [{"text": turn.user}]}]
    for calls in turn.rounds:
        uses = [{"toolUse": {"toolUseId": key, "name": name, "input": {"of": r}}} for key, name, r in calls]
        out.append({"role": "assistant", "content": uses})
        results = [{"toolResult": {"toolUseId": key, "content": [{"text": r}]}} for key, _, r in calls]
        out.append({"role": "user", "content": results})
    out.append({"role": "assistant", "content": [{"text": turn.answer}]})
    return out


_WRITERS = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock-converse": _bedrock,
}

# The blocks of a message, and where an id stands in them, format by format.
_BLOCKS = {
    "openai-chat": "tool_calls",
    "anthropic": "content",
    "gemini": "parts",
    "bedrock-converse": "content",
}


def id_places(message: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Where ids of calls stand in a message: (object, key)."""
    places = []
    pile: list[Any] = [message]
    while pile:
        one = pile.pop()
        if isinstance(one, dict):
            for key in ("tool_call_id", "tool_use_id", "toolUseId", "call_id"):
                if isinstance(one.get(key), str):
                    places.append((one, key))
            if isinstance(one.get("id"), str) and one.get("type") not in ("reasoning", "function_call"):
                places.append((one, "id"))
            pile += one.values()
        elif isinstance(one, list):
            pile += one
    return places


@st.composite
def broken(
    draw: st.DrawFn, form: str, whole: bool = False, times: int = 4, rare: bool = False
) -> list[dict[str, Any]]:
    """A history that was valid, and had some of its messages dropped, doubled, moved, cut or rewritten.

    With `whole` messages are only dropped, doubled, moved and put between, and ids are unique. With `rare`
    most of what is done to them makes shapes that few clients write.
    """
    messages = write(draw(conversations(may_recur=not whole)), form)
    for _ in range(draw(st.integers(1, times))):
        if not messages:
            break
        how = draw(st.sampled_from(_WHOLE if whole else _RARE if rare else _WAYS))
        at = draw(st.integers(0, len(messages) - 1))
        messages = how(draw, messages, at, form)
    return copy.deepcopy(messages)  # no two messages share an object that a repair might reach


def _drop(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    return messages[:at] + messages[at + 1 :]


def _double(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    return messages[: at + 1] + messages[at:]


def _move(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    rest = messages[:at] + messages[at + 1 :]
    to = draw(st.integers(0, len(rest)))
    return [*rest[:to], messages[at], *rest[to:]]


def _cut_start(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    return messages[at:]


def _cut_end(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    return messages[: at + 1]


def _reload(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    return messages + messages[at:]


def _change_id(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    message = copy.deepcopy(messages[at])
    places = id_places(message)
    if places:
        holder, key = draw(st.sampled_from(places))
        old = holder[key]
        new = draw(
            st.sampled_from(
                [f"  {old} ", "", "c00000001", "a:b", "a_b", "x" * 70, f"{old}|fc_1", "ü", "call 1"]
            )
        )
        holder[key] = new
    return [*messages[:at], message, *messages[at + 1 :]]


def _change_block(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    message = copy.deepcopy(messages[at])
    blocks = message.get(_BLOCKS.get(form, ""), None)
    if isinstance(blocks, list) and blocks:
        number = draw(st.integers(0, len(blocks) - 1))
        if draw(st.booleans()):
            blocks.insert(number, copy.deepcopy(blocks[number]))
        else:
            del blocks[number]
    return [*messages[:at], message, *messages[at + 1 :]]


def _empty(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    message = copy.deepcopy(messages[at])
    if form == "gemini":
        message["parts"] = draw(st.sampled_from([[], [{"text": ""}]]))
    elif "type" not in message and message.get("role") != "tool":
        blank = [] if form == "bedrock-converse" else None
        message["content"] = draw(st.sampled_from(["", "  ", blank]))
        if form == "bedrock-converse":
            message["content"] = draw(st.sampled_from([[], [{"text": " "}]]))
    return [*messages[:at], message, *messages[at + 1 :]]


def _bad_arguments(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    message = copy.deepcopy(messages[at])
    text = draw(st.sampled_from(['{"a": ', "", "[1]", "nonsense", '{"a": 1}']))
    pile: list[Any] = [message]
    while pile:
        one = pile.pop()
        if isinstance(one, dict):
            for key in ("arguments", "input", "args"):
                if key in one:
                    one[key] = text
            pile += [value for value in one.values() if isinstance(value, (dict, list))]
        elif isinstance(one, list):
            pile += one
    return [*messages[:at], message, *messages[at + 1 :]]


def _interject(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    if form == "gemini":
        message: dict[str, Any] = {"role": "user", "parts": [{"text": "wait"}]}
    elif form == "bedrock-converse":
        message = {"role": "user", "content": [{"text": "wait"}]}
    else:
        roles = ["user", "user", "assistant"] + (["system", "developer"] if form == "openai-chat" else [])
        message = {"role": draw(st.sampled_from(roles)), "content": "wait"}
    return [*messages[:at], message, *messages[at:]]


def _reshape(draw: st.DrawFn, messages: list[Any], at: int, form: str) -> list[Any]:
    """Shapes that few clients write: the older pair beside the usual one, roles, kinds, ids in two halves."""
    message = copy.deepcopy(messages[at])
    before, after = messages[:at], messages[at + 1 :]
    if form == "openai-chat":
        if message["role"] == "assistant":
            message["function_call"] = {
                "name": draw(_NAMES),
                "arguments": draw(st.sampled_from(["{}", "[]"])),
            }
        elif message["role"] == "tool":
            message["role"] = "function"
            message["name"] = draw(_NAMES)
        else:
            after = [{"role": "function", "name": draw(_NAMES), "content": "r"}, *after]
    elif form == "openai-responses":
        kind = message.get("type", "message")
        if kind == "reasoning" or kind == "message":
            turn: dict[str, Any] = {"role": "assistant", **draw(st.sampled_from([{}, {"content": []}]))}
            after = draw(st.sampled_from([[turn, *after], [turn], after]))
            if kind == "message" and draw(st.booleans()):
                before = [*before, {"type": "reasoning", "id": f"rs_x{at}", "summary": []}]
        elif kind.endswith("_output"):
            message["type"] = draw(st.sampled_from(_OUTPUTS))
            message["call_id"] = draw(_crossing(message["call_id"]))
        else:
            message["call_id"] = draw(_crossing(message["call_id"]))
            message.update(draw(st.sampled_from(_KINDS)))
            if draw(st.booleans()):
                message["id"] = draw(_crossing(message["call_id"]))
    elif form == "gemini":
        message["role"] = draw(st.sampled_from(["function", "user", "model", "tool"]))
        for part in message["parts"]:
            for key in ("functionCall", "functionResponse"):
                if key in part:
                    part[key]["name"] = draw(_NAMES)
                    part[key]["id"] = draw(_crossing(part[key].get("id", "")))
                    if draw(st.booleans()):
                        del part[key]["id"]
    else:
        for holder, key in id_places(message):
            holder[key] = draw(_crossing(holder[key]))
    return [*before, message, *after]


_NAMES = st.sampled_from(["read", "search", "run", "my tool", ""])
_OUTPUTS = ["function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output"]
_KINDS: list[dict[str, Any]] = [
    {"type": "function_call"},
    {"type": "custom_tool_call", "input": "x"},
    {"type": "local_shell_call", "action": {}},
    {"type": "computer_call", "action": {}},
]


def _crossing(own: str) -> st.SearchStrategy[str]:
    """Ids of which one half may be that of another."""
    return st.sampled_from(
        [own, f"{own}|A", f"A|{own}", "A", "A|B", "B|A", "B|C", "C|A", "B", " A|B ", "A|A"]
    )


_WHOLE = [_drop, _drop, _double, _move, _cut_start, _cut_end, _reload, _interject]
_WAYS = [
    *_WHOLE,
    _change_id,
    _change_id,
    _change_block,
    _empty,
    _bad_arguments,
]
_RARE = [_reshape, _reshape, _reshape, _drop, _move, _double, _change_id]
