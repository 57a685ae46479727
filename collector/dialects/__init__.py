"""Span dialects: in which attributes each family of instrumentations writes what we need.

A dialect is a table (`Dialect`). The tables are joined into one ordered list of keys per
fact, so that a span that mixes dialects, as many do, is read as well as a pure one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from .._records import SpanRecord
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

__all__ = ["DIALECTS", "Dialect", "Keys", "Kind", "classify", "content_hint", "dialect_of", "dialect_title"]

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

OUR_DIALECT = "loopscope.dialect"


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


_MARKS = _joined_marks()
_MARK_KEYS = frozenset(key for key, _ in _MARKS)
_SPAN_NAMES = {name: kind for dialect in DIALECTS for name, kind in dialect.span_names.items()}


def _mark_owners() -> tuple[tuple[str, str], ...]:
    """Mark and the dialect it belongs to; those of the conventions, which others use too, come last."""
    owners: dict[str, str] = {}
    for dialect in DIALECTS:
        for key in dialect.marks:
            owners.setdefault(key, dialect.name)
    return tuple(reversed(owners.items()))


_MARK_OWNERS = _mark_owners()
_NAME_OWNERS = {name: dialect.name for dialect in DIALECTS for name in dialect.span_names}
_SCOPES = sorted(
    ((scope, dialect) for dialect in DIALECTS for scope in dialect.scopes),
    key=lambda pair: -len(pair[0]),
)
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
# `dialect_of` asks these before the scope: they rewrite spans of other scopes.
_REWRITERS = (("openinference.span.kind", OPENINFERENCE.name), ("traceloop.span.kind", OPENLLMETRY.name))
_EXACT_SCOPES = frozenset(VERCEL_AI.scopes)  # "ai" begins too many names


@cache
def _of_scope(scope_name: str) -> Dialect | None:
    for scope, dialect in _SCOPES:
        if scope_name == scope or (scope not in _EXACT_SCOPES and scope_name.startswith(scope)):
            return dialect
    return None


_Hook = Callable[[SpanRecord], Kind | None]


@cache
def _hook(scope_name: str) -> _Hook | None:
    dialect = _of_scope(scope_name)
    return dialect.classify if dialect else None


def classify(span: SpanRecord) -> Kind:
    """What the span stands for. The first mark with a value we know decides."""
    if span.scope_name:
        hook = _hook(span.scope_name)
        if hook is not None:
            kind = hook(span)
            if kind is not None:
                return kind
    attributes = span.attributes
    if not _MARK_KEYS.isdisjoint(attributes):
        for key, values in _MARKS:
            value = attributes.get(key)
            if value is not None and value.__hash__ is not None:
                kind = values.get(value)
                if kind is not None:
                    return kind
    return _SPAN_NAMES.get(span.name, Kind.OTHER)


def dialect_of(span: SpanRecord) -> str:
    """Name of the dialect to report for a span."""
    attributes = span.attributes
    named = attributes.get(OUR_DIALECT)
    if isinstance(named, str) and named:
        return named
    for key, name in _REWRITERS:
        if key in attributes:
            return name
    if span.scope_name:
        dialect = _of_scope(span.scope_name)
        if dialect is not None:
            return dialect.name
    for key, name in _MARK_OWNERS:
        if key in attributes:
            return name
    return _NAME_OWNERS.get(span.name, OTEL_GENAI.name)


def content_hint(dialect: str) -> str | None:
    """The setting that makes a dialect record arguments, results and messages, as one sentence.

    None where the dialect is unknown or has no such setting.
    """
    found: Any = _BY_NAME.get(dialect)
    return found.content_hint if found else None


def dialect_title(dialect: str) -> str:
    """The name of a dialect as shown to people; the name itself where it is unknown."""
    found = _BY_NAME.get(dialect)
    return found.title if found else dialect
