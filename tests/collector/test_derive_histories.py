"""What a refused request sent and why it was refused; histories that are recorded in pieces; stubs."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from derive_tools import chat, derive_file, span, tool
from shared_corpus import corpus

from loopscope.collector import derive_trace
from loopscope.collector._records import LlmRequest, SpanRecord, ToolCall

DUPLICATE = (
    "Error code: 400 - Invalid parameter: Duplicate value for 'tool_call_id' of 'call_a' found in 'messages'."
)
STUB = "[no result recorded] The call was interrupted."


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def asks(*call_ids: str) -> dict[str, Any]:
    parts = [
        {"type": "tool_call", "id": call_id, "name": "search", "arguments": {"q": "x"}}
        for call_id in call_ids
    ]
    return {"role": "assistant", "parts": parts}


def answers(**results: Any) -> dict[str, Any]:
    parts = [
        {"type": "tool_call_response", "id": call_id, "result": text} for call_id, text in results.items()
    ]
    return {"role": "user", "parts": parts}


def requests_of(*spans: SpanRecord) -> list[LlmRequest]:
    return derive_trace(spans).llm_requests


def calls_of(*spans: SpanRecord) -> list[ToolCall]:
    return derive_trace(spans).tool_calls


def sent(request: LlmRequest) -> list[Any] | None:
    return None if request.input_messages is None else [json.loads(text) for text in request.input_messages]


# -- why a request was refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "error_class"),
    [
        ({"status": 2, "message": DUPLICATE}, "duplicate_call_id"),
        ({"status": 2, "message": "Error code: 400 - maximum context length is 8192 tokens"}, "other"),
        ({"status": 2, "message": "Error code: 429 - slow down"}, "other"),
        ({"status": 2, "message": "Connection error."}, "other"),
        ({"status": 2}, None),  # no words
        ({"status": 2, "message": "  "}, None),
        ({"status": 2, "attrs": {"http.response.status_code": 400}}, None),
        ({"status": 2, "attrs": {"http.response.status_code": 429}}, "other"),
        ({"status": 1}, None),
        ({}, None),
    ],
)
def test_error_class(fields: dict[str, Any], error_class: str | None) -> None:
    [request] = requests_of(chat([user("q")], None, **fields))
    assert request.error_class == error_class


# -- messages from the agent's span --------------------------------------------------------------------


def agent(messages: Any, **fields: Any) -> SpanRecord:
    attrs = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "a",
        "pydantic_ai.all_messages": json.dumps(messages),
        **fields.pop("attrs", {}),
    }
    return span("invoke_agent a", attrs={k: v for k, v in attrs.items() if v is not None}, **fields)


def refused(parent: SpanRecord, at: tuple[float, float], **fields: Any) -> SpanRecord:
    return chat(None, None, parent=parent, at=at, status=2, message=DUPLICATE, **fields)


HISTORY = [user("q"), asks("call_a"), answers(call_a="r1"), asks("call_a"), answers(call_a="r2")]


def test_a_refused_request_has_the_messages_of_its_agent() -> None:
    whole = agent(HISTORY, at=(0, 10))
    first = chat(None, [asks("call_a")], parent=whole, at=(1, 2))
    requests = requests_of(whole, first, refused(whole, (5, 6)))
    assert [sent(request) for request in requests] == [None, HISTORY]
    assert requests[1].content_state == "full"
    assert requests[1].error_class == "duplicate_call_id"


def test_retries_of_the_last_request_sent_the_same() -> None:
    whole = agent(HISTORY, at=(0, 10))
    requests = requests_of(whole, refused(whole, (5, 6)), refused(whole, (6, 7)))
    assert [sent(request) for request in requests] == [HISTORY, HISTORY]


def test_instructions_go_before_them() -> None:
    system = json.dumps([{"type": "text", "content": "be brief"}])
    whole = agent(HISTORY, at=(0, 10), attrs={"gen_ai.system_instructions": system})
    [request] = requests_of(whole, refused(whole, (5, 6)))
    assert (sent(request) or [])[0]["role"] == "system"


@pytest.mark.parametrize("later", ["answered", "call", "answer"])
def test_not_where_the_messages_may_be_those_of_another_request(later: str) -> None:
    """A fallback model answered, a tool ran after it, or the messages end in an answer."""
    whole = agent(HISTORY + ([user("x"), asks()] if later == "answer" else []), at=(0, 10))
    spans = [whole, refused(whole, (5, 6))]
    if later == "answered":
        spans.append(chat(None, [asks("call_b")], parent=whole, at=(6, 7)))
    if later == "call":
        spans.append(tool(parent=whole, at=(7, 8)))
    assert sent(requests_of(*spans)[0]) is None


def test_not_those_of_an_agent_around_its_agent() -> None:
    outer = agent(HISTORY, at=(0, 10))
    delegate = tool(parent=outer, at=(1, 9))
    inner = agent(
        None, at=(2, 8), parent=delegate, attrs={"gen_ai.agent.name": "b", "pydantic_ai.all_messages": None}
    )
    [request] = requests_of(outer, delegate, inner, refused(inner, (5, 6)))
    assert sent(request) is None


def test_messages_of_its_own_stay() -> None:
    whole = agent(HISTORY, at=(0, 10))
    own = chat([user("own")], None, parent=whole, at=(5, 6), status=2, message=DUPLICATE)
    assert sent(requests_of(whole, own)[0]) == [user("own")]


def test_cut_messages_are_truncated() -> None:
    whole = agent(None, at=(0, 10), attrs={"pydantic_ai.all_messages": json.dumps(HISTORY)[:-40]})
    [request] = requests_of(whole, refused(whole, (5, 6)))
    assert request.content_state == "truncated"


# -- histories in pieces -------------------------------------------------------------------------------


def response(
    inputs: Any, outputs: Any, response_id: str | None, previous: str | None, **fields: Any
) -> SpanRecord:
    attrs = {"gen_ai.response.id": response_id, "gen_ai.request.previous_response_id": previous}
    return chat(inputs, outputs, attrs={k: v for k, v in attrs.items() if v is not None}, **fields)


def test_previous_response_id() -> None:
    spans = [
        response([user("q")], [asks("a")], "resp_1", None),
        response([answers(a="r")], [asks("b")], "resp_2", "resp_1"),
        response([answers(b="s")], None, None, "resp_2", status=2, message=DUPLICATE),
    ]
    requests = requests_of(*spans)
    assert sent(requests[2]) == [user("q"), asks("a"), answers(a="r"), asks("b"), answers(b="s")]
    assert {request.content_state for request in requests} == {"full"}
    shuffled = random.Random(1).sample(spans, 3)
    assert requests_of(*shuffled) == requests


def test_previous_response_id_in_a_recorded_body() -> None:
    first = chat([user("q")], [asks("a")], attrs={"output.value": json.dumps({"id": "resp_1", "output": []})})
    parameters = json.dumps({"model": "m", "previous_response_id": "resp_1"})
    second = chat([answers(a="r")], [user("x")], attrs={"llm.invocation_parameters": parameters})
    assert sent(requests_of(first, second)[1]) == [user("q"), asks("a"), answers(a="r")]


def test_instructions_are_not_carried_over() -> None:
    system = {"role": "system", "parts": [{"type": "text", "content": "be brief"}]}
    first = response([system, user("q")], [asks("a")], "resp_1", None)
    second = response([system, answers(a="r")], [user("x")], "resp_2", "resp_1")
    assert sent(requests_of(first, second)[1]) == [system, user("q"), asks("a"), answers(a="r")]


def test_a_response_that_is_not_there_leaves_the_history_partial() -> None:
    [request] = requests_of(response([answers(a="r")], [user("x")], "resp_2", "resp_1"))
    assert sent(request) == [answers(a="r")]
    assert request.content_state == "truncated"


def test_responses_that_name_each_other() -> None:
    spans = [
        response([user("a")], [user("x")], "resp_1", "resp_2"),
        response([user("b")], [user("y")], "resp_2", "resp_1"),
    ]
    assert {request.content_state for request in requests_of(*spans)} == {"truncated", "full"} or {
        request.content_state for request in requests_of(*spans)
    } == {"truncated"}
    assert requests_of(*reversed(spans)) == requests_of(*spans)


def test_a_conversation_of_the_responses_api() -> None:
    parameters = json.dumps({"conversation": {"id": "conv_1"}})
    attrs = {"llm.invocation_parameters": parameters}
    first = chat([user("q")], [asks("a")], attrs=attrs)
    second = chat([answers(a="r")], [asks("b")], attrs=attrs)
    requests = requests_of(first, second)
    assert sent(requests[1]) == [user("q"), asks("a"), answers(a="r")]
    [alone] = requests_of(second)
    assert alone.content_state == "truncated"


def _anthropic(inputs: Any, outputs: Any, **fields: Any) -> SpanRecord:
    return chat(inputs, outputs, scope_name="com.anthropic.sdk.python", **fields)


def test_threads_of_the_anthropic_sdk() -> None:
    run = span("run", at=(0, 100))
    spans = [
        run,
        _anthropic([user("q")], [asks("a")], parent=run, at=(1, 2)),
        _anthropic([answers(a="r")], [asks("b")], parent=run, at=(3, 4)),
        _anthropic([answers(b="s")], None, parent=run, at=(5, 6), status=2, message=DUPLICATE),
    ]
    requests = requests_of(*spans)
    assert sent(requests[1]) == [user("q"), asks("a"), answers(a="r")]
    assert sent(requests[2]) == [user("q"), asks("a"), answers(a="r"), asks("b"), answers(b="s")]


def test_results_that_nobody_asked_for_are_no_thread() -> None:
    """Of another conversation, or of one that was not recorded."""
    run = span("run", at=(0, 100))
    first = _anthropic([user("q")], [asks("a")], parent=run, at=(1, 2))
    other = _anthropic([answers(z="r")], [asks("b")], parent=run, at=(3, 4))
    requests = requests_of(run, first, other)
    assert sent(requests[1]) == [answers(z="r")]
    assert requests[1].content_state == "truncated"


def test_a_whole_history_that_begins_with_a_result_is_left_alone() -> None:
    """What a compaction that cut too much leaves: it is refused, and must be seen as it was sent."""
    run = span("run", at=(0, 100))
    first = _anthropic([user("q")], [asks("a")], parent=run, at=(1, 2))
    history = [answers(a="r"), asks("b"), answers(b="s")]
    second = _anthropic(history, None, parent=run, at=(3, 4), status=2, message=DUPLICATE)
    requests = requests_of(run, first, second)
    assert sent(requests[1]) == history
    assert requests[1].content_state == "full"


def test_pieces_of_other_dialects_are_left_alone() -> None:
    first = chat([user("q")], [asks("a")])
    second = chat([answers(a="r")], [asks("b")])
    assert sent(requests_of(first, second)[1]) == [answers(a="r")]


# -- stubs ---------------------------------------------------------------------------------------------

STUBS = [
    STUB,
    "[Result unavailable — see context summary above]",
    [{"type": "text", "text": STUB}],
    {"error": STUB},
    {"content": [{"text": STUB}]},
]


@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_in_the_next_request_is_not_the_result(stub: Any) -> None:
    first = chat([user("q")], [asks("a")], at=(0, 1))
    call = tool("search", '{"q": "x"}', None, call_id="a", at=(2, 3))
    last = chat([user("q"), asks("a"), answers(a=stub)], [user("done")], at=(4, 5))
    [found] = calls_of(first, call, last)
    assert (found.result, found.outcome, found.error_kind, found.result_hash) == (None, None, None, None)
    assert found.content_state == "missing"


def test_nor_is_the_result_of_an_earlier_round_behind_a_stub() -> None:
    """Ids recur: what stands before the stub belongs to another call."""
    spans = [
        chat([user("q")], [asks("a")], at=(0, 1)),
        tool("search", '{"q": "x"}', "real", call_id="a", at=(2, 3)),
        chat([user("q"), asks("a"), answers(a="real")], [asks("a")], at=(4, 5)),
        tool("search", '{"q": "x"}', None, call_id="a", at=(6, 7)),
        chat(
            [user("q"), asks("a"), answers(a="real"), asks("a"), answers(a=STUB)], [user("done")], at=(8, 9)
        ),
    ]
    assert [call.result for call in calls_of(*spans)] == ["real", None]


def test_a_stub_that_is_flagged_as_an_error_is_no_failure() -> None:
    part = {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": STUB}
    first = chat([user("q")], [asks("a")], at=(0, 1))
    call = tool("search", '{"q": "x"}', None, call_id="a", at=(2, 3))
    last = chat([user("q"), asks("a"), {"role": "user", "content": [part]}], [user("done")], at=(4, 5))
    [found] = calls_of(first, call, last)
    assert (found.outcome, found.error_kind) == (None, None)


@pytest.mark.parametrize("stub", STUBS)
@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_stub_on_the_calls_own_span(stub: Any, status: int) -> None:
    text = stub if isinstance(stub, str) else json.dumps(stub)
    for message in (None, text if status == 2 else None):
        [found] = calls_of(tool(result=text, status=status, message=message))
        assert (found.result, found.outcome, found.error_message) == (None, None, None)


def test_a_failure_beside_a_stub_is_the_spans_own() -> None:
    [found] = calls_of(tool(result=STUB, status=2, message="connection refused"))
    assert (found.result, found.outcome, found.error_kind) == (None, "general_tool_error", "network")


def test_a_result_that_quotes_a_stub_is_a_result() -> None:
    text = json.dumps({"log": f"found: {STUB}"})
    [found] = calls_of(tool(result=text, status=1))
    assert (found.result, found.outcome) == (text, "success")


# -- recordings ----------------------------------------------------------------------------------------

REFUSED = {
    "agent_framework": ("duplicate_call_id", True),
    "google_adk": ("duplicate_call_id", False),
    "google_adk_semconv": ("duplicate_call_id", True),
    "langfuse": ("duplicate_call_id", True),
    "langsmith_otel": ("duplicate_call_id", True),
    "logfire_pydantic_ai": ("duplicate_call_id", True),
    "openinference_autogen": ("duplicate_call_id", True),
    "openinference_langchain": ("duplicate_call_id", True),
    "openinference_llamaindex.part2": ("duplicate_call_id", True),
    "openinference_openai_agents": ("missing_result", False),
    "openinference_pydantic_ai": ("duplicate_call_id", True),
    "openinference_smolagents": ("missing_result", True),
    "openinference_strands": ("duplicate_call_id", True),
    "openllmetry_langchain.part2": ("duplicate_call_id", True),
    "openllmetry_openai": ("duplicate_call_id", True),
    "openllmetry_openai_agents": ("missing_result", False),
    "otel_genai_latest": ("duplicate_call_id", True),
    "otel_genai_legacy": ("duplicate_call_id", True),
    "pydantic_ai_v2": ("duplicate_call_id", True),
    "pydantic_ai_v5": ("duplicate_call_id", True),
    "semantic_kernel": ("duplicate_call_id", True),
    "strands_legacy": ("duplicate_call_id", True),
    "vercel_ai_v5": ("duplicate_call_id", True),
    "vercel_ai_v7_legacy": ("duplicate_call_id", True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_recorded_refusals(name: str) -> None:
    """(class, are the messages there) of every refused request in the recordings."""
    _, derived = derive_file(corpus(f"dialects/{name}.jsonl"))
    found = {
        (request.error_class, request.input_messages is not None)
        for request in derived.llm_requests
        if request.status == "error"
    }
    assert found == {REFUSED[name]}
