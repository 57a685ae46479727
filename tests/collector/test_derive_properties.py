"""Junk, hostile shapes and any order of spans: never an error, always the same answer."""

from __future__ import annotations

import gc
import json
import random
import sys
from dataclasses import asdict, replace
from typing import Any

import pytest
from derive_tools import TRACE, agent, answers, asks, chat, exception, span, tool
from hypothesis import given, settings
from hypothesis import strategies as st

from loopscope.collector._derive import derive_trace
from loopscope.collector._records import LogRecord, SpanEvent, SpanRecord
from loopscope.collector.dialects import DIALECTS, Keys

_KEYS = sorted(
    {
        *Keys.tool_name, *Keys.call_id, *Keys.arguments, *Keys.result, *Keys.agent_span, *Keys.conversation,
        *Keys.model, *Keys.provider, *Keys.input_tokens, *Keys.usage_json, *Keys.cost, *Keys.failed,
        *Keys.input_messages, *Keys.output_messages, *Keys.input_bodies, *Keys.output_bodies,
        "tool.parameters", "metadata", "mcp.session.id", "jsonrpc.request.id", "loopscope.run.id",
        "loopscope.outcome.failed", "loopscope.dialect", "loopscope.redacted", "error.type",
        "http.response.status_code", "rpc.response.status_code", "logfire.span_type",
        "gen_ai.system_instructions", "ai.response.text", "ai.response.toolCalls",
        "llm.input_messages.0.message.role", "llm.input_messages.0.message.tool_calls.0.tool_call.id",
        "llm.input_messages.x.message", "llm.output_messages.1.message.contents.0.message_content.text",
        "llm.input_messages.2.function.0", "gen_ai.prompt.0.tool_calls.3.arguments",
        "gen_ai.completion.0.role",
    }
)  # fmt: skip
_MARKS = sorted(
    {(key, value) for dialect in DIALECTS for key, values in dialect.marks.items() for value in values}
)

_WORDS = st.sampled_from(
    [
        "", " ", "x", "search", "[]", "{}", "[1]", "null", '"x"', "__REDACTED__", "{'a': 1}", "\x00",
        "[" * 2000, '{"a":' * 2000, "Error code: 999", "-32602", "1e999", "\u0664\u0660\u0660",
        '{"kwargs": {"a": 1}}', '{"input_str": "{1}"}', '{"raw_output": 1, "blocks": [{"text": 2}]}',
        '{"output": {"kwargs": {"tool_call_id": 5, "content": [1]}}}',
        '[{"role": "tool", "tool_call_id": []}]', '[{"parts": [{"type": "tool_call"}]}]',
        '[{"role": "assistant", "tool_calls": [{"id": {}, "function": 3}, 4]}]',
        '"\\ud800"', '{"output": {"kwargs": {"tool_call_id": "\\ud800", "content": "\\ud800"}}}',
        '{"thread_id": "\\ud800"}', '{"kwargs": {"\\ud800": "\\ud800"}}',
        '[{"role": "tool", "tool_call_id": "\\ud800", "content": "\\ud800"}]',
        '[{"role": "assistant", "tool_calls": [{"id": "\\ud800", "name": "x", "args": "\\ud800"}]}]',
    ]
)  # fmt: skip
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | _WORDS | st.text(max_size=12)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_WORDS | st.sampled_from(_KEYS), inner, max_size=3)
    ),
    max_leaves=6,
)
_ATTRIBUTES = st.builds(
    lambda marks, values: {**dict(marks), **values},
    st.lists(st.sampled_from(_MARKS), max_size=2),
    st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=8),
)
_IDS = st.sampled_from([f"{number:016x}" for number in range(1, 9)])
_EVENTS = st.lists(
    st.builds(
        SpanEvent,
        st.sampled_from(
            ["exception", "gen_ai.choice", "gen_ai.tool.message", "gen_ai.client.inference.operation.details"]
        ),
        st.just(0),
        st.dictionaries(
            st.sampled_from(
                ["exception.type", "exception.message", "content", "message", "id", *Keys.input_messages]
            ),
            _VALUES,
            max_size=3,
        ),
    ),
    max_size=2,
)
_SPANS = st.builds(
    SpanRecord,
    trace_id=st.just(TRACE),
    span_id=_IDS,
    parent_span_id=st.none() | _IDS,
    name=st.sampled_from(["", "x", "execute_tool x", "running tool", "claude_code.tool", ".run", "a._b"]),
    kind=st.just(1),
    start_ns=st.integers(0, 5),
    end_ns=st.none() | st.integers(0, 9),
    status_code=st.integers(0, 2),
    status_message=st.none() | _WORDS,
    attributes=_ATTRIBUTES,
    events=_EVENTS,
    dropped_attributes=st.integers(0, 1),
    resource=st.dictionaries(st.just("service.name"), _VALUES, max_size=1),
    scope_name=st.sampled_from(
        [None, "gen_ai", "ai", "fastmcp", "logfire.openai_agents", "opentelemetry.instrumentation.llamaindex"]
    ),
)
_LOGS = st.builds(
    LogRecord,
    trace_id=st.just(TRACE),
    span_id=st.none() | _IDS,
    time_ns=st.integers(0, 3),
    event_name=st.sampled_from([None, "gen_ai.choice", "gen_ai.tool.message", "exception"]),
    severity=st.none(),
    body=_VALUES,
    attributes=st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=3),
)


