"""Outcomes and error kinds: the order of the rules, the sources of evidence, and what is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_corpus import corpus

from loopscope.guard import Classification, ErrorKind, Outcome, OutcomeFacts, classify_outcome
from loopscope.guard._outcome import quiet_outcome

SUCCESS = Classification(Outcome.SUCCESS)
SCHEMA = (Outcome.SCHEMA_ERROR, ErrorKind.VALIDATION)


def judge(**facts) -> tuple[Outcome | None, ErrorKind | None]:
    found = classify_outcome(OutcomeFacts(**facts))
    return found.outcome, found.kind


def general(kind: ErrorKind) -> tuple[Outcome, ErrorKind]:
    return Outcome.GENERAL_TOOL_ERROR, kind


# Rule 1: is it a failure at all?


@pytest.mark.parametrize(
    "result",
    [
        "",
        "ok",
        "Error: not found",
        "HTTP 404 while fetching",
        "MCP error -32602: Invalid params",
        "2 validation errors for call[search]",
        '{"isError": false, "content": []}',
        '{"isError": "true"}',
        '{"text": "isError: true"}',
        '{"status": "ok", "error": null}',
        '{"job": {"status": "error"}}',
        '{"result": {"status": "error", "job": 7}}',
        '[{"status": "error", "id": 1}, {"status": "ok", "id": 2}]',
        'isError: true, "status": "error"',
        '{"isError": true',
        None,
    ],
)
def test_a_word_inside_of_a_result_is_never_an_error(result):
    assert classify_outcome(OutcomeFacts(failed=False, result=result)) == SUCCESS


ENVELOPES = [
    {"content": [{"type": "text", "text": "push is disabled"}], "isError": True},
    {"result": "push is disabled", "is_error": True},
    {"result": {"content": [{"type": "text", "text": "push is disabled"}], "isError": True}},
    [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "push is disabled"}],
    [{"content": "push is disabled", "name": "push", "call_id": "c1", "is_error": True}],
    {"type": "tool", "tool_call_id": "c1", "status": "error", "content": "push is disabled"},
    {"output": {"kwargs": {"content": "push is disabled", "status": "error", "tool_call_id": "c1"}}},
    {"toolResult": {"toolUseId": "t1", "status": "error", "content": [{"text": "push is disabled"}]}},
    {"status": "error", "error_message": "push is disabled"},
]


@pytest.mark.parametrize("envelope", ENVELOPES, ids=str)
@pytest.mark.parametrize("failed", [False, None])
def test_failure_envelopes_are_failures_whatever_the_status_says(envelope, failed):
    for result in (json.dumps(envelope), json.dumps(json.dumps(envelope))):
        assert judge(failed=failed, result=result) == general(ErrorKind.TOOL_FAILURE)


def test_the_text_of_an_envelope_is_read_like_any_failed_text():
    def mcp(text: str) -> str:
        return json.dumps({"content": [{"type": "text", "text": text}], "isError": True})

    assert judge(failed=False, result=mcp("MCP error -32602: bad")) == SCHEMA
    assert judge(failed=False, result=mcp("Input validation error: 'q' is required")) == SCHEMA
    assert judge(failed=False, result=mcp("HTTP 404 while fetching")) == general(ErrorKind.NOT_FOUND)
    assert judge(failed=None, result='{"status":"error","error_message":"Request timed out"}') == general(
        ErrorKind.TIMEOUT
    )


def test_an_unset_status_without_a_result_is_undecided():
    assert classify_outcome(OutcomeFacts()) == Classification(None, None, None)
    assert judge(failed=None, result="x") == (Outcome.SUCCESS, None)
    assert judge(failed=None, result="") == (Outcome.SUCCESS, None)
    assert judge(failed=None, error_type="TimeoutError") == general(ErrorKind.TIMEOUT)
    assert judge(failed=False) == (Outcome.SUCCESS, None)


# Rule 2: JSON-RPC


@pytest.mark.parametrize("code", [-32602, -32600, -32700])
def test_json_rpc_codes_that_refuse_the_request_are_schema_errors(code):
    assert judge(failed=True, jsonrpc_code=code) == SCHEMA
    assert judge(failed=True, error_type=str(code)) == SCHEMA
    assert judge(failed=True, error_text=f"MCP error {code}: Invalid params") == SCHEMA
    assert judge(failed=True, error_text=f"McpError: MCP error {code}: Invalid params") == SCHEMA
    assert judge(failed=True, result=f"MCP error {code}: Invalid params") == SCHEMA
    response = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}})
    assert judge(failed=True, result=response) == SCHEMA


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (-32603, None, ErrorKind.TOOL_FAILURE),
        (-32603, "Request timed out", ErrorKind.TIMEOUT),
        (-32601, None, ErrorKind.NOT_FOUND),
        (-32000, "Connection closed", ErrorKind.NETWORK),
        (-32001, None, ErrorKind.TIMEOUT),
        (-32002, "Resource not found", ErrorKind.NOT_FOUND),
        (-32800, None, ErrorKind.CANCELLED),
    ],
)
def test_other_json_rpc_codes_are_general_errors(code, text, kind):
    assert judge(failed=True, jsonrpc_code=code, error_text=text) == general(kind)
    assert judge(failed=True, error_text=f"MCP error {code}: {text or 'x'}") == general(kind)


def test_a_json_rpc_code_wins_over_a_status_and_only_counts_at_the_start():
    assert judge(failed=True, jsonrpc_code=-32602, http_status=500) == SCHEMA
    assert (
        judge(failed=True, jsonrpc_code=-32603, http_status=400, error_text="x")[0]
        is Outcome.GENERAL_TOOL_ERROR
    )
    text = "the log says MCP error -32602 somewhere"
    assert judge(failed=True, error_text=text) == general(ErrorKind.TOOL_FAILURE)


# Rule 3: HTTP


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, SCHEMA),
        (422, SCHEMA),
        (401, general(ErrorKind.AUTH)),
        (403, general(ErrorKind.DENIED)),
        (404, general(ErrorKind.NOT_FOUND)),
        (408, general(ErrorKind.TIMEOUT)),
        (409, general(ErrorKind.TOOL_FAILURE)),
        (429, general(ErrorKind.RATE_LIMIT)),
        (500, general(ErrorKind.TOOL_FAILURE)),
        (502, general(ErrorKind.UNAVAILABLE)),
        (503, general(ErrorKind.UNAVAILABLE)),
        (504, general(ErrorKind.TIMEOUT)),
        (529, general(ErrorKind.UNAVAILABLE)),
    ],
)
def test_http_statuses(status, expected):
    for facts in (
        {"http_status": status},
        {"error_type": str(status)},
        {"error_text": f"HTTP {status} while fetching https://example.invalid"},
        {"error_text": f"RuntimeError('HTTP {status} while fetching https://example.invalid')"},
        {"error_text": f"Error calling tool 'fetch_url': HTTP {status} while fetching"},
        {"error_text": f"Error executing tool fetch_url: HTTP {status} while fetching"},
        {"error_text": f"HTTP Error {status}: no"},
        {"error_text": f"HTTP/1.1 {status} no"},
        {"result": f"Error: RuntimeError('HTTP {status} while fetching')\n Please fix your mistakes."},
    ):
        found = classify_outcome(OutcomeFacts(failed=True, **facts))
        assert (found.outcome, found.kind, found.http_status) == (*expected, status), facts


def test_a_status_below_400_says_nothing_about_a_failure():
    found = classify_outcome(OutcomeFacts(failed=True, http_status=200, error_text="boom"))
    assert found == Classification(Outcome.GENERAL_TOOL_ERROR, ErrorKind.TOOL_FAILURE, None)


# Rule 4: the argument binder


@pytest.mark.parametrize(
    "error_type",
    [
        "ValidationError",
        "pydantic_core._pydantic_core.ValidationError",
        "fastmcp.exceptions.ValidationError",
        "<class 'pydantic_core._pydantic_core.ValidationError'>",
        "pydantic_ai.exceptions.ToolRetryError",
        "ToolInputParsingException",
        "AI_InvalidToolArgumentsError",
        "AI_InvalidToolInputError",
        "autogen_core.tool_agent.InvalidToolArgumentsException",
        "smolagents.utils.AgentToolCallError",
        "langgraph.prebuilt.tool_node.ToolInvocationError",
        "invalid_tool_params",
    ],
)
def test_exceptions_of_argument_binders_are_schema_errors(error_type):
    assert judge(failed=True, error_type=error_type) == SCHEMA


@pytest.mark.parametrize(
    "text",
    [
        "2 validation errors for call[search_docs]\nquery\n  Missing required argument",
        "1 validation error for search_docs\nquery\n  Field required",
        "Error executing tool search: 1 validation error for searchArguments\nquery\n  Field required",
        "Error calling tool 'search_docs': 1 validation error for call[search_docs]",
        "ValidationError: 1 validation error for Search",
        "Input validation error: 'query' is a required property",
        "MCP error -32602: Input validation error: Invalid arguments for tool slice_complete",
        "Invalid arguments for tool search_docs: query: Required",
        "Error invoking tool 'search_docs' with kwargs {'wrong': 1} with error:\n query: Field required",
        "<tool_use_error>InputValidationError: Read failed due to the following issue</tool_use_error>",
        "An error occurred while running the tool. Please try again. Error: Invalid JSON input for tool x: {",
        "Error: Validation failed for input parameters: 1 validation error for SearchTool",
        "ValueError: Arguments validation failed: 1 validation error for Search",
    ],
)
def test_texts_of_argument_binders_are_schema_errors(text):
    assert judge(failed=True, error_type="tool_error", error_text=text) == SCHEMA
    assert judge(failed=True, result=text) == SCHEMA


@pytest.mark.parametrize(
    ("error_type", "text"),
    [
        # Raised inside of the tool, about what a server answered.
        ("ToolError", "Error calling tool 'load': 1 validation error for ApiResponse\nid\n  Field required"),
        ("ToolError", "Error executing tool load: ValidationError: bad answer"),
        # A tool's own wish to be asked again.
        ("pydantic_ai.exceptions.ToolRetryError", "There is no such customer; ask for the number."),
        # Haystack's class of the same name means that the tool failed.
        ("haystack.tools.errors.ToolInvocationError", "Failed to invoke tool"),
        ("ValueError", "the query reports 2 validation errors for form A"),
        ("RuntimeError", "upstream: ValidationError"),
    ],
)
def test_validation_inside_of_a_tool_is_a_general_error(error_type, text):
    assert judge(failed=True, error_type=error_type, error_text=text)[0] is Outcome.GENERAL_TOOL_ERROR


def test_a_retry_error_follows_its_text():
    retry = "pydantic_ai.exceptions.ToolRetryError"
    assert (
        judge(failed=True, error_type=retry, error_text="1 validation error for 'search'\n- query") == SCHEMA
    )
    assert judge(failed=True, error_type=retry, error_text="HTTP 404 while fetching") == general(
        ErrorKind.NOT_FOUND
    )


# Rule 5: kinds of general errors


@pytest.mark.parametrize(
    ("error_type", "kind"),
    [
        (None, ErrorKind.UNKNOWN),
        ("", ErrorKind.UNKNOWN),
        ("tool_error", ErrorKind.UNKNOWN),
        ("_OTHER", ErrorKind.UNKNOWN),
        ("fastmcp.exceptions.ToolError", ErrorKind.UNKNOWN),
        ("Exception", ErrorKind.UNKNOWN),
        ("RuntimeError", ErrorKind.TOOL_FAILURE),
        ("ModuleNotFoundError", ErrorKind.TOOL_FAILURE),
        ("FileNotFoundError", ErrorKind.NOT_FOUND),
        ("fastmcp.exceptions.NotFoundError", ErrorKind.NOT_FOUND),
        ("AI_NoSuchToolError", ErrorKind.NOT_FOUND),
        ("Error:ENOENT", ErrorKind.NOT_FOUND),
        ("TimeoutError", ErrorKind.TIMEOUT),
        ("httpx.ConnectTimeout", ErrorKind.TIMEOUT),
        ("ETIMEDOUT", ErrorKind.TIMEOUT),
        ("requests.exceptions.ConnectionError", ErrorKind.NETWORK),
        ("ConnectionAbortedError", ErrorKind.NETWORK),
        ("Error:ENOTFOUND", ErrorKind.NETWORK),
        ("socket.gaierror", ErrorKind.NETWORK),
        ("httpx.ReadError", ErrorKind.NETWORK),
        ("ThreadError", ErrorKind.TOOL_FAILURE),
        ("openai.RateLimitError", ErrorKind.RATE_LIMIT),
        ("StatusCode.UNAVAILABLE", ErrorKind.UNAVAILABLE),
        ("openai.AuthenticationError", ErrorKind.AUTH),
        ("PermissionError", ErrorKind.DENIED),
        ("asyncio.exceptions.CancelledError", ErrorKind.CANCELLED),
        ("AbortError", ErrorKind.CANCELLED),
        ("KeyboardInterrupt", ErrorKind.CANCELLED),
    ],
)
def test_kinds_by_error_type(error_type, kind):
    assert judge(failed=True, error_type=error_type) == general(kind)


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("503 Service Unavailable", ErrorKind.UNAVAILABLE, 503),
        ("404 Client Error: Not Found for url: https://example.invalid", ErrorKind.NOT_FOUND, 404),
        ("Client error '403 Forbidden' for url", ErrorKind.DENIED, 403),
        ("Error code: 429 - slow down", ErrorKind.RATE_LIMIT, 429),
        ("Request failed with status code 401", ErrorKind.AUTH, 401),
        ("400 Client Error: Bad Request for url", ErrorKind.TOOL_FAILURE, 400),
        ("404 rows could not be written", ErrorKind.TOOL_FAILURE, None),
        ("Tool execution failed: asyncio.TimeoutError()", ErrorKind.TIMEOUT, None),
        ("Error: RuntimeError - connection refused", ErrorKind.NETWORK, None),
        ("Unknown tool: 'no_such_tool'", ErrorKind.NOT_FOUND, None),
        ("cat: x: No such file or directory", ErrorKind.NOT_FOUND, None),
        ("bash: ./x: Permission denied", ErrorKind.DENIED, None),
        ("The command was rejected by the user", ErrorKind.DENIED, None),
        ("The operation was canceled", ErrorKind.CANCELLED, None),
        ("exit code 1", ErrorKind.TOOL_FAILURE, None),
        ("   ", ErrorKind.UNKNOWN, None),
        (
            "{'message': 'Error running tool', 'data': {'tool_name': 'f', 'error': 'read timed out'}}",
            ErrorKind.TIMEOUT,
            None,
        ),
    ],
)
def test_kinds_by_text(text, kind, status):
    for facts in ({"error_text": text}, {"result": text}):
        found = classify_outcome(OutcomeFacts(failed=True, **facts))
        assert found == Classification(Outcome.GENERAL_TOOL_ERROR, kind, status)


def test_a_speaking_type_wins_over_the_text():
    assert judge(failed=True, error_type="TimeoutError", error_text="host not found") == general(
        ErrorKind.TIMEOUT
    )
    assert judge(failed=True, error_type="RuntimeError", error_text="host not found") == general(
        ErrorKind.NOT_FOUND
    )


# The recordings these rules were written for


def test_the_spans_of_two_mcp_servers():
    """FastMCP says what failed; the MCP SDK says only that something did."""
    refused = "2 validation errors for call[search_docs]\nquery\n  Missing required argument"
    assert judge(failed=True, error_type="ValidationError", error_text=refused) == SCHEMA
    assert judge(failed=True, error_type="tool_error", error_text=refused) == SCHEMA
    fetch = "Error calling tool 'fetch_url': HTTP 404 while fetching https://example.invalid/404"
    assert judge(failed=True, error_type="tool_error", error_text=fetch) == general(ErrorKind.NOT_FOUND)
    assert judge(failed=True, error_type="tool_error") == general(ErrorKind.UNKNOWN)


def failed_tool_spans(name: str):
    for line in corpus("dialects", name).read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    if span.get("status", {}).get("code") in (2, "STATUS_CODE_ERROR"):
                        yield span


def span_facts(span) -> OutcomeFacts:
    attributes = {item["key"]: item["value"].get("stringValue") for item in span.get("attributes", ())}
    return OutcomeFacts(
        failed=True, error_type=attributes.get("error.type"), error_text=span["status"].get("message")
    )


def test_recorded_mcp_failures_of_the_corpus():
    found = {
        (span["name"], classify_outcome(span_facts(span)).outcome, classify_outcome(span_facts(span)).kind)
        for span in failed_tool_spans("mcp_fastmcp.jsonl")
    }
    assert found == {
        ("tools/call search_docs", *SCHEMA),
        ("tools/call fetch_url", *general(ErrorKind.NOT_FOUND)),
        ("tools/call no_such_tool", *general(ErrorKind.NOT_FOUND)),
    }
    spans = list(failed_tool_spans("mcp_sdk.jsonl"))
    assert spans
    assert {judge(failed=True, error_type="tool_error")} == {
        (found.outcome, found.kind) for found in (classify_outcome(span_facts(span)) for span in spans)
    }


optional_text = st.none() | st.text(max_size=60)
numbers = st.none() | st.integers(-40_000, 700)


@given(st.none() | st.booleans(), optional_text, optional_text, optional_text, numbers, numbers)
@settings(deadline=None)
def test_every_call_gets_an_answer_that_makes_sense(failed, result, error_text, error_type, code, status):
    found = classify_outcome(OutcomeFacts(failed, result, error_text, error_type, code, status))
    failure = found.outcome in (Outcome.SCHEMA_ERROR, Outcome.GENERAL_TOOL_ERROR)
    assert (found.kind is not None) == failure
    assert (found.kind is ErrorKind.VALIDATION) == (found.outcome is Outcome.SCHEMA_ERROR)
    assert failure or failed is not True


@pytest.mark.parametrize(
    "piece", ["Error: ", "ValueError: ", "(", "[", '{"isError": true, "a": ', "1 validation error", " "]
)
def test_long_repetitive_texts_are_read_without_trouble(piece):
    text = piece * 20_000
    assert classify_outcome(OutcomeFacts(failed=True, error_text=text, result=text)).outcome is not None
    assert classify_outcome(OutcomeFacts(failed=False, result=text)).outcome is Outcome.SUCCESS


@pytest.mark.parametrize("failed", [False, None])
@pytest.mark.parametrize(
    ("result", "reports"),
    [
        (None, False),
        ("", False),
        ("an error, says the text", False),
        ('{"status": "ok", "error": null}', False),
        ('{"isError": true, "content": []}', True),
        ('{"is_error": true}', True),
        ('{"status": "error"}', True),
    ],
)
def test_the_short_way_for_quiet_calls_decides_alike_or_not_at_all(failed, result, reports):
    found = quiet_outcome(failed, result)
    assert (found is None) is reports
    assert found in (None, classify_outcome(OutcomeFacts(failed=failed, result=result)))
