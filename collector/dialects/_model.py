"""What a dialect is: the attribute names in which one family of instrumentations writes its facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from .._records import SpanRecord

__all__ = ["Dialect", "Kind"]


class Kind(IntEnum):
    """What a span stands for, as far as calls and requests are concerned."""

    OTHER = 0
    TOOL = 1
    LLM = 2
    AGENT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One dialect. Key lists are ordered: the first attribute that is present and no placeholder wins.

    The lists of all dialects are joined in the order of `DIALECTS`, so a dialect need only
    name the attributes that are its own.
    """

    name: str  # as stored in the `dialect` columns
    title: str  # as shown to people
    scopes: tuple[str, ...] = ()  # beginnings of instrumentation scope names
    marks: Mapping[str, Mapping[object, Kind]] = field(default_factory=dict)  # attribute -> value -> kind
    span_names: Mapping[str, Kind] = field(default_factory=dict)  # exact span names
    # Asked first for spans of `scopes`; None: no opinion, go on with the marks.
    classify: Callable[[SpanRecord], Kind | None] | None = None

    tool_name: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    json_results: tuple[str, ...] = ()  # result attributes that are JSON also where the result is text
    failed: Mapping[str, Mapping[str, bool]] = field(
        default_factory=dict
    )  # flag -> lower-cased value -> failed
    agent: tuple[str, ...] = ()  # on any span
    agent_span_only: tuple[str, ...] = ()  # an agent's name or id, but only on the agent's own span
    conversation: tuple[str, ...] = ()

    model: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    usage_json: tuple[str, ...] = ()  # JSON objects with token counts
    cost: tuple[str, ...] = ()
    input_messages: tuple[str, ...] = ()  # a list of messages, as JSON text or structured
    output_messages: tuple[str, ...] = ()
    agent_messages: tuple[str, ...] = ()  # on an agent's span: all messages of its run
    input_bodies: tuple[str, ...] = ()  # whatever the model was given; holds the messages somewhere
    output_bodies: tuple[str, ...] = ()

    # The setting that makes this dialect record arguments, results and messages; one sentence.
    content_hint: str | None = None
