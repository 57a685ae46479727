"""Instrumentations known from their source or documentation alone: small tables, without a recording."""

from __future__ import annotations

from ._model import Dialect, Kind

OPENLIT = Dialect(
    name="openlit",
    title="OpenLIT",
    scopes=("openlit",),
    arguments=("gen_ai.tool.args", "gen_ai.tool.input"),
    result=("gen_ai.tool.result", "gen_ai.tool.output"),
    content_hint=(
        "OpenLIT records content by default: do not pass capture_message_content=False to openlit.init()."
    ),
)

AGENTOPS = Dialect(
    name="agentops",
    title="AgentOps",
    scopes=("agentops",),
    marks={
        "agentops.span.kind": {
            "tool": Kind.TOOL,
            "llm": Kind.LLM,
            "agent": Kind.AGENT,
        },
    },
    result=("tool.result",),  # the arguments are in tool.parameters
    failed={"tool.status": {"failed": True, "error": True, "succeeded": False, "success": False}},
)

LIVEKIT = Dialect(
    name="livekit",
    title="LiveKit Agents",
    scopes=("livekit-agents", "livekit"),
    span_names={"function_tool": Kind.TOOL},
    tool_name=("lk.function_tool.name",),
    call_id=("lk.function_tool.id",),
    arguments=("lk.function_tool.args",),
    result=("lk.function_tool.output",),
    failed={"lk.function_tool.is_error": {"true": True, "false": False}},
    conversation=("lk.room_name",),
    input_bodies=("lk.chat_ctx",),
)

VOLTAGENT = Dialect(
    name="voltagent",
    title="VoltAgent",
    scopes=("voltagent", "@voltagent/"),
    marks={"span.type": {"tool": Kind.TOOL, "llm": Kind.LLM, "agent": Kind.AGENT}},
    arguments=("input",),
    result=("output",),
    conversation=("voltagent.conversation_id",),
)

FLUE = Dialect(
    name="flue",
    title="Flue",
    scopes=("flue", "@flue/"),
    tool_name=("flue.tool.name",),
    call_id=("flue.tool.call_id",),
    arguments=("flue.tool.arguments",),
    result=("flue.tool.result",),
)

SENTRY = Dialect(
    name="sentry",
    title="Sentry",
    scopes=("sentry",),
    marks={
        "sentry.op": {
            "gen_ai.execute_tool": Kind.TOOL,
            "gen_ai.chat": Kind.LLM,
            "gen_ai.invoke_agent": Kind.AGENT,
        }
    },
    arguments=("gen_ai.tool.input",),
    result=("gen_ai.tool.output",),
    input_messages=("gen_ai.request.messages",),
    output_bodies=("gen_ai.response.tool_calls",),
    content_hint=(
        "Sentry's AI integrations record no content by default: set send_default_pii and include_prompts."
    ),
)
