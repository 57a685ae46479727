"""Is a history whole as it stands? One quick walk, for the usual case that nothing is to be repaired.

The answer "no" may be wrong, then the repair finds nothing to do; the answer "yes" never is. The walk
looks at each message once and keeps none, so that the messages of a long history may be read and let go
one by one: 50,000 of them take half the time that way, as the garbage collector finds nothing to look at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set

from ._formats import Format
from ._model import Call, Message, Other, Result
from ._names import legal_name

__all__ = ["is_empty_turn", "is_whole", "says_nothing", "whole_until"]


def says_nothing(message: Message) -> bool:
    """A turn of the user or the assistant in which there is nothing."""
    for block in message.blocks:
        if not isinstance(block, Other) or not block.empty:
            return False
    return message.role in ("user", "assistant")


def is_empty_turn(messages: Sequence[Message], at: int, form: Format) -> bool:
    """Is there nothing in the turn that this message is? One of items may say it with another item."""
    message = messages[at]
    if not says_nothing(message):
        return False
    if form.placement != "anywhere" or message.role != "assistant":
        return True
    return not any(
        one.role == "assistant" for one in (*messages[max(at - 1, 0) : at], *messages[at + 1 : at + 2])
    )


def is_whole(messages: Iterable[Message], form: Format, pending: Collection[str] = ()) -> bool:
    """Would the sanitizer (without a provider) leave this history as it is? `pending` ids are stripped."""
    return whole_until(messages, form, pending) is None


def whole_until(messages: Iterable[Message], form: Format, pending: Collection[str] = ()) -> int | None:
    """None for a whole history; else the position of a turn of calls before which all is whole, or 0.

    Before that turn every call has its result (or is pending), and no message is empty.
    """
    joined = form.placement == "anywhere"
    walk = _Items(form, frozenset(pending)) if joined else _Turns(form, frozenset(pending))
    roles = form.wire_roles
    empty = False  # was the message before this one an empty turn?
    before = previous = ""  # roles of the two messages before
    for at, message in enumerate(messages):
        blocks, role = message.blocks, message.role
        if message.wire_role not in roles or message.empty_tool_calls:
            return walk.start
        if empty and not (joined and previous == "assistant" and "assistant" in (before, role)):
            return walk.start
        plain = len(blocks) == 1 and type(blocks[0]) is Other and not blocks[0].empty
        empty = not plain and says_nothing(message)
        if (empty and not blocks) or not walk.takes(message, plain, at):
            return walk.start
        before, previous = previous, role
    return None if walk.ended() else walk.start


class _Turns:
    """Results right behind their turn: each a message of its own, or all in the next message."""

    def __init__(self, form: Format, waiting: Set[str]) -> None:
        self.form, self.waiting = form, waiting
        self.grouped = form.placement == "grouped"
        self.open: dict[str, Call] = {}  # the calls of the turn by all their spellings
        self.named: list[Call] = []  # or in their order, where they go by position
        self.start = 0

    def takes(self, message: Message, plain: bool, at: int) -> bool:
        role = message.role
        if self.open or self.named:
            if self.grouped:
                if role == "user":
                    return self._home(message) and self.ended()
            elif role == "tool":
                result = message.blocks[0]
                return isinstance(result, Result) and _take(self.open, result)
            if not self.ended():
                return False
        if plain:
            return role != "tool"
        if role == "assistant":
            return self._turn(message, at)
        if role == "tool" and not self.grouped:
            return False
        return all(isinstance(block, Other) or block.server for block in message.blocks)

    def _turn(self, message: Message, at: int) -> bool:
        calls = self.open
        if any(isinstance(block, Call) and not block.server for block in message.blocks):
            self.start = at
        for block in message.blocks:
            if isinstance(block, Call):
                if block.server:
                    continue
                if not _is_named(block, self.form):
                    return False
                if not block.ids:
                    self.named = [one for one in message.calls if not one.server]
                    calls.clear()
                    return self.form.positional and all(not one.ids for one in self.named)
                for one in block.ids:
                    if one in calls:
                        return False
                    calls[one] = block
            elif isinstance(block, Result) and not block.server:
                return False
        return True

    def _home(self, message: Message) -> bool:
        others, number, named = False, 0, self.named
        for block in message.blocks:
            if isinstance(block, Result) and not block.server:
                if others and self.form.results_first:
                    return False
                if named:
                    if number >= len(named) or block.ids or block.name != named[number].name:
                        return False
                    number += 1
                elif not _take(self.open, block):
                    return False
            elif isinstance(block, Call):
                return False
            else:
                others = True
        if number == len(named):
            self.named = []
        return True

    def ended(self) -> bool:
        """Is nothing left open but what is pending?"""
        if self.named:
            return False
        for call in self.open.values():
            if self.waiting.isdisjoint(call.ids):
                return False
        self.open.clear()
        return True


class _Items:
    """Each result anywhere behind its call, and each item once."""

    def __init__(self, form: Format, waiting: Set[str]) -> None:
        self.form, self.waiting = form, waiting
        self.open: dict[str, Call] = {}
        self.items: set[str] = set()
        self.start = 0  # items may belong together over any distance

    def takes(self, message: Message, plain: bool, at: int) -> bool:
        item = self.form.item_id(message)
        if item is not None:
            if item in self.items:
                return False
            self.items.add(item)
        if plain:
            return True
        for block in message.blocks:
            if isinstance(block, Call) and not block.server:
                if not block.ids or not _is_named(block, self.form):
                    return False
                for one in block.ids:
                    if one in self.open:
                        return False
                    self.open[one] = block
            elif isinstance(block, Result) and not block.server:
                call = next((self.open[one] for one in block.ids if one in self.open), None)
                if call is None or block.kind not in self.form.call_kinds(call):
                    return False
                if not _take(self.open, block):
                    return False
        return True

    def ended(self) -> bool:
        return all(not self.waiting.isdisjoint(call.ids) for call in self.open.values())


def _is_named(call: Call, form: Format) -> bool:
    return call.name == legal_name(form, call.name) or not form.has_name(call)


def _take(calls: dict[str, Call], result: Result) -> bool:
    for one in result.ids:
        call = calls.get(one)
        if call is not None:
            for spelling in call.ids:
                del calls[spelling]
            return result.name is None or call.name is None or result.name == call.name
    return False
