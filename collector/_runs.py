"""Which run a span belongs to, which agent it acts for, and what it inherits from above."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._attributes import as_text, first_text, load, utf8
from ._tree import Node
from .dialects import Kind
from .dialects._names import RUN_ID, RUN_PARENT
from .dialects.mcp import REQUEST_ID, SESSION
from .dialects.openinference import METADATA, agent_in_metadata, agent_name

__all__ = ["RUN_ID", "Run", "Runs", "assign_scopes"]

_METADATA_KEYS = ("thread_id", "session_id", "conversation_id")
# An MCP tool behind an agent framework's own tool span often carries the server's name in front.
_NAME_SEPARATORS = "_-./:"


@dataclass(frozen=True, slots=True)
class Run:
    """The run of a call or request."""

    run_id: str
    source: str  # agent_span | conversation | mcp_session | trace | transcript
    parent_run_id: str | None
    session_id: str | None


def assign_scopes(nodes: Sequence[Node], tool_name: Any) -> None:
    """Fill what nodes inherit. `nodes` has parents before children; `tool_name(node)` names a tool."""
    for node in nodes:
        parent = node.parent
        attributes, shape = node.span.attributes, node.shape
        if shape.conversation:
            node.conversation = first_text(attributes, shape.conversation)
        if RUN_ID in shape.names:
            node.run = as_text(attributes[RUN_ID])
            node.run_parent = as_text(attributes.get(RUN_PARENT))
        if parent is not None:
            node.conversation = node.conversation or parent.conversation
            if node.run is None:
                node.run, node.run_parent = parent.run, parent.run_parent
            node.agent = parent.agent
            node.agent_name = parent.agent_name
        if METADATA in shape.names:
            node.agent_name = agent_in_metadata(node.span) or node.agent_name
        kind = node.kind
        if kind is Kind.AGENT:
            _enter_agent(node, parent)
        elif kind is Kind.TOOL:
            node.name = tool_name(node)
            node.call = node.tool = node
            if parent is not None and parent.llm is not None:
                parent.llm.frame = True
            if parent is not None and parent.call is not None and _same_tool(parent.call, node):
                node.call = parent.call
                node.inside = parent.tool
        elif kind is Kind.LLM:
            node.llm = node
            node.inside = parent.llm if parent is not None else None
        elif parent is not None:
            node.call = parent.call
            node.tool = parent.tool
            node.llm = parent.llm
            node.direct = parent.direct


def _enter_agent(node: Node, parent: Node | None) -> None:
    own = first_text(node.span.attributes, node.shape.agent_span) or agent_name(node.span)
    outer = parent.agent if parent is not None else None
    if outer is not None and parent is not None and parent.direct and own in (None, outer.agent_name):
        node.agent = outer  # a second instrumentation of the same invocation
    else:
        node.agent = node
        node.outer_agent = outer
        node.agent_name = own or node.agent_name
    node.direct = True


def _same_tool(outer: Node, inner: Node) -> bool:
    """Is a tool span below another one the same call, seen by a second instrumentation?"""
    name, inner_name = outer.name, inner.name
    if name == inner_name or not inner_name:
        return True
    return (
        "mcp.method.name" in inner.span.attributes
        and name.endswith(inner_name)
        and name[-len(inner_name) - 1] in _NAME_SEPARATORS
    )


class Runs:
    """The run of any node of one trace."""

    def __init__(self, nodes: Sequence[Node], mcp_sessions: Container[str] = ()) -> None:
        self._trace_id = nodes[0].span.trace_id if nodes else ""
        self._conversation = _any_conversation(nodes)
        self._mcp = _lasting_mcp_sessions(nodes, mcp_sessions)
        self._of_agent: dict[tuple[str, str | None], Run] = {}
        self._of_trace = Run(self._trace_id, "trace", None, None)

    def of(self, node: Node, mcp_session: str | None = None) -> Run:
        """The run of a call or request; `mcp_session` is the session its MCP request went over."""
        session = node.conversation or self._conversation
        if node.run is not None:
            return Run(node.run, "transcript", node.run_parent, session)
        agent = node.agent
        if agent is not None:
            key = (agent.span.span_id, session)
            run = self._of_agent.get(key)
            if run is None:
                outer = agent.outer_agent
                parent_run_id = self._agent_run_id(outer) if outer is not None else None
                run = Run(self._agent_run_id(agent), "agent_span", parent_run_id, session)
                self._of_agent[key] = run
            return run
        if session is not None:
            return Run(f"conversation:{session}", "conversation", None, session)
        if mcp_session is not None and mcp_session in self._mcp:
            return Run(f"mcp_session:{mcp_session}", "mcp_session", None, mcp_session)
        return self._of_trace

    def _agent_run_id(self, agent: Node) -> str:
        return f"{self._trace_id}/{agent.span.span_id}"


def _any_conversation(nodes: Iterable[Node]) -> str | None:
    """A conversation id from anywhere in the trace; many instrumentations set it on a few spans only."""
    found = min(
        (
            (node.span.start_ns, node.span.span_id, node.conversation)
            for node in nodes
            if node.conversation is not None
        ),
        default=None,
    )
    if found is not None:
        return found[2]
    for node in nodes:
        metadata = node.span.attributes[METADATA] if METADATA in node.shape.names else None
        if isinstance(metadata, str) and '_id"' in metadata:
            values = load(metadata)
            if isinstance(values, dict):
                text = utf8(first_text(values, _METADATA_KEYS))
                if text is not None:
                    return text
    return None


def _lasting_mcp_sessions(nodes: Iterable[Node], known: Container[str]) -> frozenset[str]:
    """Sessions that carry more than one request. A stateless server makes up a new id for each."""
    requests: dict[str, set[Any]] = {}
    for node in nodes:
        session = as_text(node.span.attributes[SESSION]) if SESSION in node.shape.names else None
        if session is not None:
            request = as_text(node.span.attributes.get(REQUEST_ID)) or node.span.span_id
            requests.setdefault(session, set()).add(request)
    return frozenset(session for session, ids in requests.items() if len(ids) > 1 or session in known)
