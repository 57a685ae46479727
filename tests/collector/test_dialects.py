"""Which dialect a span is in, what kind of span it is, and what is said about a dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from derive_tools import span

from loopscope.collector.dialects import DIALECTS, Kind, classify, content_hint, dialect_of, dialect_title


@pytest.mark.parametrize(
    ("attrs", "kind"),
    [
        ({"gen_ai.operation.name": "execute_tool"}, Kind.TOOL),
        ({"gen_ai.operation.name": "chat"}, Kind.LLM),
        ({"gen_ai.operation.name": "generate_content"}, Kind.LLM),
        ({"gen_ai.operation.name": "invoke_agent"}, Kind.AGENT),
        ({"gen_ai.operation.name": "create_agent"}, Kind.OTHER),
        ({"gen_ai.operation.name": "embeddings"}, Kind.OTHER),
        ({"gen_ai.operation.name": ["chat"]}, Kind.OTHER),
        ({"openinference.span.kind": "TOOL"}, Kind.TOOL),
        ({"openinference.span.kind": "LLM"}, Kind.LLM),
        ({"openinference.span.kind": "AGENT"}, Kind.AGENT),
        ({"openinference.span.kind": "CHAIN"}, Kind.OTHER),
        ({"traceloop.span.kind": "tool"}, Kind.TOOL),
        ({"traceloop.span.kind": "agent"}, Kind.AGENT),
        ({"traceloop.span.kind": "workflow"}, Kind.OTHER),
        ({"llm.request.type": "chat"}, Kind.LLM),
        ({"mcp.method.name": "tools/call"}, Kind.TOOL),
        ({"mcp.method.name": "tools/list"}, Kind.OTHER),
        ({"ai.operationId": "ai.toolCall"}, Kind.TOOL),
        ({"ai.operationId": "ai.streamText.doStream"}, Kind.LLM),
        ({"ai.operationId": "ai.generateText"}, Kind.AGENT),
        ({"langfuse.observation.type": "generation"}, Kind.LLM),
        ({"lmnr.span.type": "TOOL"}, Kind.TOOL),
        ({"mlflow.spanType": '"TOOL"'}, Kind.TOOL),
        ({"langsmith.span.kind": "tool", "gen_ai.operation.name": "chain"}, Kind.TOOL),
        ({"genkit:metadata:subtype": "tool.v2"}, Kind.TOOL),
        ({"spring.ai.kind": "tool_call", "gen_ai.operation.name": "framework"}, Kind.TOOL),
        ({"traceloop.span.kind": "task", "gen_ai.operation.name": "chat"}, Kind.LLM),
        ({}, Kind.OTHER),
    ],
)
def test_kinds_of_spans(attrs: dict[str, Any], kind: Kind) -> None:
    assert classify(span(attrs=attrs)) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("running tool", Kind.TOOL),
        ("agent run", Kind.AGENT),
        ("haystack.agent.step.tool", Kind.TOOL),
        ("claude_code.tool", Kind.TOOL),
        ("claude_code.tool.execution", Kind.TOOL),  # says how its parent's call ended
        ("claude_code.tool.blocked_on_user", Kind.OTHER),
    ],
)
def test_kinds_by_span_name(name: str, kind: Kind) -> None:
    assert classify(span(name)) is kind


@pytest.mark.parametrize(
    ("scope", "attrs", "dialect"),
    [
        (None, {"gen_ai.operation.name": "execute_tool"}, "otel_genai"),
        ("opentelemetry.instrumentation.genai.openai", {}, "otel_genai"),
        ("opentelemetry.instrumentation.openai_v2", {}, "otel_genai"),
        ("opentelemetry.instrumentation.openai.v1", {}, "openllmetry"),
        ("opentelemetry.instrumentation.langchain", {}, "openllmetry"),
        ("traceloop.tracer", {}, "openllmetry"),
        ("openinference.instrumentation.agno", {}, "openinference"),
        ("strands.telemetry.tracer", {}, "strands"),
        ("strands.telemetry.tracer", {"openinference.span.kind": "TOOL"}, "openinference"),
        ("fastmcp", {"gen_ai.operation.name": "execute_tool"}, "mcp"),
        ("my.server", {"gen_ai.operation.name": "execute_tool", "mcp.method.name": "tools/call"}, "mcp"),
        ("ai", {}, "vercel_ai"),
        ("aiohttp", {}, "otel_genai"),
        ("gcp.vertex.agent", {}, "google_adk"),
        (None, {"langfuse.observation.type": "tool"}, "langfuse"),
        ("fastmcp", {"loopscope.dialect": "openai_chat"}, "openai_chat"),
    ],
)
def test_names_of_dialects(scope: str | None, attrs: dict[str, Any], dialect: str) -> None:
    assert dialect_of(span(attrs=attrs, scope_name=scope)) == dialect


def test_hints_name_the_setting() -> None:
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in (content_hint("otel_genai") or "")
    assert "TRACELOOP_TRACE_CONTENT" in (content_hint("openllmetry") or "")
    assert "OPENINFERENCE_HIDE_INPUTS" in (content_hint("openinference") or "")
    assert content_hint("openai_chat") is None
    assert dialect_title("otel_genai") == "OpenTelemetry GenAI"
    assert dialect_title("openai_chat") == "openai_chat"


def test_every_dialect_is_documented_with_its_setting() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text("utf-8")
    for dialect in DIALECTS:
        assert f"| {dialect.title} " in page, dialect.title
        for word in (dialect.content_hint or "").split():
            setting = word.strip(".,:;()")
            if setting.isupper() and "_" in setting and "*" not in setting:
                assert setting.partition("=")[0] in page, setting