def plain(spans: list[SpanRecord], logs: list[LogRecord] | None = None) -> str:
    return repr(asdict(derive_trace(spans, logs or [])))


@settings(max_examples=150, deadline=None)
@given(st.lists(_SPANS, max_size=10), st.lists(_LOGS, max_size=4), st.randoms(use_true_random=False))
def test_junk_never_raises_and_order_does_not_matter(
    spans: list[SpanRecord], logs: list[LogRecord], rng: random.Random
) -> None:
    before = plain(spans, logs)
    shuffled = spans[:]
    rng.shuffle(shuffled)
    assert plain(shuffled, logs) == before
    assert plain(spans + shuffled, logs) == before
    for call in derive_trace(spans, logs).tool_calls:
        for text in (
            call.tool_name,
            call.call_id,
            call.arguments,
            call.result,
            call.error_message,
            call.agent_name,
        ):
            assert text is None or text.encode("utf-8") is not None
        assert call.content_state in ("full", "truncated", "missing")
    for request in derive_trace(spans, logs).llm_requests:
        for message in (request.input_messages or []) + (request.output_messages or []):
            json.loads(message, parse_constant=pytest.fail)


@given(
    st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))
)
def test_no_value_of_an_attribute_is_too_odd(value: Any) -> None:
    for key in ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "error.type", "gen_ai.tool.name"):
        derive_trace([tool(attrs={key: value})])


def story() -> list[SpanRecord]:
    """A trace with some of everything."""
    root = agent("support", at=(0, 99))
    inner = agent("support", parent=root, at=(0, 99))
    spans = [root, inner]
    history: list[dict[str, Any]] = []
    for number in range(6):
        at = number * 10 + 1
        request = asks(f"c{number % 4}")
        spans.append(chat(history, [request], parent=inner, at=(at, at + 1)))
        failed = number == 3
        outer = tool(
            result=None if failed else "nothing",
            parent=inner,
            at=(at + 2, at + 4),
            status=2 if failed else 1,
            events=[exception("RuntimeError", "no")] if failed else [],
        )
        spans += [outer, tool(parent=outer, arguments=None, result=None, at=(at + 2, at + 3))]
        history = [*history, request, answers(f"c{number % 4}", "nothing")]
    return spans


def test_every_order_of_a_real_story_gives_the_same() -> None:
    spans = story()
    expected = plain(spans)
    rng = random.Random(7)
    for _ in range(20):
        rng.shuffle(spans)
        assert plain(spans) == expected
    assert len(derive_trace(spans).tool_calls) == 6


def test_an_earlier_version_of_a_span_changes_nothing() -> None:
    spans = story()
    expected = plain(spans)
    started = [replace(record, end_ns=None, attributes={}, received_ns=5) for record in spans]
    older = [replace(record, status_code=2, received_ns=record.received_ns - 1) for record in spans]
    assert plain(started + older + spans) == expected
    assert plain(spans + older + started) == expected


