"""Vercel AI SDK up to 6, and `LegacyOpenTelemetry` of @ai-sdk/otel (newer versions write OTel GenAI)."""

from __future__ import annotations

from ._model import Dialect, Kind

VERCEL_AI = Dialect(
    name="vercel_ai",
    title="Vercel AI SDK",
    scopes=("ai", "gen_ai"),
    marks={
        "ai.operationId": {
            "ai.toolCall": Kind.TOOL,
            "ai.generateText.doGenerate": Kind.LLM,
            "ai.streamText.doStream": Kind.LLM,
            "ai.generateObject.doGenerate": Kind.LLM,
            "ai.streamObject.doStream": Kind.LLM,
            "ai.generateText": Kind.AGENT,
            "ai.streamText": Kind.AGENT,
        },
    },
    span_names={"ai.toolCall": Kind.TOOL},
    tool_name=("ai.toolCall.name",),
    call_id=("ai.toolCall.id",),
    arguments=("ai.toolCall.args",),
    result=("ai.toolCall.result",),
    json_results=("ai.toolCall.result",),
    agent=("ai.telemetry.functionId",),
    conversation=tuple(
        f"ai.telemetry.metadata.{key}" for key in ("sessionId", "threadId", "chatId", "conversationId")
    ),
    model=("ai.model.id",),
    provider=("ai.model.provider",),
    input_tokens=("ai.usage.inputTokens", "ai.usage.promptTokens"),
    output_tokens=("ai.usage.outputTokens", "ai.usage.completionTokens"),
    input_messages=("ai.prompt.messages",),
    content_hint=(
        "The AI SDK records content by default once telemetry is on: leave recordInputs and recordOutputs of "
        "experimental_telemetry unset."
    ),
)

RESPONSE_TEXT = "ai.response.text"
RESPONSE_TOOL_CALLS = "ai.response.toolCalls"
