"""What a hostile or careless client may hand in: it is answered, soon, and the answer is right."""

from __future__ import annotations

from typing import Any

import pytest
from operations import steps

from loopscope.guard import FORMATS, lint_messages, repair_messages, sanitize_messages

USER = {"role": "user", "content": "q"}


def call(id: Any, name: Any = "f", arguments: Any = "{}", **keys: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **keys}


def turn(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def answer(id: Any, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def kinds(result: Any) -> list[str]:
    return [repair.kind.value for repair in result.repairs]


def settled(messages: list[Any], **options: Any) -> Any:
    result = sanitize_messages(messages, **options)
    assert sanitize_messages(result.messages, **options).repairs == ()
    assert all(0 <= repair.message_index < len(messages) for repair in result.repairs)
    return result


# -- which call --------------------------------------------------------------------------------------


def test_calls_that_python_takes_for_equal_are_two_calls() -> None:
    blocks = [
        {"type": "tool_use", "id": "k", "name": "f", "input": {"deep": value}} for value in (1, True, 1.0)
    ]
    results = [{"type": "tool_result", "tool_use_id": "k", "content": text} for text in "abc"]
    result = settled([{"role": "assistant", "content": blocks}, {"role": "user", "content": results}])
    assert kinds(result) == ["renamed_call_id", "renamed_call_id"]
    assert [one["content"] for one in result.messages[1]["content"]] == ["a", "b", "c"]


@pytest.mark.parametrize("order", [("k", "k|fc_1"), ("k|fc_1", "k")])
def test_a_result_goes_to_the_call_that_spells_the_id_as_it_does(order: tuple[str, str]) -> None:
    messages = [USER, turn(call("k|fc_1", "f"), call("k", "g")), *(answer(one, one) for one in order)]
    assert settled(messages).repairs == ()
    assert lint_messages(messages, "openai") == ()


def test_composites_that_cross_each_other_keep_their_results() -> None:
    messages = [answer("C|A", "early"), turn(call("B|C", "f"), call("A|B", "g")), answer("B|C", "late")]
    result = settled(messages)
    assert {one["tool_call_id"]: one["content"] for one in result.messages[1:]} == {
        "A|B": "early",
        "B|C": "late",
    }


def test_the_stub_of_a_call_is_not_given_to_one_that_has_its_id_as_a_spelling() -> None:
    messages = [
        {"type": "function_call", "call_id": "a", "id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "of a"},
    ]
    result = settled(messages, provider="openai-responses")
    outputs = [one for one in result.messages if one["type"] == "function_call_output"]
    assert [one["call_id"] for one in outputs] == ["a", "b"]
    assert lint_messages(result.messages, "openai-responses") == ()


def test_a_result_keyed_on_an_item_id_follows_its_call_behind_other_items_too() -> None:
    messages = [
        {"type": "function_call", "call_id": "call_1", "id": "item_1", "name": "f", "arguments": "{}"},
        USER,
        {"type": "function_call_output", "call_id": "item_1", "output": "real"},
    ]
    assert "id_spelling" in [one.rule for one in lint_messages(messages, "openai-responses")]
    result = settled(messages, provider="openai-responses")
    assert result.messages[2]["call_id"] == "call_1"
    assert lint_messages(result.messages, "openai-responses") == ()


# -- old and new ways of calling ---------------------------------------------------------------------


def test_a_function_message_that_answers_tool_calls_becomes_a_tool_message() -> None:
    messages = [USER, turn(call("k")), {"role": "function", "name": "f", "content": "real"}]
    assert [one.rule for one in lint_messages(messages, "openai")] == ["missing_result"]
    result = settled(messages)
    assert kinds(result) == ["fixed_role", "rewrote_id"]
    assert result.messages[2] == {"role": "tool", "name": "f", "tool_call_id": "k", "content": "real"}
    assert lint_messages(result.messages, "openai") == ()


def test_a_tool_message_that_answers_a_function_call_becomes_a_function_message() -> None:
    messages = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "tool", "content": "real"},
    ]
    result = settled(messages)
    assert kinds(result) == ["fixed_role"]
    assert result.messages[2] == {"role": "function", "name": "f", "content": "real"}
    assert lint_messages(result.messages, "openai") == ()


# -- what a repair says, and where -------------------------------------------------------------------


def test_a_repair_of_a_message_that_a_repair_made_names_one_of_the_input() -> None:
    use = {"toolUse": {"toolUseId": "k|fc_1", "name": "g", "input": {}}}
    given = {"toolResult": {"toolUseId": "fc_1", "content": [], "status": "error"}}
    result = settled(
        [
            {"role": "user", "content": [{"text": "q"}]},
            {"role": "assistant", "content": [use]},
            {"role": "assistant", "content": [{"text": "a"}]},
            {"role": "user", "content": [given]},
        ],
        provider="bedrock",
    )
    assert {repair.kind for repair in result.repairs} >= {"rewrote_id", "filled_empty_content"}
    assert min(repair.message_index for repair in result.repairs) == 1


def test_results_stay_first_where_texts_are_merged_for_the_order_of_roles() -> None:
    use = {"toolUse": {"toolUseId": "k", "name": "f", "input": {}}}
    messages = [
        {"role": "user", "content": [{"text": "q"}]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": "one"},
        {"role": "user", "content": "two"},
    ]
    content = settled(messages, provider="bedrock").messages[2]["content"]
    assert ["toolResult" in block for block in content] == [True, False]
    assert content[1] == {"text": "one\n\ntwo"}


def test_repairing_twice_changes_nothing_where_a_dropped_turn_brings_two_together() -> None:
    result = repair_messages([USER, turn(), {"role": "user", "content": "n"}])
    assert [one["content"] for one in result.messages] == ["q\n\nn"]
    assert repair_messages(result.messages).repairs == ()


# -- what is right as it stands ----------------------------------------------------------------------


def test_reasoning_may_lead_to_a_request_for_approval() -> None:
    asked = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "arguments": "{}"}
    messages = [
        USER,
        {"type": "reasoning", "id": "rs_1", "summary": []},
        asked,
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    ]
    assert lint_messages(messages, "openai-responses") == ()
    assert settled(messages, provider="openai-responses").repairs == ()


def test_what_the_sdk_parsed_is_not_sent() -> None:
    from openai.types.chat import ParsedChatCompletionMessage
    from openai.types.responses import ParsedResponseFunctionToolCall

    function = {"name": "f", "arguments": "{}", "parsed_arguments": {"n": None}}
    calls = [{"id": "k", "type": "function", "function": {**function, "name": name}} for name in "fg"]
    message = ParsedChatCompletionMessage[Any].model_validate(
        {"role": "assistant", "content": "{}", "parsed": {"n": 1}, "tool_calls": calls}
    )
    made = settled([USER, message, answer("k"), answer("k")]).messages[1]
    assert "parsed" not in made
    assert [sorted(one["function"]) for one in made["tool_calls"]] == [["arguments", "name"]] * 2
    item = ParsedResponseFunctionToolCall.model_validate(
        {"type": "function_call", "call_id": "k", "name": "a.b", "arguments": "{}", "parsed_arguments": {}}
    )
    assert sorted(settled([USER, item]).messages[1]) == ["arguments", "call_id", "name", "type"]


# -- what is no message ------------------------------------------------------------------------------


class Refuses:
    """An object that answers nothing."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__
    __hash__ = None  # pyright: ignore[reportAssignmentType]


class Sealed:
    role = "assistant"
    content = None
    tool_calls = ({"id": "k", "function": {"name": "a.b", "arguments": "{}"}},)

    def model_dump(self, **_: Any) -> Any:
        raise RuntimeError("no")


def nested(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(depth):
        made = {"a": made}
    return made


ODD = [Refuses(), Sealed(), nested(50_000), 10**5000, float("nan"), b"\xff", "\ud800", {1}, range(2), object]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("odd", ODD, ids=lambda one: type(one).__name__)
def test_nothing_that_stands_where_it_should_not_raises(format: Any, odd: Any) -> None:
    result = {"tool_call_id": odd, "tool_use_id": odd, "toolUseId": odd, "content": odd, "response": odd}
    use = {"id": odd, "name": odd, "input": odd, "args": odd, "arguments": odd, "toolUseId": odd}
    messages = [
        odd,
        {"role": odd, "content": odd, "parts": odd},
        {"role": "assistant", "content": odd, "tool_calls": [odd, {"id": odd, "function": use}], "x": odd},
        {"role": "assistant", "content": [odd, {"type": odd}, {"type": "tool_use", **use}, {"toolUse": use}]},
        {"role": "model", "parts": [odd, {"functionCall": use}, {"functionCall": odd}]},
        {"type": "function_call", "call_id": odd, "id": odd, "name": odd, "arguments": odd},
        {"role": "user", "content": [{"type": "tool_result", **result}, {"toolResult": result}, odd]},
        {"role": "user", "parts": [{"functionResponse": result}, {"functionResponse": odd}]},
        {"role": "tool", **result},
        {"type": "function_call_output", "call_id": odd, "output": odd},
        USER,
    ]
    count = len(messages)
    for provider in (None, "openai", "anthropic", "gemini", "bedrock", "openai-responses", "mistral"):
        done = sanitize_messages(messages, format=format, provider=provider)
        assert len(done.origins) == len(done.messages)
        assert all(len(repair.detail) < 700 for repair in done.repairs)
        assert isinstance(lint_messages(messages, provider or "deepseek", format), tuple)
    assert len(repair_messages(messages, format=format).messages) <= count
    assert len(messages) == count


# -- time --------------------------------------------------------------------------------------------


def test_many_calls_under_one_id_in_one_turn_cost_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments of each call are looked at once, and not once for each call before it."""
    from loopscope.guard.messages import _pairing

    looked = 0
    canonical = _pairing.canonical_arguments

    def counted(arguments: Any) -> str:
        nonlocal looked
        looked += 1
        return canonical(arguments)

    monkeypatch.setattr(_pairing, "canonical_arguments", counted)
    calls = [call("k", arguments=f'{{"n": {number}}}') for number in range(1_000)]
    result = sanitize_messages([USER, turn(*calls), *(answer("k", str(number)) for number in range(1_000))])
    assert set(kinds(result)) == {"renamed_call_id"}
    assert [one["content"] for one in result.messages[2:]] == [str(number) for number in range(1_000)]
    assert looked == 1_000


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("content", ["hi", [{"type": "text", "text": "hi"}], None])
def test_a_long_run_of_one_role_is_merged_in_linear_time(role: str, content: Any) -> None:
    def work(count: int) -> int:
        messages = [
            {"role": role, "content": content, "tool_calls": [call(f"k{number}")]}
            if role == "assistant"
            else {"role": role, "content": content}
            for number in range(count)
        ]
        pending = [f"k{number}" for number in range(count)]
        form = "openai-chat" if role == "assistant" else "anthropic"
        return steps(lambda: repair_messages(messages, form, pending_call_ids=pending))

    assert work(800) < 2.5 * work(400)


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_a_turn_of_many_functions_costs_linear_time(ids: bool, late: bool) -> None:
    """Gemini's, whose results go by name."""

    def work(count: int) -> int:
        calls = [
            {"functionCall": {"name": f"f{number}", "args": {}, **({"id": f"k{number}"} if ids else {})}}
            for number in range(count)
        ]
        results = [
            {"functionResponse": {"name": f"f{number}", "response": {}}} for number in reversed(range(count))
        ]
        between = [{"role": "user", "parts": [{"text": "wait"}]}] if late else []
        messages = [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": calls},
            *between,
            {"role": "user", "parts": results},
        ]
        done = sanitize_messages(messages, "gemini", provider="gemini")
        assert lint_messages(done.messages, "gemini", "gemini") == ()
        return steps(lambda: (lint_messages(messages, "gemini"), sanitize_messages(messages, "gemini")))

    assert work(800) < 2.5 * work(400)
