"""Every recording of the three dialects gives the calls that are in it."""

from __future__ import annotations

import pytest
from derive_tools import derive_file
from shared_corpus import corpus

# file -> calls, with id, with arguments, with result, failed, LLM requests, of these refused.
# The figures are those of the corpus; ids, arguments and results are what the spans alone hold,
# and messages add to them.
FIGURES = {
    "mcp_fastmcp": (6, 0, 0, 0, 3, 0, 0),
    "mcp_sdk": (6, 0, 0, 0, 3, 0, 0),
    "openinference_agno": (6, 0, 6, 6, 1, 8, 1),
    "openinference_autogen": (6, 0, 6, 6, 0, 8, 1),
    "openinference_crewai": (6, 0, 6, 5, 1, 0, 0),
    "openinference_google_adk": (10, 9, 10, 9, 1, 3, 1),
    "openinference_langchain": (6, 5, 6, 5, 1, 8, 1),
    "openinference_llamaindex": (4, 0, 4, 3, 1, 5, 0),
    "openinference_llamaindex.part2": (2, 0, 2, 2, 0, 3, 1),
    "openinference_openai_agents": (6, 0, 6, 6, 1, 13, 1),
    "openinference_pydantic_ai": (6, 6, 6, 6, 1, 8, 1),
    "openinference_smolagents": (6, 0, 6, 5, 1, 7, 1),
    "openinference_strands": (6, 6, 6, 6, 1, 8, 1),
    "openllmetry_crewai": (4, 4, 4, 4, 0, 0, 0),
    "openllmetry_langchain": (4, 3, 4, 3, 1, 5, 0),
    "openllmetry_langchain.part2": (2, 2, 2, 2, 0, 3, 1),
    "openllmetry_llamaindex": (5, 0, 5, 5, 0, 7, 0),
    "openllmetry_mcp": (5, 0, 5, 5, 2, 0, 0),
    "openllmetry_openai": (6, 0, 6, 5, 1, 8, 1),
    "openllmetry_openai_agents": (6, 0, 6, 6, 1, 13, 1),
    "openllmetry_openai_old": (6, 0, 6, 5, 1, 8, 1),
    "otel_genai_langchain": (6, 6, 6, 5, 1, 8, 1),
    "otel_genai_latest": (6, 6, 6, 5, 1, 8, 1),
    "otel_genai_legacy": (6, 6, 6, 6, 0, 8, 1),
    "otel_genai_openai_agents": (6, 0, 6, 6, 1, 0, 0),
    "otel_genai_smolagents": (0, 0, 0, 0, 0, 0, 0),
}
# Calls that failed though the status of their (outermost) span is OK, which is what the figure counts:
# AutoGen's inner span has the exception; ADK's tool returned {"status": "error"}.
# CrewAI's task says which of its tools failed.
FAILED_UNDER_OK = {"openinference_autogen": 1, "openinference_google_adk": 1, "openllmetry_crewai": 1}
# Calls that a model asked for and nobody ran, beyond those of the figures: the OpenAI Agents SDK does not run an
# id a second time, and asks again until its turns are used up.
ASKED_ONLY = {"openinference_openai_agents": 5, "openllmetry_openai_agents": 5}


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str) -> None:
    spans, derived = derive_file(corpus("dialects", f"{name}.jsonl"))
    tools, ids, arguments, results, failed, requests, refused = FIGURES[name]
    calls = [call for call in derived.tool_calls if call.end_ns is not None]
    assert len(calls) == tools
    assert len(derived.tool_calls) - tools == ASKED_ONLY.get(name, 0)
    assert sum(call.call_id is not None for call in calls) >= ids
    assert sum(call.arguments is not None for call in calls) >= arguments
    assert sum(call.result is not None for call in calls) >= results
    errors = [call for call in calls if call.outcome in ("general_tool_error", "schema_error")]
    status = {span.span_id: span.status_code for span in spans}
    assert sum(status[call.span_id] == 2 for call in calls if call.position == 0) == failed
    assert len(errors) == failed + FAILED_UNDER_OK.get(name, 0)
    assert len(derived.llm_requests) == requests
    assert sum(request.status == "error" for request in derived.llm_requests) == refused
    for request in derived.llm_requests:
        assert request.http_status == (400 if request.status == "error" else None)


