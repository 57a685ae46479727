"""Every dialect by a small call, and a request where it has its own way to write one.

The spans are written from what is known of each: see the table in docs/dialects.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from derive_tools import START, agent, exception, span, tool

from loopscope.collector._derive import derive_trace
from loopscope.collector._records import LlmRequest, SpanEvent, SpanRecord, ToolCall

Q = '{"q": "x"}'
QUOTED = '"no \\"hits\\""'


def call_of(*spans: SpanRecord) -> ToolCall:
    (call,) = derive_trace(list(spans)).tool_calls
    return call


def request_of(*spans: SpanRecord) -> LlmRequest:
    (request,) = derive_trace(list(spans)).llm_requests
    return request


def event(name: str, **attributes: Any) -> SpanEvent:
    return SpanEvent(name, START, attributes)


OPERATION = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
GENAI = {"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": Q, "gen_ai.tool.call.result": "no hits"}

# dialect, scope, span name, attributes, events -> tool, id, arguments, result
CALLS: list[
    tuple[
        str, str | None, str, dict[str, Any], list[SpanEvent], tuple[str, str | None, str | None, str | None]
    ]
]
CALLS = [
    (
        "otel_genai",
        "opentelemetry.instrumentation.genai.langchain",
        "execute_tool search",
        OPERATION | GENAI,
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "mcp",
        "mcp-python-sdk",
        "tools/call search",
        {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search"},
        [],
        ("search", None, None, None),
    ),
    (
        "openinference",
        "openinference.instrumentation.agno",
        "search",
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "search",
            "input.value": Q,
            "output.value": "no hits",
            "tool.parameters": '{"type": "object", "properties": {}}',
        },
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "openinference",
        "openinference.instrumentation.crewai",
        "search.run",
        {"openinference.span.kind": "TOOL", "input.value": Q, "output.value": "no hits"},
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "openinference",
        "openinference.instrumentation.smolagents",
        "SimpleTool",
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "search",
            "output.value": "no hits",
            "input.value": '{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"q": "x"}}',
        },
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "openinference",
        "openinference.instrumentation.llama_index",
        "FunctionTool.acall",
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "search",
            "input.value": '{"kwargs": {"q": "x"}}',
            "output.value": "no hits",
        },
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "openllmetry",
        "opentelemetry.instrumentation.mcp",
        "search.tool",
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "search",
            "traceloop.entity.input": '{"tool_name": "search", "arguments": {"q": "x"}}',
            "traceloop.entity.output": '{"result": "no hits", "is_error": false}',
        },
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "vercel_ai",
        "ai",
        "ai.toolCall",
        {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "search",
            "ai.toolCall.id": "c1",
            "ai.toolCall.args": Q,
            "ai.toolCall.result": QUOTED,
        },
        [],
        ("search", "c1", Q, 'no "hits"'),
    ),
    (
        "vercel_ai",
        "ai",
        "ai.toolCall",
        {"operation.name": "ai.toolCall f", "ai.toolCall.name": "search"},
        [],
        ("search", None, None, None),
    ),
    (
        "vercel_ai",
        "gen_ai",
        "execute_tool search",
        OPERATION | GENAI | {"gen_ai.tool.call.result": QUOTED},
        [],
        ("search", "c1", Q, 'no "hits"'),
    ),
    (
        "pydantic_ai",
        "pydantic-ai",
        "running tool",
        {
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.id": "c1",
            "tool_arguments": Q,
            "tool_response": "no hits",
        },
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "logfire",
        "logfire.openai_agents",
        "Function: {name}",
        {"name": "search", "input": Q, "output": "no hits"},
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "langsmith",
        "langsmith",
        "search",
        {
            "langsmith.span.kind": "tool",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.prompt": Q,
            "gen_ai.completion": '{"output": {"type": "tool", "tool_call_id": "c1", "content": "no hits"}}',
        },
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "google_adk",
        "gcp.vertex.agent",
        "execute_tool search",
        OPERATION | GENAI,
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "google_adk",
        "gcp.vertex.agent",
        "execute_tool search",
        OPERATION
        | {
            "gen_ai.tool.call.id": "<not specified>",
            "gcp.vertex.agent.tool_call_args": Q,
            "gcp.vertex.agent.tool_response": '{"result": "<not specified>"}',
        },
        [],
        ("search", None, Q, None),
    ),
    (
        "strands",
        "strands.telemetry.tracer",
        "execute_tool search",
        OPERATION | {"gen_ai.tool.call.id": "c1"},
        [
            event("gen_ai.tool.message", content=Q, id="c1"),
            event("gen_ai.choice", message='[{"text": "no hits"}]', id="c1"),
        ],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "agent_framework",
        "agent_framework",
        "execute_tool search",
        OPERATION | GENAI,
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "semantic_kernel",
        "semantic_kernel.functions.kernel_function",
        "execute_tool Docs-search",
        OPERATION | GENAI | {"gen_ai.tool.name": "Docs-search"},
        [],
        ("Docs-search", "c1", Q, "no hits"),
    ),
    (
        "autogen",
        "autogen-core",
        "execute_tool search",
        OPERATION | {"gen_ai.tool.call.id": "c1"},
        [],
        ("search", "c1", None, None),
    ),
    (
        "anthropic_sdk",
        "com.anthropic.sdk.python",
        "anthropic.custom_tool_use search",
        OPERATION
        | {
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.arguments": Q,
            "anthropic.tool_result.content": "no hits",
        },
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "haystack",
        "haystack",
        "haystack.agent.step.tool",
        {
            "haystack.tool.name": "search",
            "haystack.agent.step.tool.input": Q,
            "haystack.agent.step.tool.output": "no hits",
        },
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "genkit",
        "genkit-tracer",
        "search",
        {
            "genkit:metadata:subtype": "tool",
            "genkit:name": "search",
            "genkit:input": Q,
            "genkit:output": QUOTED,
        },
        [],
        ("search", None, Q, 'no "hits"'),
    ),
    (
        "mlflow",
        "mlflow",
        "search",
        {
            "mlflow.spanType": "TOOL",
            "mlflow.spanFunctionName": "search",
            "mlflow.spanInputs": {"q": "x"},
            "mlflow.spanOutputs": QUOTED,
        },
        [],
        ("search", None, Q, 'no "hits"'),
    ),
    (
        "langfuse",
        "langfuse-sdk",
        "search",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.input": '{"args": [], "kwargs": {"q": "x"}}',
            "langfuse.observation.output": "no hits",
        },
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "laminar",
        "lmnr.tracer",
        "search",
        {"lmnr.span.type": "TOOL", "lmnr.span.input": Q, "lmnr.span.output": QUOTED},
        [],
        ("search", None, Q, 'no "hits"'),
    ),
    (
        "spring_ai",
        "org.springframework.boot",
        "tool call",
        {
            "gen_ai.operation.name": "framework",
            "spring.ai.kind": "tool_call",
            "spring.ai.tool.call.arguments": Q,
            "spring.ai.tool.definition.name": "search",
            "spring.ai.tool.call.result": "no hits",
        },
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "mastra",
        "@mastra/otel-exporter",
        "execute_tool search",
        OPERATION | GENAI | {"mastra.span.type": "tool_call"},
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "mastra",
        "@mastra/otel-exporter",
        "mcp",
        {"mastra.span.type": "mcp_tool_call", "gen_ai.tool.name": "search"},
        [],
        ("search", None, None, None),
    ),
    (
        "claude_code",
        "com.anthropic.claude_code.tracing",
        "claude_code.tool",
        {"tool_name": "Bash", "tool_use_id": "c1", "full_command": "ls"},
        [event("tool.output", output="no hits")],
        ("Bash", "c1", '{"command": "ls"}', "no hits"),
    ),
    (
        "claude_code",
        "com.anthropic.claude_code.tracing",
        "claude_code.tool",
        {"tool_name": "Read", "tool_use_id": "c1", "file_path": "/a"},
        [event("tool.output", content="text")],
        ("Read", "c1", None, "text"),
    ),  # a path is not all that was asked for
    (
        "gemini_cli",
        "gemini-cli",
        "tool_call",
        {
            "gen_ai.operation.name": "tool_call",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call_id": "c1",
            "gen_ai.input.messages": '{"callId": "c1", "name": "search", "args": {"q": "x"}}',
        },
        [],
        ("search", "c1", Q, None),
    ),
    (
        "openlit",
        "openlit",
        "execute_tool search",
        OPERATION | {"gen_ai.tool.args": Q, "gen_ai.tool.result": "no hits"},
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "agentops",
        "agentops",
        "search.tool",
        {
            "agentops.span.kind": "tool",
            "tool.name": "search",
            "tool.id": "c1",
            "tool.parameters": Q,
            "tool.result": "no hits",
        },
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "livekit",
        "livekit-agents",
        "function_tool",
        {
            "lk.function_tool.name": "search",
            "lk.function_tool.id": "c1",
            "lk.function_tool.args": Q,
            "lk.function_tool.output": "no hits",
        },
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "voltagent",
        "@voltagent/core",
        "tool.execution:search",
        {"span.type": "tool", "tool.name": "search", "input": Q, "output": "no hits"},
        [],
        ("search", None, Q, "no hits"),
    ),
    (
        "flue",
        "flue",
        "execute_tool search",
        {
            "gen_ai.operation.name": "execute_tool",
            "flue.tool.name": "search",
            "flue.tool.call_id": "c1",
            "flue.tool.arguments": Q,
            "flue.tool.result": "no hits",
        },
        [],
        ("search", "c1", Q, "no hits"),
    ),
    (
        "sentry",
        "sentry.python",
        "execute_tool search",
        {
            "sentry.op": "gen_ai.execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.input": Q,
            "gen_ai.tool.output": "no hits",
        },
        [],
        ("search", None, Q, "no hits"),
    ),
]


@pytest.mark.parametrize(("dialect", "scope", "name", "attrs", "events", "expected"), CALLS)
def test_a_call_of_each_dialect(dialect, scope, name, attrs, events, expected) -> None:
    call = call_of(span(name, attrs=attrs, events=events, scope_name=scope))
    assert call.dialect == dialect
    assert (call.tool_name, call.call_id, call.arguments, call.result) == expected


def test_every_dialect_has_a_call_here() -> None:
    from loopscope.collector.dialects import DIALECTS

    # Codex writes no spans, but log events: see test_derive_events.py.
    assert {case[0] for case in CALLS} | {"codex"} == {dialect.name for dialect in DIALECTS}


FAILURES = [
    ("haystack", {"haystack.tool.error": True}, "haystack.agent.step.tool"),
    ("genkit", {"genkit:metadata:subtype": "tool", "genkit:state": "error"}, "search"),
    ("langfuse", {"langfuse.observation.type": "tool", "langfuse.observation.level": "ERROR"}, "search"),
    ("strands.", OPERATION | {"gen_ai.tool.status": "error"}, "search"),
    ("opentelemetry.instrumentation.langchain", OPERATION | {"gen_ai.task.status": "failure"}, "search"),
    ("logfire.openai_agents", {"name": "search", "logfire.level_num": 17}, "Function: {name}"),
    ("agentops", {"agentops.span.kind": "tool", "tool.status": "failed"}, "search"),
    ("livekit", {"lk.function_tool.is_error": True}, "function_tool"),
    ("mcp-python-sdk", {"mcp.method.name": "tools/call", "error.type": "tool_error"}, "tools/call search"),
]


@pytest.mark.parametrize(("scope", "attrs", "name"), FAILURES)
def test_failures_without_a_status(scope: str, attrs: dict[str, Any], name: str) -> None:
    assert call_of(span(name, attrs=attrs, scope_name=scope)).outcome == "general_tool_error"


def test_the_end_of_a_claude_code_tool_stands_on_its_child() -> None:
    root = span("claude_code.interaction")
    call = span("claude_code.tool", parent=root, attrs={"tool_name": "Bash", "tool_use_id": "c1"})
    waited = span("claude_code.tool.blocked_on_user", parent=call)
    ended = {"success": "false", "error": "ShellError", "tool_use_id": "c1"}
    done = span("claude_code.tool.execution", parent=call, attrs=ended, status=2)
    found = call_of(root, call, waited, done)
    assert (found.span_id, found.tool_name, found.outcome) == (call.span_id, "Bash", "general_tool_error")
    done.attributes, done.status_code = {"success": "true"}, 0
    assert call_of(root, call, waited, done).outcome == "success"


# -- requests -----------------------------------------------------------------------------------------

ASKED = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "search", "arguments": Q}}]}


def test_adk_1_keeps_messages_on_the_span_around_the_request() -> None:
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    answer = {
        "content": {
            "role": "model",
            "parts": [{"function_call": {"id": "c1", "name": "search", "args": {"q": "x"}}}],
        }
    }
    attrs = {
        "gcp.vertex.agent.llm_request": json.dumps({"model": "m", "contents": contents}),
        "gcp.vertex.agent.llm_response": json.dumps(answer),
    }
    adk = "gcp.vertex.agent"
    outer = span("call_llm", attrs=attrs, scope_name=adk, at=(1, 2))
    usage = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.request.model": "m",
    }
    inner = span("generate_content m", parent=outer, attrs=usage, scope_name=adk, at=(1, 2))
    call = tool(call_id="c1", parent=outer, scope_name=adk, at=(3, 4))
    derived = derive_trace([outer, inner, call])
    (request,) = derived.llm_requests
    assert (request.span_id, request.input_tokens) == (inner.span_id, 3)
    assert request.input_messages == [json.dumps(contents[0])]
    assert request.output_messages is not None
    assert [call.span_id for call in derived.tool_calls] == [call.span_id]
    assert request_of(span("call_llm", attrs=attrs, scope_name=adk)).input_messages == request.input_messages


@pytest.mark.parametrize(
    ("scope", "name", "attrs", "events"),
    [
        (
            "logfire.openai_agents",
            "Responses API with {gen_ai.request.model!r}",
            {
                "events": json.dumps(
                    [
                        {"event.name": "gen_ai.user.message", "content": "hi", "role": "user"},
                        {"event.name": "gen_ai.choice", "index": 0, "message": ASKED},
                    ]
                )
            },
            [],
        ),
        (
            "pydantic-ai",
            "chat m",
            {
                "gen_ai.operation.name": "chat",
                "events": json.dumps(
                    [
                        {"event.name": "gen_ai.user.message", "content": "hi", "gen_ai.message.index": 0},
                        {"event.name": "gen_ai.choice", "message": ASKED},
                    ]
                ),
            },
            [],
        ),
        (
            "openlit",
            "chat m",
            {"gen_ai.operation.name": "chat"},
            [
                event("gen_ai.content.prompt", **{"gen_ai.prompt": '[{"role": "user", "content": "hi"}]'}),
                event("gen_ai.content.completion", **{"gen_ai.completion": json.dumps(ASKED)}),
            ],
        ),
        (
            "org.springframework.boot",
            "chat m",
            {"gen_ai.operation.name": "chat"},
            [
                event("gen_ai.content.prompt", **{"gen_ai.prompt": "hi"}),
                event("gen_ai.content.completion", **{"gen_ai.completion": json.dumps({"message": ASKED})}),
            ],
        ),
        (
            "traceloop",
            "openai.chat",
            {
                "llm.request.type": "chat",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "hi",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.tool_calls.0.id": "c1",
                "gen_ai.completion.0.tool_calls.0.name": "search",
                "gen_ai.completion.0.tool_calls.0.arguments": Q,
            },
            [],
        ),
        (
            "genkit",
            "m",
            {
                "genkit:metadata:subtype": "model",
                "genkit:input": json.dumps({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}),
                "genkit:output": json.dumps(
                    {
                        "message": {
                            "role": "model",
                            "content": [
                                {"toolRequest": {"ref": "c1", "name": "search", "input": {"q": "x"}}}
                            ],
                        }
                    }
                ),
            },
            [],
        ),
        (
            "mlflow",
            "m",
            {
                "mlflow.spanType": "CHAT_MODEL",
                "mlflow.spanInputs": {"messages": [{"role": "user", "content": "hi"}]},
                "mlflow.spanOutputs": {"choices": [{"message": ASKED}]},
            },
            [],
        ),
        (
            "langfuse",
            "m",
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.output": json.dumps(ASKED),
                "langfuse.observation.input": '{"tools": 0, "messages": [{"role": "user", "content": "hi"}]}',
            },
            [],
        ),
        (
            "lmnr",
            "m",
            {
                "lmnr.span.type": "LLM",
                "gen_ai.input.messages": '[{"role": "user", "content": "hi"}]',
                "gen_ai.output.messages": json.dumps([{"message": ASKED}]),
            },
            [],
        ),
        (
            "haystack",
            "haystack.agent.step.llm",
            {
                "haystack.agent.step.llm.input": '{"messages": [{"role": "user", "content": "hi"}]}',
                "haystack.agent.step.llm.output": json.dumps({"messages": [ASKED]}),
            },
            [],
        ),
        (
            "ai",
            "ai.generateText.doGenerate",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.prompt.messages": '[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]',
                "ai.response.toolCalls": '[{"toolCallId": "c1", "toolName": "search", "input": {"q": "x"}}]',
            },
            [],
        ),
    ],
)
def test_the_messages_of_each_way_to_write_them(scope, name, attrs, events) -> None:
    derived = derive_trace([span(name, attrs=attrs, events=events, scope_name=scope)])
    (request,) = derived.llm_requests
    assert request.input_messages is not None
    assert '"hi"' in request.input_messages[0]
    (asked,) = derived.tool_calls
    assert (asked.tool_name, asked.call_id, asked.end_ns) == ("search", "c1", None)
    assert json.loads(asked.arguments or "") == {"q": "x"}


def test_a_refusal_that_logfire_only_levels() -> None:
    attrs = {"logfire.level_num": 17, "gen_ai.request.model": "m"}
    event_ = exception("openai.BadRequestError", "Error code: 400 - no")
    found = request_of(
        agent(), span("Responses API", attrs=attrs, events=[event_], scope_name="logfire.openai_agents")
    )
    assert (found.status, found.http_status) == ("error", 400)
