"""The spans of a trace as a forest that can be walked from the top without recursion.

Traces arrive in any order, with duplicates, missing parents, parents of their own children
and chains ten thousand deep. Everything here is a loop, and the result does not depend on
the order of the input.
"""

from __future__ import annotations

from collections.abc import Iterable

from ._records import COPIED_FROM, SpanRecord
from .dialects import classify, shape_of
from .dialects.pydantic_ai import SPAN_TYPE

__all__ = ["Node", "build_forest"]


class Node:
    """A span in its tree, with what it inherits from above. Filled by `build_forest` and `assign_scopes`."""

    __slots__ = (
        "agent",
        "agent_name",
        "call",
        "conversation",
        "direct",
        "frame",
        "inside",
        "kind",
        "llm",
        "name",
        "outer_agent",
        "parent",
        "run",
        "run_parent",
        "shape",
        "span",
        "tool",
    )

    def __init__(self, span: SpanRecord) -> None:
        self.span = span
        self.shape = shape = shape_of(span.attributes)
        self.kind = classify(span, shape)
        self.parent: Node | None = None
        self.agent: Node | None = None  # nearest enclosing agent invocation (outermost equivalent span)
        self.outer_agent: Node | None = None  # for such a span: the invocation it is nested in
        self.direct = False  # no LLM or tool span between this span and its nearest agent span
        self.agent_name: str | None = None
        self.call: Node | None = None  # outermost span of the tool call this span is part of
        self.tool: Node | None = None  # nearest tool span of that call, this span included
        self.llm: Node | None = None  # nearest LLM span of the request this span is part of
        self.frame = False  # an LLM span around tool calls, so around several requests
        # For a tool or LLM span: the next span outside it that may be the same call or request.
        self.inside: Node | None = None
        self.name = ""  # of the tool, for tool spans
        self.conversation: str | None = None
        self.run: str | None = None  # `loopscope.run.id`
        self.run_parent: str | None = None  # `loopscope.run.parent` beside it


def build_forest(spans: Iterable[SpanRecord]) -> list[Node]:
    """One node per span id, parents before children, siblings by start time.

    Of several versions of a span the ended one counts, then the one received last. A span
    whose parent is missing, itself, or one of its own descendants is a root.
    """
    by_id: dict[str, SpanRecord] = {}
    for span in spans:
        other = by_id.get(span.span_id)
        if other is None or _newer(span, other):
            by_id[span.span_id] = span
    ordered = sorted(by_id.values(), key=_start)
    nodes = {
        span.span_id: Node(span)
        for span in ordered
        if span.attributes.get(SPAN_TYPE) != "pending_span"  # a zero-length copy of a span still to come
    }
    children: dict[str, list[Node]] = {}
    roots: list[Node] = []
    for span_id, node in nodes.items():
        parent_id = node.span.parent_span_id
        if parent_id is None or parent_id == span_id or parent_id not in nodes:
            roots.append(node)
        else:
            children.setdefault(parent_id, []).append(node)
            node.parent = nodes[parent_id]
    top_down = _walk(roots, children, set())
    if len(top_down) < len(nodes):
        top_down += _cut_cycles(nodes, children, {node.span.span_id for node in top_down})
    return top_down


def _start(span: SpanRecord) -> tuple[int, str]:
    return span.start_ns, span.span_id


def _newer(span: SpanRecord, other: SpanRecord) -> bool:
    key, other_key = _age(span), _age(other)
    if key != other_key:
        return key > other_key
    return repr(span) > repr(other)  # same age, other content: any rule that ignores the order will do


def _age(span: SpanRecord) -> tuple[bool, bool, int, int, int]:
    recorded = COPIED_FROM not in span.attributes
    return span.end_ns is not None, recorded, span.received_ns, span.end_ns or 0, span.start_ns


def _walk(roots: list[Node], children: dict[str, list[Node]], seen: set[str]) -> list[Node]:
    found: list[Node] = []
    stack = roots[::-1]
    while stack:
        node = stack.pop()
        span_id = node.span.span_id
        if span_id in seen:
            continue
        seen.add(span_id)
        found.append(node)
        below = children.get(span_id)
        if below:
            stack.extend(reversed(below))
    return found


def _cut_cycles(nodes: dict[str, Node], children: dict[str, list[Node]], seen: set[str]) -> list[Node]:
    """What hangs on a circle of parents: the earliest span of each circle becomes a root."""
    found: list[Node] = []
    for span_id, node in nodes.items():  # by start time
        if span_id in seen:
            continue
        # Up from here one always ends in the circle, since no root is above.
        path: set[str] = set()
        at = node
        while at.span.span_id not in path and at.span.span_id not in seen and at.parent is not None:
            path.add(at.span.span_id)
            at = at.parent
        if at.span.span_id in seen:
            continue
        circle = [at]
        step = at.parent
        while step is not None and step is not at:
            circle.append(step)
            step = step.parent
        root = min(circle, key=lambda member: _start(member.span))
        root.parent = None
        found += _walk([root], children, seen)
    return found
