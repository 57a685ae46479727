"""LLM spans to requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from derive_tools import agent, asks, chat, exception, span, tool

from loopscope.collector._derive import derive_trace


def request_of(*spans):
    (request,) = derive_trace(list(spans)).llm_requests
    return request


USER = {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
ANSWER = {"role": "assistant", "parts": [{"type": "text", "content": "ho"}]}


def test_a_plain_request() -> None:
    usage = {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": "2", "operation.cost": 0.5}
    request = request_of(chat([USER], [ANSWER], attrs=usage, resource={"service.name": "shop"}))
    assert (request.status, request.turn, request.content_state) == ("ok", 1, "full")
    assert (request.model, request.provider, request.service_name) == ("m", "p", "shop")
    assert (request.input_tokens, request.output_tokens, request.cost) == (7, 2, 0.5)
    assert request.input_messages == [json.dumps(USER)]
    assert request.output_messages == [json.dumps(ANSWER)]
    assert (request.error_text, request.error_type, request.http_status, request.error_class) == (None,) * 4


def test_messages_are_kept_as_recorded() -> None:
    text = '[ {"role":"user",  "parts":[1,2]} ,\n{"a": "\\u00e9"}, "bare", 7 ]'
    request = request_of(chat(attrs={"gen_ai.input.messages": text}))
    assert request.input_messages == ['{"role":"user",  "parts":[1,2]}', '{"a": "\\u00e9"}', '"bare"', "7"]


def test_structured_messages() -> None:
    request = request_of(chat(attrs={"gen_ai.input.messages": [USER, {"n": float("nan")}]}))
    assert request.input_messages == [json.dumps(USER), '{"n": "nan"}']


def test_every_element_is_valid_json() -> None:
    request = request_of(chat(attrs={"gen_ai.input.messages": '[{"a": NaN}, {"b": -Infinity}, {"c": 1}]'}))
    assert [json.loads(text, parse_constant=pytest.fail) for text in request.input_messages or []] == [
        {"a": "nan"},
        {"b": "-inf"},
        {"c": 1},
    ]


def test_no_messages_is_none_and_an_empty_list_is_not() -> None:
    request = request_of(chat())
    assert (request.input_messages, request.output_messages, request.content_state) == (None, None, "missing")
    request = request_of(chat([], []))
    assert (request.input_messages, request.output_messages, request.content_state) == ([], [], "full")
    request = request_of(chat(attrs={"gen_ai.input.messages": "__REDACTED__"}))
    assert request.input_messages is None


def test_system_instructions_stand_in_front() -> None:
    request = request_of(
        chat([USER], attrs={"gen_ai.system_instructions": '[{"type":"text","content":"be kind"}]'})
    )
    assert [json.loads(text)["role"] for text in request.input_messages or []] == ["system", "user"]


def test_messages_cut_in_the_middle_are_partial() -> None:
    whole = json.dumps([USER, ANSWER, USER])
    request = request_of(chat(None, [ANSWER], attrs={"gen_ai.input.messages": whole[:-20]}))
    assert request.input_messages == [json.dumps(USER), json.dumps(ANSWER)]
    assert request.content_state == "truncated"


@pytest.mark.parametrize("text", ["[", "nonsense", '"text"', "7", "null", "[1 2]", "{"])
def test_what_is_no_list_of_messages(text: str) -> None:
    request = request_of(chat(attrs={"gen_ai.input.messages": text}))
    assert request.content_state == "missing" or request.input_messages == ["1"]


def test_flattened_messages_that_lost_attributes_are_partial() -> None:
    attrs = {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": 1,
        "llm.output_messages.0.message.content": "ho",
    }
    late = {f"llm.input_messages.{number}.message.content": "hi" for number in (46, 47)}
    request = request_of(span("llm", attrs=attrs | late, dropped_attributes=169))
    assert (len(request.input_messages or []), request.content_state) == (2, "truncated")
    request = request_of(span("llm", attrs=attrs | late))
    assert request.content_state == "truncated"


def test_growing_histories() -> None:
    history: list[Any] = []
    spans = []
    for number in range(30):
        history.append({"role": "user", "parts": [number, "é" * number]})
        spans.append(chat(history, [ANSWER]))
    compacted = [{"role": "user", "parts": "summary"}, *history[10:]]
    edited = [*history[:20], {"role": "user", "parts": "other"}, *history[21:]]
    longer_number, shorter_number = [*history, 12], [*history, 1, 2]
    for messages in (compacted, edited, longer_number, shorter_number, history[:5]):
        spans.append(chat(messages, [ANSWER]))
    recorded = [
        [json.loads(text) for text in r.input_messages or []] for r in derive_trace(spans).llm_requests
    ]
    assert recorded == [json.loads(s.attributes["gen_ai.input.messages"]) for s in spans]


# -- failed requests --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"message": "Error code: 400 - Invalid parameter"}, 400),
        ({"message": "status_code: 429, model_name: m"}, 429),
        ({"message": "litellm.BadRequestError: OpenAIException - no"}, 400),
        ({"message": "INVALID_ARGUMENT: 400 no"}, 400),
        ({"attrs": {"error.type": "400"}}, 400),
        ({"attrs": {"http.response.status_code": 422}}, 422),
        ({"events": [exception("openai.RateLimitError", "slow down")]}, 429),
        ({"message": "Duplicate value for 'tool_call_id' of 'x'"}, 400),
        ({"message": "the budget of 400 tokens is used up"}, None),
        ({}, None),
    ],
)
def test_the_http_status_of_a_refusal(fields: dict[str, Any], status: int | None) -> None:
    request = request_of(chat([USER], None, status=2, **fields))
    assert (request.status, request.http_status, request.turn) == ("error", status, None)
    assert request.content_state == "full"


def test_a_refused_request_without_messages_has_none() -> None:
    request = request_of(chat(status=2, message="no"))
    assert (request.input_messages, request.content_state, request.error_text) == (None, "missing", "no")


def test_an_answer_that_says_nothing_to_a_refused_request() -> None:
    request = request_of(chat([USER], [{"role": "assistant"}], status=2))
    assert request.output_messages is None


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "finish_reason": "tool_calls"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "__REDACTED__"},
        {"role": "assistant", "content": [{"type": "text", "text": "__REDACTED__"}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search"}}],
        },
    ],
)
def test_messages_without_content_are_missing(message: dict[str, Any]) -> None:
    request = request_of(chat([message, message], [message]))
    assert (request.input_messages, request.output_messages, request.content_state) == (None, None, "missing")
    request = request_of(chat([message, USER], [message]))
    assert len(request.input_messages or []) == 2


@pytest.mark.parametrize(
    "message", [{"role": "assistant", "parts": []}, {"role": "assistant", "content": ""}]
)
def test_an_empty_message_is_not_missing(message: dict[str, Any]) -> None:
    assert request_of(chat([USER], [message])).content_state == "full"


def test_an_exception_event_without_an_answer() -> None:
    event = exception("openai.BadRequestError", "Error code: 400")
    assert request_of(chat([USER], None, status=1, events=[event])).status == "error"
    assert request_of(chat([USER], [ANSWER], status=1, events=[event])).status == "ok"


def test_an_http_status_by_attribute_is_a_refusal() -> None:
    assert request_of(chat([USER], None, attrs={"http.response.status_code": 400})).status == "error"
    assert request_of(chat([USER], [ANSWER], attrs={"http.response.status_code": 200})).status == "ok"


# -- a request recorded twice -----------------------------------------------------------------------


def test_the_innermost_span_with_messages_is_the_request() -> None:
    outer = chat([USER], [ANSWER])
    wrapper = span("wrapper", parent=outer)
    inner = chat([USER], [ANSWER], parent=wrapper)
    assert request_of(outer, wrapper, inner).span_id == inner.span_id


def test_an_inner_span_without_content_is_no_request() -> None:
    outer = chat([USER], [ANSWER])
    inner = chat(parent=outer)
    assert request_of(outer, inner).span_id == outer.span_id


def test_the_two_spans_of_a_request_complete_each_other() -> None:
    outer = chat([USER], None, status=2)
    inner = chat(parent=outer, status=2, message="Error code: 400")
    request = request_of(outer, inner)
    assert request.span_id == outer.span_id
    assert (request.error_text, request.http_status) == ("Error code: 400", 400)
    inner = chat(None, [ANSWER], parent=outer)
    outer.status_code = 0
    request = request_of(outer, inner)
    assert request.span_id == inner.span_id
    assert request.input_messages == [json.dumps(USER)]
    assert request.content_state == "full"


def test_several_requests_inside_a_frame_keep_their_own_content() -> None:
    frame = chat([USER], [ANSWER], attrs={"gen_ai.usage.input_tokens": 30})
    first = chat([USER], [ANSWER], parent=frame)
    second = chat(None, [ANSWER], parent=frame)
    derived = derive_trace([frame, first, second]).llm_requests
    assert [request.span_id for request in derived] == [first.span_id, second.span_id]
    assert (derived[1].input_messages, derived[1].input_tokens) == (None, None)


def test_a_span_around_tools_is_no_turn() -> None:
    frame = chat([USER], [asks("a")])
    call = tool(parent=frame)
    derived = derive_trace([frame, call])
    assert derived.llm_requests[0].turn is None
    assert derived.tool_calls[0].turn is None


def test_private_helpers_of_llamaindex_are_no_requests() -> None:
    helper = span(
        "OpenAILike._prepare_chat_with_tools",
        scope_name="openinference.instrumentation.llama_index",
        attrs={"openinference.span.kind": "LLM", "llm.model_name": "m"},
    )
    assert derive_trace([helper]).llm_requests == []


def test_a_request_that_never_ended_is_none_yet() -> None:
    assert derive_trace([chat([USER], ended=False)]).llm_requests == []


def test_agent_spans_are_no_requests() -> None:
    usage = {"gen_ai.usage.input_tokens": 500, "gen_ai.input.messages": "[]"}
    assert derive_trace([agent(attrs=usage)]).llm_requests == []


def test_pending_copies_are_skipped() -> None:
    record = tool(attrs={"logfire.span_type": "pending_span"})
    assert derive_trace([record]).tool_calls == []


def test_bodies_are_read_where_nothing_better_is() -> None:
    body = {"messages": [[{"lc": 1, "kwargs": {"content": "hi", "type": "human"}}]]}
    answer = {
        "generations": [[{"text": "", "message": {"lc": 1, "kwargs": {"content": "ho", "type": "ai"}}}]]
    }
    attrs = {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps(body),
        "output.value": json.dumps(answer),
    }
    request = request_of(span("ChatOpenAI", attrs=attrs))
    assert [len(request.input_messages or []), len(request.output_messages or [])] == [1, 1]
    attrs["input.value"] = '{"messages": ["ChatMessage(role=user)"]}'
    assert request_of(span("ChatOpenAI", attrs=attrs)).input_messages is None