@pytest.mark.parametrize(
    "name",
    [
        "openinference_autogen", "openinference_langchain", "openinference_llamaindex",
        "openinference_openai_agents", "openinference_pydantic_ai", "openinference_smolagents",
        "openinference_strands", "openllmetry_langchain", "openllmetry_mcp", "openllmetry_openai",
        "openllmetry_openai_agents", "otel_genai_latest",
    ],
)  # fmt: skip
def test_the_three_equal_searches_look_equal(name: str) -> None:
    _, derived = derive_file(corpus("dialects", f"{name}.jsonl"))
    first = derived.tool_calls[:3]
    assert {call.tool_name for call in first} == {"search_docs"}
    assert len({call.scope_key for call in first}) == 1
    assert first[0].fingerprint is not None
    assert {call.result for call in first} == {"No documents found for: refund policy"}
    assert [call.seq for call in first] == [1, 2, 3]
    assert {call.content_state for call in first} == {"full"}


@pytest.mark.parametrize(
    "name",
    [
        "openinference_autogen", "openinference_langchain", "openinference_llamaindex",
        "openinference_openai_agents", "openinference_smolagents", "openllmetry_openai",
        "openllmetry_openai_agents",
    ],
)  # fmt: skip
def test_ids_come_from_messages_where_spans_have_none(name: str) -> None:
    _, derived = derive_file(corpus("dialects", f"{name}.jsonl"))
    assert [call.call_id for call in derived.tool_calls[:4]] == ["call_a1", "call_a2", "call_a3", "call_b1"]
    assert [call.turn for call in derived.tool_calls[:4]] == [1, 2, 3, 4]


def test_error_kinds_of_fastmcp() -> None:
    _, derived = derive_file(corpus("dialects", "mcp_fastmcp.jsonl"))
    failed = [(call.tool_name, call.outcome, call.error_kind) for call in derived.tool_calls if call.outcome]
    assert failed == [
        ("fetch_url", "general_tool_error", "not_found"),
        ("no_such_tool", "general_tool_error", "not_found"),
        ("search_docs", "schema_error", "validation"),
    ]


def test_the_mcp_sdk_records_no_text() -> None:
    _, derived = derive_file(corpus("dialects", "mcp_sdk.jsonl"))
    failed = [call for call in derived.tool_calls if call.outcome is not None]
    assert [(call.outcome, call.error_kind) for call in failed] == [("general_tool_error", "unknown")] * 3
    assert {(call.error_message, call.result) for call in failed} == {(None, None)}
    assert {call.content_state for call in derived.tool_calls} == {"missing"}


def test_legacy_messages_come_from_log_records() -> None:
    _, derived = derive_file(corpus("dialects", "otel_genai_legacy.jsonl"))
    refused = derived.llm_requests[-1]
    assert refused.status == "error"
    assert refused.input_messages is not None
    assert len(refused.input_messages) == 5
    assert refused.content_state == "full"


def test_an_mcp_failure_under_an_ok_status() -> None:
    import json

    from loopscope.collector._derive import derive_trace
    from loopscope.collector._otlp import decode_traces, traces_json_to_protobuf

    case = json.loads(corpus("cases", "065-mcp-error-recorded-as-ok.json").read_text("utf-8"))
    request = {"resourceSpans": [{"scopeSpans": [{"spans": case["input"]["spans"]}]}]}
    (call,) = derive_trace(decode_traces(traces_json_to_protobuf(request))).tool_calls
    assert (call.tool_name, call.outcome) == ("push_branch", "general_tool_error")
    assert call.run_id == "5b8efff798038103d269b633813fc60c/aaaaaaaaaaaaaaaa"
