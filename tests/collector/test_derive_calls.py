"""What a call's spans say: names, ids, arguments, results, failures, and nested spans of one call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from derive_tools import START, agent, chat, exception, span, tool

from loopscope.collector._derive import derive_trace
from loopscope.collector._records import SpanEvent
from loopscope.guard import Guidance, fingerprint, result_hash


def call_of(*spans):
    (call,) = derive_trace(list(spans)).tool_calls
    return call


def oi_tool(**attrs: Any):
    fields = {key: attrs.pop(key) for key in ("status", "message", "events", "name") if key in attrs}
    named = {f"{key.replace('__', '.')}": value for key, value in attrs.items()}
    return span(fields.pop("name", "search"), attrs={"openinference.span.kind": "TOOL", **named}, **fields)


# -- names, ids, arguments, results -----------------------------------------------------------------


def test_a_plain_call() -> None:
    call = call_of(tool("search", '{"q":"x"}', "nothing", call_id="c1", resource={"service.name": "shop"}))
    assert (call.tool_name, call.call_id, call.arguments, call.result) == (
        "search",
        "c1",
        '{"q":"x"}',
        "nothing",
    )
    assert (call.outcome, call.content_state, call.service_name) == ("success", "full", "shop")
    assert call.fingerprint == fingerprint("search", '{"q": "x"}')
    assert call.result_hash == result_hash("nothing")
    assert call.dialect == "otel_genai"


@pytest.mark.parametrize(
    ("span_name", "tool_name"),
    [
        ("execute_tool x", "x"),
        ("tools/call x", "x"),
        ("MCP send tools/call x", "x"),
        ("x.tool", "x"),
        ("x", "x"),
    ],
)
def test_the_name_may_be_only_in_the_span_name(span_name: str, tool_name: str) -> None:
    assert call_of(span(span_name, attrs={"gen_ai.operation.name": "execute_tool"})).tool_name == tool_name


def test_structured_attributes_are_read_as_json() -> None:
    call = call_of(tool("search", {"b": 1, "a": [True, None]}, {"found": 0}))
    assert json.loads(call.arguments or "") == {"b": 1, "a": [True, None]}
    assert call.result == '{"found": 0}'
    assert call.fingerprint == fingerprint("search", '{"a":[true,null],"b":1}')


def test_empty_is_not_missing() -> None:
    call = call_of(tool("search", "", ""))
    assert (call.arguments, call.result, call.content_state, call.outcome) == ("", "", "full", "success")
    call = call_of(tool("search", None, None))
    assert (call.arguments, call.result, call.content_state, call.outcome) == (None, None, "missing", None)
    assert (call.fingerprint, call.result_hash, call.scope_key) == (None, None, None)


@pytest.mark.parametrize("placeholder", ["<not specified>", "__REDACTED__", "<REDACTED>"])
def test_placeholders_are_missing(placeholder: str) -> None:
    call = call_of(tool("search", placeholder, placeholder, call_id=placeholder))
    assert (call.arguments, call.result, call.call_id, call.content_state) == (None, None, None, "missing")


@pytest.mark.parametrize(
    "value",
    [
        '{"kwargs": {"query": "refund policy"}}',
        '{"args": [], "kwargs": {"query": "refund policy"}}',
        '{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"query": "refund policy"}}',
        '{"tool_name": "search", "arguments": {"query": "refund policy"}}',
        '{"input_str": "{\'query\': \'refund policy\'}", "tags": ["seq:step:1"], "metadata": {"step": 4}}',
        '{"input_str": "…", "inputs": {"query": "refund policy"}, "metadata": {"step": 5}}',
        '  {"kwargs": {"query": "refund policy"}}',
        {"kwargs": {"query": "refund policy"}},
    ],
)
def test_wrappers_of_arguments_come_off(value: Any) -> None:
    call = call_of(oi_tool(input__value=value))
    assert json.loads(call.arguments or "") == {"query": "refund policy"}
    assert call.fingerprint == fingerprint("search", {"query": "refund policy"})


@pytest.mark.parametrize(
    "value",
    [
        "refund policy",  # LangChain's only string argument
        '{"query": "kwargs"}',
        '{"kwargs": [1]}',
        '{"kwargs": {}, "limit": 3}',
        '{"kwargs": ',
        '[{"kwargs": {"a": 1}}]',
        '{"tool_name": "x", "arguments": {}, "more": 1}',
    ],
)
def test_what_is_no_wrapper_stays_as_recorded(value: str) -> None:
    assert call_of(oi_tool(input__value=value)).arguments == value


@pytest.mark.parametrize(
    "text",
    [
        "{'a': open('x')}",
        "{'a': {1, 2}}",
        "{'a': b'x'}",
        "{" * 5000,
        "{'a': " + "[" * 300 + "]" * 300 + "}",
        "{'a': '" + "x" * 70_000 + "'}",
        "{'a': 1",
    ],
)
def test_a_repr_that_is_no_plain_dict_stays_text(text: str) -> None:
    call = call_of(oi_tool(input__value=json.dumps({"input_str": text, "metadata": {"langgraph_step": 1}})))
    assert call.arguments == text


def test_positional_arguments_are_kept() -> None:
    call = call_of(oi_tool(input__value='{"args": ["x"], "kwargs": {"n": 1}}'))
    assert json.loads(call.arguments or "") == {"args": ["x"], "kwargs": {"n": 1}}


@pytest.mark.parametrize(
    "schema",
    [
        '{"properties": {"query": {"type": "string"}}, "required": ["query"], "type": "object"}',
        '{"query": {"type": "string", "description": "the search text"}}',
    ],
)
def test_tool_parameters_may_be_a_schema(schema: str) -> None:
    assert call_of(oi_tool(tool__parameters=schema)).arguments is None
    assert call_of(oi_tool(tool__parameters=schema, input__value="x")).arguments == "x"
    assert call_of(oi_tool(tool__parameters='{"query": "x"}')).arguments == '{"query": "x"}'
    assert call_of(oi_tool(tool__parameters='{"type": "object"}')).arguments == '{"type": "object"}'


TOOL_MESSAGE = {
    "content": "nothing",
    "type": "tool",
    "name": "search",
    "tool_call_id": "c7",
    "status": "success",
}


@pytest.mark.parametrize(
    "value",
    [
        {"type": "tool", "data": TOOL_MESSAGE},
        {"lc": 1, "type": "constructor", "id": ["ToolMessage"], "kwargs": TOOL_MESSAGE},
        {"output": {"lc": 1, "kwargs": TOOL_MESSAGE}, "kwargs": {"tags": ["seq:step:1"]}},
        {"output": TOOL_MESSAGE},
        {"graph": None, "update": {"messages": [{"type": "tool", "data": TOOL_MESSAGE}]}, "goto": []},
        {"output": {**TOOL_MESSAGE, "content": [{"type": "text", "text": "nothing"}]}},
    ],
)
def test_tool_messages_of_langchain_come_out_of_their_wrapper(value: Any) -> None:
    call = call_of(oi_tool(input__value="x", output__value=json.dumps(value), status=1))
    assert (call.result, call.call_id, call.outcome) == ("nothing", "c7", "success")


def test_a_tool_message_may_say_that_it_failed() -> None:
    message = {"type": "tool", "data": TOOL_MESSAGE | {"status": "error", "content": "Error: no"}}
    call = call_of(oi_tool(input__value="x", output__value=json.dumps(message), status=1))
    assert (call.result, call.outcome) == ("Error: no", "general_tool_error")


def test_more_wrappers_of_results() -> None:
    llama = {
        "blocks": [{"text": "no"}],
        "tool_name": "s",
        "raw_input": {},
        "raw_output": "no",
        "is_error": False,
    }
    call = call_of(oi_tool(output__value=json.dumps(llama), status=1))
    assert (call.result, call.outcome) == ("no", "success")
    call = call_of(oi_tool(output__value=json.dumps(llama | {"is_error": True}), status=1))
    assert (call.result, call.outcome) == ("no", "general_tool_error")
    adk = {"id": "c1", "name": "s", "response": {"result": "no"}}
    call = call_of(oi_tool(output__value=json.dumps(adk), status=1))
    assert (call.result, call.call_id, call.outcome) == ('{"result": "no"}', "c1", "success")
    adk = {"id": "c1", "name": "s", "response": {"status": "error", "error_message": "no"}}
    assert call_of(oi_tool(output__value=json.dumps(adk), status=1)).outcome == "general_tool_error"


def traceloop(output: str, **attrs: Any):
    return span(
        "search.tool",
        attrs={
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "search",
            "traceloop.entity.output": output,
        }
        | attrs,
    )


def test_results_of_traceloop_are_json() -> None:
    assert call_of(traceloop('"nothing"')).result == "nothing"
    assert call_of(traceloop('{"result": "nothing"}')).result == "nothing"
    assert call_of(traceloop('{"result": {"a": 1}}')).result == '{"a": 1}'
    assert call_of(traceloop('{"result": "no", "more": 1}')).result == '{"result": "no", "more": 1}'
    call = call_of(traceloop('{"result": "no", "is_error": true}'))
    assert (call.result, call.outcome) == ("no", "general_tool_error")
    # A result of another dialect that looks the same is the tool's own.
    assert call_of(tool(result='{"result": "nothing"}')).result == '{"result": "nothing"}'
    assert call_of(tool(result='"nothing"')).result == '"nothing"'


def test_the_tools_of_llamaindex_are_named_in_their_output() -> None:
    output = {"blocks": [{"text": "no"}], "tool_name": "search", "raw_output": "no", "is_error": False}
    record = span(
        "FunctionTool.task",
        scope_name="opentelemetry.instrumentation.llamaindex",
        attrs={
            "traceloop.span.kind": "task",
            "traceloop.entity.name": "FunctionTool.task",
            "traceloop.entity.input": '{"kwargs": {"q": "x"}}',
            "traceloop.entity.output": json.dumps(output),
        },
    )
    call = call_of(record)
    assert (call.tool_name, call.arguments, call.result) == ("search", '{"q": "x"}', "no")
    record.scope_name = "something.else"
    assert derive_trace([record]).tool_calls == []


def test_strands_keeps_content_in_events() -> None:
    events = [
        SpanEvent("gen_ai.tool.message", START, {"role": "tool", "content": '{"q": "x"}', "id": "c1"}),
        SpanEvent("gen_ai.choice", START, {"message": '[{"text": "nothing"}]', "id": "c1"}),
    ]
    call = call_of(tool(arguments=None, result=None, events=events))
    assert (call.arguments, call.result) == ('{"q": "x"}', "nothing")


def test_a_recorded_guard_note_is_taken_off() -> None:
    noted = "nothing\n\n" + Guidance.default().nudge_note("search", 3)
    call = call_of(tool(result=noted))
    assert (call.result, call.recorded_verdict) == ("nothing", "nudge")
    assert call.result_hash == call_of(tool(result="nothing")).result_hash


# -- truncated --------------------------------------------------------------------------------------


def test_dropped_attributes_make_content_truncated() -> None:
    assert call_of(tool(dropped_attributes=3)).content_state == "truncated"
    assert call_of(tool(result=None, dropped_attributes=3)).content_state == "missing"


@pytest.mark.parametrize(
    ("result", "state"),
    [
        ("x" * 1024, "full"),  # a round length alone is chance
        ("[warn] " + "x" * 505, "full"),  # and so it is in brackets
        ('{"a": "' + "x" * 493, "truncated"),  # 500 characters of JSON that stops in the middle
        ('{"a": "' + "x" * 491 + '"}', "full"),  # 500 characters, whole
        ("x" * 300 + "...[TRUNCATED: original length 9000]", "truncated"),
        ("x" * 300 + "… (truncated)", "truncated"),
        ("the word TRUNCATED in a sentence that goes on for a while, as texts of tools do", "full"),
    ],
)
def test_cut_values_are_recognised(result: str, state: str) -> None:
    assert call_of(tool(result=result)).content_state == state


def test_a_round_length_beside_a_longer_value_is_chance() -> None:
    assert call_of(tool(arguments="y" * 2000, result="x" * 1024)).content_state == "full"


def test_two_longest_values_of_one_round_length_are_cut() -> None:
    assert call_of(tool(arguments="y" * 1024, result="x" * 1024)).content_state == "truncated"
    assert call_of(tool(arguments="y" * 1024, result="x" * 1023)).content_state == "full"
    twice = tool(arguments="y", result="x" * 1024, attrs={"output.value": "x" * 1024})
    assert call_of(twice).content_state == "full"  # one text under two keys
    apart = tool(arguments="y", result="x" * 1000, attrs={"tool.description": "z" * 1000})
    assert call_of(apart).content_state == "truncated"


# -- failures ---------------------------------------------------------------------------------------


def test_status_error() -> None:
    call = call_of(tool(result=None, status=2, message="HTTP 503 from upstream"))
    assert (call.outcome, call.error_kind) == ("general_tool_error", "unavailable")
    assert (call.error_message, call.result, call.http_status) == ("HTTP 503 from upstream",) * 2 + (503,)


def test_what_stands_in_for_a_missing_result() -> None:
    event = exception("RuntimeError", "no route")
    call = call_of(tool(result=None, status=2, message="RuntimeError: no route", events=[event]))
    assert (call.result, call.error_message, call.error_type) == ("no route", "no route", "RuntimeError")
    call = call_of(tool(result=None, status=2, message="RuntimeError: no route"))
    assert (call.result, call.error_type) == ("RuntimeError: no route", "RuntimeError")
    call = call_of(tool(result=None, status=2, attrs={"error.type": "tool_error"}))
    assert (call.result, call.error_type, call.error_message) == (None, "tool_error", None)
    assert (call.outcome, call.error_kind, call.content_state) == ("general_tool_error", "unknown", "missing")
    call = call_of(tool(result="told the model this", status=2, events=[event]))
    assert (call.result, call.error_message) == ("told the model this", "no route")


def test_a_traceback_behind_the_message_is_left_out() -> None:
    message = "RuntimeError('no route')Traceback (most recent call last):\n  File x"
    call = call_of(tool(result=None, status=2, message=message))
    assert (call.error_message, call.error_type) == ("no route", "RuntimeError")


@pytest.mark.parametrize(
    "attrs",
    [
        {"gen_ai.tool.status": "error"},
        {"gen_ai.task.status": "failure"},
        {"haystack.tool.error": True},
        {"genkit:state": "error"},
        {"langfuse.observation.level": "ERROR"},
        {"error.type": "ValueError"},
        {"loopscope.outcome.failed": True},
    ],
)
def test_flags_under_a_status_nobody_set(attrs: dict[str, Any]) -> None:
    assert call_of(tool(attrs=attrs)).outcome == "general_tool_error"


def test_the_sources_own_flag_overrides() -> None:
    assert call_of(tool(status=2, attrs={"loopscope.outcome.failed": False})).outcome == "success"
    assert call_of(tool(status=1, attrs={"loopscope.outcome.failed": True})).outcome == "general_tool_error"


def test_an_mcp_envelope_in_the_result() -> None:
    result = '{"content": [{"type": "text", "text": "push is disabled"}], "isError": true}'
    assert call_of(tool(result=result, status=1)).outcome == "general_tool_error"


def test_words_in_a_successful_result_mean_nothing() -> None:
    assert call_of(tool(result="Error: this page explains HTTP 404", status=1)).outcome == "success"


def test_an_exception_event_decides_only_where_no_result_is() -> None:
    event = exception("ToolException", "no")
    assert call_of(tool(status=1, events=[event])).outcome == "success"
    assert call_of(tool(result=None, status=1, events=[event])).outcome == "general_tool_error"
    assert call_of(tool(result=None, events=[event])).outcome == "general_tool_error"


def test_finished_without_status_and_result_is_unknown() -> None:
    call = call_of(tool(result=None))
    assert (call.outcome, call.seq) == (None, 1)
    assert call_of(tool(result=None, status=1)).outcome == "success"
    assert call_of(tool(result=None, attrs={"gen_ai.tool.status": "success"})).outcome == "success"


def test_json_rpc_codes_and_validation() -> None:
    attrs = {"mcp.method.name": "tools/call", "rpc.response.status_code": "-32602", "error.type": "-32602"}
    assert call_of(tool(result=None, status=2, attrs=attrs)).outcome == "schema_error"
    event = exception("fastmcp.exceptions.ValidationError", "1 validation error for call[search]")
    assert call_of(tool(result=None, status=2, events=[event])).outcome == "schema_error"


def test_a_call_that_never_ended() -> None:
    call = call_of(tool(result=None, ended=False))
    assert (call.outcome, call.seq, call.end_ns, call.content_state) == (None, None, None, "full")


# -- several spans of one call ----------------------------------------------------------------------


def test_nested_spans_of_one_call_are_one() -> None:
    outer = tool(call_id=None, result="HTTP 404", status=1)
    middle = span("wrapper", parent=outer)
    inner = tool(
        parent=middle,
        arguments=None,
        result=None,
        call_id="c1",
        status=2,
        message="RuntimeError: HTTP 404",
        events=[exception("RuntimeError", "HTTP 404")],
    )
    call = call_of(outer, middle, inner)
    assert (call.span_id, call.start_ns, call.end_ns) == (outer.span_id, outer.start_ns, outer.end_ns)
    assert (call.call_id, call.arguments, call.result) == ("c1", '{"q": "x"}', "HTTP 404")
    assert (call.outcome, call.error_type, call.error_message) == (
        "general_tool_error",
        "RuntimeError",
        "HTTP 404",
    )


def test_three_spans_of_an_mcp_call() -> None:
    attrs = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "mcp.method.name": "tools/call",
    }
    text = "1 validation error for call[search]"
    client = span("tools/call search", attrs=attrs | {"error.type": "tool_error"}, status=2, message=text)
    send = span("MCP send tools/call search", parent=client, attrs={"mcp.method.name": "tools/call"})
    server = span(
        "tools/call search",
        parent=send,
        attrs=attrs | {"error.type": "ValidationError"},
        status=2,
        message=text,
        events=[exception("fastmcp.exceptions.ValidationError", text)],
    )
    call = call_of(client, send, server)
    assert (call.outcome, call.error_type) == ("schema_error", "fastmcp.exceptions.ValidationError")
    assert (call.result, call.dialect) == (text, "mcp")


def test_an_mcp_span_below_a_tool_with_the_servers_name_in_front() -> None:
    outer = tool("docs_search")
    inner = span("tools/call search", parent=outer, attrs={"mcp.method.name": "tools/call"})
    assert call_of(outer, inner).tool_name == "docs_search"
    plain = tool("search", parent=outer)
    assert len(derive_trace([outer, plain]).tool_calls) == 2


@pytest.mark.parametrize("between", [chat(), agent()])
def test_a_model_or_an_agent_between_makes_two_calls(between) -> None:
    outer = tool()
    between.parent_span_id = outer.span_id
    inner = tool(parent=between)
    assert len(derive_trace([outer, between, inner]).tool_calls) == 2


def test_the_last_attempt_inside_a_call_decides() -> None:
    outer = tool(result="fine", at=(1, 9))
    failed = tool(parent=outer, at=(2, 3), status=2, message="busy")
    worked = tool(parent=outer, at=(4, 5), status=1)
    assert call_of(outer, failed, worked).outcome == "success"
    worked.status_code, failed.status_code = 2, 1
    assert call_of(outer, failed, worked).outcome == "general_tool_error"


def test_lone_surrogates_out_of_json_are_replaced() -> None:
    call = call_of(traceloop('"a\\ud800b"', **{"traceloop.entity.input": '{"kwargs": {"q": "\\ud800"}}'}))
    assert call.result == "a?b"
    assert json.loads(call.arguments or "") == {"q": "\ud800"}
    assert (call.arguments or "").isascii()
