"""The official OpenTelemetry conventions for generative AI, all versions since 1.27."""

from __future__ import annotations

from ._model import Dialect, Kind

OTEL_GENAI = Dialect(
    name="otel_genai",
    title="OpenTelemetry GenAI",
    scopes=(
        "opentelemetry.instrumentation.genai.",
        "opentelemetry.instrumentation.openai_v2",
        "opentelemetry.instrumentation.google_genai",
        "opentelemetry.instrumentation.vertexai",
        "opentelemetry.util.genai",
    ),
    marks={
        "gen_ai.operation.name": {
            "execute_tool": Kind.TOOL,
            "chat": Kind.LLM,
            "generate_content": Kind.LLM,
            "text_completion": Kind.LLM,
            "completion": Kind.LLM,
            "message_creation": Kind.LLM,
            "invoke_agent": Kind.AGENT,
        },
    },
    tool_name=("gen_ai.tool.name",),
    call_id=("gen_ai.tool.call.id",),
    arguments=("gen_ai.tool.call.arguments",),
    result=("gen_ai.tool.call.result",),
    agent=("gen_ai.agent.name",),
    agent_span_only=("gen_ai.agent.id",),
    conversation=("gen_ai.conversation.id",),
    model=("gen_ai.request.model", "gen_ai.response.model"),
    provider=("gen_ai.provider.name", "gen_ai.system"),
    input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    cost=("gen_ai.usage.cost",),
    input_messages=("gen_ai.input.messages",),
    output_messages=("gen_ai.output.messages",),
    content_hint=(
        "The official packages record no content by default: set "
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only (packages before "
        "opentelemetry-instrumentation-genai-*: true) in the agent's environment."
    ),
)
