"""The shape of a span: which of the attribute names that mean something to us it has.

Some two hundred names are known, and a span has a handful of them. Spans of one instrumentation have the same
ones, so what a span lacks is found out once per set of names, and not anew for every span and fact: that took
a third of the time it takes to derive a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._names import COMPARED_HASH, ERROR_TYPE, HTTP_STATUS, OUR_DIALECT, OUTCOME_FAILED, RUN_ID, RUN_PARENT
from ._tables import DIALECTS, MARKS, Keys
from .cli_agents import COMMAND
from .mcp import SESSION
from .openinference import METADATA, OPENINFERENCE, TOOL_PARAMETERS
from .openllmetry import OPENLLMETRY
from .pydantic_ai import SPAN_TYPE

__all__ = ["Shape", "shape_of"]

# `dialect_of` asks these before the scope: they rewrite spans of other scopes.
_REWRITERS = (("openinference.span.kind", OPENINFERENCE.name), ("traceloop.span.kind", OPENLLMETRY.name))
_FAILURE = frozenset({ERROR_TYPE, OUTCOME_FAILED, *HTTP_STATUS, *Keys.failed})


def _mark_owners() -> tuple[tuple[str, str], ...]:
    """Mark and the dialect it belongs to; those of the conventions, which others use too, come last."""
    owners: dict[str, str] = {}
    for dialect in DIALECTS:
        for key in dialect.marks:
            owners.setdefault(key, dialect.name)
    return tuple(reversed(owners.items()))


_MARK_OWNERS = _mark_owners()


class Shape:
    """The names that spans of one shape have. Each list is that of `Keys`, without what is lacking."""

    __slots__ = (
        "agent",
        "agent_span",
        "arguments",
        "call_id",
        "conversation",
        "cost",
        "flags",
        "input_messages",
        "input_tokens",
        "marks",
        "model",
        "names",
        "output_messages",
        "output_tokens",
        "owner",
        "provider",
        "result",
        "rewriter",
        "silent",
        "tool_name",
        "usage_json",
    )

    def __init__(self, names: frozenset[str]) -> None:
        def present(keys: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(key for key in keys if key in names)

        self.names = names  # all of them
        self.tool_name = present(Keys.tool_name)
        self.call_id = present(Keys.call_id)
        self.arguments = present(Keys.arguments)
        self.result = present(Keys.result)
        self.agent = present(Keys.agent)
        self.agent_span = present(Keys.agent_span)
        self.conversation = present(Keys.conversation)
        self.model = present(Keys.model)
        self.provider = present(Keys.provider)
        self.input_tokens = present(Keys.input_tokens)
        self.output_tokens = present(Keys.output_tokens)
        self.usage_json = present(Keys.usage_json)
        self.cost = present(Keys.cost)
        self.input_messages = present(Keys.input_messages)
        self.output_messages = present(Keys.output_messages)
        self.marks = tuple(mark for mark in MARKS if mark[0] in names)
        self.flags = tuple(flag for flag in Keys.failed.items() if flag[0] in names)
        self.silent = _FAILURE.isdisjoint(names)  # no attribute says anything of a failure
        self.rewriter = next((name for key, name in _REWRITERS if key in names), None)
        self.owner = next((name for key, name in _MARK_OWNERS if key in names), None)


_NAMES = frozenset(
    (
        *Keys.tool_name,
        *Keys.call_id,
        *Keys.arguments,
        *Keys.result,
        *Keys.agent_span,
        *Keys.conversation,
        *Keys.model,
        *Keys.provider,
        *Keys.input_tokens,
        *Keys.output_tokens,
        *Keys.usage_json,
        *Keys.cost,
        *Keys.input_messages,
        *Keys.output_messages,
        *(key for key, _ in MARKS),
        *(key for key, _ in _REWRITERS),
        *_FAILURE,
        COMMAND,
        COMPARED_HASH,
        METADATA,
        OUR_DIALECT,
        RUN_ID,
        RUN_PARENT,
        SESSION,
        SPAN_TYPE,
        TOOL_PARAMETERS,
    )
)
_MOST_SHAPES = 1_000  # remembered at once; instrumentations have dozens, and a hostile source any number
_shapes: dict[frozenset[str], Shape] = {}


def shape_of(attributes: Mapping[str, Any]) -> Shape:
    """The shape of a span with these attributes."""
    names = _NAMES.intersection(attributes)
    shape = _shapes.get(names)
    if shape is None:
        if len(_shapes) >= _MOST_SHAPES:
            _shapes.clear()
        shape = _shapes[names] = Shape(names)
    return shape
