"""The formats of JSON files beyond OTLP and OpenAI chats: how each is recognised and read.

A format is one entry here and one module. Recognition looks at the first JSON value of a file only, so
what a format is told by must be in every value of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ._atif import atif_parts, matches_atif
from ._detect import FORMATS as PLAIN_FORMATS
from ._detect import classify
from ._inspect import inspect_parts, matches_inspect
from ._intercode import intercode_parts, matches_intercode
from ._jaeger import jaeger_parts, matches_jaeger
from ._json_stream import JsonValue
from ._langfuse import langfuse_parts, matches_langfuse
from ._langsmith import langsmith_parts, matches_langsmith
from ._mlflow import matches_mlflow, mlflow_parts
from ._openhands import matches_openhands, openhands_parts
from ._otlp import Part
from ._phoenix import console_parts, matches_console, matches_phoenix, phoenix_parts
from ._report import SkipList
from ._swe_agent import (
    matches_mini_swe_agent,
    matches_swe_agent,
    mini_swe_agent_parts,
    swe_agent_parts,
)
from .sessions import SESSION_FORMATS

__all__ = ["FORMATS", "JSON_FORMATS", "JsonFormat", "json_format", "recognise"]


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """One format of JSON files."""

    name: str  # as `--format` takes it and reports show it
    # Whether a file whose first value (or list element) this is, is of the format. Never raises.
    matches: Callable[[Any], bool]
    # The requests of a file, of all its values. Raises FormatError with the place of what is wrong.
    parts: Callable[[Iterable[JsonValue], SkipList], Iterator[Part]]


# Asked in this order, before the plain formats: the first that matches has the file.
JSON_FORMATS: tuple[JsonFormat, ...] = (
    JsonFormat("langfuse", matches_langfuse, langfuse_parts),
    JsonFormat("langsmith", matches_langsmith, langsmith_parts),
    JsonFormat("mlflow", matches_mlflow, mlflow_parts),
    JsonFormat("otel-console", matches_console, console_parts),
    JsonFormat("phoenix", matches_phoenix, phoenix_parts),
    JsonFormat("jaeger", matches_jaeger, jaeger_parts),
    JsonFormat("atif", matches_atif, atif_parts),
    JsonFormat("openhands", matches_openhands, openhands_parts),
    JsonFormat("inspect", matches_inspect, inspect_parts),
    JsonFormat("intercode", matches_intercode, intercode_parts),
    JsonFormat("swe-agent", matches_swe_agent, swe_agent_parts),
    JsonFormat("mini-swe-agent", matches_mini_swe_agent, mini_swe_agent_parts),
)

_BY_NAME = {format.name: format for format in JSON_FORMATS}
FORMATS: tuple[str, ...] = (*PLAIN_FORMATS, *(format.name for format in SESSION_FORMATS), *_BY_NAME)


def json_format(name: str) -> JsonFormat | None:
    """The format of this name, None for the plain ones."""
    return _BY_NAME.get(name)


def recognise(value: Any) -> str | None:
    """The format of a file whose first JSON value (or list element) is `value`; None: no trace."""
    for format in JSON_FORMATS:
        if format.matches(value):
            return format.name
    return classify(value)
