"""Log records as calls and requests: command-line agents, and the conventions' events without their spans."""

from __future__ import annotations

import json
import random
from typing import Any

from agent_logs import SECOND, START, claude_session, log, payload, span
from derive_tools import answers, asks
from hypothesis import given, settings
from hypothesis import strategies as st

from loopscope.collector import decode_logs, decode_traces
from loopscope.collector._derive import derive_trace
from loopscope.collector._log_events import log_id, order_of, spans_of_events
from loopscope.collector._records import Derived, LogRecord, SpanRecord

DETAILS = "gen_ai.client.inference.operation.details"


def read(*requests: tuple[str, dict[str, Any]]) -> tuple[list[SpanRecord], list[LogRecord]]:
    spans: list[SpanRecord] = []
    logs: list[LogRecord] = []
    for kind, request in requests:
        data = payload(kind, request)[1]
        if kind == "traces":
            spans += decode_traces(data)
        else:
            logs += decode_logs(data)
    return spans, logs


def derived(*requests: dict[str, Any]) -> Derived:
    return derive_trace(*read(*(("logs", request) for request in requests)))


def codex(at: float, event: str, **attributes: Any) -> dict[str, Any]:
    return log(at, f"codex.{event}", "codex_otel", conversation__id="c", model="gpt", **attributes)


def test_codex() -> None:
    done = {"tool_name": "exec", "arguments": '{"cmd": "ls"}', "duration_ms": "500"}
    found = derived(
        codex(0, "conversation_starts", provider_name="OpenAI"),
        codex(1, "api_request", http__response__status_code=200, duration_ms="900"),
        codex(
            1.5, "sse_event", event__kind="response.completed", input_token_count="7", output_token_count=3
        ),
        codex(2, "tool_result", call_id="a", success="true", output="x", **done),
        codex(
            3, "tool_result", call_id="b", success="false", output="exit 1", output_truncated="true", **done
        ),
        codex(4, "tool_result", tool_name="rejected", success="false", output="not allowed"),
        codex(5, "api_request", http__response__status_code=400, error__message="No tool output found"),
        codex(6, "user_prompt", prompt="[REDACTED]"),
    )
    first, second, third = found.tool_calls
    assert (first.tool_name, first.call_id, first.arguments, first.result) == (
        "exec",
        "a",
        '{"cmd": "ls"}',
        "x",
    )
    assert (first.outcome, first.seq, first.turn, first.content_state) == ("success", 1, 1, "full")
    assert (first.start_ns, first.end_ns) == (START + 1_500_000_000, START + 2 * SECOND)
    assert (first.run_id, first.run_source, first.session_id) == ("conversation:c", "conversation", "c")
    assert (first.service_name, first.dialect) == ("cli", "codex")
    assert (second.outcome, second.result, second.content_state) == (
        "general_tool_error",
        "exit 1",
        "truncated",
    )
    assert (third.outcome, third.call_id, third.arguments) == ("general_tool_error", None, None)
    ok, refused = found.llm_requests
    assert (ok.status, ok.input_tokens, ok.output_tokens, ok.provider, ok.model) == (
        "ok",
        7,
        3,
        "OpenAI",
        "gpt",
    )
    assert (refused.status, refused.http_status, refused.error_text) == ("error", 400, "No tool output found")


def claude(at: float, event: str, **attributes: Any) -> dict[str, Any]:
    body = f"claude_code.{event}"
    given = {"session.id": "s", "model": "m", **attributes}
    return log(at, event, "com.anthropic.claude_code.events", body, given)


