"""With a provider named, what only that provider refuses is mended too."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from loopscope.guard.messages import RepairKind, SanitizeResult, sanitize_messages
from loopscope.guard.messages._lint import lint_messages

U = {"role": "user", "content": "q"}
DONE = {"role": "assistant", "content": "done"}


def call(key: Any, name: str = "f", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*keys: Any, text: Any = None) -> dict[str, Any]:
    made = [key if isinstance(key, dict) else call(key) for key in keys]
    return {"role": "assistant", "content": text, "tool_calls": made}


def tool(key: Any, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": key, "content": content}


def use(key: str, value: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": key, "name": "f", "input": {} if value is None else value}


def gives(key: str, content: Any = "r") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": key, "content": content}


def said(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def mended(messages: list[Any], provider: str, form: Any = None) -> SanitizeResult:
    """Sanitise, and hold what must hold for every history."""
    before = copy.deepcopy(messages)
    result = sanitize_messages(messages, form, provider=provider)
    assert messages == before
    assert lint_messages(result.messages, provider, result.format) == ()
    again = sanitize_messages(result.messages, result.format, provider=provider)
    assert again.repairs == ()
    assert sanitize_messages(copy.deepcopy(messages), form, provider=provider).messages == result.messages
    return result


def kinds(result: SanitizeResult) -> list[str]:
    return [one.kind.value for one in result.repairs]


def uses(result: SanitizeResult) -> list[tuple[str, str]]:
    """(id of the call, id of the result) pair by pair."""
    calls = [b["id"] for m in result.messages for b in m["content"] if b["type"] == "tool_use"]
    results = [b["tool_use_id"] for m in result.messages for b in m["content"] if b["type"] == "tool_result"]
    return list(zip(calls, results, strict=True))


def rounds(*keys: str) -> list[Any]:
    out: list[Any] = [said("user", {"type": "text", "text": "q"})]
    for key in keys:
        out += [said("assistant", use(key)), said("user", gives(key))]
    return out


def test_ids_are_rewritten_on_both_sides_in_step():
    """Anthropic takes no colon; two ids that would become one stay two."""
    result = mended(rounds("a:b", "a_b", "a;b"), "anthropic")
    assert uses(result) == [("a_b", "a_b"), ("a_b_d2", "a_b_d2"), ("a_b_d3", "a_b_d3")]
    assert kinds(result) == ["rewrote_id", "renamed_call_id", "rewrote_id"]


def test_an_id_does_not_change_when_messages_are_added():
    """Ids are part of what prompt caches compare."""
    keys = ["a:b", "k", "a_b", "k", "x" * 70, "a:b", "", "k_d2"]
    whole = mended(rounds(*keys), "anthropic").messages
    for count in range(1, len(keys)):
        part = mended(rounds(*keys[:count]), "anthropic").messages
        assert part == whole[: len(part)]


def test_ids_that_come_back_are_renamed_only_where_that_is_refused():
    history = rounds("k", "k", "k")
    assert uses(mended(history, "anthropic")) == [("k", "k"), ("k_d2", "k_d2"), ("k_d3", "k_d3")]
    chat = [U, asks("k"), tool("k"), asks("k"), tool("k"), DONE]
    assert mended(chat, "openai").messages == chat
    assert mended(chat, "deepseek").messages == chat


@pytest.mark.parametrize(("provider", "limit"), [("openai", 40), ("azure-openai", 40)])
def test_long_ids_are_cut_and_stay_apart(provider: str, limit: int):
    long = ["x" * 60 + str(number) for number in range(3)]
    result = mended([U, asks(*long), *map(tool, long), DONE], provider)
    ids = [one["id"] for one in result.messages[1]["tool_calls"]]
    assert len(set(ids)) == 3
    assert all(len(one) <= limit for one in ids)
    assert [one["tool_call_id"] for one in result.messages[2:5]] == ids
    assert kinds(result) == ["rewrote_id"] * 3


def test_of_a_composite_id_the_calls_own_part_is_kept():
    key = "call_abc|fc_" + "0" * 48
    result = mended([U, asks(key), tool(key), DONE], "openai")
    assert result.messages[1]["tool_calls"][0]["id"] == "call_abc"
    assert result.messages[2]["tool_call_id"] == "call_abc"


def test_mistral_wants_nine_letters():
    keys = ["call_1", "call_2", "abcdefghi"]
    result = mended([U, asks(*keys), *map(tool, keys), DONE], "mistral")
    ids = [one["id"] for one in result.messages[1]["tool_calls"]]
    assert ids[2] == "abcdefghi"
    assert len(set(ids)) == 3
    assert all(len(one) == 9 and one.isalnum() and one.isascii() for one in ids)
    assert [one["tool_call_id"] for one in result.messages[2:5]] == ids


def test_a_result_is_spelled_as_its_call():
    result = mended([U, asks("  k "), tool("k"), DONE], "openai")
    assert result.messages[2]["tool_call_id"] == "  k "
    assert kinds(result) == ["rewrote_id"]
    # Without a provider both stay: they are understood.
    assert sanitize_messages([U, asks("  k "), tool("k"), DONE]).repairs == ()


def test_arguments_become_an_object_and_what_is_lost_is_told():
    lost = '{"path": "' + "x" * 500
    history = [
        U,
        asks(call("123", arguments=lost), call("456", arguments=" ")),
        tool("123"),
        tool("456"),
        DONE,
    ]
    result = mended(history, "dashscope")
    made = [one["function"]["arguments"] for one in result.messages[1]["tool_calls"]]
    assert made == ["{}", "{}"]
    assert kinds(result) == ["repaired_arguments", "repaired_arguments"]
    assert '"{"path": "xxx' in result.repairs[0].detail
    assert len(result.repairs[0].detail) < 300
    assert mended(history, "openai").messages == history  # which takes them


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_words_that_only_python_takes_for_json_become_null(word: str):
    history = [U, asks(call("1", arguments=f'{{"a": {word}, "b": 1e999, "c": [1.5]}}')), tool("1"), DONE]
    result = mended(history, "dashscope")
    (made,) = result.messages[1]["tool_calls"]
    assert made["function"]["arguments"] == '{"a": null, "b": null, "c": [1.5]}'
    assert kinds(result) == ["repaired_arguments"]
    assert "NaN or Infinity" in result.repairs[0].detail


@pytest.mark.parametrize("provider", ["openai", "azure-openai", "xai"])
def test_a_result_without_content_gets_an_empty_one(provider: str):
    history = [U, asks(call("1")), {**tool("1"), "content": None}, DONE]
    (violation,) = [one for one in lint_messages(history, provider) if one.message_index == 2]
    assert violation.error_class == "empty_content"
    result = mended(history, provider)
    assert result.messages[2] == {**tool("1"), "content": ""}
    assert lint_messages(history, "deepseek") == ()


def test_numbers_of_any_length_are_json():
    history = [U, asks(call("1", arguments=f'{{"a": {"9" * 5_000}, "b": 1e999}}')), tool("1"), DONE]
    assert mended(history, "dashscope").repairs == ()


def test_arguments_as_text_are_parsed_where_an_object_is_asked_for():
    history = rounds("k")
    history[1]["content"][0]["input"] = '{"a": [1]}'
    result = mended(history, "anthropic")
    assert result.messages[1]["content"][0]["input"] == {"a": [1]}
    history[1]["content"][0]["input"] = "nonsense"
    assert mended(history, "anthropic").messages[1]["content"][0]["input"] == {}


def test_empty_content_is_filled_or_left_out():
    blank = {"type": "text", "text": " "}
    result = mended(
        [said("user", blank), said("assistant", blank, use("k")), said("user", gives("k"))], "anthropic"
    )
    assert result.messages[0]["content"] == [{"type": "text", "text": "[no content]"}]
    assert result.messages[1]["content"] == [use("k")]
    assert set(kinds(result)) == {"filled_empty_content"}
    result = mended([U, asks("k"), tool("k")], "xai")
    assert result.messages[1]["content"] == ""
    result = mended([U, {"role": "assistant", "content": " "}, U], "moonshot")
    assert result.messages[1]["content"].strip()


def test_mistral_gets_an_assistant_message_between_a_result_and_the_user():
    history = [U, asks("123456789"), tool("123456789"), U]
    result = mended(history, "mistral")
    assert [one["role"] for one in result.messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert result.origins == (0, 1, 2, None, 3)
    assert kinds(result) == ["fixed_role"]


def test_bedrock_gets_turns_that_alternate_and_begin_with_the_user():
    def word(text: str) -> dict[str, Any]:
        return {"text": text}

    history = [
        said("assistant", word("a")),
        said("assistant", word("b")),
        said("user", word("c")),
        said("user", word("d")),
    ]
    result = mended(history, "bedrock", "bedrock-converse")
    assert [(one["role"], len(one["content"])) for one in result.messages] == [
        ("user", 1),
        ("assistant", 2),
        ("user", 2),
    ]
    assert sorted(kinds(result)) == ["fixed_role", "merged_messages", "merged_messages"]


def test_gemini_gets_call_turns_behind_a_user_turn():
    def model(*parts: Any) -> dict[str, Any]:
        return {"role": "model", "parts": list(parts)}

    ask, word = {"functionCall": {"name": "f", "args": {}}}, {"text": "t"}
    answer = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]}
    history = [model(ask), answer, model(word), model(ask), answer]
    result = mended(history, "gemini")
    assert [one["role"] for one in result.messages] == ["user", "model", "user", "model", "user"]
    assert result.messages[3]["parts"] == [word, ask]
    assert sorted(kinds(result)) == ["fixed_role", "merged_messages"]


def test_templates_get_users_and_assistants_in_turns():
    second = {"role": "user", "content": "more"}
    result = mended([U, second, asks("k", text=""), tool("k"), second], "llama.cpp")
    assert result.messages[0] == {"role": "user", "content": "q\n\nmore"}
    assert [one["role"] for one in result.messages] == ["user", "assistant", "tool", "assistant", "user"]
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    result = mended([U, picture], "llama.cpp")
    assert result.messages == [
        {"role": "user", "content": [{"type": "text", "text": "q"}, *picture["content"]]}
    ]


def test_zhipu_gets_a_user_message():
    history = [{"role": "system", "content": "s"}, asks("k"), tool("k")]
    result = mended(history, "zhipu")
    assert [one["role"] for one in result.messages] == ["system", "user", "assistant", "tool"]
    assert [one["role"] for one in mended(history[:1], "zhipu").messages] == ["system", "user"]
    assert mended([], "zhipu").messages == []


def test_deepseek_knows_no_developer():
    result = mended([{"role": "developer", "content": "s"}, U], "deepseek")
    assert result.messages[0] == {"role": "system", "content": "s"}
    assert kinds(result) == ["fixed_role"]


def test_responses_items_lose_ids_that_are_refused_but_no_content():
    def item(key: str, item_id: str) -> dict[str, Any]:
        return {"type": "function_call", "id": item_id, "call_id": key, "name": "f", "arguments": "{}"}

    def output(key: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": key, "output": "r"}

    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    history = [
        U,
        item("a", "call_a"),
        output("a"),
        item("b", "fc_b"),
        output("b"),
        item("c", "fc_b"),
        output("c"),
    ]
    result = mended([*history, reasoning, U], "openai")
    without = [{key: value for key, value in one.items() if key != "id"} for one in history]
    assert result.messages == [
        U,
        without[1],
        output("a"),
        history[3],
        output("b"),
        without[5],
        output("c"),
        U,
    ]
    assert kinds(result) == ["rewrote_id", "rewrote_id", RepairKind.DROPPED_REASONING.value]


def test_gemini_results_bear_the_name_of_the_function():
    ask = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
    answer = {"role": "user", "parts": [{"functionResponse": {"response": {"r": 1}}}]}
    result = mended([{"role": "user", "parts": [{"text": "q"}]}, ask, answer], "gemini")
    assert result.messages[2]["parts"][0]["functionResponse"]["name"] == "f"


def test_only_what_is_wrong_is_touched():
    history = rounds("fine", "a:b", "fine2")
    result = mended(history, "anthropic")
    changed = [
        at for at, (new, old) in enumerate(zip(result.messages, history, strict=True)) if new is not old
    ]
    assert changed == [3, 4]
    assert json.dumps(history[3]).count("a:b") == 1


def test_sdk_objects_are_mended_as_dicts_are_and_stay_untouched():
    chat = pytest.importorskip("openai.types.chat")
    made = chat.ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**call("call_1|fc_1" + "0" * 40), "function": {"name": "f", "arguments": "{"}}],
        }
    )
    before = made.model_dump()
    key = made.tool_calls[0].id
    for provider, kind in (
        ("openai", "rewrote_id"),
        ("dashscope", "repaired_arguments"),
        ("xai", "filled_empty_content"),
    ):
        result = sanitize_messages([U, made, tool(key)], provider=provider)
        assert kinds(result) == [kind]
        assert lint_messages(result.messages, provider) == ()
        assert made.model_dump() == before
        assert result.messages[0] is U


def test_sdk_items_of_a_response_lose_refused_ids_too():
    responses = pytest.importorskip("openai.types.responses")
    item = responses.ResponseFunctionToolCall(
        type="function_call", id="call_a", call_id="a", name="f", arguments="{}"
    )
    output = {"type": "function_call_output", "call_id": "a", "output": "r"}
    result = sanitize_messages([U, item, output], provider="openai")
    assert result.messages[1] == {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    assert item.id == "call_a"


def test_calls_that_are_still_running_stay_as_they_are():
    history = [U, asks("123456789", "abcdefghi"), tool("123456789")]
    result = sanitize_messages(history, provider="mistral", pending_call_ids=["abcdefghi"])
    assert result.repairs == ()
    assert lint_messages(result.messages, "mistral", pending_call_ids=["abcdefghi"]) == ()


def test_results_of_calls_that_the_provider_keeps_stay():
    history = [{"type": "function_call_output", "call_id": "k" * 70, "output": "r"}, U]
    result = sanitize_messages(history, provider="openai", previous_response_id="resp_1")
    assert result.messages == history
