"""Calls that stand only in messages: counted where a later request brings their result, else only known."""

from __future__ import annotations

import json
from typing import Any

from derive_tools import agent, answers, asks, chat, span, tool
from hypothesis import given, settings
from hypothesis import strategies as st

from loopscope.collector._derive import derive_trace
from loopscope.collector._records import SpanRecord, ToolCall
from loopscope.collector._transcripts import TRANSCRIPT_SCOPE
from loopscope.collector.dialects.crewai import task_messages
from loopscope.guard import STUB_MARKER

USER = {"role": "user", "parts": [{"type": "text", "content": "find it"}]}


def calls_of(*spans: SpanRecord) -> list[ToolCall]:
    return derive_trace(list(spans)).tool_calls


def conversation(*steps: dict[str, Any], **fields: Any) -> list[SpanRecord]:
    """One LLM span per answer in a conversation, each with the whole history before it."""
    history: list[dict[str, Any]] = [USER]
    spans = []
    for step in steps:
        if step["role"] == "assistant":
            spans.append(chat(list(history), [step], **fields))
        history.append(step)
    return spans


def test_a_result_in_the_next_request_makes_a_call() -> None:
    root = agent()
    first, second = conversation(asks("a"), answers("a", "found"), asks(None, "end"), parent=root)
    done, open_end = calls_of(root, first, second)
    assert (done.tool_name, done.call_id, done.arguments, done.result) == (
        "search",
        "a",
        '{"q": "x"}',
        "found",
    )
    assert (done.outcome, done.seq, done.turn, done.content_state) == ("success", 1, 1, "full")
    assert (done.span_id, done.position) == (first.span_id, 1)
    assert (done.start_ns, done.end_ns) == (first.end_ns, second.start_ns)
    assert done.run_id.endswith(root.span_id)
    assert done.agent_name == "support"
    assert (open_end.tool_name, open_end.outcome, open_end.seq, open_end.end_ns) == ("end", None, None, None)
    assert open_end.turn == 2


def test_equal_calls_without_spans_share_a_scope() -> None:
    steps = [step for name in "abc" for step in (asks(name), answers(name, "nothing"))]
    calls = calls_of(*conversation(*steps, {"role": "assistant", "parts": []}))
    assert [call.seq for call in calls] == [1, 2, 3]
    assert len({(call.scope_key, call.result_hash) for call in calls}) == 1


def test_a_call_with_a_span_is_one_call() -> None:
    root = agent()
    first, second = conversation(asks("a"), answers("a", "found"), {"role": "assistant"}, parent=root)
    run = tool(call_id="a", result="found", parent=root)
    run.start_ns, run.end_ns = first.end_ns or 0, second.start_ns
    (call,) = calls_of(root, first, run, second)
    assert (call.span_id, call.position) == (run.span_id, 0)


def test_a_call_with_a_span_of_another_run_or_name_is_one_call() -> None:
    root = agent()
    inner = agent("worker", parent=root)
    first = chat([USER], [asks(None)], parent=inner)
    elsewhere = tool(parent=root)
    second = chat([USER, asks(None), answers(None, "nothing")], [asks("b", "Plugin-fetch")], parent=inner)
    other = tool("fetch", parent=inner)
    assert {call.span_id for call in calls_of(root, inner, first, elsewhere, second, other)} == {
        elsewhere.span_id,
        other.span_id,
    }


def test_an_id_that_was_answered_before_does_not_answer_a_repeat() -> None:
    """The Agents SDK neither runs nor sends a call whose id it has seen."""
    history = [USER, asks("dup"), answers("dup", "nothing")]
    spans = [chat([USER], [asks("dup")]), *(chat(history, [asks("dup")]) for _ in range(3))]
    calls = calls_of(*spans)
    assert [(call.seq, call.result) for call in calls] == [
        (1, "nothing"),
        (None, None),
        (None, None),
        (None, None),
    ]


def test_one_id_for_every_call() -> None:
    steps = [step for text in "xyz" for step in (asks("same"), answers("same", text))]
    calls = calls_of(*conversation(*steps, {"role": "assistant"}))
    assert [call.result for call in calls] == ["x", "y", "z"]


def test_twins_get_a_result_each() -> None:
    twins = {"role": "assistant", "parts": asks("t")["parts"] * 2}
    both = {"role": "tool", "parts": answers("t", "x")["parts"] + answers("t", "y")["parts"]}
    calls = calls_of(*conversation(twins, both, {"role": "assistant"}))
    assert [(call.position, call.result, call.turn) for call in calls] == [(1, "x", 1), (2, "y", 1)]


