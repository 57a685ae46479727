"""Pydantic AI (format versions 2 and later) and Logfire."""

from __future__ import annotations

from .._records import SpanRecord
from ._model import Dialect, Kind

PYDANTIC_AI = Dialect(
    name="pydantic_ai",
    title="Pydantic AI",
    scopes=("pydantic-ai", "pydantic_ai"),
    span_names={"running tool": Kind.TOOL, "running output function": Kind.TOOL, "agent run": Kind.AGENT},
    arguments=("tool_arguments",),
    result=("tool_response",),
    agent=("agent_name",),
    model=("model_name",),
    cost=("operation.cost",),
    agent_messages=("pydantic_ai.all_messages",),
    content_hint=(
        "Pydantic AI records content by default: do not pass include_content=False to "
        "InstrumentationSettings."
    ),
)


def _logfire(span: SpanRecord) -> Kind | None:
    # Logfire names spans by template, values left out.
    if span.scope_name != "logfire.openai_agents":
        return None
    if span.name in ("Function: {name}", "Function: {name!r}"):
        return Kind.TOOL
    if span.name.startswith(("Responses API", "Chat completion with")):
        return Kind.LLM
    if span.name.startswith("Agent run:"):
        return Kind.AGENT
    return None


LOGFIRE = Dialect(
    name="logfire",
    title="Logfire",
    scopes=("logfire",),
    classify=_logfire,
    failed={"logfire.level_num": {"17": True}},
    tool_name=("name",),
    arguments=("input",),
    result=("output",),
    content_hint=(
        "Logfire records content by default: check its scrubbing patterns and the include_content settings."
    ),
)

SPAN_TYPE = "logfire.span_type"
# On an agent's span: how many of its messages are those of earlier runs, given as history.
NEW_MESSAGES = "pydantic_ai.new_message_index"
