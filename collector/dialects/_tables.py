"""All dialects in their order, and the joined attribute names of every fact."""

from __future__ import annotations

from collections.abc import Mapping

from ._model import Dialect, Kind
from .cli_agents import CLAUDE_CODE, CODEX, GEMINI_CLI
from .frameworks import (
    AGENT_FRAMEWORK,
    ANTHROPIC_SDK,
    AUTOGEN,
    GENKIT,
    GOOGLE_ADK,
    HAYSTACK,
    LAMINAR,
    LANGFUSE,
    LANGSMITH,
    MASTRA,
    MLFLOW,
    SEMANTIC_KERNEL,
    SPRING_AI,
    STRANDS,
)
from .mcp import MCP
from .openinference import OPENINFERENCE
from .openllmetry import OPENLLMETRY
from .otel_genai import OTEL_GENAI
from .others import AGENTOPS, FLUE, LIVEKIT, OPENLIT, SENTRY, VOLTAGENT
from .pydantic_ai import LOGFIRE, PYDANTIC_AI
from .vercel_ai import VERCEL_AI

__all__ = ["DIALECTS", "MARKS", "Keys"]

# The order is the precedence of keys: conventions before wrappers, specific before general.
DIALECTS: tuple[Dialect, ...] = (
    OTEL_GENAI,
    PYDANTIC_AI,
    VERCEL_AI,
    GOOGLE_ADK,
    SPRING_AI,
    OPENINFERENCE,
    HAYSTACK,
    GENKIT,
    CLAUDE_CODE,
    MLFLOW,
    OPENLLMETRY,
    LANGFUSE,
    LAMINAR,
    ANTHROPIC_SDK,
    LANGSMITH,
    GEMINI_CLI,
    CODEX,
    STRANDS,
    AGENT_FRAMEWORK,
    SEMANTIC_KERNEL,
    AUTOGEN,
    MASTRA,
    OPENLIT,
    AGENTOPS,
    LIVEKIT,
    FLUE,
    SENTRY,
    MCP,
    LOGFIRE,
    VOLTAGENT,
)


def _joined(field: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for dialect in DIALECTS for key in getattr(dialect, field)))


class Keys:
    """The ordered attribute names of every fact, over all dialects."""

    tool_name = _joined("tool_name")
    call_id = _joined("call_id")
    arguments = _joined("arguments")
    result = _joined("result")
    json_results = frozenset(_joined("json_results"))
    agent = _joined("agent")
    agent_span = agent + _joined("agent_span_only")
    conversation = _joined("conversation")
    model = _joined("model")
    provider = _joined("provider")
    input_tokens = _joined("input_tokens")
    output_tokens = _joined("output_tokens")
    usage_json = _joined("usage_json")
    cost = _joined("cost")
    input_messages = _joined("input_messages")
    output_messages = _joined("output_messages")
    agent_messages = _joined("agent_messages")
    input_bodies = _joined("input_bodies")
    output_bodies = _joined("output_bodies")
    failed: Mapping[str, Mapping[str, bool]] = {
        key: values for dialect in DIALECTS for key, values in dialect.failed.items()
    }


def _joined_marks() -> tuple[tuple[str, Mapping[object, Kind]], ...]:
    marks: dict[str, dict[object, Kind]] = {}
    for dialect in DIALECTS:
        for key, values in dialect.marks.items():
            marks.setdefault(key, {}).update(values)
    return tuple(marks.items())


MARKS = _joined_marks()