def test_claude_code_and_its_raw_bodies() -> None:
    history = [{"role": "user", "content": "hi"}]
    use = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a"}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": "text"}
    longer = [*history, {"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]
    found = derived(
        claude(0, "api_request_body", body=json.dumps({"model": "m", "messages": history})),
        claude(1, "api_request", request_id="r1", input_tokens=5, output_tokens=6, cost_usd=2),
        claude(1.1, "api_response_body", request_id="r1", body=json.dumps({"content": [use]})),
        claude(2, "tool_result", tool_name="Read", tool_use_id="t1", success="true"),
        claude(3, "api_request_body", body=json.dumps({"model": "m", "messages": longer})[:-2]),
        claude(4, "api_error", status_code="400", error="400 bad request", request_id="r2"),
    )
    (call,) = found.tool_calls
    assert (call.arguments, call.result, call.turn) == ('{"file_path": "/a"}', "text", 1)
    ok, refused = found.llm_requests
    assert ok.input_messages == [json.dumps(history[0])]
    assert (ok.input_tokens, ok.output_tokens, ok.cost, ok.provider) == (5, 6, 2.0, "anthropic")
    assert (refused.http_status, refused.content_state) == (400, "truncated")
    assert refused.input_messages == [json.dumps(message) for message in longer]


def test_what_claude_code_cuts_is_truncated() -> None:
    def state(**given: Any) -> tuple[str | None, str]:
        event = claude(
            2, "tool_result", tool_name="Bash", tool_use_id="t", success="false", error="e", **given
        )
        (call,) = derived(event).tool_calls
        return call.arguments, call.content_state

    assert state(tool_input={"command": "ls"}) == ('{"command": "ls"}', "full")
    assert state(tool_input={"command": "x" * 512})[1] == "truncated"
    assert state(tool_input='{"command": "x')[1] == "truncated"
    assert state(tool_parameters={"full_command": "ls", "bash_command": "ls"}) == (
        '{"command": "ls"}',
        "full",
    )
    assert state(tool_parameters={"mcp_server_name": "m"}) == (None, "missing")


def test_gemini_cli() -> None:
    def gemini(at: float, event: str, **attributes: Any) -> dict[str, Any]:
        return log(at, event, "gemini-cli", "text", session__id="g", prompt_id="p", **attributes)

    sent = [{"role": "user", "parts": [{"text": "hi"}]}]
    part = {"functionCall": {"name": "ls", "args": {"path": "."}}}
    response = {"candidates": [{"content": {"role": "model", "parts": [part]}}]}
    found = derived(
        gemini(0, "gemini_cli.api_request", request_text=json.dumps(sent), model="m"),
        gemini(1, "gemini_cli.api_response", model="m", status_code=200, input_token_count=4,
               response_text=json.dumps(response)),
        gemini(2, "gemini_cli.tool_call", function_name="ls", function_args='{"path": "."}', success=True),
        gemini(3, "gemini_cli.tool_call", function_name="ls", function_args='{"path": "."}', success=False,
               error="no such", error_type="e1"),
        gemini(4, DETAILS, **{"gen_ai.input.messages": json.dumps(sent)}),
        gemini(4, "gemini_cli.api_error", model="m", status_code=429, error__message="slow down"),
    )  # fmt: skip
    assert [(call.outcome, call.result, call.error_type, call.turn) for call in found.tool_calls] == [
        ("success", None, None, 1),
        ("general_tool_error", "no such", "e1", 1),
    ]
    assert found.tool_calls[0].scope_key == found.tool_calls[1].scope_key
    ok, refused = found.llm_requests
    assert (ok.input_messages, ok.input_tokens) == ([json.dumps(sent[0])], 4)
    assert (refused.http_status, refused.error_text, len(refused.input_messages or ())) == (
        429,
        "slow down",
        1,
    )


def test_spans_and_events_of_a_session_are_one_call_each() -> None:
    spans, logs = read(*claude_session())
    found = derive_trace(spans, logs)
    by_id = {call.call_id: call for call in found.tool_calls}
    assert by_id.keys() == {"t1", "t2", "t3", "t4"}
    assert len(found.tool_calls) == 4
    assert by_id["t1"].trace_id == f"{1:032x}"
    assert by_id["t1"].error_type == "ShellError"
    assert by_id["t4"].run_source == "conversation"
    assert [(request.status, request.input_tokens) for request in found.llm_requests] == [
        ("ok", 10),
        ("error", None),
    ]


def test_calls_without_ids_meet_their_spans_by_arguments_and_time() -> None:
    told = {"session__id": "g", "function_name": "ls", "success": True}
    common = {
        "gen_ai__operation__name": "tool_call",
        "gen_ai__tool__name": "ls",
        "gen_ai__conversation__id": "g",
    }

    def args(path: str) -> str:
        return json.dumps({"path": path})

    def asked(number: int, path: str) -> dict[str, str]:
        return {
            "gen_ai.input.messages": json.dumps(
                {"callId": f"c{number}", "name": "ls", "args": {"path": path}}
            )
        }

    spans = [
        span(1, 1 + number, "tool_call", number, number + 0.5, "gemini-cli", **asked(number, path), **common)
        for number, path in ((1, "a"), (2, "b"), (3, "a"))
    ]
    logs = [
        log(at, "gemini_cli.tool_call", "gemini-cli", function_args=args(path), **told)
        for at, path in ((3.5, "a"), (2.5, "b"), (1.5, "a"), (9, "a"))
    ]
    found = derive_trace(*read(*(("traces", one) for one in spans), *(("logs", one) for one in logs)))
    calls = [(call.call_id, call.outcome, call.start_ns) for call in found.tool_calls]
    assert calls == [
        ("c1", "success", START + SECOND),
        ("c2", "success", START + 2 * SECOND),
        ("c3", "success", START + 3 * SECOND),
        (None, "success", START + 9 * SECOND),
    ]


def test_an_event_in_a_span_counts_in_the_agent_around_it() -> None:
    told = {"session__id": "s-1", "tool_name": "Bash", "tool_use_id": "t9", "success": "true"}
    spans, logs = read(
        ("traces", span(1, 1, "claude_code.interaction", 0, 9, session__id="s-1")),
        ("traces", span(1, 2, "claude_code.llm_request", 1, 2, session__id="s-1")),
        ("logs", log(3, "tool_result", "com.anthropic.claude_code.events", trace=1, span=102, **told)),
    )
    (call,) = derive_trace(spans, logs).tool_calls
    assert (call.run_id, call.run_source, call.trace_id) == (
        f"{1:032x}/{101:016x}",
        "agent_span",
        f"{1:032x}",
    )


def test_two_records_that_differ_are_two_calls_and_one_sent_twice_is_one() -> None:
    event = codex(2, "tool_result", call_id="a", tool_name="exec", success="true", output="x", arguments="{}")
    other = codex(3, "tool_result", call_id="a", tool_name="exec", success="true", output="x", arguments="{}")
    assert len(derived(event, other, event).tool_calls) == 2


# -- events of the conventions, whose spans are not there ------------------------------------------------


def test_details_without_their_span_are_requests() -> None:
    def details(
        at: float, number: int, inputs: list[Any], outputs: list[Any] | None, **more: Any
    ) -> dict[str, Any]:
        given = {"gen_ai.input.messages": json.dumps(inputs), "gen_ai.request.model": "m", **more}
        if outputs is not None:
            given["gen_ai.output.messages"] = json.dumps(outputs)
        return log(at, DETAILS, trace=5, span=number, gen_ai__operation__name="chat", **given)

    user = {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    first = details(1, 1, [user], [asks("a")])
    second = details(2, 2, [user, asks("a"), answers("a", "x")], None, **{"error.type": "BadRequestError"})
    found = derived(second, first)
    (call,) = found.tool_calls
    assert (call.call_id, call.result, call.seq, call.trace_id) == ("a", "x", 1, f"{5:032x}")
    assert [(one.status, one.model, one.span_id) for one in found.llm_requests] == [
        ("ok", "m", f"{1:016x}"),
        ("error", "m", f"{2:016x}"),
    ]
    spans, logs = read(
        ("traces", span(5, 1, "chat m", 1, 2, "x", gen_ai__operation__name="chat")), ("logs", first)
    )
    logs[0].span_id = spans[0].span_id
    assert len(derive_trace(spans, logs).llm_requests) == 1  # the span is there


def test_messages_without_trace_and_span_go_by_conversation_and_order() -> None:
    def message(at: float, name: str, **body: Any) -> dict[str, Any]:
        return log(at, name, "s", json.dumps(body), gen_ai__conversation__id="k")

    function = {"name": "search", "arguments": "{}"}
    asked = {"tool_calls": [{"id": "a", "type": "function", "function": function}]}
    found = derived(
        message(1, "gen_ai.user.message", content="hi"),
        message(2, "gen_ai.choice", index=0, message=asked),
        message(3, "gen_ai.user.message", content="hi"),
        message(3.1, "gen_ai.assistant.message", **asked),
        message(3.2, "gen_ai.tool.message", id="a", content="x"),
        message(4, "gen_ai.choice", index=0, message={"content": "done"}),
    )
    (call,) = found.tool_calls
    assert (call.tool_name, call.call_id, call.result, call.run_id) == ("search", "a", "x", "conversation:k")
    assert [len(one.input_messages or ()) for one in found.llm_requests] == [1, 3]


# -- any order, anything in them ---------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 1 << 62), st.text(max_size=6),
    st.sampled_from(["false", "true", '{"messages": [', "[{}]", '{"candidates": [1]}', "1e400"]),
)  # fmt: skip
NAMES = st.sampled_from(
    ["tool_result", "api_request", "api_error", "api_request_body", "api_response_body", "codex.tool_result",
     "codex.sse_event", "codex.api_request", "gemini_cli.tool_call", "gemini_cli.api_response", DETAILS,
     "gen_ai.choice", "gen_ai.tool.message", "x"]
)  # fmt: skip
KEYS = st.sampled_from(
    ["session.id", "conversation.id", "gen_ai.conversation.id", "tool_name", "tool_input", "success",
     "duration_ms",
     "call_id", "tool_use_id", "body", "request_id", "request_text", "response_text", "status_code",
     "http.response.status_code", "error", "event.kind", "event.sequence", "gen_ai.input.messages"]
)  # fmt: skip
RECORDS = st.builds(
    LogRecord,
    trace_id=st.sampled_from([None, None, f"{1:032x}"]),
    span_id=st.sampled_from([None, f"{101:016x}", f"{7:016x}"]),
    time_ns=st.integers(START, START + 30 * SECOND),
    event_name=NAMES,
    severity=st.none(),
    body=VALUES,
    attributes=st.dictionaries(KEYS, VALUES, max_size=8),
    scope_name=st.sampled_from([None, "com.anthropic.claude_code.events", "gemini-cli"]),
)


@given(st.lists(RECORDS, max_size=8), st.randoms())
@settings(max_examples=120, deadline=None)
def test_any_records_in_any_order(records: list[LogRecord], chance: random.Random) -> None:
    spans, told = read(*claude_session())
    # The fold gives each record once, by time.
    logs = sorted({log_id(one): one for one in (*told, *records)}.values(), key=order_of)
    found = derive_trace(spans, logs)
    keys = [(call.trace_id, call.span_id, call.position) for call in found.tool_calls]
    assert len(keys) == len(set(keys))
    shuffled = [*spans]
    chance.shuffle(shuffled)
    assert derive_trace(shuffled, logs) == found
    made = spans_of_events("t", logs)
    again = [*logs, *records]
    chance.shuffle(again)
    assert spans_of_events("t", again) == made
