"""Which dialect a span is in, what kind of span it is, and what is said about a dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from derive_tools import span

from loopscope.collector._records import SpanRecord
from loopscope.collector.dialects import (
    DIALECTS,
    Keys,
    Kind,
    classify,
    content_hint,
    dialect_of,
    dialect_title,
    shape_of,
)
from loopscope.collector.dialects import _shape as shapes


def kind_of(one: SpanRecord) -> Kind:
    return classify(one, shape_of(one.attributes))


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
    assert kind_of(span(attrs=attrs)) is kind


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
    assert kind_of(span(name)) is kind


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
    one = span(attrs=attrs, scope_name=scope)
    assert dialect_of(one, shape_of(one.attributes)) == dialect


FACTS = (
    "tool_name", "call_id", "arguments", "result", "agent", "agent_span", "conversation", "model", "provider",
    "input_tokens", "output_tokens", "usage_json", "cost", "input_messages", "output_messages",
)  # fmt: skip


@pytest.mark.parametrize("fact", FACTS)
def test_a_shape_has_the_names_of_a_fact_in_their_order(fact: str) -> None:
    keys: tuple[str, ...] = getattr(Keys, fact)
    assert keys
    for backwards in (keys[::-1], keys[1::2]):
        shape = shape_of({**dict.fromkeys(backwards), "somebody.elses": 1})
        assert getattr(shape, fact) == tuple(key for key in keys if key in backwards)
    assert getattr(shape_of({"somebody.elses": 1}), fact) == ()


@pytest.mark.parametrize("key", ["error.type", "loopscope.outcome.failed", "http.status_code", *Keys.failed])
def test_a_shape_knows_what_may_tell_of_a_failure(key: str) -> None:
    assert shape_of({"gen_ai.tool.name": "x"}).silent
    assert not shape_of({"gen_ai.tool.name": "x", key: None}).silent
    assert [name for name, _ in shape_of({key: None}).flags] == ([key] if key in Keys.failed else [])


def test_shapes_without_number_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_MOST_SHAPES", 10)
    monkeypatch.setattr(shapes, "_shapes", {})
    keys = sorted(Keys.arguments + Keys.result)[:8]
    for number in range(1, 2 ** len(keys)):
        attributes = {key: 1 for at, key in enumerate(keys) if number >> at & 1}
        assert shape_of(attributes).names == attributes.keys()
        assert len(shapes._shapes) <= 10


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