def test_nothing_is_left_to_the_garbage_collector() -> None:
    """A fold derives thousands of traces between two collections, and their spans must not pile up."""
    spans = story()
    derive_trace(spans)  # what is made once, at the first call
    gc.collect()
    gc.disable()
    try:
        derive_trace(spans)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_span_fields_are_left_alone() -> None:
    spans = story()
    before = repr(spans)
    derive_trace(spans)
    assert repr(spans) == before


# -- shapes that must not recurse, hang or lose calls -------------------------------------------------


def test_a_span_that_is_its_own_parent() -> None:
    record = tool(span_id="00000000000000aa", parent="00000000000000aa")
    assert len(derive_trace([record]).tool_calls) == 1


def test_circles_of_parents() -> None:
    first = tool("a", span_id="00000000000000a1", parent="00000000000000a3", at=(3, 4))
    second = agent(span_id="00000000000000a2", parent="00000000000000a1", at=(1, 9))
    third = span("x", span_id="00000000000000a3", parent="00000000000000a2", at=(2, 5))
    hanging = tool("b", parent=third)
    derived = derive_trace([first, second, third, hanging])
    assert [call.tool_name for call in derived.tool_calls] == ["b", "a"]
    # The earliest of the circle is taken as the root.
    assert {call.run_id for call in derived.tool_calls} == {f"{TRACE}/{second.span_id}"}


def test_a_missing_parent() -> None:
    call = tool(parent="00000000000000ff")
    assert derive_trace([call]).tool_calls[0].run_id == TRACE


@pytest.mark.parametrize("make", [agent, tool, chat, span], ids=["agents", "tools", "requests", "spans"])
def test_a_chain_ten_thousand_deep(make: Any) -> None:
    chain = [make()]
    for _ in range(10_000):
        chain.append(make(parent=chain[-1]))
    leaf = tool("leaf", parent=chain[-1])
    leaves = [tool("leaf", parent=chain[-1]) for _ in range(2_000)]
    derived = derive_trace([*chain, leaf, *leaves])
    assert sum(call.tool_name == "leaf" for call in derived.tool_calls) == 2_001


def test_a_deep_chain_below_a_tool_of_the_same_name() -> None:
    root = tool()
    chain = [span("x", parent=root)]
    for _ in range(5_000):
        chain.append(span("x", parent=chain[-1]))
    below = [tool(parent=chain[-1]) for _ in range(5_000)]
    assert len(derive_trace([root, *chain, *below]).tool_calls) == 1


def steps(spans: list[SpanRecord]) -> int:
    """Calls of Python and C functions that the derivation takes: a clock that others cannot disturb."""
    count = 0

    def on_event(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        derive_trace(spans)
    finally:
        sys.setprofile(None)
    return count


def big_run(calls: int, call_id: str | None) -> list[SpanRecord]:
    root = agent()
    spans = [root]
    for number in range(calls):
        recent = [
            part
            for back in range(max(0, number - 3), number)
            for part in (asks(call_id), answers(call_id, str(back)))
        ]
        spans.append(chat(recent, [asks(call_id)], parent=root))
        spans.append(tool(parent=root, result=None))
    return spans


@pytest.mark.parametrize("call_id", [None, "same"])
def test_time_grows_with_the_number_of_spans_and_not_faster(call_id: str | None) -> None:
    small, large = steps(big_run(200, call_id)), steps(big_run(2_000, call_id))
    assert 9 < large / small < 13  # ten times the spans


def test_thousands_of_equal_calls_in_one_answer() -> None:
    root = agent()
    parts = [part for number in range(3_000) for part in asks(f"c{number}")["parts"]]
    spans = [root, chat([], [{"role": "assistant", "parts": parts}], parent=root)]
    spans += [tool(parent=root) for _ in range(3_000)]
    calls = derive_trace(spans).tool_calls
    assert [call.call_id for call in calls] == [f"c{number}" for number in range(3_000)]
