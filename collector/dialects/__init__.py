"""Span dialects: in which attributes each family of instrumentations writes what we need.

A dialect is a table (`Dialect`). The tables are joined into one ordered list of keys per
fact, so that a span that mixes dialects, as many do, is read as well as a pure one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .._records import SpanRecord
from ._model import Dialect, Kind
from ._names import OUR_DIALECT
from ._shape import Shape, shape_of
from ._tables import DIALECTS, Keys
from .otel_genai import OTEL_GENAI
from .vercel_ai import VERCEL_AI

__all__ = [
    "DIALECTS",
    "Dialect",
    "Keys",
    "Kind",
    "Shape",
    "classify",
    "content_hint",
    "dialect_of",
    "dialect_title",
    "shape_of",
]

_SPAN_NAMES = {name: kind for dialect in DIALECTS for name, kind in dialect.span_names.items()}
_NAME_OWNERS = {name: dialect.name for dialect in DIALECTS for name in dialect.span_names}
_SCOPES = sorted(
    ((scope, dialect) for dialect in DIALECTS for scope in dialect.scopes),
    key=lambda pair: -len(pair[0]),
)
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
_EXACT_SCOPES = frozenset(VERCEL_AI.scopes)  # "ai" begins too many names


@lru_cache(1_000)
def _of_scope(scope_name: str) -> Dialect | None:
    for scope, dialect in _SCOPES:
        if scope_name == scope or (scope not in _EXACT_SCOPES and scope_name.startswith(scope)):
            return dialect
    return None


_Hook = Callable[[SpanRecord], Kind | None]


@lru_cache(1_000)
def _hook(scope_name: str) -> _Hook | None:
    dialect = _of_scope(scope_name)
    return dialect.classify if dialect else None


def classify(span: SpanRecord, shape: Shape) -> Kind:
    """What a span of this shape stands for. The first mark with a value we know decides."""
    if span.scope_name:
        hook = _hook(span.scope_name)
        if hook is not None:
            kind = hook(span)
            if kind is not None:
                return kind
    attributes = span.attributes
    for key, values in shape.marks:
        value = attributes[key]
        if value is not None and value.__hash__ is not None:
            kind = values.get(value)
            if kind is not None:
                return kind
    return _SPAN_NAMES.get(span.name, Kind.OTHER)


def dialect_of(span: SpanRecord, shape: Shape) -> str:
    """Name of the dialect to report for a span of this shape."""
    if OUR_DIALECT in shape.names:
        named = span.attributes[OUR_DIALECT]
        if isinstance(named, str) and named:
            return named
    if shape.rewriter is not None:
        return shape.rewriter
    if span.scope_name:
        dialect = _of_scope(span.scope_name)
        if dialect is not None:
            return dialect.name
    if shape.owner is not None:
        return shape.owner
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
