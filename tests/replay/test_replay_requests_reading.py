"""Recorded messages of every shape are read as what was sent; what was not recorded is no fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
from refused_histories import asks, gives, says
from replay_rows import database

from loopscope.replay.requests._histories import History, Reader
from loopscope.replay.requests._recorded import as_chat, fill_missing, shape_of

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}
ARGS = {"q": "x"}
NAMED = {"id": "c1", "name": "search"}
VERCEL = {"toolCallId": "c1", "toolName": "search"}
NONE = "nothing found"

# One answer that calls `search` and its result, as each instrumentation writes them down.
SHAPES: dict[str, tuple[Any, Any, str]] = {
    "openai chat": ({"role": "assistant", "content": None, "tool_calls": [CALL]}, gives("c1"), "openai-chat"),
    "genai parts": (
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "search", "arguments": ARGS}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "nothing found"}]},
        "foreign",
    ),
    "genai parts, result of a user": (
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", **NAMED, "arguments": '{"q": "x"}'}],
        },
        {
            "role": "user",
            "parts": [{"type": "tool_call_response", **NAMED, "result": "nothing found"}],
        },
        "foreign",
    ),
    "langchain constructor": (
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "AIMessage"],
            "kwargs": {
                "content": "",
                "type": "ai",
                "tool_calls": [{**NAMED, "args": ARGS}],
            },
        },
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "ToolMessage"],
            "kwargs": {"content": "nothing found", "type": "tool", "id": "3b1c", "tool_call_id": "c1"},
        },
        "foreign",
    ),
    "langchain data": (
        {"type": "ai", "data": {"content": "", "tool_calls": [{**NAMED, "args": ARGS}]}},
        {"type": "tool", "data": {"content": "nothing found", "tool_call_id": "c1"}},
        "foreign",
    ),
    "langchain, call among the blocks and again beside": (
        {
            "type": "ai",
            "content": [{"type": "tool_use", **NAMED, "input": ARGS}],
            "tool_calls": [{**NAMED, "args": ARGS}],
        },
        {"type": "tool", "content": "nothing found", "tool_call_id": "c1"},
        "foreign",
    ),
    "vercel": (
        {
            "role": "assistant",
            "content": [{"type": "tool-call", **VERCEL, "input": ARGS}],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "output": {"type": "text", "value": "nothing found"},
                }
            ],
        },
        "foreign",
    ),
    "anthropic": (
        {"role": "assistant", "content": [{"type": "tool_use", **NAMED, "input": ARGS}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": NONE}],
        },
        "anthropic",
    ),
    "bedrock": (
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "search", "input": ARGS}}]},
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": NONE}]}}],
        },
        "bedrock-converse",
    ),
    "strands": (
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "search", "input": ARGS}}]},
        {
            "role": "tool",
            "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": NONE}]}}],
        },
        "foreign",
    ),
    "gemini": (
        {"role": "model", "parts": [{"functionCall": {**NAMED, "args": ARGS}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {**NAMED, "response": {"r": 1}}}],
        },
        "gemini",
    ),
    "gemini of the sdk": (
        {"role": "model", "parts": [{"function_call": {**NAMED, "args": ARGS}}]},
        {
            "role": "user",
            "parts": [{"function_response": {**NAMED, "response": {"r": 1}}}],
        },
        "gemini",
    ),
    "role model": (
        {"role": "model", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing found"},
        "foreign",
    ),
    "responses": (
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q": "x"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "nothing found"},
        "openai-responses",
    ),
    "genkit": (
        {"role": "model", "content": [{"toolRequest": {"ref": "c1", "name": "search", "input": ARGS}}]},
        {
            "role": "tool",
            "content": [{"toolResponse": {"ref": "c1", "name": "search", "output": NONE}}],
        },
        "foreign",
    ),
}


def read(*messages: Any) -> History:
    """The history of these recorded messages."""
    con = database()
    con.executemany(
        "INSERT INTO contents VALUES (?, 0, ?)",
        [(key, json.dumps(message)) for key, message in enumerate(messages)],
    )
    reader = Reader()
    reader.load(con, range(len(messages)))
    return reader.history(range(len(messages)))


@pytest.mark.parametrize("name", SHAPES)
def test_call_and_result_of_every_shape(name: str) -> None:
    call, result, shape = SHAPES[name]
    found = {shape_of(call), shape_of(result)}
    assert shape in found
    history = read(call, result)
    assert history.native == ("foreign" not in found)
    (asked,) = [one for message in history.messages for one in message.calls]
    (answered,) = [one for message in history.messages for one in message.results]
    assert (asked.ids, asked.name, answered.ids) == (("c1",), "search", ("c1",))
    arguments = json.loads(asked.arguments) if isinstance(asked.arguments, str) else asked.arguments
    assert arguments == ARGS
    assert (history.silent, history.without_ids) == (None, 0)
    assert [message.index for message in history.messages] == [0, 1]


@pytest.mark.parametrize("name", [name for name, (_, _, shape) in SHAPES.items() if shape == "foreign"])
def test_results_of_foreign_shapes_keep_their_text(name: str) -> None:
    _, result, _ = SHAPES[name]
    chat, _ = as_chat(result)
    assert [message["content"] for message in chat] == ["nothing found"]


def test_mixed_shapes_are_read_as_openai_chat() -> None:
    history = read(says("user", "hi"), *SHAPES["genai parts"][:2], *SHAPES["anthropic"][:2])
    assert (history.format, history.native) == ("openai-chat", False)
    assert [message.role for message in history.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]


def test_a_message_of_several_results_is_several_messages_of_one_place() -> None:
    results = [{"type": "tool_call_response", "id": one, "response": one} for one in ("a", "b")]
    history = read(
        {"role": "user", "parts": [*results, {"type": "text", "content": "and?"}]}, says("user", "x")
    )
    assert [(message.role, message.index) for message in history.messages] == [
        ("tool", 0), ("tool", 0), ("user", 0), ("user", 1),
    ]  # fmt: skip
    assert history.recorded == 2


def test_a_system_prompt_stands_outside_where_the_format_has_it_outside() -> None:
    history = read(says("system", "be nice"), says("user", "hi"), *SHAPES["anthropic"][:2])
    assert (history.format, [message.index for message in history.messages]) == ("anthropic", [1, 2, 3])


@pytest.mark.parametrize(
    ("message", "without_ids"),
    [
        ({"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f"}}]}, 1),
        ({"role": "tool", "content": "x"}, 1),
        ({"role": "assistant", "tool_calls": [{**CALL, "id": ""}]}, 0),  # blank is what was sent
        ({"role": "assistant", "parts": [{"type": "tool_call", "name": "f", "arguments": {}}]}, 1),
        ({"role": "tool", "parts": [{"type": "text", "content": "x"}]}, 1),
        ({"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}, 0),  # Gemini needs none
    ],
)
def test_ids_that_were_left_out_are_counted(message: dict[str, Any], without_ids: int) -> None:
    assert read(message).without_ids == without_ids


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant"},
        {"role": "assistant", "parts": []},
        {"role": "assistant", "parts": [{"type": "text"}]},
        {"role": "user", "name": "x"},
        7,
    ],
)
def test_messages_of_which_only_the_role_was_recorded(message: Any) -> None:
    assert read(says("user", "hi"), message).silent == 1


def test_arguments_and_results_that_were_left_out_are_no_fault() -> None:
    bare = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f"}}]}
    filled = fill_missing(bare, "openai-chat")
    assert filled["tool_calls"][0]["function"]["arguments"] == "{}"
    assert filled["content"] == ""  # null and "" are told apart by some providers
    assert bare == {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f"}}]}
    assert fill_missing({"role": "tool", "tool_call_id": "c1"}, "openai-chat")["content"]
    whole = asks("c1")
    assert fill_missing(whole, "openai-chat") is whole


def test_hostile_messages_are_read_as_something() -> None:
    deep: Any = {"role": "user", "content": "x"}
    for _ in range(50):
        deep = {"message": deep}
    odd = [None, [], "text", {"role": 7}, {"role": "assistant", "tool_calls": [7, {"function": None}]}, deep]
    odd += [{"role": "user", "content": [None, 3, {"type": ["x"]}]}, {"lc": 1, "kwargs": {}, "id": 3}]
    history = read(*odd)
    assert history.recorded == len(odd)
