"""What is particular to each format: where results belong, how they pair, what is left alone."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace as Object
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from histories import (
    A,
    T,
    U,
    as_json,
    assistant,
    bedrock_result,
    bedrock_use,
    call,
    gemini_call,
    gemini_response,
    kinds,
    model,
    responses_call,
    responses_output,
    said,
    sanitized,
    tool_result,
    turn,
    use,
    user,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem
from shared_corpus import corpus

from loopscope.guard import (
    FORMATS,
    detect_format,
    is_stub_result,
    lint_messages,
    repair_messages,
    sanitize_messages,
)
from loopscope.guard.messages import format_of

THINKING = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


# --- anthropic


def test_anthropic_results_come_before_other_blocks():
    messages = [user(said("q")), assistant(use("a")), user(said("so?"), tool_result("a"))]
    result = sanitized(messages)
    assert kinds(result) == ["moved_result"]
    assert result.messages[2] == user(tool_result("a"), said("so?"))


def test_anthropic_a_stub_goes_before_the_text_that_interrupted():
    messages = [U("build it"), assistant(said("building"), use("t", "bash")), U("stop, do this instead")]
    result = sanitized(messages)
    stub, text = result.messages[2]["content"]
    assert stub["tool_use_id"] == "t"
    assert stub["is_error"] is True
    assert is_stub_result(stub["content"])
    assert text == said("stop, do this instead")


def test_anthropic_two_turns_without_results_between_them():
    messages = [U(), assistant(use("a")), assistant(use("b")), user(tool_result("a"), tool_result("b"))]
    result = sanitized(messages)
    assert result.messages == [
        U(),
        assistant(use("a")),
        user(tool_result("a")),
        assistant(use("b")),
        user(tool_result("b")),
    ]
    assert result.origins == (0, 1, None, 2, 3)


def test_anthropic_swapped_results_go_home_without_an_empty_message():
    messages = [U(), assistant(use("a")), user(tool_result("b")), assistant(use("b")), user(tool_result("a"))]
    result = sanitized(messages)
    assert [m["content"][0].get("tool_use_id") for m in result.messages[2::2]] == ["a", "b"]
    assert kinds(result) == ["moved_result", "moved_result"]


def test_anthropic_the_same_block_twice_in_one_message():
    messages = [
        U(),
        assistant(said("ok"), use("t", "Bash", c="ls"), use("t", "Bash", c="ls")),
        user(tool_result("t")),
    ]
    result = sanitized(messages)
    assert kinds(result) == ["dropped_duplicate_call"]
    assert result.messages[1] == assistant(said("ok"), use("t", "Bash", c="ls"))
    assert result.messages[1]["content"][1] is messages[1]["content"][1]
    assert result.messages[2] is messages[2]


def test_anthropic_what_the_provider_runs_itself_is_left_alone():
    server = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    whole = [U(), assistant(THINKING, server, found, said("found")), U("more"), assistant(server, use("a"))]
    assert sanitized([*whole, user(tool_result("a"))]).repairs == ()
    result = sanitized(whole)
    assert kinds(result) == ["added_stub_result"]
    assert result.messages[:4] == whole


def test_anthropic_signed_thinking_stays_as_it_is():
    messages = [U(), assistant(THINKING, use("t"), use("t")), user(tool_result("t"))]
    result = sanitized(messages)
    assert result.messages[1]["content"][0] is THINKING


def test_anthropic_an_answer_of_the_sdk_is_written_as_a_request_takes_it():
    answer = AnthropicMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "model": "m",
            "role": "assistant",
            "content": [said("ok"), use("t", "f", a=1), use("t", "g", a=1)],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    # While both run, their results may still come under the id they have.
    assert sanitized([U(), answer], pending_call_ids=["t"], format="anthropic").repairs == ()
    result = sanitize_messages([U(), answer, user(tool_result("t", "1"), tool_result("t", "2"))])
    assert result.format == "anthropic"
    assert kinds(result) == ["renamed_call_id"]
    written = as_json(result.messages[1])
    assert set(written) == {"role", "content"}
    assert [one.get("id") for one in written["content"]] == [None, "t", "t_d2"]
    assert [one["tool_use_id"] for one in result.messages[2]["content"]] == ["t", "t_d2"]


def test_anthropic_blocks_of_the_sdk_in_a_dict():
    answer = AnthropicMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "model": "m",
            "role": "assistant",
            "content": [use("t")],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    messages = [U(), {"role": "assistant", "content": answer.content}, user(tool_result("t"))]
    assert sanitized(messages).repairs == ()
    assert sanitized(messages).format == "anthropic"


# --- bedrock-converse


def test_bedrock_results_are_in_one_message_and_stubs_say_error():
    messages = [
        {"role": "user", "content": [{"text": "q"}]},
        assistant(bedrock_use("a"), bedrock_use("b"), bedrock_use("c")),
        user(bedrock_result("b", status="success")),
        user({"text": "so?"}, bedrock_result("a")),
    ]
    result = sanitized(messages)
    assert result.format == "bedrock-converse"
    b, a, stub = result.messages[2]["content"]
    assert (b, a) == (messages[2]["content"][0], messages[3]["content"][1])
    assert stub["toolResult"]["toolUseId"] == "c"
    assert stub["toolResult"]["status"] == "error"
    assert is_stub_result(stub["toolResult"]["content"][0]["text"])
    assert result.messages[3] == user({"text": "so?"})
    assert kinds(result) == ["added_stub_result", "moved_result"]


def test_bedrock_results_may_stand_behind_text_of_their_message():
    """No rule of Bedrock asks for results first; what is valid is sent as it is."""
    messages = [
        user({"text": "q"}),
        assistant(bedrock_use("a"), bedrock_use("b")),
        user({"text": "so:"}, bedrock_result("a"), {"text": "and:"}, bedrock_result("b")),
        assistant({"text": "done"}),
    ]
    assert lint_messages(messages, "bedrock") == ()
    assert sanitized(messages).repairs == ()
    assert sanitized(messages, provider="bedrock").repairs == ()
    assert repair_messages(messages).repairs == ()
    half = [*messages[:2], user({"text": "so:"}, bedrock_result("b")), messages[3]]
    b, stub, text = sanitized(half).messages[2]["content"]
    assert (b, text) == (bedrock_result("b"), {"text": "so:"})
    assert stub["toolResult"]["toolUseId"] == "a"


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        (
            [assistant(use("a")), user(said("x"), tool_result("a"))],
            "stood behind other content of its message",
        ),
        ([assistant(use("a")), user(said("x")), user(tool_result("a"))], "stood behind another message"),
        ([user(tool_result("a")), assistant(use("a"))], "stood before its call"),
        ([A("a"), U(), T("a")], "stood behind another message"),
        ([T("a"), A("a")], "stood before its call"),
    ],
)
def test_a_moved_result_says_where_it_stood(messages: list[Any], where: str):
    (repair,) = sanitized([U(), *messages]).repairs
    assert repair.kind == "moved_result"
    assert repair.detail == f'moved this result of "f" behind its call: it {where}'


def test_bedrock_what_the_provider_runs_itself_is_left_alone():
    server = {"toolUse": {"toolUseId": "s", "name": "code", "input": {}, "type": "server_tool_use"}}
    done = {"toolResult": {"toolUseId": "s", "content": [{"json": {}}], "type": "code_result"}}
    messages = [user({"text": "q"}), assistant(server, done, bedrock_use("a")), user(bedrock_result("a"))]
    assert sanitized(messages).repairs == ()


def test_bedrock_a_renamed_call_keeps_the_other_members_of_its_block():
    messages = [
        user({"text": "q"}),
        assistant({**bedrock_use("a", "f"), "cachePoint": {}}, {**bedrock_use("a", "g"), "x": 1}),
        user(bedrock_result("a", "1"), bedrock_result("a", "2")),
    ]
    result = sanitized(messages)
    assert kinds(result) == ["renamed_call_id"]
    assert result.messages[1]["content"][1] == {**bedrock_use("a_d2", "g"), "x": 1}
    assert result.messages[2]["content"][1]["toolResult"]["toolUseId"] == "a_d2"


# --- gemini


def test_gemini_calls_without_ids_pair_by_position_and_name():
    messages = [
        turn({"text": "q"}),
        model(gemini_call("f"), gemini_call("g"), gemini_call("f")),
        turn(gemini_response("f", "1"), gemini_response("g", "2"), gemini_response("f", "3")),
        turn({"text": "and?"}),
        model({"text": "done"}),
    ]
    assert sanitized(messages).repairs == ()
    messages[2]["parts"].reverse()
    assert sanitized(messages).repairs == ()


def test_gemini_equal_calls_without_ids_are_two_calls():
    messages = [
        turn({"text": "q"}),
        model(gemini_call(), gemini_call()),
        turn(gemini_response(), gemini_response()),
    ]
    assert sanitized(messages).repairs == ()


def test_gemini_counts_are_made_equal():
    messages = [
        turn({"text": "q"}),
        model(gemini_call("f"), gemini_call("g")),
        turn(gemini_response("g", "2"), gemini_response("g", "3")),
        turn({"text": "n"}),
    ]
    result = sanitized(messages)
    assert kinds(result) == ["added_stub_result", "dropped_orphan_result"]
    g, stub = result.messages[2]["parts"]
    assert g == gemini_response("g", "2")
    assert stub["functionResponse"]["name"] == "f"
    assert is_stub_result(stub["functionResponse"]["response"]["error"])


def test_gemini_a_name_that_differs_is_that_of_the_call():
    messages = [turn({"text": "q"}), model(gemini_call("f")), turn(gemini_response("default_api.f"))]
    result = sanitized(messages)
    assert kinds(result) == ["fixed_result_name"]
    assert result.messages[2] == turn(gemini_response("f"))


def test_gemini_a_late_response_is_moved_into_a_turn_of_its_own():
    messages = [
        turn({"text": "q"}),
        model(gemini_call("f")),
        turn({"text": "n"}),
        turn(gemini_response("f", "late")),
    ]
    result = sanitized(messages)
    assert result.messages == [*messages[:2], turn(gemini_response("f", "late")), turn({"text": "n"})]
    assert kinds(result) == ["moved_result"]


def test_gemini_ids_are_used_where_there_are_any():
    messages = [
        turn({"text": "q"}),
        model(gemini_call("f", id="1"), gemini_call("f", id="2")),
        turn(
            gemini_response("f", "b", id="2"),
            gemini_response("f", "a", id="1"),
            gemini_response("f", "x", id="2"),
        ),
    ]
    result = sanitized(messages)
    assert kinds(result) == ["dropped_duplicate_result"]
    assert [p["functionResponse"]["id"] for p in result.messages[2]["parts"]] == ["2", "1"]


def test_gemini_objects_and_the_spelling_of_the_sdk():
    content = [
        Object(role="user", parts=[Object(text="q")]),
        Object(
            role="model",
            parts=[
                Object(text=None, function_call=Object(id=None, name="f", args={}), thought_signature=b"s"),
                Object(text=None, function_call=Object(id=None, name="g", args={}), thought_signature=None),
            ],
        ),
        Object(
            role="user", parts=[Object(function_response=Object(id=None, name="g", response={"output": "2"}))]
        ),
    ]
    result = sanitize_messages(content)
    assert result.format == "gemini"
    assert kinds(result) == ["added_stub_result"]
    assert result.messages[:2] == content[:2]
    written = result.messages[2]["parts"]
    assert written[0]["function_response"] == {"id": None, "name": "g", "response": {"output": "2"}}
    assert written[1]["function_response"]["name"] == "f"


def test_gemini_plain_texts_are_turns_of_the_user():
    assert sanitized(["q"], format="gemini").repairs == ()


# --- openai-responses


def test_responses_outputs_need_not_stand_right_behind_their_call():
    items = [
        U(),
        responses_call("a"),
        responses_call("b"),
        U("wait"),
        responses_output("b"),
        responses_output("a"),
    ]
    assert sanitized(items).repairs == ()


def test_responses_an_output_before_its_call_is_moved():
    items = [U(), responses_output("a", "early"), responses_call("a"), U("n")]
    result = sanitized(items)
    assert kinds(result) == ["moved_result"]
    assert result.messages == [U(), responses_call("a"), responses_output("a", "early"), U("n")]


def test_responses_stubs_come_behind_the_results_there_are():
    items = [
        U(),
        responses_call("a"),
        responses_call("b"),
        responses_output("b"),
        U("n"),
        responses_call("c", "look"),
    ]
    result = sanitized(items)
    assert [one.get("call_id") for one in result.messages] == [None, "a", "b", "b", "a", None, "c", "c"]
    assert is_stub_result(result.messages[4]["output"])
    assert kinds(result) == ["added_stub_result", "added_stub_result"]


def test_responses_outputs_of_the_response_before_are_kept():
    items = [responses_output("a", "1"), responses_output("b", "2"), U("n")]
    assert sanitized(items, previous_response_id="resp_1").repairs == ()
    assert kinds(sanitized(items)) == ["dropped_orphan_result"] * 2
    twice = sanitized([*items, responses_output("a", "3")], previous_response_id="resp_1")
    assert twice.messages == items
    assert kinds(twice) == ["dropped_duplicate_result"]


def test_responses_a_reference_may_hold_the_call():
    items = [U(), {"type": "item_reference", "id": "fc_1"}, responses_output("a", "1")]
    assert sanitized(items).repairs == ()


def test_responses_reasoning_goes_with_the_call_it_led_to():
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    items = [
        U(),
        responses_call("a", id="fc_1"),
        responses_output("a"),
        reasoning,
        {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "screenshot"}},
        U("n"),
    ]
    result = sanitized(items)
    assert result.messages == [*items[:3], items[5]]
    assert kinds(result) == ["dropped_reasoning", "dropped_unpaired_call"]


def test_responses_a_replayed_response_is_one_response():
    """Stored items may stand there only once; the replay says nothing new, so nothing is lost."""
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        responses_call("a", id="fc_1"),
        responses_output("a", "1"),
    ]
    result = sanitized([U(), *items, *items, U("n")])
    assert result.messages == [U(), *items, U("n")]
    assert kinds(result) == ["dropped_duplicate_call", "dropped_duplicate_call", "dropped_duplicate_result"]


def test_responses_a_repeated_item_with_another_output_is_kept():
    items = [responses_call("a", id="x"), responses_output("a", "1"), responses_call("a", id="x")]
    assert sanitized([*items, responses_output("a", "2")]).repairs == ()


@pytest.mark.parametrize(
    ("kind", "output", "arguments"),
    [
        ("custom_tool_call", "custom_tool_call_output", {"name": "g", "input": "x"}),
        ("local_shell_call", "local_shell_call_output", {"action": {"type": "exec", "command": ["ls"]}}),
        ("shell_call", "shell_call_output", {"action": {"commands": ["ls"]}}),
        ("apply_patch_call", "apply_patch_call_output", {"operation": {"type": "delete_file", "path": "a"}}),
    ],
)
def test_responses_other_kinds_of_calls(kind, output, arguments):
    made = {"type": kind, "id": "it_1", "call_id": "a", **arguments}
    done = {"type": output, "call_id": "a", "output": "r"}
    assert sanitized([U(), made, done]).repairs == ()
    result = sanitized([U(), made])
    assert kinds(result) == ["added_stub_result"]
    stub = result.messages[-1]
    key = "id" if kind == "local_shell_call" else "call_id"  # as the types of the SDK have it
    assert (stub["type"], stub[key]) == (output, "a")
    assert "[no result recorded]" in json.dumps(stub["output"])


@pytest.mark.parametrize(
    ("call_type", "output_type", "may"),
    [
        ("function_call", "function_call_output", True),
        ("function_call", "custom_tool_call_output", False),
        ("custom_tool_call", "custom_tool_call_output", True),
        ("custom_tool_call", "function_call_output", False),
        ("local_shell_call", "local_shell_call_output", True),
        ("local_shell_call", "function_call_output", True),
        ("local_shell_call", "shell_call_output", False),
        ("shell_call", "local_shell_call_output", False),
        ("shell_call", "function_call_output", False),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_responses_which_kind_of_output_may_answer_a_call(
    call_type: str, output_type: str, may: bool, named: bool
):
    made = {"type": call_type, "id": "fc_1", "call_id": "a"}
    if call_type in ("function_call", "custom_tool_call"):
        made |= {"name": "f", "arguments": "{}", "input": ""}
    output = {"type": output_type, "output": [] if output_type == "shell_call_output" else "r"}
    output |= {"call_id": "a"} if named else {}
    result = sanitized([U(), made, output])
    if may:
        assert kinds(result) == ([] if named else ["rewrote_id"])
    else:
        assert kinds(result) == ["added_stub_result", "dropped_orphan_result"]
    violations = lint_messages([U(), made, output], "openai-responses")
    if named:
        assert (violations == ()) is may
    assert lint_messages(result.messages, "openai-responses") == ()
    late = sanitized([U(), output, made])
    assert (late.repairs[0].kind == "moved_result") is (may and named)


def test_responses_a_result_may_precede_and_follow_calls_of_other_kinds_of_its_id():
    calls = [
        {"type": "custom_tool_call", "call_id": "a", "name": "f", "input": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        responses_call("a"),
    ]
    results = [responses_output("a", "1"), {"type": "custom_tool_call_output", "call_id": "a", "output": "2"}]
    result = sanitized([U(), *calls, *results])
    assert kinds(result) == ["renamed_call_id"]
    assert [one["output"] for one in result.messages[4:]] == ["1", "2"]
    assert lint_messages(result.messages, "openai-responses") == ()


def test_gemini_calls_under_another_role_are_the_model_s():
    for role in ("function", "tool", "user"):
        messages = [
            turn({"text": "q"}),
            {**model(gemini_call("f")), "role": role},
            turn(gemini_response("f")),
        ]
        result = sanitized(messages)
        assert kinds(result) == ["fixed_role"]
        assert result.messages[1]["role"] == "model"
        assert lint_messages(result.messages, "gemini") == ()
        assert repair_messages(messages).messages == result.messages


def test_chat_the_two_kinds_of_calls_in_one_message():
    """A result of role `function` is that of the `function_call`, whatever else has its name."""
    old = {"function_call": {"name": "g", "arguments": "{}"}}
    messages = [
        U(),
        {**A("a:f", "b:g"), **old},
        {"role": "function", "name": "g", "content": "old"},
        T("b", "new"),
    ]
    result = sanitized(messages)
    assert kinds(result) == ["added_stub_result"]
    assert result.messages[2:4] == messages[2:]
    assert result.messages[4]["tool_call_id"] == "a"
    lost = sanitized([*messages[:3], U()])  # the result of b is lost
    assert lost.messages[2] == messages[2]
    assert [one.get("tool_call_id") for one in lost.messages[3:5]] == ["a", "b"]


def test_responses_a_turn_without_content_before_reasoning_that_goes_is_filled():
    for content in ({}, {"content": []}):
        messages = [U(), {"role": "assistant", **content}, {"type": "reasoning", "id": "rs_1", "summary": []}]
        result = sanitized(messages, provider="openai-responses")
        assert kinds(result) == ["filled_empty_content", "dropped_reasoning"]


def test_responses_an_orphan_between_items_does_not_hide_what_they_share():
    messages = [
        U(),
        {"type": "function_call", "id": "B|A", "call_id": "B|A", "name": "f", "arguments": "{}"},
        responses_output("c"),
        {"type": "function_call", "id": "B", "call_id": "A|c", "name": "g", "arguments": "{}"},
        U("wait"),
        responses_output("c", "2"),
        responses_output("A", "1"),
    ]
    result = sanitized(messages)
    assert "1" in [one.get("output") for one in result.messages]


def test_responses_a_result_goes_to_the_nearest_call_of_its_spellings():
    messages = [
        U(),
        responses_call("B|A"),
        responses_call("x"),
        responses_output("x"),
        responses_call("c"),
        responses_output("A|c", "of c"),
    ]
    result = sanitized(messages)
    assert kinds(result) == ["added_stub_result"]
    assert [one["call_id"] for one in result.messages if "output" in one] == ["x", "B|A", "A|c"]


def test_responses_what_the_provider_runs_itself_is_left_alone():
    items = [
        U(),
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {
            "type": "tool_search_call",
            "id": "tsc_1",
            "call_id": "tsc_1",
            "execution": "server",
            "arguments": {},
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": "x",
            "arguments": "{}",
            "output": "r",
            "server_label": "s",
        },
        {"role": "assistant", "content": ""},
        responses_call("a"),
        responses_output("a"),
    ]
    assert sanitized(items).repairs == ()


def test_responses_items_of_the_sdk():
    call_item = ResponseFunctionToolCall(
        arguments="{}", call_id="a", name="f", type="function_call", id="fc_1"
    )
    other = call_item.model_copy(update={"id": "fc_2", "name": "g"})
    reasoning = ResponseReasoningItem(id="rs_1", summary=[], type="reasoning")
    items = [U(), reasoning, call_item, other, responses_output("a", "1"), responses_output("a", "2")]
    result = sanitize_messages(items)
    assert result.format == "openai-responses"
    assert kinds(result) == ["renamed_call_id"]
    assert result.messages[2] is call_item
    assert result.messages[3] == {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "a_d2",
        "name": "g",
        "arguments": "{}",
    }


# --- openai-chat


def test_chat_the_older_function_call_pairs_by_position():
    messages = [
        U(),
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "r"},
        {"role": "assistant", "content": None, "function_call": {"name": "g", "arguments": "{}"}},
    ]
    assert sanitized(messages[:3]).repairs == ()
    result = sanitized(messages)
    assert kinds(result) == ["added_stub_result"]
    assert result.messages[-1]["role"] == "function"
    assert result.messages[-1]["name"] == "g"


def test_chat_custom_tools():
    custom = {"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}
    assert sanitized([U(), A(custom), T("a")]).repairs == ()
    result = sanitized(
        [U(), A(custom, {**custom, "custom": {"name": "f", "input": "y"}}), T("a"), T("a", "2")]
    )
    assert kinds(result) == ["renamed_call_id"]
    assert result.messages[1]["tool_calls"][1] == {
        "id": "a_d2",
        "type": "custom",
        "custom": {"name": "f", "input": "y"},
    }


def test_chat_a_rename_takes_every_key_that_held_the_id():
    first, second = call("k", call_id="k"), call("k", "g", call_id="k", response_item_id="fc_9")
    result = sanitized([U(), A(first, second), T("k", "1"), T("k", "2")])
    assert result.messages[1]["tool_calls"][1] == call("k_d2", "g", call_id="k_d2", response_item_id="fc_9")


def test_chat_a_real_result_takes_the_place_of_a_stub():
    once = sanitized([U(), A("k"), U("n")])
    stubbed = [*once.messages, T("k", "late")]
    result = sanitized(stubbed)
    assert [one.get("content") for one in result.messages] == ["q", "", "late", "n"]
    assert kinds(result) == ["dropped_duplicate_result", "moved_result"]


def test_chat_a_replayed_result_is_not_given_to_a_later_call():
    result = sanitized([A("k"), T("k", "1"), T("k", "1"), A("k"), U("n")])
    assert is_stub_result(result.messages[3]["content"])
    assert kinds(result) == ["dropped_duplicate_result", "added_stub_result"]
    other = sanitized([A("k"), T("k", "1"), T("k", "2"), A("k"), U("n")])
    assert [one["content"] for one in other.messages] == ["", "1", "", "2", "n"]


def test_chat_null_content_without_calls_is_never_sent():
    assert sanitized([U(), A(text=None)]).messages[1]["content"] == ""
    assert kinds(sanitized([U(), A(text=None)])) == ["filled_empty_content"]


def test_chat_roles_in_another_spelling_are_kept():
    result = sanitized([{"role": "User", "content": "q"}, {"content": "x"}])
    assert result.messages == [U("q")]
    assert kinds(result) == ["fixed_role", "dropped_unknown_role"]


def test_chat_empty_lists_of_content_are_filled():
    result = sanitized([U([]), A(text="a"), U([{"type": "text", "text": " "}]), A(text="b")])
    filled = [{"type": "text", "text": "[no content]"}]
    assert [one["content"] for one in result.messages] == [filled, "a", filled, "b"]


# --- all


def test_arguments_and_results_nested_too_deep_to_compare():
    def nested(depth: int) -> list[object]:
        made: list[object] = []
        for _ in range(depth):
            made = [made]
        return made

    first, second = nested(20_000), nested(20_000)
    turns = [U(), assistant(use("a", "f", x=first), use("a", "g", x=second)), user(tool_result("a", first))]
    result = sanitize_messages([*turns, user(tool_result("a", second))], "anthropic")
    assert kinds(result) == ["renamed_call_id", "moved_result"]
    twins = [U(), assistant(use("a", "f", x=first), use("a", "f", x=second)), user(tool_result("a", first))]
    assert kinds(sanitize_messages(twins, "anthropic")) == ["dropped_duplicate_call"]


ODD = [
    None,
    3,
    "x",
    [],
    {},
    {"role": 5, "content": 7},
    {"role": "assistant", "content": 7},
    {"role": "assistant", "tool_calls": [None, 3, {}, {"id": 4, "function": 5}]},
    {"role": "assistant", "tool_calls": {"id": "a"}},
    {"role": "assistant", "content": [None, 3, [], {}, {"type": 3}, {"type": "tool_use"}, {"toolUse": 1}]},
    {"role": "user", "content": [{"type": "tool_result"}, {"toolResult": {}}]},
    {"role": "model", "parts": [None, 3, "x", {"functionCall": 1}, {"functionResponse": {}}]},
    {"role": "tool", "tool_call_id": {"a": 1}, "content": b"x"},
    {"type": "function_call"},
    {"type": "function_call_output", "call_id": 7},
    {"type": "reasoning"},
    {"type": ["x"], "role": ["y"]},
    object(),
]


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_makes_it_raise(form):
    for first in ODD:
        sanitize_messages([first])
        for second in ODD:
            messages = [U(), first, second, A("k")]
            result = sanitize_messages(messages, form)
            again = sanitize_messages(result.messages, form)
            assert again.messages == result.messages
            assert again.repairs == ()


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_read_and_not_changed_is_written_as_the_same_object(form):
    for number, raw in enumerate(ODD):
        one = format_of(form)
        assert one.write(one.read(raw, number)) is raw


def test_unknown_format():
    with pytest.raises(ValueError, match="unknown message format 'chat'; known are openai-chat"):
        sanitize_messages([], format="chat")  # type: ignore[arg-type]


DETECTED = {
    "openai-chat": [U(), A("k"), T("k")],
    "openai-responses": [U(), responses_call("a"), responses_output("a")],
    "anthropic": [user(said("q")), assistant(use("a")), user(tool_result("a"))],
    "gemini": [turn({"text": "q"})],
    "bedrock-converse": [user({"text": "q"}), assistant({"text": "a"})],
}


@pytest.mark.parametrize("form", FORMATS)
def test_the_format_is_found_out(form):
    assert detect_format(DETECTED[form]) == form
    assert sanitized(DETECTED[form]).repairs == ()


def test_plain_texts_are_read_as_chat():
    assert detect_format([]) == detect_format([U(), A(text="a")]) == "openai-chat"


# --- the optional corpus


def wire_requests():
    with gzip.open(corpus("real", "wire-requests", "wire.jsonl.gz"), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


HOSTS = {
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
    "aiplatform.googleapis.com": "gemini",
    "bedrock-runtime.us-east-1.amazonaws.com": "bedrock-converse",
}


def test_what_real_providers_took_comes_back_as_it_is():
    rows = wire_requests()
    assert len(rows) == 93
    for row in rows:
        request = row["request"]
        history = request.get("messages") or request.get("input") or request.get("contents")
        result = sanitized(history, previous_response_id=request.get("previous_response_id"))
        default = "openai-responses" if "input" in request else "openai-chat"
        assert result.format == HOSTS.get(row["url"].split("/")[2], default)
        assert result.repairs == (), row["url"]  # nor do the three 400s, which are about other things


def http400_cases():
    for path in sorted(corpus("cases").glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        if case["kind"] == "http400":
            yield case


def test_the_cases_of_public_reports():
    seen = 0
    for case in http400_cases():
        seen += 1
        messages, expected = case["input"]["messages"], case["expected"]["sanitizer"]
        result = sanitized(messages)
        assert result.format == case["input"]["format"]
        assert bool(result.repairs) == expected["must_change"]
        acceptable = expected["one_acceptable_output"]
        if case["id"].startswith("043"):
            acceptable[2]["content"][0]["content"] = result.messages[2]["content"][0]["content"]
            assert is_stub_result(acceptable[2]["content"][0]["content"])
        assert result.messages == acceptable
        dedup = {"dropped_duplicate_call", "dropped_duplicate_result"}
        assert case["expected"]["http400"]["prevented_by_dedup"] == (
            bool(result.repairs) and set(kinds(result)) <= dedup
        )
    assert seen == 4
