"""Redaction: nothing of a content key survives, what identifies a call does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopscope.collector import (
    decode_logs,
    decode_traces,
    logs_json_to_protobuf,
    redact_logs,
    redact_traces,
    traces_json_to_protobuf,
)
from loopscope.collector._redact import captures_content
from loopscope.guard import OtlpDecodeError

SECRET = "the secret refund of 4711 euros"
SHORT_SECRET = "4711"

# Every key under which a known dialect puts arguments, results, messages or error texts.
CONTENT_KEYS = """
    gen_ai.tool.call.arguments gen_ai.tool.call.result gen_ai.input.messages gen_ai.output.messages
    gen_ai.system_instructions gen_ai.tool.definitions gen_ai.prompt gen_ai.completion
    gen_ai.prompt.0.content gen_ai.completion.0.tool_calls.0.arguments gen_ai.task.input gen_ai.task.output
    gen_ai.tool.args gen_ai.tool.input gen_ai.tool.output gen_ai.tool.result gen_ai.event.content
    gen_ai.request.messages gen_ai.response.text gen_ai.response.tool_calls gen_ai.agent.description
    input.value output.value tool.parameters tool.arguments tool.result metadata
    llm.input_messages.0.message.content llm.invocation_parameters llm.prompts
    llm.output_messages.3.message.tool_calls.1.tool_call.function.arguments
    llm.input_messages.0.function.0 llm.input_messages.2.message.contents.0.message_content.text
    traceloop.entity.input traceloop.entity.output traceloop.association.properties.note
    ai.toolCall.args ai.toolCall.result ai.prompt ai.prompt.messages ai.response.text
    ai.response.toolCalls ai.telemetry.metadata.note
    tool_arguments tool_response pydantic_ai.all_messages final_result logfire.msg request_data response
    gcp.vertex.agent.tool_call_args gcp.vertex.agent.tool_response gcp.vertex.agent.llm_request
    gcp.vertex.agent.llm_response spring.ai.tool.call.arguments spring.ai.tool.call.result
    langfuse.observation.input langfuse.observation.output langfuse.observation.status_message
    lmnr.span.input lmnr.span.output mlflow.spanInputs mlflow.spanOutputs genkit:input genkit:output
    haystack.agent.step.tool.input haystack.agent.step.tool.output haystack.agent.step.llm.input
    anthropic.tool_result.content input output events message raw_input error
    crewai.task.description crewai.crew.result crewai.agent.backstory crewai.crew.tasks
    lk.function_tool.args lk.function_tool.output lk.chat_ctx flue.tool.arguments flue.tool.result
    tool_input tool_parameters full_command file_path bash_command function_args arguments prompt
    user_prompt body request_text response_text error.message exception.message exception.stacktrace
    process.command_line process.command_args url.query unheard.of.key
