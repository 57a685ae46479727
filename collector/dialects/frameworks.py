"""Dialects that need no more than a table: frameworks and SDKs with spans of their own."""

from __future__ import annotations

from ._model import Dialect, Kind

GOOGLE_ADK = Dialect(
    name="google_adk",
    title="Google ADK",
    scopes=("gcp.vertex.agent",),
    # ADK 1: around the request itself, if that has a span, and the one with the messages.
    classify=lambda span: Kind.LLM if span.name == "call_llm" else None,
    arguments=("gcp.vertex.agent.tool_call_args",),
    result=("gcp.vertex.agent.tool_response",),
    conversation=("gcp.vertex.agent.session_id",),
    input_bodies=("gcp.vertex.agent.llm_request",),
    output_bodies=("gcp.vertex.agent.llm_response",),
    content_hint=(
        "ADK 2 records no content by default: set "
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_AND_EVENT (ADK 1: "
        "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true)."
    ),
)

STRANDS = Dialect(
    name="strands",
    title="AWS Strands",
    scopes=("strands.",),
    failed={"gen_ai.tool.status": {"error": True, "success": False}},
    content_hint="Strands records content by default, in span events: let the exporter keep span events.",
)

AGENT_FRAMEWORK = Dialect(
    name="agent_framework",
    title="Microsoft Agent Framework",
    scopes=("agent_framework",),
    content_hint="Agent Framework records no content by default: set ENABLE_SENSITIVE_DATA=true.",
)

SEMANTIC_KERNEL = Dialect(
    name="semantic_kernel",
    title="Semantic Kernel",
    scopes=("semantic_kernel", "Microsoft.SemanticKernel"),
    content_hint=(
        "Semantic Kernel records no content by default: set "
        "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true."
    ),
)

AUTOGEN = Dialect(
    name="autogen",
    title="AutoGen",
    scopes=("autogen-core", "autogen "),
    content_hint=(
        "AutoGen's own spans never carry arguments or results: add "
        "openinference-instrumentation-autogen-agentchat."
    ),
)

ANTHROPIC_SDK = Dialect(
    name="anthropic_sdk",
    title="Anthropic SDK",
    scopes=("com.anthropic.sdk",),
    result=("anthropic.tool_result.content",),
    conversation=("anthropic.session.id",),
    content_hint=(
        "The Anthropic SDK records metadata only by default: set "
        "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE=content."
    ),
)

LANGSMITH = Dialect(
    name="langsmith",
    title="LangSmith",
    scopes=("langsmith",),
    marks={"langsmith.span.kind": {"tool": Kind.TOOL, "llm": Kind.LLM}},
    arguments=("gen_ai.prompt",),
    result=("gen_ai.completion",),
    conversation=tuple(f"langsmith.metadata.{key}" for key in ("thread_id", "session_id", "conversation_id")),
    input_bodies=("gen_ai.prompt",),
    output_bodies=("gen_ai.completion",),
    content_hint=(
        "LangSmith records content by default: unset LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS."
    ),
)

LANGFUSE = Dialect(
    name="langfuse",
    title="Langfuse",
    scopes=("langfuse",),
    marks={
        "langfuse.observation.type": {
            "tool": Kind.TOOL,
            "generation": Kind.LLM,
            "agent": Kind.AGENT,
        },
    },
    arguments=("langfuse.observation.input",),
    result=("langfuse.observation.output",),
    failed={"langfuse.observation.level": {"error": True}},
    conversation=("langfuse.session.id",),
    model=("langfuse.observation.model.name",),
    usage_json=("langfuse.observation.usage_details",),
    input_bodies=("langfuse.observation.input",),
    output_bodies=("langfuse.observation.output",),
    content_hint=(
        "Langfuse records content by default: do not pass capture_input=False or capture_output=False."
    ),
)

LAMINAR = Dialect(
    name="laminar",
    title="Laminar",
    scopes=("lmnr",),
    marks={"lmnr.span.type": {"TOOL": Kind.TOOL, "LLM": Kind.LLM}},
    arguments=("lmnr.span.input",),
    result=("lmnr.span.output",),
    json_results=("lmnr.span.output",),
    conversation=("lmnr.association.properties.session_id",),
    content_hint=(
        "Laminar records content by default: do not pass ignore_input or ignore_output to observe()."
    ),
)

MLFLOW = Dialect(
    name="mlflow",
    title="MLflow",
    scopes=("mlflow",),
    marks={
        "mlflow.spanType": {
            "TOOL": Kind.TOOL,
            '"TOOL"': Kind.TOOL,
            "LLM": Kind.LLM,
            '"LLM"': Kind.LLM,
            "CHAT_MODEL": Kind.LLM,
            '"CHAT_MODEL"': Kind.LLM,
            "AGENT": Kind.AGENT,
            '"AGENT"': Kind.AGENT,
        },
    },
    tool_name=("mlflow.spanFunctionName",),
    arguments=("mlflow.spanInputs",),
    result=("mlflow.spanOutputs",),
    json_results=("mlflow.spanOutputs",),
    model=("mlflow.llm.model",),
    usage_json=("mlflow.chat.tokenUsage",),
    input_bodies=("mlflow.spanInputs",),
    output_bodies=("mlflow.spanOutputs",),
)

GENKIT = Dialect(
    name="genkit",
    title="Genkit",
    scopes=("genkit",),
    marks={
        "genkit:metadata:subtype": {
            "tool": Kind.TOOL,
            "tool.v2": Kind.TOOL,
            "model": Kind.LLM,
        },
    },
    tool_name=("genkit:name",),
    arguments=("genkit:input",),
    result=("genkit:output",),
    json_results=("genkit:output",),
    failed={"genkit:state": {"error": True, "success": False}},
    input_bodies=("genkit:input",),
    output_bodies=("genkit:output",),
)

HAYSTACK = Dialect(
    name="haystack",
    title="Haystack",
    scopes=("haystack",),
    span_names={
        "haystack.agent.step.tool": Kind.TOOL,
        "haystack.agent.step.llm": Kind.LLM,
        "haystack.agent.run": Kind.AGENT,
    },
    tool_name=("haystack.tool.name",),
    arguments=("haystack.agent.step.tool.input",),
    result=("haystack.agent.step.tool.output",),
    failed={"haystack.tool.error": {"true": True}},
    input_bodies=("haystack.agent.step.llm.input",),
    output_bodies=("haystack.agent.step.llm.output",),
    content_hint="Haystack records no content by default: set HAYSTACK_CONTENT_TRACING_ENABLED=true.",
)

SPRING_AI = Dialect(
    name="spring_ai",
    title="Spring AI",
    scopes=("org.springframework.boot",),
    marks={"spring.ai.kind": {"tool_call": Kind.TOOL}},
    tool_name=("spring.ai.tool.definition.name",),
    arguments=("spring.ai.tool.call.arguments",),
    result=("spring.ai.tool.call.result",),
    conversation=("spring.ai.chat.client.conversation.id",),
    content_hint=(
        "Spring AI records no content by default: set spring.ai.tools.observations.include-content=true."
    ),
)

MASTRA = Dialect(
    name="mastra",
    title="Mastra",
    scopes=("@mastra/",),
    marks={
        "mastra.span.type": {
            "tool_call": Kind.TOOL,
            "mcp_tool_call": Kind.TOOL,
            "provider_tool_call": Kind.TOOL,
        },
    },
)
