"""What a refused request sent, where its own span does not say.

Pydantic AI writes no messages on the span of a request that failed. The span of the agent has them:
all messages of the run, as they stood when it ended. After a refusal nothing is added, so these are
what the last request sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._attributes import first, load
from ._calls import CallDraft, is_cut
from ._messages import MessageReader
from ._requests import RequestDraft
from ._tree import Node
from .dialects import Keys, Kind

__all__ = ["complete_refused"]

_AGENT_KEYS = frozenset(Keys.agent_messages)


def complete_refused(
    drafts: Sequence[RequestDraft], calls: Sequence[CallDraft], reader: MessageReader
) -> None:
    """Give refused requests without messages those of their agent's span, where these are surely theirs."""
    wanting = [draft for draft in drafts if draft.failed and draft.messages.input is None]
    if not wanting:
        return
    wanted = {draft.node.span.span_id for draft in wanting}
    holders = {draft.node.span.span_id: _holder(draft.node) for draft in wanting}
    for holder in {id(node): node for node in holders.values() if node is not None}.values():
        members = sorted(
            (draft for draft in drafts if _within(draft.node, holder)),
            key=lambda draft: (
                draft.node.span.start_ns,
                draft.node.span.end_ns or 0,
                draft.node.span.span_id,
            ),
        )
        last_call = max((call.start_ns for call in calls if _within(call.node, holder)), default=None)
        for draft in reversed(members):
            # Whatever came after it may have added to the messages.
            if draft.node.span.span_id not in wanted or (
                last_call is not None and last_call > draft.node.span.start_ns
            ):
                break
            _complete(draft, holder, reader)


def _holder(node: Node) -> Node | None:
    """The span of the request's agent that has the messages of the run."""
    at = node.parent
    while at is not None:
        if at.kind is Kind.AGENT and not _AGENT_KEYS.isdisjoint(at.span.attributes):
            return at
        if at is node.agent:
            return None
        at = at.parent
    return None


def _within(node: Node, holder: Node) -> bool:
    """Is a request or call the holder's own, and not that of an agent below it?"""
    own = holder if holder.agent is None else holder.agent
    return node.agent is own


def _complete(draft: RequestDraft, holder: Node, reader: MessageReader) -> None:
    attributes = holder.span.attributes
    hit = first(attributes, Keys.agent_messages)
    if hit is None:
        return
    found = reader.read_list(hit[1], attributes.get("gen_ai.system_instructions"))
    if not found.input:
        return
    last = None if found.partial else load(found.input[-1])
    if isinstance(last, dict) and last.get("role") == "assistant":
        return  # an answer: these are the messages after another request
    draft.messages.input = found.input
    draft.messages.partial = found.partial or holder.span.dropped_attributes > 0 or is_cut(hit[1], attributes)
