"""OpenLLMetry (Traceloop): SDK decorators, framework instrumentations, old and new LLM spans."""

from __future__ import annotations

from .._records import SpanRecord
from ._model import Dialect, Kind


def _classify(span: SpanRecord) -> Kind | None:
    # LlamaIndex tools are kind `task`; the class name is the only mark.
    if span.scope_name == "opentelemetry.instrumentation.llamaindex" and span.name.endswith("Tool.task"):
        return Kind.TOOL
    return None


_FRAMEWORKS = (
    "agno", "alephalpha", "anthropic", "bedrock", "cohere", "crewai", "google_generativeai", "groq",
    "haystack", "langchain", "llamaindex", "mcp", "mistralai", "ollama", "openai.", "openai_agents",
    "replicate", "sagemaker", "together", "transformers", "vertexai.", "watsonx", "writer",
)  # fmt: skip

OPENLLMETRY = Dialect(
    name="openllmetry",
    title="OpenLLMetry",
    scopes=("traceloop.", *(f"opentelemetry.instrumentation.{framework}" for framework in _FRAMEWORKS)),
    classify=_classify,
    marks={
        "traceloop.span.kind": {"tool": Kind.TOOL, "agent": Kind.AGENT},
        "llm.request.type": {"chat": Kind.LLM, "completion": Kind.LLM},
    },
    tool_name=("traceloop.entity.name",),
    arguments=("traceloop.entity.input",),
    result=("traceloop.entity.output",),
    json_results=("traceloop.entity.output",),
    failed={"gen_ai.task.status": {"failure": True, "success": False}},
    agent_span_only=("traceloop.entity.name",),
    conversation=(
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.thread_id",
        "traceloop.association.properties.conversation_id",
        "traceloop.association.properties.chat_id",
    ),
    input_tokens=("llm.usage.prompt_tokens",),
    output_tokens=("llm.usage.completion_tokens",),
    content_hint=(
        "OpenLLMetry records content by default: take TRACELOOP_TRACE_CONTENT=false out of the agent's "
        "environment."
    ),
)

INPUT_MESSAGES = "gen_ai.prompt."
OUTPUT_MESSAGES = "gen_ai.completion."
# Output of an MCP tool: {"result": …, "is_error": …}; only this attribute wears that wrapper.
ENTITY_OUTPUT = "traceloop.entity.output"
