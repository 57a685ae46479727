"""Coding agents of the command line: Claude Code, Codex, Gemini CLI.

What they do is in log records first, which need no trace; Claude Code and Gemini CLI can write spans, too.
`.._log_events` reads the log records; here are the tables for the spans, and whose session a record is of.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .._records import LogRecord, SpanRecord
from ._model import Dialect, Kind

__all__ = [
    "CLAUDE_CODE",
    "CODEX",
    "COMMAND",
    "EXECUTION",
    "GEMINI_CLI",
    "OUTPUT_EVENT",
    "event_of",
    "session_of_log",
    "session_of_span",
]

CLAUDE_CODE = Dialect(
    name="claude_code",
    title="Claude Code",
    scopes=("com.anthropic.claude_code",),
    span_names={
        "claude_code.tool": Kind.TOOL,
        # Its child: how it ended stands there, its name and arguments on the parent.
        "claude_code.tool.execution": Kind.TOOL,
        "claude_code.llm_request": Kind.LLM,
        "claude_code.interaction": Kind.AGENT,
    },
    tool_name=("tool_name",),
    call_id=("tool_use_id",),
    agent=("agent_id",),
    model=("model",),
    input_tokens=("input_tokens",),
    output_tokens=("output_tokens",),
    failed={"success": {"false": True, "true": False}},
    content_hint=(
        "Claude Code records no content by default: set OTEL_LOG_TOOL_DETAILS=1 (arguments), "
        "OTEL_LOG_TOOL_CONTENT=1 with traces (results) or OTEL_LOG_RAW_API_BODIES=1 (messages)."
    ),
)

CODEX = Dialect(
    name="codex",
    title="Codex",
    scopes=("codex",),
    content_hint=(
        "Codex records arguments and results in its log events: name a log exporter under [otel] in its "
        "config.toml."
    ),
)

GEMINI_CLI = Dialect(
    name="gemini_cli",
    title="Gemini CLI",
    scopes=("gemini-cli", "gemini_cli"),
    marks={
        "gen_ai.operation.name": {
            "tool_call": Kind.TOOL,
            "llm_call": Kind.LLM,
            "agent_call": Kind.AGENT,
        },
    },
    call_id=("gen_ai.tool.call_id",),
    arguments=("gen_ai.input.messages",),
    content_hint=(
        "Gemini CLI logs arguments and prompts by default (telemetry.logPrompts), results never; spans carry "
        "attributes only with telemetry.traces=true in its settings."
    ),
)

EXECUTION = "claude_code.tool.execution"
OUTPUT_EVENT = "tool.output"  # of a claude_code.tool span, with OTEL_LOG_TOOL_CONTENT
COMMAND = "full_command"  # of a claude_code.tool span: all that its Bash tool was asked to do

_PREFIXES = {"claude_code": CLAUDE_CODE, "codex": CODEX, "gemini_cli": GEMINI_CLI}
_SESSIONS = {
    CLAUDE_CODE.name: ("session.id",),
    CODEX.name: ("conversation.id", "conversation_id"),
    GEMINI_CLI.name: ("session.id", "gen_ai.conversation.id"),
}


def event_of(log: LogRecord) -> tuple[str, str] | None:
    """Dialect and short name of an event of these agents; None for any other log record."""
    name = log.event_name
    if name is None:
        value = log.attributes.get("event.name")
        name = value if isinstance(value, str) else ""
    for text in (name, log.body):
        if isinstance(text, str):
            prefix, dot, event = text[:200].partition(".")
            if dot and prefix in _PREFIXES:
                return _PREFIXES[prefix].name, event
    # Claude Code leaves the prefix out of `event.name`.
    scope = log.scope_name or ""
    for dialect in (CLAUDE_CODE, GEMINI_CLI):
        if name and scope.startswith(dialect.scopes):
            return dialect.name, name
    return None


def session_of_log(log: LogRecord) -> tuple[str, str] | None:
    """Dialect and session of a log record of these agents."""
    event = event_of(log)
    if event is None:
        return None
    return _session(event[0], log.attributes)


@lru_cache(1_000)
def _agent_of_scope(scope: str) -> str | None:
    """The dialect of such an agent, by the name of a scope; asked for every span of anybody."""
    return next((dialect.name for dialect in _PREFIXES.values() if scope.startswith(dialect.scopes)), None)


def session_of_span(span: SpanRecord) -> tuple[str, str] | None:
    """Dialect and session of a span of these agents."""
    scope = span.scope_name
    if scope is not None:
        dialect = _agent_of_scope(scope)
        if dialect is not None:
            return _session(dialect, span.attributes)
    if span.name.startswith("claude_code."):
        return _session(CLAUDE_CODE.name, span.attributes)
    return None


def _session(dialect: str, attributes: Mapping[str, Any]) -> tuple[str, str] | None:
    for key in _SESSIONS[dialect]:
        value = attributes.get(key)
        if isinstance(value, str) and value and not value.isspace():
            return dialect, value
    return None
