"""What a model had before it at each of its turns: chains of messages, branches, and what is lost of them.

Entries of a session form a tree. Each entry leads to a node; walking from a node towards the root gives the
messages that are new since the turn before, and that turn. Nothing here recurses, and the text of messages is
kept within a bound: what is older is forgotten, and a request that would need it says that it is not whole.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._model import Turn
    from ._run import SessionRun

__all__ = ["Before", "Contents", "Node", "Nodes", "Text"]

# Characters of messages kept for branches, retries and compactions that come back to them.
_KEPT_CHARACTERS = 16 << 20
# Entries of a file by which later ones can name their parent; older ones are forgotten.
_KEPT_NODES = 50_000


@dataclass(slots=True, eq=False)
class Text:
    """One message as JSON; None once it is forgotten."""

    text: str | None


class Contents:
    """The texts of the messages of a file, the latest of them."""

    def __init__(self, limit: int = _KEPT_CHARACTERS) -> None:
        self._limit = limit
        self._kept: deque[Text] = deque()
        self._size = 0

    def add(self, text: str) -> Text:
        return self.fill(Text(None), text)

    def fill(self, holder: Text, text: str) -> Text:
        """Give a holder its text. The latest one is always kept, however long."""
        holder.text = text
        self._kept.append(holder)
        self._size += len(text)
        while self._size > self._limit and len(self._kept) > 1:
            oldest = self._kept.popleft()
            self._size -= len(oldest.text or "")
            oldest.text = None
        return holder


@dataclass(slots=True, eq=False)
class Node:
    """A point in a session: what was said last, and what came before that."""

    run: SessionRun
    before: Node | None = None
    turn: Turn | None = None  # the point right after this turn of the model
    said: Text | None = None
    lost: bool = False  # what came before is not in the file, or forgotten


@dataclass(slots=True)
class Before:
    """What a request sent: the turn whose history goes first, then messages (JSON)."""

    turn: Turn | None
    messages: list[str] = field(default_factory=list)
    whole: bool = True


def before(node: Node) -> Before:
    """What a model that is asked at this point has before it, up to its last turn."""
    found = Before(None)
    chain: list[Text] = []
    here: Node | None = node
    while here is not None and here.turn is None:
        if here.said is not None:
            chain.append(here.said)
        if here.lost:
            found.whole = False
        here = here.before
    chain.reverse()
    if here is not None and here.turn is not None:
        found.turn = here.turn
        # Results of parallel calls hang on the lines of their calls, beside the chain.
        on_chain = {id(said) for said in chain}
        chain = [said for said in here.turn.results if id(said) not in on_chain] + chain
    _take(found, chain)
    return found


def everything(node: Node, limit: int) -> Before:
    """All that was said up to this point, if that is known and of no more than `limit` characters."""
    chain: list[Text] = []
    size = 0
    turn: Turn | None = None
    here: Node | None = node
    while here is not None:
        found = [here.said] if here.said is not None else []
        if here.turn is not None and here.turn is not turn:
            turn = here.turn
            on_chain = {id(said) for said in chain}
            found += [said for said in reversed(turn.results) if id(said) not in on_chain]
            found.append(turn.said)
        for said in found:
            chain.append(said)
            size += len(said.text or "")
            if said.text is None or size > limit:
                return Before(None, whole=False)
        if here.lost:
            return Before(None, whole=False)
        here = here.before
    whole = Before(None)
    _take(whole, chain[::-1])
    return whole


def since(node: Node, first: Node, sent: Callable[[Turn], Text | None]) -> tuple[list[Text], bool]:
    """All that was said from `first` on, up to `node`, turns of the model too; whether that is all of it.

    `sent`: what is sent of a turn; None: nothing.
    """
    chain: list[Text] = []
    turn: Turn | None = None
    here: Node | None = node
    while here is not None:
        if here.said is not None:
            chain.append(here.said)
        if here.turn is not None and here.turn is not turn:
            turn = here.turn
            if (said := sent(turn)) is not None:
                chain.append(said)
        if here is first:
            chain.reverse()
            return chain, True
        here = here.before
    return [], False


def _take(found: Before, chain: list[Text]) -> None:
    for said in chain:
        if said.text is None:
            found.whole = False
        else:
            found.messages.append(said.text)


class Nodes:
    """The nodes of a file by the ids of its entries, the latest of them."""

    def __init__(self, limit: int = _KEPT_NODES) -> None:
        self._limit = limit
        self._nodes: OrderedDict[str, Node] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def get(self, key: str) -> Node | None:
        return self._nodes.get(key)

    def put(self, key: str, node: Node) -> None:
        self._nodes[key] = node
        if len(self._nodes) > self._limit:
            self._nodes.popitem(last=False)
