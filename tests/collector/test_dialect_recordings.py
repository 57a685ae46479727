"""Every public recording gives the calls and requests that are in it, from spans and from logs."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from derive_tools import read_file
from shared_corpus import corpus

from loopscope.collector._derive import derive_trace
from loopscope.collector._otlp import decode_traces, traces_json_to_protobuf
from loopscope.collector._records import Derived, SpanRecord


class Figures(NamedTuple):
    """What a recording holds. Ids, arguments and results are what spans hold: messages add to them."""

    calls: int
    ids: int
    arguments: int
    results: int
    failed: int
    requests: int
    refused: int


# The figures of the table that comes with the corpus.
FIGURES = {
    "agent_framework": Figures(6, 6, 6, 5, 1, 8, 1),
    "google_adk": Figures(10, 9, 0, 0, 1, 12, 1),
    "google_adk_semconv": Figures(10, 9, 10, 9, 2, 12, 1),
    "langfuse": Figures(6, 0, 6, 5, 1, 8, 1),
    "langsmith_otel": Figures(6, 6, 6, 5, 1, 8, 1),
    "logfire_pydantic_ai": Figures(6, 6, 6, 6, 1, 8, 1),
    "mcp_fastmcp": Figures(6, 0, 0, 0, 3, 0, 0),
    "mcp_sdk": Figures(6, 0, 0, 0, 3, 0, 0),
    "openinference_agno": Figures(6, 0, 6, 6, 1, 8, 1),
    "openinference_autogen": Figures(6, 0, 6, 6, 1, 8, 1),
    "openinference_crewai": Figures(6, 0, 6, 5, 1, 0, 0),
    "openinference_google_adk": Figures(10, 9, 10, 9, 2, 3, 1),
    "openinference_langchain": Figures(6, 5, 6, 5, 1, 8, 1),
    "openinference_llamaindex": Figures(4, 0, 4, 3, 1, 5, 0),
    "openinference_llamaindex.part2": Figures(2, 0, 2, 2, 0, 3, 1),
    "openinference_openai_agents": Figures(6, 0, 6, 6, 1, 13, 1),
    "openinference_pydantic_ai": Figures(6, 6, 6, 6, 1, 8, 1),
    "openinference_smolagents": Figures(6, 0, 6, 5, 1, 7, 1),
    "openinference_strands": Figures(6, 6, 6, 6, 1, 8, 1),
    "openllmetry_crewai": Figures(4, 4, 4, 4, 1, 0, 0),
    "openllmetry_langchain": Figures(4, 3, 4, 3, 1, 5, 0),
    "openllmetry_langchain.part2": Figures(2, 2, 2, 2, 0, 3, 1),
    "openllmetry_llamaindex": Figures(5, 0, 5, 5, 0, 7, 0),
    "openllmetry_mcp": Figures(5, 0, 5, 5, 2, 0, 0),
    "openllmetry_openai": Figures(6, 0, 6, 5, 1, 8, 1),
    "openllmetry_openai_agents": Figures(6, 0, 6, 6, 1, 13, 1),
    "openllmetry_openai_old": Figures(6, 0, 6, 5, 1, 8, 1),
    "otel_genai_langchain": Figures(6, 6, 6, 5, 1, 8, 1),
    "otel_genai_latest": Figures(6, 6, 6, 5, 1, 8, 1),
    "otel_genai_legacy": Figures(6, 6, 6, 6, 0, 8, 1),
    "otel_genai_openai_agents": Figures(6, 0, 6, 6, 1, 0, 0),
    "otel_genai_smolagents": Figures(0, 0, 0, 0, 0, 0, 0),
    "pydantic_ai_v2": Figures(6, 6, 6, 6, 1, 8, 1),
    "pydantic_ai_v5": Figures(6, 6, 6, 6, 1, 8, 1),
    "semantic_kernel": Figures(6, 6, 6, 5, 1, 8, 1),
    "strands_legacy": Figures(6, 6, 6, 6, 1, 8, 1),
    "synthetic_claude_code": Figures(3, 3, 3, 3, 3, 4, 1),
    "synthetic_gemini_cli": Figures(3, 3, 3, 0, 3, 0, 0),
    "vercel_ai_v5": Figures(6, 6, 6, 5, 1, 8, 1),
    "vercel_ai_v7_legacy": Figures(6, 6, 6, 5, 1, 8, 1),
}
# Other than in the table, each with its evidence in a test below:
# - failed of openinference_autogen (table: 0): the outer span is OK, the one inside it has the exception;
# - failed of openinference_google_adk and google_adk_semconv (1): a second tool returned {"status": "error"};
# - failed of synthetic_claude_code (0): how a tool ended stands on the child of its span;
# - requests of openinference_llamaindex (15 and 9): each is recorded three times, one inside the other;
# - refused of openinference_llamaindex.part2 (2): one request, recorded twice;
# - refused of openinference_google_adk (2): the other one is an agent's span in which a tool raised;
# - calls of openllmetry_crewai and otel_genai_legacy (0): they have no tool spans, but messages hold calls.
# Calls that a model asked for and nobody ran, beyond those of the figures: the OpenAI Agents SDK does not
# run an id a second time, and asks again until its turns are used up.
ASKED_ONLY = {"openinference_openai_agents": 5, "openllmetry_openai_agents": 5}
# The same runs by their logs alone. Refusals that the logs do not tell of are no failures.
LOGS = {
    "google_adk": Figures(0, 0, 0, 0, 0, 12, 0),  # content was off: labels and usage only
    "google_adk_semconv": Figures(9, 9, 9, 9, 1, 12, 0),
    "otel_genai_latest": Figures(6, 6, 6, 6, 0, 8, 1),
    "otel_genai_legacy": Figures(6, 6, 6, 6, 0, 8, 0),
    "semantic_kernel": Figures(6, 6, 6, 6, 0, 8, 0),
    "synthetic_claude_code": Figures(3, 3, 3, 3, 3, 4, 1),
    "synthetic_codex": Figures(3, 3, 3, 3, 3, 1, 1),
    "synthetic_gemini_cli": Figures(3, 0, 3, 3, 3, 3, 0),
}
# In the run that ended in the refusal the logs hold no result of the call that raised.
ASKED_ONLY_IN_LOGS = {"google_adk_semconv": 1}
# Spans and logs together, where the logs have no trace and tell of the same calls; else as the spans alone.
TOGETHER = {
    "synthetic_claude_code": Figures(3, 3, 3, 3, 3, 4, 1),
    "synthetic_codex": LOGS["synthetic_codex"],
    "synthetic_gemini_cli": Figures(3, 3, 3, 3, 3, 3, 0),
}


def figures(derived: Derived) -> Figures:
    calls = [call for call in derived.tool_calls if call.end_ns is not None]
    return Figures(
        len(calls),
        sum(call.call_id is not None for call in calls),
        sum(call.arguments is not None for call in calls),
        sum(call.result is not None for call in calls),
        sum(call.outcome in ("general_tool_error", "schema_error") for call in calls),
        len(derived.llm_requests),
        sum(request.status == "error" for request in derived.llm_requests),
    )


def check(found: Derived, expected: Figures, asked_only: int = 0) -> None:
    numbers = figures(found)
    for name in ("calls", "failed", "requests", "refused"):
        assert getattr(numbers, name) == getattr(expected, name), name
    for name in ("ids", "arguments", "results"):
        assert getattr(numbers, name) >= getattr(expected, name), name
    asked = [call for call in found.tool_calls if call.end_ns is None]
    assert len(asked) == asked_only
    assert {(call.seq, call.outcome) for call in asked} <= {(None, None)}
    for request in found.llm_requests:
        if request.status == "error":
            assert request.http_status == 400
        else:
            assert request.http_status in (None, 200)


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_spans_and_logs(name: str) -> None:
    spans, logs = read_file(corpus("dialects", f"{name}.jsonl"))
    check(derive_trace(spans, logs), TOGETHER.get(name, FIGURES[name]), ASKED_ONLY.get(name, 0))


@pytest.mark.parametrize(
    "name", ["synthetic_claude_code", "synthetic_gemini_cli", "google_adk", "semantic_kernel"]
)
def test_figures_of_spans_without_their_logs(name: str) -> None:
    spans, _ = read_file(corpus("dialects", f"{name}.jsonl"))
    check(derive_trace(spans), FIGURES[name], ASKED_ONLY.get(name, 0))


@pytest.mark.parametrize("name", LOGS)
def test_figures_of_logs_alone(name: str) -> None:
    _, logs = read_file(corpus("dialects", f"{name}.logs.jsonl"))
    assert logs
    check(derive_trace([], logs), LOGS[name], ASKED_ONLY_IN_LOGS.get(name, 0))


def test_every_recording_has_its_figures() -> None:
    names = {path.name for path in corpus("dialects").glob("*.jsonl")}
    traces = {name.removesuffix(".jsonl") for name in names if not name.endswith(".logs.jsonl")}
    logs = {name.removesuffix(".logs.jsonl") for name in names if name.endswith(".logs.jsonl")}
    assert traces <= FIGURES.keys()
    assert logs <= LOGS.keys()


# -- evidence -----------------------------------------------------------------------------------------


def spans_of(name: str) -> tuple[list[SpanRecord], Derived]:
    spans, logs = read_file(corpus("dialects", f"{name}.jsonl"))
    return spans, derive_trace(spans, logs)


def test_a_failed_call_under_an_outer_span_that_is_ok() -> None:
    spans, derived = spans_of("openinference_autogen")
    by_id = {span.span_id: span for span in spans}
    (failed,) = [call for call in derived.tool_calls if call.outcome == "general_tool_error"]
    assert by_id[failed.span_id].status_code == 1
    (inner,) = [span for span in spans if span.parent_span_id == failed.span_id]
    assert (inner.status_code, inner.attributes["gen_ai.tool.name"]) == (2, failed.tool_name)
    assert {event.name for event in inner.events} == {"exception"}


@pytest.mark.parametrize("name", ["openinference_google_adk", "google_adk_semconv"])
def test_a_tool_that_returns_its_error(name: str) -> None:
    spans, derived = spans_of(name)
    by_id = {span.span_id: span for span in spans}
    raised, returned = sorted(
        (call for call in derived.tool_calls if call.outcome == "general_tool_error"),
        key=lambda call: by_id[call.span_id].status_code != 2,
    )
    assert by_id[raised.span_id].status_code == 2
    assert by_id[returned.span_id].status_code != 2
    assert json.loads(returned.result or "")["status"] == "error"


def test_requests_recorded_three_times() -> None:
    spans, derived = spans_of("openinference_llamaindex")
    kinds = [span for span in spans if span.attributes.get("openinference.span.kind") == "LLM"]
    assert len(kinds) == 15
    inside = {span.span_id for span in kinds}
    outermost = [span for span in kinds if span.parent_span_id not in inside]
    helpers = [span for span in outermost if span.name.rpartition(".")[2].startswith("_")]
    assert len(outermost) - len(helpers) == len(derived.llm_requests)


def _raised(span: SpanRecord) -> set[str]:
    if span.attributes.get("openinference.span.kind") != "LLM":
        return set()
    return {str(event.attributes.get("exception.type")) for event in span.events}


def test_one_refusal_recorded_twice() -> None:
    spans, derived = spans_of("openinference_llamaindex.part2")
    by_id = {span.span_id: span for span in spans}
    inner, outer = sorted(
        (span for span in spans if "openai.BadRequestError" in _raised(span)),
        key=lambda span: span.start_ns,
        reverse=True,
    )
    assert by_id[inner.parent_span_id or ""] is outer
    (request,) = [request for request in derived.llm_requests if request.status == "error"]
    assert request.span_id in (inner.span_id, outer.span_id)


def test_an_error_of_a_tool_is_no_refusal() -> None:
    spans, derived = spans_of("openinference_google_adk")
    found = [_raised(span) for span in sorted(spans, key=lambda span: span.start_ns)]
    assert [names for names in found if names] == [{"RuntimeError"}, {"litellm.exceptions.BadRequestError"}]
    (failed,) = [span for span in spans if span.name == "execute_tool fetch_url" and span.status_code == 2]
    assert failed.attributes["error.type"] == "RuntimeError"
    assert [request.http_status for request in derived.llm_requests] == [None, None, 400]


def test_the_end_of_a_claude_code_tool_is_on_a_child() -> None:
    spans, _ = read_file(corpus("dialects", "synthetic_claude_code.jsonl"))
    tools = [span for span in spans if span.name == "claude_code.tool"]
    ends = {span.parent_span_id: span for span in spans if span.name == "claude_code.tool.execution"}
    assert [(span.status_code, ends[span.span_id].status_code) for span in tools] == [(0, 2)] * 3


def test_crewai_writes_down_what_its_tasks_came_to() -> None:
    _, derived = spans_of("openllmetry_crewai")
    calls = [(call.tool_name, call.call_id, call.outcome) for call in derived.tool_calls]
    search = [("search_docs", f"call_a{number}", "success") for number in (1, 2, 3)]
    assert calls == [*search, ("fetch_url", "call_b1", "general_tool_error")]
    assert [call.seq for call in derived.tool_calls] == [1, 2, 3, 4]


def test_smolagents_holds_no_call_anywhere() -> None:
    spans, derived = spans_of("otel_genai_smolagents")
    assert derived.tool_calls == derived.llm_requests == []
    recorded = json.dumps([span.attributes for span in spans])
    assert "search_docs" in recorded  # among the definitions of tools
    assert "tool_call" not in recorded


def test_calls_without_spans_have_their_results() -> None:
    spans, derived = spans_of("otel_genai_legacy")
    calls = derived.tool_calls
    first = calls[:3]
    assert [call.call_id for call in calls] == [
        "call_a1",
        "call_a2",
        "call_a3",
        "call_b1",
        "call_dup",
        "call_dup",
    ]
    assert {call.result for call in first} == {"No documents found for: refund policy"}
    assert len({call.scope_key for call in first}) == 1
    assert [call.seq for call in first] == [1, 2, 3]
    names = {span.span_id: span.attributes["gen_ai.operation.name"] for span in spans if span.span_id in
             {call.span_id for call in calls}}  # fmt: skip
    assert set(names.values()) == {"chat"}


@pytest.mark.parametrize("name", ["openinference_openai_agents", "openllmetry_openai_agents"])
def test_the_loop_that_no_tool_span_shows(name: str) -> None:
    _, derived = spans_of(name)
    run = next(call.run_id for call in derived.tool_calls if call.end_ns is None)
    calls = [call for call in derived.tool_calls if call.run_id == run]
    assert {(call.tool_name, call.call_id) for call in calls} == {("search_docs", "call_dup")}
    assert [call.turn for call in calls] == [1, 2, 3, 4, 5, 6]
    assert [call.seq for call in calls] == [1, None, None, None, None, None]


def test_the_facts_of_spans_and_logs_are_united() -> None:
    _, derived = spans_of("synthetic_claude_code")
    for call in derived.tool_calls:
        arguments: dict[str, Any] = json.loads(call.arguments or "")
        assert arguments["description"] == "Fetch refund policy"  # of the log
        assert call.result == "curl: (6) Could not resolve host"  # of the span
        assert (call.error_type, call.run_source) == ("ShellError", "agent_span")


# -- what the calls say ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "agent_framework", "google_adk_semconv", "langfuse", "langsmith_otel", "logfire_pydantic_ai",
        "openinference_autogen", "openinference_langchain", "openinference_llamaindex",
        "openinference_openai_agents", "openinference_pydantic_ai", "openinference_smolagents",
        "openinference_strands", "openllmetry_crewai", "openllmetry_langchain", "openllmetry_mcp",
        "openllmetry_openai", "openllmetry_openai_agents", "otel_genai_latest", "otel_genai_legacy",
        "pydantic_ai_v2", "pydantic_ai_v5", "strands_legacy", "vercel_ai_v5", "vercel_ai_v7_legacy",
    ],
)  # fmt: skip
def test_the_three_equal_searches_look_equal(name: str) -> None:
    _, derived = spans_of(name)
    first = derived.tool_calls[:3]
    assert {call.tool_name for call in first} == {"search_docs"}
    assert len({call.scope_key for call in first}) == 1
    assert first[0].fingerprint is not None
    assert {call.result for call in first} <= {
        "No documents found for: refund policy",
        '{"result": "No documents found for: refund policy"}',
    }
    assert len({call.result_hash for call in first}) == 1
    assert [call.seq for call in first] == [1, 2, 3]
    assert {call.content_state for call in first} == {"full"}


@pytest.mark.parametrize(
    "name",
    [
        "langfuse", "openinference_autogen", "openinference_langchain", "openinference_llamaindex",
        "openinference_openai_agents", "openinference_smolagents", "openllmetry_openai",
        "openllmetry_openai_agents",
    ],
)  # fmt: skip
def test_ids_come_from_messages_where_spans_have_none(name: str) -> None:
    _, derived = spans_of(name)
    assert [call.call_id for call in derived.tool_calls[:4]] == ["call_a1", "call_a2", "call_a3", "call_b1"]
    assert [call.turn for call in derived.tool_calls[:4]] == [1, 2, 3, 4]


def test_error_kinds_of_fastmcp() -> None:
    _, derived = spans_of("mcp_fastmcp")
    failed = [(call.tool_name, call.outcome, call.error_kind) for call in derived.tool_calls if call.outcome]
    assert failed == [
        ("fetch_url", "general_tool_error", "not_found"),
        ("no_such_tool", "general_tool_error", "not_found"),
        ("search_docs", "schema_error", "validation"),
    ]


def test_the_mcp_sdk_records_no_text() -> None:
    _, derived = spans_of("mcp_sdk")
    failed = [call for call in derived.tool_calls if call.outcome is not None]
    assert [(call.outcome, call.error_kind) for call in failed] == [("general_tool_error", "unknown")] * 3
    assert {(call.error_message, call.result) for call in failed} == {(None, None)}
    assert {call.content_state for call in derived.tool_calls} == {"missing"}


def test_legacy_messages_come_from_log_records() -> None:
    _, derived = spans_of("otel_genai_legacy")
    refused = derived.llm_requests[-1]
    assert refused.status == "error"
    assert refused.input_messages is not None
    assert len(refused.input_messages) == 5
    assert refused.content_state == "full"


def test_an_mcp_failure_under_an_ok_status() -> None:
    case = json.loads(corpus("cases", "065-mcp-error-recorded-as-ok.json").read_text("utf-8"))
    request = {"resourceSpans": [{"scopeSpans": [{"spans": case["input"]["spans"]}]}]}
    (call,) = derive_trace(decode_traces(traces_json_to_protobuf(request))).tool_calls
    assert (call.tool_name, call.outcome) == ("push_branch", "general_tool_error")
    assert call.run_id == "5b8efff798038103d269b633813fc60c/aaaaaaaaaaaaaaaa"
