"""OpenInference (Arize): `openinference.span.kind` with flattened message attributes."""

from __future__ import annotations

from .._attributes import as_text, load, utf8
from .._records import SpanRecord
from ._model import Dialect, Kind


def _classify(span: SpanRecord) -> Kind | None:
    # The LlamaIndex instrumentor marks private helpers of the model class as LLM requests.
    if (
        span.scope_name == "openinference.instrumentation.llama_index"
        and span.attributes.get("openinference.span.kind") == "LLM"
        and span.name.rpartition(".")[2].startswith("_")
    ):
        return Kind.OTHER
    return None


OPENINFERENCE = Dialect(
    name="openinference",
    title="OpenInference",
    scopes=("openinference.instrumentation.", "@arizeai/openinference"),
    classify=_classify,
    marks={
        "openinference.span.kind": {
            "TOOL": Kind.TOOL,
            "LLM": Kind.LLM,
            "AGENT": Kind.AGENT,
        },
    },
    tool_name=("tool.name",),
    call_id=("tool_call.id", "tool.id", "tool.call_id"),
    arguments=("input.value",),
    result=("output.value",),
    agent=("agent.name",),
    # On a tool span `graph.node.id` is unique to the call, so it must not name an agent there.
    agent_span_only=("graph.node.name", "graph.node.id"),
    conversation=("session.id",),
    model=("llm.model_name",),
    provider=("llm.provider", "llm.system"),
    input_tokens=("llm.token_count.prompt",),
    output_tokens=("llm.token_count.completion",),
    cost=("llm.cost.total",),
    input_bodies=("input.value",),
    output_bodies=("output.value",),
    content_hint=(
        "OpenInference records content by default: unset OPENINFERENCE_HIDE_INPUTS, "
        "OPENINFERENCE_HIDE_OUTPUTS and the other OPENINFERENCE_HIDE_* variables of the agent."
    ),
)

# A tool's arguments in some instrumentors, its JSON schema in others; read last, and never a schema.
TOOL_PARAMETERS = "tool.parameters"
INPUT_MESSAGES = "llm.input_messages."
OUTPUT_MESSAGES = "llm.output_messages."
METADATA = "metadata"
_AGENT_IN_METADATA = "lc_agent_name"


def agent_in_metadata(span: SpanRecord) -> str | None:
    """The agent that LangChain names in its metadata, and nowhere else."""
    metadata = span.attributes.get(METADATA)
    if not isinstance(metadata, str) or f'"{_AGENT_IN_METADATA}"' not in metadata:
        return None
    values = load(metadata)
    return utf8(as_text(values.get(_AGENT_IN_METADATA))) if isinstance(values, dict) else None


def agent_name(span: SpanRecord) -> str | None:
    """The agent of an AGENT span without a name attribute: `support.run`, `support.on_messages_stream`."""
    if "openinference.span.kind" not in span.attributes:
        return None
    name, dot, method = span.name.rpartition(".")
    return name if dot and method.isidentifier() else None