""".split()  # noqa: SIM905  a list this long is read more easily without quotes

KEPT = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "search_docs",
    "gen_ai.tool.call.id": "call_1",
    "gen_ai.agent.name": "Senior Support Agent",
    "gen_ai.conversation.id": "conv-1",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.usage.input_tokens": 12,
    "openinference.span.kind": "TOOL",
    "traceloop.span.kind": "tool",
    "error.type": "openai.BadRequestError",
    "http.response.status_code": 400,
    "session.id": "s",
    "mcp.session.id": "m",
    "rpc.response.status_code": "-32602",
    "loopscope.run.id": "r",
}


def trace(
    *, name="execute_tool search_docs", attributes=None, events=(), status=None, resource=None, link=None
) -> bytes:
    span = {
        "traceId": "0" * 31 + "1",
        "spanId": "0" * 15 + "2",
        "name": name,
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": pairs(attributes or {}),
        "events": [
            {"name": event, "timeUnixNano": "1", "attributes": pairs(values)} for event, values in events
        ],
        "links": [{"traceId": "0" * 31 + "3", "spanId": "0" * 15 + "4", "attributes": pairs(link or {})}],
        "status": status or {},
    }
    group = {"resource": {"attributes": pairs(resource or {})}, "scopeSpans": [{"spans": [span]}]}
    return traces_json_to_protobuf({"resourceSpans": [group]})


def log(body, attributes=None, **fields) -> bytes:
    record = {"timeUnixNano": "1", "attributes": pairs(attributes or {}), **fields}
    if body is not None:
        record["body"] = value(body)
    return logs_json_to_protobuf({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})


def pairs(values: dict) -> list[dict]:
    return [{"key": key, "value": value(item)} for key, item in values.items()]


def value(item) -> dict:
    if isinstance(item, bool):
        return {"boolValue": item}
    if isinstance(item, int):
        return {"intValue": item}
    if isinstance(item, dict):
        return {"kvlistValue": {"values": pairs(item)}}
    if isinstance(item, list):
        return {"arrayValue": {"values": [value(part) for part in item]}}
    return {"stringValue": item}


@pytest.mark.parametrize("key", CONTENT_KEYS)
@pytest.mark.parametrize("content", [SECRET, SHORT_SECRET, [SECRET], {"content": SECRET}, 4711, True])
def test_content_goes_whatever_its_key_and_type(key, content):
    (span,) = decode_traces(
        redact_traces(
            trace(
                attributes={key: content},
                events=[("e", {key: content})],
                resource={key: content},
                link={key: content},
            )
        )
    )
    assert span.attributes == {"loopscope.redacted": True}
    assert span.events[0].attributes == span.links[0].attributes == span.resource == {}


def test_what_identifies_a_call_stays():
    data = redact_traces(trace(attributes=KEPT | {"input.value": SECRET}, resource={"service.name": "bot"}))
    (span,) = decode_traces(data)
    assert span.attributes == KEPT | {"loopscope.redacted": True}
    assert (span.name, span.resource) == ("execute_tool search_docs", {"service.name": "bot"})


def test_error_texts_go_and_error_types_stay():
    exception = {"exception.type": "ValueError", "exception.message": SECRET, "exception.stacktrace": SECRET}
    data = redact_traces(
        trace(events=[("exception", exception)], status={"code": "STATUS_CODE_ERROR", "message": SECRET})
    )
    (span,) = decode_traces(data)
    assert SECRET.encode() not in data
    assert (span.status_code, span.status_message) == (2, None)
    assert span.events[0].attributes == {"exception.type": "ValueError"}
    assert span.attributes == {"loopscope.redacted": True}


@pytest.mark.parametrize(
    "content", [SECRET * 20, "one two three four five six seven eight nine", {"a": 1}, [[1]]]
)
def test_a_kept_key_is_no_way_round(content):
    (span,) = decode_traces(redact_traces(trace(attributes={"gen_ai.tool.name": content})))
    assert span.attributes == {"loopscope.redacted": True}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("find the refund.task", False),
        ("please find the refund policy", False),
        ("x" * 300, False),
        ("MCP send tools/call search_docs", True),
        ("search.task", True),
    ],
)
def test_names_of_spans_that_tell_a_task(name, kept):
    (span,) = decode_traces(redact_traces(trace(name=name)))
    assert span.name == (name if kept else "redacted")


def test_counts_written_as_json_stay_and_other_json_does_not():
    counts = json.dumps({"prompt_tokens": 101, "completion_tokens": 12, "cost": 0.5, "cached": None})
    for key in ("langfuse.observation.usage_details", "mlflow.chat.tokenUsage"):
        (span,) = decode_traces(redact_traces(trace(attributes={key: counts})))
        assert span.attributes == {key: counts}
        for other in (json.dumps({"note": SECRET}), SECRET, "[1]", "[" * 5000):
            (span,) = decode_traces(redact_traces(trace(attributes={key: other})))
            assert key not in span.attributes


def test_a_span_that_lost_nothing_is_not_marked():
    data = trace(attributes={"gen_ai.tool.name": "x"}, events=[("e", {"id": "1"})])
    assert redact_traces(data) == data


@pytest.mark.parametrize("body", [SECRET, SHORT_SECRET, [SECRET], 4711])
def test_log_bodies_go(body):
    (record,) = decode_logs(redact_logs(log(body, {"event.name": "gen_ai.user.message"})))
    assert record.body is None
    assert record.attributes == {"event.name": "gen_ai.user.message", "loopscope.redacted": True}


def test_a_log_body_that_is_a_message_keeps_who_and_which():
    body = {
        "id": "call_1",
        "role": "tool",
        "content": SECRET,
        "tool_calls": [{"id": "x", "function": SECRET}],
    }
    (record,) = decode_logs(redact_logs(log(body, eventName="gen_ai.tool.message")))
    assert record.body == {"id": "call_1", "role": "tool"}
    assert record.attributes == {"loopscope.redacted": True}


def test_a_log_body_that_names_the_event_stays():
    (record,) = decode_logs(redact_logs(log("claude_code.tool_result", {"event.name": "tool_result"})))
    assert record.body == "claude_code.tool_result"
    assert record.attributes == {"event.name": "tool_result"}


@given(st.binary(max_size=200))
def test_bytes_that_are_no_request_are_an_error_or_a_request(data):
    for redact in (redact_traces, redact_logs):
        try:
            once = redact(data)
        except OtlpDecodeError:
            continue
        assert redact(once) == once


@pytest.mark.parametrize(
    ("argument", "environment", "captured"),
    [
        (None, None, True),
        (None, "", True),
        (None, "true", True),
        (None, "1", True),
        (None, "false", False),
        (None, " OFF ", False),
        (None, "0", False),
        (True, "false", True),
        (False, "true", False),
        (False, None, False),
    ],
)
def test_argument_before_environment_before_default(monkeypatch, argument, environment, captured):
    if environment is None:
        monkeypatch.delenv("LOOPSCOPE_CAPTURE_CONTENT", raising=False)
    else:
        monkeypatch.setenv("LOOPSCOPE_CAPTURE_CONTENT", environment)
    assert captures_content(argument) is captured


def test_a_misspelt_environment_captures_nothing_and_says_so(monkeypatch, caplog):
    monkeypatch.setenv("LOOPSCOPE_CAPTURE_CONTENT", "flase")
    assert captures_content() is False
    assert "flase" in caplog.text


def test_recordings_of_real_frameworks_hold_no_content_afterwards(corpus):
    folder: Path = corpus("dialects")
    words = [b"refund", b"example.invalid", b"No documents", b"Traceback", b"Duplicate", b"find it"]
    tool_names = 0
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            if "resourceLogs" in found:
                data = redact_logs(logs_json_to_protobuf(found))
                assert redact_logs(data) == data
            else:
                data = redact_traces(traces_json_to_protobuf(found))
                assert redact_traces(data) == data
                tool_names += sum("search_docs" in str(span) for span in decode_traces(data))
            assert [word for word in words if word in data] == [], path.name
    assert tool_names > 100
