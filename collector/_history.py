"""Whole histories for requests that were recorded as what is new since an earlier one.

A history grows with every turn. Importers of transcripts write each message once, and name with
`loopscope.history.after` the span whose input and answer go before a request's own input.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._requests import RequestDraft
from ._transcripts import HISTORY_AFTER

__all__ = ["MAX_HISTORY", "complete_histories"]

# Messages in all histories of a trace together. They are references, but 2,000 turns make 4 million.
# Later requests of a longer trace keep what is new in them, and are marked as partial.
MAX_HISTORY = 1_000_000


def complete_histories(drafts: Sequence[RequestDraft]) -> None:
    """Put before each request's input what it names as its history. Other requests stay as they are."""
    own = {draft.node.span.span_id: draft for draft in drafts}
    waiting = {
        span_id: after
        for span_id, draft in own.items()
        if isinstance(after := draft.node.span.attributes.get(HISTORY_AFTER), str)
    }
    left = MAX_HISTORY
    for span_id in sorted(waiting, key=lambda key: (own[key].node.span.start_ns, key)):
        chain: list[str] = []
        here = span_id
        while here in waiting:
            chain.append(here)
            here = waiting.pop(here)
        # Histories that name each other in a circle have no beginning.
        before = None if here in chain else own.get(here)
        for member in reversed(chain):
            left -= _extend(own[member], before, left)
            before = own[member]


def _extend(draft: RequestDraft, before: RequestDraft | None, left: int) -> int:
    """Complete one request; how many messages that added."""
    messages = draft.messages
    if messages.input is None:
        return 0  # content was left out
    if before is None or before.messages.input is None or before.messages.output is None:
        messages.partial = True
        return 0
    added = len(before.messages.input) + len(before.messages.output)
    if added > left:
        messages.partial = True
        return 0
    messages.input = [*before.messages.input, *before.messages.output, *messages.input]
    messages.partial = messages.partial or before.messages.partial
    return added
