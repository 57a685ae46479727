"""Chat logs to spans: pairing, order, times, ids, parties, histories."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from importing import Message, answer, asks, calls, kind, logs, one, says, spans_of

from loopscope.collector import SpanRecord, derive_trace
from loopscope.collector.importers._clock import SYNTHETIC_BASE_NS, parse_time


def test_a_conversation_is_a_root_chats_and_calls():
    spans = one(
        [
            says("system", "Be brief."),
            says("user", "Weather?"),
            asks(("c1", "weather", '{"city": "Bonn"}')),
            answer("c1", "rain"),
            says("assistant", "It rains."),
        ],
        model="gpt-x",
        id="conversation 7",
    )
    assert [span.name for span in spans] == [
        "invoke_agent assistant",
        "chat gpt-x",
        "execute_tool weather",
        "chat gpt-x",
    ]
    root = spans[0]
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert {span.parent_span_id for span in spans[1:]} == {root.span_id}
    assert len({span.span_id for span in spans}) == len(spans)
    assert root.attributes["loopscope.run.id"].startswith("openai-chat/conversation 7/")
    assert {span.attributes["loopscope.dialect"] for span in spans} == {"openai-chat"}
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {"conversation 7"}
    assert root.resource == {"service.name": "openai-chat", "loopscope.times": "synthetic"}
    assert calls(spans) == [("c1", "weather", '{"city": "Bonn"}', "rain")]
    call = kind(spans, "execute_tool")[0]
    assert call.attributes["gen_ai.agent.name"] == "assistant"
    assert "loopscope.outcome.failed" not in call.attributes  # the format has no flag


def test_each_layout_gives_the_same_spans():
    messages = [says("user", "go"), asks(("c1", "t", "{}")), answer("c1", "ok")]
    wanted = spans_of({"messages": messages})[0]
    layouts = [
        messages,
        [messages],
        [{"messages": messages}],
        {"traj": messages},
        {"conversation": messages},
        [{"trajectory": messages}],
    ]
    for layout in layouts:
        assert spans_of(layout)[0] == wanted


def test_arguments_and_results_of_any_type():
    spans = one(
        [
            asks(("1", "t", {"a": [1, "ä"]}), ("2", "t", None), ("3", "t", ""), ("4", "t", "not json")),
            answer("1", [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]),
            answer("2", {"rows": []}),
            answer("3", ""),
            answer("4", None),
        ]
    )
    assert calls(spans) == [
        ("1", "t", '{"a": [1, "ä"]}', "one two"),
        ("2", "t", None, '{"rows": []}'),
        ("3", "t", "", ""),  # empty is not missing
        ("4", "t", "not json", None),
    ]
    assert all(span.end_ns for span in spans)


def test_legacy_function_calls_pair_by_name():
    spans = one(
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "1"}},
            {"role": "function", "name": "f", "content": "one"},
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "2"}},
            {"role": "function", "name": "f", "content": "two"},
        ]
    )
    assert calls(spans) == [(None, "f", "1", "one"), (None, "f", "2", "two")]


def test_custom_tool_calls_are_calls():
    call = {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    spans = one([{"role": "assistant", "tool_calls": [call]}, answer("c", "a.txt")])
    assert calls(spans) == [("c", "sh", "ls", "a.txt")]


def test_an_unanswered_call_has_no_end_and_no_result():
    spans = one([asks(("c1", "t", "{}"), ("c2", "t", "{}")), answer("c2", "ok"), says("user", "stop")])
    first, second = kind(spans, "execute_tool")
    assert first.end_ns is None
    assert "gen_ai.tool.call.result" not in first.attributes
    assert second.end_ns is not None
    assert kind(spans, "invoke_agent")[0].end_ns is not None


def test_ids_may_come_back():
    spans = one(
        [
            asks(("x", "t", "1")),
            answer("x", "one"),
            asks(("x", "t", "2")),
            answer("x", "two"),
            asks(("x", "t", "3")),
        ]
    )
    assert calls(spans) == [("x", "t", "1", "one"), ("x", "t", "2", "two"), ("x", "t", "3", None)]


def test_the_nearest_open_call_is_answered_first():
    spans = one([asks(("x", "t", "1")), asks(("x", "t", "2")), answer("x", "r"), answer("x", "s")])
    assert calls(spans) == [("x", "t", "1", "s"), ("x", "t", "2", "r")]


def test_twins_in_one_message_are_answered_in_order():
    spans = one([asks(("x", "t", "1"), ("x", "t", "1")), answer("x", "r"), answer("x", "s")])
    assert calls(spans) == [("x", "t", "1", "r"), ("x", "t", "1", "s")]


def test_a_result_without_id_belongs_to_the_only_open_call():
    assert calls(one([asks((None, "t", "1")), answer(None, "r")])) == [(None, "t", "1", "r")]
    by_name = [asks((None, "a", "1"), (None, "b", "2")), answer(None, "r", name="b")]
    assert calls(one(by_name)) == [(None, "a", "1", None), (None, "b", "2", "r")]
    _, skipped = spans_of([asks((None, "t", "1"), (None, "t", "2")), answer(None, "r")])
    assert [where for where, _ in skipped] == ["the list on line 1, message 2"]
    assert "without an id" in skipped[0][1]


def test_what_is_no_call_is_skipped_with_its_place():
    messages = [
        answer("a", "too early"),
        asks(("a", "t", "1")),
        answer("a", "r"),
        answer("a", "second result"),
        {"role": "assistant", "tool_calls": [{"id": "b", "function": {"arguments": "{}"}}, 7]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "z", "content": "r"}]},
    ]
    (spans,), skipped = spans_of({"messages": messages})
    assert calls(spans) == [("a", "t", "1", "r")]
    assert skipped == [
        ("line 1, message 1", "a result for 'a', which no open call has"),
        ("line 1, message 4", "a result for 'a', which no open call has"),
        ("line 1, message 5, call 1", "the call has no tool name"),
        ("line 1, message 5, call 2", "the call has no tool name"),
        ("line 1, message 6", "tool_result blocks are not OpenAI chat; calls in them are not read"),
    ]


def test_skips_are_counted_beyond_the_first_hundred():
    _, skipped = spans_of([says("user", "hi")] + [answer("a", "r")] * 250)
    assert len(skipped) == 101
    assert skipped[-1] == ("further on", "150 more of the like")


def test_results_end_in_the_order_of_the_log():
    spans = one(
        [
            asks(("1", "t", "1"), ("2", "t", "2"), ("3", "t", "3")),
            answer("3", "c"),
            answer("1", "a"),
            answer("2", "b"),
        ]
    )
    ended = sorted(kind(spans, "execute_tool"), key=lambda span: span.end_ns or 0)
    assert [span.attributes["gen_ai.tool.call.result"] for span in ended] == ["c", "a", "b"]
    assert spans[0].start_ns == SYNTHETIC_BASE_NS


def test_recorded_times_are_used_and_kept_in_order():
    spans = one(
        [
            says("user", "go", timestamp="2025-08-01T10:00:00"),
            asks(("1", "t", "1"), timestamp="2025-08-01T10:00:05Z"),
            answer("1", "r", timestamp="2025-08-01T12:00:07.5+02:00"),
            asks(("2", "t", "2"), timestamp="2025-08-01T09:00:00Z"),  # a clock set back
            answer("2", "r"),
        ]
    )
    ten = parse_time("2025-08-01T10:00:00Z")
    assert ten is not None
    first, second = kind(spans, "execute_tool")
    assert first.end_ns == ten + 7_500_000_000
    assert second.end_ns is not None
    assert first.end_ns < second.start_ns < second.end_ns < first.end_ns + 1_000_000
    assert spans[0].resource["loopscope.times"] == "recorded"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_754_042_400, 1_754_042_400_000_000_000),
        (1_754_042_400_123, 1_754_042_400_123_000_000),
        (1_754_042_400_123_456, 1_754_042_400_123_456_000),
        (1_754_042_400_123_456_789, 1_754_042_400_123_456_789),
        ("2025-08-01T10:00:00", 1_754_042_400_000_000_000),
        ("2025-08-01T10:00:00.000001Z", 1_754_042_400_000_001_000),
        ("2025-08-01", 1_754_006_400_000_000_000),
        (True, None),
        (-5, None),
        (0, None),
        (1e308, None),
        (float("nan"), None),
        ("9999-12-31", None),
        ("yesterday", None),
        (None, None),
        ([], None),
    ],
)
def test_times_are_read_leniently(value: object, expected: int | None):
    assert parse_time(value) == expected


def test_a_chat_span_holds_only_what_is_new():
    spans = one(
        [
            says("system", "S"),
            says("user", "U"),
            asks(("1", "t", "{}")),
            answer("1", "R"),
            says("assistant", "A", reasoning_content="because", usage={"prompt_tokens": 9}),
        ]
    )
    first, second = kind(spans, "chat")
    assert messages(first, "input") == [
        {"role": "system", "parts": [{"type": "text", "content": "S"}]},
        {"role": "user", "parts": [{"type": "text", "content": "U"}]},
    ]
    assert messages(first, "output") == [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "1", "name": "t", "arguments": "{}"}],
        }
    ]
    assert "loopscope.history.after" not in first.attributes
    assert messages(second, "input") == [
        {"role": "tool", "parts": [{"type": "tool_call_response", "response": "R", "id": "1"}]}
    ]
    assert messages(second, "output")[0]["parts"] == [
        {"type": "reasoning", "content": "because"},
        {"type": "text", "content": "A"},
    ]
    assert second.attributes["loopscope.history.after"] == first.span_id
    assert second.attributes["gen_ai.usage.input_tokens"] == 9


def test_a_long_log_takes_space_in_proportion():
    def size(turns: int) -> int:
        log = [says("user", "go")]
        for n in range(turns):
            log += [asks((f"c{n}", "t", "{}")), answer(f"c{n}", "x" * 200)]
        return sum(len(json.dumps(span.attributes)) for span in one(log))

    assert size(400) < 4.5 * size(100)


def test_the_derivation_puts_histories_together_again():
    log = [
        says("system", "S"),
        says("user", "U"),
        asks(("1", "t", "{}")),
        answer("1", "R"),
        says("assistant", "A"),
        says("user", "V"),
        asks(("2", "t", "{}")),
    ]
    requests = derive_trace(one(log)).llm_requests
    histories = [[json.loads(text)["role"] for text in request.input_messages or []] for request in requests]
    assert histories == [
        ["system", "user"],
        ["system", "user", "assistant", "tool"],
        ["system", "user", "assistant", "tool", "assistant", "user"],
    ]
    assert {request.content_state for request in requests} == {"full"}


def test_both_parties_are_in_one_run():
    spans = one(
        [
            says("assistant", "Hello."),
            says("user", "Help me.", usage={"prompt_tokens": 1, "completion_tokens": 2}),
            asks(("1", "look_up", {"id": 3})),
            answer("1", "found"),
            says("assistant", "Restart it."),
            {**asks(("1", "restart", {})), "role": "user"},
            answer("1", "done", requestor="user"),
            says("user", "It works.", usage={}),
        ]
    )
    assert [
        (span.attributes["gen_ai.agent.name"], span.attributes["gen_ai.tool.name"])
        for span in kind(spans, "execute_tool")
    ] == [("assistant", "look_up"), ("user", "restart")]
    assert "gen_ai.agent.name" not in spans[0].attributes
    chats = kind(spans, "chat")
    assert [span.attributes["gen_ai.agent.name"] for span in chats] == [
        "assistant",
        "user",
        "assistant",
        "assistant",
        "user",
        "user",
    ]
    # Each sees what the other said as a user's message, and the results of its own calls alone.
    assert [role_and_text(m) for m in messages(chats[1], "input")] == [("user", "Hello.")]
    assert [role_and_text(m) for m in messages(chats[2], "input")] == [("user", "Help me.")]
    assert [role_and_text(m) for m in messages(chats[4], "input")] == [("user", "Restart it.")]
    assert [role_and_text(m) for m in messages(chats[5], "input")] == [("tool", "done")]
    assert chats[4].attributes["loopscope.history.after"] == chats[1].span_id
    assert chats[3].attributes["loopscope.history.after"] == chats[2].span_id


def test_one_id_used_by_both_parties_is_two_calls():
    spans = one(
        [
            asks(("x", "a", "1")),
            {**asks(("x", "b", "2")), "role": "user"},
            answer("x", "for the assistant", requestor="assistant"),
            answer("x", "for the user", requestor="user"),
        ]
    )
    assert calls(spans) == [("x", "a", "1", "for the assistant"), ("x", "b", "2", "for the user")]


def test_tau_bench_reads_a_leading_error():
    data = [{"task_id": 3, "trial": 1, "reward": 0.0, "info": {}, "traj": failing_log()}]
    (spans,), _ = spans_of(data, "tau-bench")
    assert failed(spans) == [True, False, False]
    assert spans[0].attributes["loopscope.run.id"].startswith("tau-bench/3/1/")
    assert spans[0].attributes["loopscope.source.reward"] == 0.0
    assert failed(spans_of(data, "openai-chat")[0][0]) == [None, None, None]


def test_tau_bench_says_why_a_run_broke():
    entry = {"task_id": 1, "info": {"error": "boom", "traceback": "…"}, "traj": failing_log()}
    (spans,), _ = spans_of([entry], "tau-bench")
    assert (spans[0].status_code, spans[0].status_message) == (2, "boom")


def test_tau2_bench_reads_its_own_flag():
    simulation = {
        "id": "sim-1",
        "task_id": "7",
        "trial": 0,
        "termination_reason": "max_steps",
        "start_time": "2025-08-01T10:00:00",
        "reward_info": {"reward": 0.5},
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "name": "t", "arguments": {"a": 1}, "requestor": "assistant"}],
            },
            {"role": "tool", "id": "c", "content": "Error text that is none", "error": False},
            {
                "role": "user",
                "tool_calls": [{"id": "d", "name": "u", "arguments": {}, "requestor": "user"}],
            },
            {
                "role": "tool",
                "tool_messages": [
                    {"role": "tool", "id": "d", "content": "no", "error": True, "requestor": "user"}
                ],
            },
        ],
    }
    info = {
        "agent_info": {"llm": "gpt-a"},
        "user_info": {"llm": "gpt-u"},
        "environment_info": {"domain_name": "telecom"},
    }
    (spans,), _ = spans_of({"info": info, "tasks": [], "simulations": [simulation]}, "tau2-bench")
    assert calls(spans) == [
        ("c", "t", '{"a": 1}', "Error text that is none"),
        ("d", "u", "{}", "no"),
    ]
    assert failed(spans) == [False, True]
    assert [span.attributes["gen_ai.request.model"] for span in kind(spans, "chat")] == ["gpt-a", "gpt-u"]
    root = spans[0]
    assert root.resource["service.name"] == "tau2-bench/telecom"
    assert root.attributes["gen_ai.conversation.id"] == "sim-1"
    assert root.attributes["loopscope.run.id"].startswith("tau2-bench/7/0/")
    assert root.start_ns == parse_time("2025-08-01T10:00:00Z")
    assert (root.status_code, root.status_message) == (2, "the simulation ended with max_steps")


def test_an_empty_conversation_is_skipped():
    found, skipped = spans_of([{"task_id": 1, "traj": []}, {"messages": None}])
    assert found == []
    assert [where for where, _ in skipped] == ["entry 1 (line 1)", "entry 2 (line 1)"]


def test_text_that_is_no_unicode_is_kept_readable():
    spans = one([asks(("\ud800", "t\ud800", '"\ud800"')), answer("\ud800", "a\x00b\ud800")])
    assert calls(spans) == [("?", "t?", '"?"', "a\x00b?")]


def test_ids_follow_from_content_and_source_ids():
    log = [asks(("1", "t", "{}")), answer("1", "r")]

    def trace(data: dict[str, Any]) -> str:
        return spans_of(data)[0][0][0].trace_id

    assert trace({"messages": log}) == trace({"messages": json.loads(json.dumps(log))})
    assert trace({"messages": log, "task_id": 1}) != trace({"messages": log, "task_id": 2})
    assert trace({"messages": log, "id": "a"}) != trace({"messages": log, "id": "b"})
    assert trace({"messages": log}) != trace({"messages": [*log, says("assistant", "done")]})


# -- properties ----------------------------------------------------------------------------------------


def asked(log: list[Message]) -> list[tuple[Any, ...]]:
    out = []
    for message in log:
        for call in message.get("tool_calls", []):
            inner = call["function"]
            out.append((call["id"] or None, inner["name"], inner["arguments"], message["role"]))
        if legacy := message.get("function_call"):
            out.append((None, legacy["name"], legacy["arguments"], message["role"]))
    return out


@given(logs())
def test_every_call_appears_exactly_once(log: list[Message]):
    (spans,), skipped = spans_of({"messages": log})
    found = [
        (call_id, name, arguments, span.attributes["gen_ai.agent.name"])
        for span, (call_id, name, arguments, _) in zip(
            sorted(kind(spans, "execute_tool"), key=lambda s: s.start_ns), calls(spans), strict=True
        )
    ]
    assert found == asked(log)
    results = [message for message in log if message["role"] in ("tool", "function")]
    ended = [span for span in kind(spans, "execute_tool") if span.end_ns]
    assert len(ended) + len(skipped) == len(results)


@given(logs())
def test_a_result_never_comes_before_its_call(log: list[Message]):
    (spans,), _ = spans_of({"messages": log})
    ends = [span.end_ns for span in spans if span.end_ns]
    assert len(set(ends)) == len(ends)
    for span in spans:
        assert span.end_ns is None or span.start_ns < span.end_ns
        assert spans[0].start_ns <= span.start_ns
        assert (span.end_ns or 0) <= (spans[0].end_ns or 0)
    assert len({span.span_id for span in spans}) == len(spans)


@given(logs())
def test_the_derivation_finds_each_call_as_the_importer_paired_it(log: list[Message]):
    (spans,), _ = spans_of({"messages": log})
    derived = derive_trace(spans).tool_calls
    found = [(call.call_id, call.tool_name, call.arguments, call.result) for call in derived]
    assert found == calls(spans)
    assert {call.run_id for call in derived} <= {spans[0].attributes["loopscope.run.id"]}
    assert {call.run_source for call in derived} <= {"transcript"}
    by_end = sorted((call for call in derived if call.end_ns), key=lambda call: call.end_ns or 0)
    assert [call.seq for call in by_end] == list(range(1, len(by_end) + 1))
    turns = {}
    for call in derived:
        before = [chat for chat in kind(spans, "chat") if (chat.end_ns or 0) < call.start_ns]
        turns[call.span_id] = (call.turn, len(before))
        assert call.outcome is None or call.end_ns
        whole = call.arguments is not None and (call.result is not None or call.end_ns is None)
        assert call.content_state == ("full" if whole else "missing")
    assert all(turn == expected for turn, expected in turns.values())


def messages(span: SpanRecord, direction: str) -> list[dict[str, Any]]:
    return json.loads(span.attributes[f"gen_ai.{direction}.messages"])


def role_and_text(message: dict[str, Any]) -> tuple[str, str]:
    (part,) = message["parts"]
    return message["role"], part.get("content", part.get("response"))


def failed(spans: list[SpanRecord]) -> list[bool | None]:
    found = kind(spans, "execute_tool")
    assert [span.status_code == 2 for span in found] == [
        span.attributes.get("loopscope.outcome.failed") is True for span in found
    ]
    return [span.attributes.get("loopscope.outcome.failed") for span in found]


def failing_log() -> list[Message]:
    return [
        asks(("1", "t", "1"), ("2", "t", "2"), ("3", "t", "3")),
        answer("1", "Error: no such order"),
        answer("2", "No Error here"),
        answer("3", "{}"),
    ]
