"""Requests and calls of a session while they are written, and where they go."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from .._otlp import Part
from ._history import Text

__all__ = ["Call", "Sink", "Turn", "Usage", "digest", "dumps"]


def digest(*parts: object) -> str:
    """A text of 32 characters that stands for JSON-like values."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Sink:
    """Where runs put what they have finished."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self.spans = 0

    def put(self, part: Part) -> None:
        self._parts.append(part)
        self.spans += part.records

    def take(self) -> Iterator[Part]:
        parts, self._parts = self._parts, []
        yield from parts


@dataclass(slots=True)
class Usage:
    """Tokens of a request; None is not recorded. `input` holds what was read from and put into a cache."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost: float | None = None


@dataclass(slots=True, eq=False)
class Call:
    """A call that a turn asked for."""

    turn: Turn
    call_id: str | None
    span: Span  # empty once it is written
    tool_name: str
    answered: bool = False


@dataclass(slots=True, eq=False)
class Turn:
    """One request to the model and its answer."""

    span: Span  # empty once it is written
    span_id: bytes
    trace_id: bytes
    said: Text  # the answer as a message; filled when the turn is closed
    parts: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage | None = None
    calls: dict[str, Call] = field(default_factory=dict)  # by id, the last of each
    results: list[Text] = field(default_factory=list)
    closed: bool = False
    asked: int = 0
