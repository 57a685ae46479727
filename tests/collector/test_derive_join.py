"""Ids, arguments, results and turns out of the messages around a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from derive_tools import START, agent, answers, asks, chat, span, tool

from loopscope.collector._derive import derive_trace
from loopscope.collector._parts import facts_of
from loopscope.collector._records import LogRecord


def loop(times: int, call_id: str | None = None, **fields: Any):
    """An agent that asks `times` times for the same call, and its tool spans without ids."""
    root = agent()
    history: list[dict[str, Any]] = [{"role": "user", "parts": []}]
    spans = [root]
    for number in range(times):
        request = asks(call_id or f"c{number}")
        spans.append(chat(history, [request], parent=root))
        spans.append(tool(parent=root, **fields))
        history = [*history, request, answers(call_id or f"c{number}", f"r{number}")]
    spans.append(chat(history, [{"role": "assistant", "parts": []}], parent=root))
    return spans


def test_equal_calls_get_their_own_ids_and_turns() -> None:
    calls = derive_trace(loop(4)).tool_calls
    assert [(call.call_id, call.turn) for call in calls] == [("c0", 1), ("c1", 2), ("c2", 3), ("c3", 4)]


def test_missing_results_come_from_the_next_request() -> None:
    calls = derive_trace(loop(3, result=None)).tool_calls
    assert [call.result for call in calls] == ["r0", "r1", "r2"]
    assert {call.outcome for call in calls} == {"success"}
    assert {call.content_state for call in calls} == {"full"}


def test_one_id_for_all_calls() -> None:
    calls = derive_trace(loop(3, call_id="same", result=None)).tool_calls
    assert [(call.call_id, call.turn, call.result) for call in calls] == [
        ("same", 1, "r0"),
        ("same", 2, "r1"),
        ("same", 3, "r2"),
    ]


def test_missing_arguments_come_from_the_answer() -> None:
    calls = derive_trace(loop(2, arguments=None)).tool_calls
    assert [json.loads(call.arguments or "") for call in calls] == [{"q": "x"}] * 2
    assert [call.call_id for call in calls] == ["c0", "c1"]


def test_a_failed_call_shows_what_the_model_was_told() -> None:
    calls = derive_trace(loop(1, result=None, status=2, message="ValueError: 7")).tool_calls
    assert (calls[0].result, calls[0].error_message, calls[0].outcome) == (
        "r0",
        "ValueError: 7",
        "general_tool_error",
    )


def test_a_recorded_result_stays() -> None:
    assert derive_trace(loop(1, result="")).tool_calls[0].result == ""


def test_equal_calls_of_one_answer() -> None:
    root = agent()
    both = {"role": "assistant", "parts": asks("a")["parts"] + asks("b")["parts"]}
    first = chat([], [both], parent=root)
    calls = [tool(parent=root, result=None), tool(parent=root, result=None)]
    second = chat([both, answers("a", "ra"), answers("b", "rb")], None, parent=root)
    derived = derive_trace([root, first, *calls, second]).tool_calls
    assert [(c.call_id, c.result, c.turn) for c in derived] == [("a", "ra", 1), ("b", "rb", 1)]


def test_an_unanswered_call_does_not_get_the_result_of_an_earlier_one_with_its_id() -> None:
    root = agent()
    history = [asks("a"), answers("a", "old"), asks("a", "other", {})]
    spans = [
        root,
        chat([], [asks("a")], parent=root),
        tool(parent=root, call_id="a", result="old"),
        chat(history[:2], [history[2]], parent=root),
        tool("other", "{}", None, parent=root, call_id="a"),
        chat(history, None, parent=root),
    ]
    assert [call.result for call in derive_trace(spans).tool_calls] == ["old", None]


def test_arguments_with_defaults_filled_in_still_find_their_answer() -> None:
    root = agent()
    spans = [root, chat([], [asks("a")], parent=root), tool(arguments='{"q": "x", "limit": 10}', parent=root)]
    (call,) = derive_trace(spans).tool_calls
    assert (call.call_id, call.turn, call.arguments) == ("a", 1, '{"q": "x", "limit": 10}')


def test_the_bare_string_of_langchain() -> None:
    root = agent()
    spans = [
        root,
        chat([], [asks("a", arguments={"q": "y"}), asks("b", arguments={"q": "x"})], parent=root),
        tool(arguments="x", parent=root),
    ]
    call, asked_for = sorted(derive_trace(spans).tool_calls, key=lambda call: call.position)
    assert (call.call_id, call.arguments) == ("b", "x")
    assert (asked_for.call_id, asked_for.end_ns) == ("a", None)


def test_the_order_of_time_decides_the_turn_without_messages() -> None:
    root = agent()
    spans = [root, tool("early", parent=root), chat(parent=root), tool("late", parent=root)]
    spans += [chat(parent=root), tool("later", parent=root)]
    assert {c.tool_name: c.turn for c in derive_trace(spans).tool_calls} == {
        "early": None,
        "late": 1,
        "later": 2,
    }


def test_a_call_that_starts_while_its_answer_still_streams() -> None:
    root = agent()
    streaming = chat([], [asks("a")], parent=root, at=(1, 5))
    call = tool(parent=root, at=(2, 3))
    derived = derive_trace([root, streaming, call]).tool_calls[0]
    assert (derived.call_id, derived.turn) == ("a", 1)


def test_calls_and_answers_within_the_same_millisecond() -> None:
    root = agent()
    first = chat([], [asks("a")], parent=root, at=(1, 2))
    call = tool(parent=root, at=(2, 2))
    second = chat([asks("a"), answers("a", "r")], [asks("b")], parent=root, at=(2, 3))
    derived = derive_trace([root, first, call, second]).tool_calls[0]
    assert (derived.call_id, derived.turn) == ("a", 1)


def test_runs_do_not_mix() -> None:
    one, two = agent("one"), agent("two")
    spans = [one, two, chat([], [asks("a")], parent=one), tool(parent=two)]
    (call,) = derive_trace(spans).tool_calls
    assert (call.call_id, call.turn) == (None, None)


ARGS = {"q": "x"}
FUNCTION = {"name": "search", "arguments": '{"q":"x"}'}


def says(*content: Any, role: str = "assistant", key: str = "content") -> dict[str, Any]:
    return {"role": role, key: list(content)}


# shape -> the message that asks for the call c1, the message with its result
SHAPES = {
    "parts": (asks("c1"), answers("c1", "r")),
    "parts with arguments as text": (asks("c1", arguments='{"q": "x"}'), answers("c1", "r")),
    "openai": (
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    ),
    "anthropic": (
        says({"type": "tool_use", "id": "c1", "name": "search", "input": ARGS}),
        says(
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "r"}]},
            role="user",
        ),
    ),
    "responses": (
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q":"x"}', "id": "fc_1"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
    ),
    "bedrock": (
        says({"toolUse": {"toolUseId": "c1", "name": "search", "input": ARGS}}),
        says({"toolResult": {"toolUseId": "c1", "content": [{"text": "r"}]}}, role="user"),
    ),
    "vercel": (
        says({"type": "tool-call", "toolCallId": "c1", "toolName": "search", "input": ARGS}),
        says(
            {"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "r"}}, role="tool"
        ),
    ),
    "langchain": (
        {"lc": 1, "kwargs": {"type": "ai", "tool_calls": [{"name": "search", "args": ARGS, "id": "c1"}]}},
        {"lc": 1, "kwargs": {"type": "tool", "content": "r", "tool_call_id": "c1"}},
    ),
    "genkit": (
        says({"toolRequest": {"ref": "c1", "name": "search", "input": ARGS}}, role="model"),
        says({"toolResponse": {"ref": "c1", "name": "search", "output": "r"}}, role="tool"),
    ),
    "choice": (
        {"index": 0, "message": {"role": "assistant", "tool_calls": [{"id": "c1", "function": FUNCTION}]}},
        says({"type": "tool_call_response", "id": "c1", "result": "r"}, role="tool", key="parts"),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_messages(shape: str) -> None:
    request, result = SHAPES[shape]
    root = agent()
    spans = [
        root,
        chat([], [request], parent=root),
        tool(result=None, parent=root),
        chat([request, result], [], parent=root),
    ]
    (call,) = derive_trace(spans).tool_calls
    assert (call.call_id, call.turn, call.result) == ("c1", 1, "r")


def test_results_without_ids_are_found_by_name() -> None:
    root = agent()
    request = {"role": "model", "parts": [{"functionCall": {"name": "search", "args": {"q": "x"}}}]}
    result = {"role": "user", "parts": [{"functionResponse": {"name": "search", "response": {"found": 0}}}]}
    spans = [
        root,
        chat([], [request], parent=root),
        tool(result=None, parent=root),
        chat([request, result], [], parent=root),
    ]
    (call,) = derive_trace(spans).tool_calls
    assert (call.call_id, call.turn, call.result) == (None, 1, '{"found": 0}')


def test_a_message_may_say_that_the_call_failed() -> None:
    root = agent()
    failed = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}],
    }
    spans = [root, tool(result=None, call_id="c1", parent=root), chat([asks("c1"), failed], [], parent=root)]
    (call,) = derive_trace(spans).tool_calls
    assert (call.result, call.outcome) == ("no", "general_tool_error")


def test_flattened_messages_of_openinference() -> None:
    prefix = "llm.output_messages.0.message."
    attrs = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m",
        "llm.provider": "p",
        "llm.token_count.prompt": 3,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "hi",
        f"{prefix}role": "assistant",
        f"{prefix}tool_calls.0.tool_call.id": "c1",
        f"{prefix}tool_calls.0.tool_call.function.name": "search",
        f"{prefix}tool_calls.0.tool_call.function.arguments": '{"q": "x"}',
    }
    root = agent()
    derived = derive_trace([root, span("llm", parent=root, attrs=attrs), tool(parent=root)])
    assert (derived.tool_calls[0].call_id, derived.tool_calls[0].turn) == ("c1", 1)
    (request,) = derived.llm_requests
    assert request.input_messages == ['{"role": "user", "content": [{"type": "text", "text": "hi"}]}']
    assert [json.loads(text) for text in request.output_messages or []] == [
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}
            ],
        }
    ]
    assert (request.model, request.provider, request.input_tokens, request.dialect) == (
        "m",
        "p",
        3,
        "openinference",
    )


def test_flattened_results_of_autogen() -> None:
    attrs = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "function",
        "llm.input_messages.0.function.0": json.dumps({"name": "search", "content": "r0", "call_id": "c0"}),
        "llm.input_messages.0.function.1": json.dumps(
            {"name": "search", "content": "r1", "call_id": "c1", "is_error": True}
        ),
    }
    root = agent()
    spans = [root, tool(call_id="c1", result=None, parent=root), span("llm", parent=root, attrs=attrs)]
    derived = derive_trace(spans)
    assert (derived.tool_calls[0].result, derived.tool_calls[0].outcome) == ("r1", "general_tool_error")
    assert len(derived.llm_requests[0].input_messages or []) == 2


def test_flattened_messages_of_older_openllmetry() -> None:
    attrs = {
        "llm.request.type": "chat",
        "gen_ai.system": "OpenAI",
        "gen_ai.usage.prompt_tokens": 3,
        "gen_ai.usage.completion_tokens": 2,
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "hi",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "search",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"q": "x"}',
    }
    root = agent()
    derived = derive_trace([root, span("openai.chat", parent=root, attrs=attrs), tool(parent=root)])
    assert derived.tool_calls[0].call_id == "c1"
    (request,) = derived.llm_requests
    assert request.input_messages == ['{"role": "user", "content": "hi"}']
    assert (request.provider, request.input_tokens, request.output_tokens) == ("OpenAI", 3, 2)


def log(record: Any, name: str, body: Any, attributes: Any = None) -> LogRecord:
    return LogRecord(record.trace_id, record.span_id, START, name, None, body, attributes or {})


def test_messages_in_log_records() -> None:
    root = agent()
    first = chat(parent=root)
    call = tool(parent=root, result=None)
    second = chat(parent=root)
    openai = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}
    logs = [
        log(first, "gen_ai.user.message", {"content": "hi"}),
        log(first, "gen_ai.choice", {"index": 0, "message": {"role": "assistant", "tool_calls": [openai]}}),
        log(second, "gen_ai.user.message", {"content": "hi"}),
        log(second, "gen_ai.assistant.message", {"tool_calls": [openai]}),
        log(second, "gen_ai.tool.message", '{"id": "c1", "content": "r"}'),
    ]
    derived = derive_trace([root, first, call, second], logs)
    assert (derived.tool_calls[0].call_id, derived.tool_calls[0].result) == ("c1", "r")
    assert [len(request.input_messages or []) for request in derived.llm_requests] == [1, 3]
    details = {"gen_ai.input.messages": [asks("c1")], "gen_ai.output.messages": [answers("c1", "r")]}
    derived = derive_trace([first], [log(first, "gen_ai.client.inference.operation.details", None, details)])
    assert derived.llm_requests[0].content_state == "full"


@pytest.mark.parametrize("kind", ["[]", "{}", "[1]", "7", "null"])
def test_a_part_whose_type_is_no_text_is_no_part(kind: str):
    part = f'{{"type": {kind}, "id": "a", "name": "t"}}'
    for message in (
        part,
        f'{{"role": "assistant", "parts": [{part}]}}',
        f'{{"role": "tool", "content": [{part}]}}',
    ):
        facts = facts_of(message)
        assert facts.calls == []