def test_deltas_and_shortened_histories_bring_results_too() -> None:
    delta = [chat([USER], [asks("a")]), chat([answers("a", "x")], [asks("b")]), chat([answers("b", "y")], [])]
    assert [call.result for call in calls_of(*delta)] == ["x", "y"]
    cut = [chat([USER] * 9, [asks("a")]), chat([USER, asks("a"), answers("a", "x")], [])]
    assert [call.result for call in calls_of(*cut)] == ["x"]


def test_a_request_of_something_else_between() -> None:
    between = chat([{"role": "user", "parts": []}], [{"role": "assistant", "parts": []}])
    calls = calls_of(chat([USER], [asks("a")]), between, chat([USER, asks("a"), answers("a", "x")], []))
    assert [call.result for call in calls] == ["x"]


def test_a_refused_request_brings_results_as_well() -> None:
    first = chat([USER], [asks("a")])
    refused = chat([USER, asks("a"), answers("a", "x")], status=2, message="Error code: 400")
    (call,) = calls_of(first, refused)
    assert (call.result, call.seq) == ("x", 1)


def test_a_stub_answers_nothing() -> None:
    (call,) = calls_of(
        *conversation(asks("a"), answers("a", f"{STUB_MARKER} no result"), {"role": "assistant"})
    )
    assert (call.result, call.seq, call.outcome) == (None, None, None)


def test_a_flag_in_the_message_makes_a_failure() -> None:
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}],
    }
    (call,) = calls_of(chat([USER], [asks("a")]), chat([USER, asks("a"), result], []))
    assert (call.outcome, call.result) == ("general_tool_error", "no")


def test_a_transcript_says_itself_which_calls_there_are() -> None:
    spans = conversation(asks("a"), answers("a", "x"), {"role": "assistant"}, scope_name=TRANSCRIPT_SCOPE)
    assert calls_of(*spans) == []


def test_a_history_from_before_the_trace_is_not_counted_again() -> None:
    assert calls_of(chat([USER, asks("old"), answers("old", "x")], [{"role": "assistant"}])) == []


def test_the_messages_of_an_agent_where_nothing_else_holds_calls() -> None:
    messages = [USER, asks("old"), answers("old", "x"), asks("a"), answers("a", "y"), asks("b")]
    attrs = {"pydantic_ai.all_messages": json.dumps(messages), "pydantic_ai.new_message_index": 3}
    root = agent(attrs=attrs)
    first, second = calls_of(root)
    assert (first.call_id, first.result, first.seq, first.position, first.turn) == ("a", "y", 1, 1, 1)
    assert (second.call_id, second.seq, second.turn) == ("b", None, 2)
    assert calls_of(root, chat([USER], [asks("c")], parent=root))[0].call_id == "c"
    run = tool(parent=root)
    assert [call.span_id for call in calls_of(root, run)] == [run.span_id]


TASKS = (
    "[TaskOutput(description='a messages=[ trap', agent='support', output_format=<OutputFormat.RAW: 'raw'>, "
    "messages=[{'role': 'user', 'content': 'it\\'s ] here'}, "
    "{'role': 'assistant', 'tool_calls': [{'id': 'c1', "
    "'function': {'name': 'search', 'arguments': '{\"q\": 1}'}}]}, "
    "{'role': 'tool', 'content': 'Error: gone', 'tool_call_id': 'c1', 'name': 'search'}], "
    "tool_failures=[ToolFailureRecord(tool_name='search', failure=ToolFailure(message='gone', code='x'))])]"
)


def test_the_tasks_of_a_crew() -> None:
    attrs = {"gen_ai.operation.name": "invoke_agent", "crewai.crew.tasks_output": TASKS}
    (call,) = calls_of(span("crewai.workflow", attrs=attrs))
    assert (call.tool_name, call.call_id, call.agent_name) == ("search", "c1", "support")
    assert (call.outcome, call.result) == ("general_tool_error", "Error: gone")


@given(st.integers(0, len(TASKS)), st.integers(0, len(TASKS)), st.text(max_size=5))
@settings(max_examples=60)
def test_the_tasks_of_a_crew_are_read_leniently(start: int, end: int, text: str) -> None:
    for message, _ in task_messages(TASKS[:start] + text + TASKS[end:]):
        assert isinstance(json.loads(message), dict)
