"""Which result belongs to which call.

A result belongs to the nearest earlier call of its id that has none yet, first in first out within
one turn; only where there is none to a later one. Ids may come again in later rounds. Every walk here
is linear in the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from itertools import chain
from typing import Any

from .._canonical import canonical_arguments
from ._formats import Format
from ._formats._base import rename_id, same
from ._model import Call, Message, Result
from ._repairs import Log
from ._settling import settled

__all__ = ["Found", "Pairs", "Slot", "Turn", "pair", "pair_end"]


class Turn:
    """The calls of one answer of the model."""

    __slots__ = ("by_wire", "first", "forms", "last", "loose", "shared", "slots")

    def __init__(self, at: int) -> None:
        self.first = self.last = at  # positions of messages
        self.slots: list[Slot] = []
        self.by_wire: dict[str, _Group] = {}  # calls by their id as it stands
        self.forms: dict[str, set[tuple[Any, ...]]] = {}  # what is called under an id that several have
        self.shared: set[str] = set()  # spellings that several calls of the turn have
        self.loose: list[Found] = []  # results without a usable id right behind it, paired by position


class Slot:
    """A call, and the result it got."""

    __slots__ = ("at", "block", "call", "dropped", "found", "original", "renamed", "turn")

    def __init__(self, call: Call, at: int, block: int, turn: Turn) -> None:
        self.call = self.original = call
        self.at, self.block, self.turn = at, block, turn
        self.found: Found | None = None
        self.dropped = False
        self.renamed = False  # another call of the turn has its id


class Found:
    """A result, and the call it belongs to."""

    __slots__ = ("at", "block", "original", "result", "rival", "slot", "via")

    def __init__(self, result: Result, at: int, block: int) -> None:
        self.result = self.original = result
        self.at, self.block = at, block
        self.slot: Slot | None = None
        self.rival: Slot | None = None  # a call of its id that has a result already
        self.via: str | None = None  # the spelling that matched; None: by position, or the only one left


class _Group:
    """Calls of one turn that share a spelling of an id, or a name."""

    __slots__ = ("next", "slots", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn, self.next = turn, 0
        self.slots: list[Slot] = []

    def free(self) -> Slot | None:
        """The first of them that has no result yet."""
        while self.next < len(self.slots):
            if self.slots[self.next].found is None:
                return self.slots[self.next]
            self.next += 1
        return None


class Pairs:
    """A history taken apart into calls and results, and paired."""

    def __init__(
        self, messages: list[Message], form: Format, before: Callable[[], Iterable[Message]] = tuple
    ) -> None:
        self.messages, self.form = messages, form
        self._before = before  # the messages before these, for the rare case that they are needed
        self.turns: list[Turn] = []
        self.founds: list[Found] = []
        self.lone: list[Found] = []  # results that no earlier call took
        self.dropped_messages: set[int] = set()
        self.kept_orphans: set[int] = set()
        self._armed: dict[str, list[_Group]] = {}
        self._latest: dict[str, Slot] = {}
        self._taken: set[str] | None = None
        self._next: dict[str, int] = {}
        self._walk()

    @property
    def slots(self) -> Iterable[Slot]:
        return (slot for turn in self.turns for slot in turn.slots if not slot.dropped)

    def _walk(self) -> None:
        joined = self.form.placement == "anywhere"  # a turn is a run of items, not one message
        turn: Turn | None = None
        previous = ""
        for at, message in enumerate(self.messages):
            if message.role == "assistant" and not (joined and previous == "assistant"):
                turn_here = None
            else:
                turn_here = turn if joined and message.role == "assistant" else None
            for number, block in enumerate(message.blocks):
                if isinstance(block, Call) and not block.server:
                    if turn_here is None:
                        turn = turn_here = Turn(at)
                        self.turns.append(turn_here)
                    turn_here.last = at
                    self._add(Slot(block, at, number, turn_here))
                elif isinstance(block, Result) and not block.server:
                    found = Found(block, at, number)
                    self.founds.append(found)
                    self._take(found, turn)
            if message.role == "assistant":
                turn = turn_here
            previous = message.role

    def _add(self, slot: Slot) -> None:
        turn, call = slot.turn, slot.call
        key = (call.id or "").strip()
        if key:
            alike = turn.by_wire.get(key)
            if alike is None:
                alike = turn.by_wire[key] = _Group(turn)
            else:
                forms = turn.forms.get(key)
                if forms is None:
                    forms = turn.forms[key] = {_form(alike.slots[0].call)}
                form = _form(call)
                slot.dropped = form in forms
                slot.renamed = not slot.dropped
                forms.add(form)
            if not slot.dropped:
                alike.slots.append(slot)
        turn.slots.append(slot)
        if slot.dropped:
            return
        for one, key in self.form.call_keys(call):
            stack = self._armed.setdefault(key, [])
            if not stack or stack[-1].turn is not turn:
                stack.append(_Group(turn))
            else:
                turn.shared.add(one)
            stack[-1].slots.append(slot)
            self._latest[key] = slot

    def _outstanding(self, key: str) -> Slot | None:
        """The call of this id that the next result belongs to."""
        stack = self._armed.get(key)
        while stack:
            slot = stack[-1].free()
            if slot is not None:
                return slot
            stack.pop()
        return None

    def _take(self, found: Found, turn: Turn | None) -> None:
        keys = self.form.result_keys(found.result)
        nearest: tuple[Slot, str] | None = None  # of the calls that one of the spellings fits
        for one, key in keys:
            slot = self._outstanding(key)
            if slot is not None and (nearest is None or slot.turn.first > nearest[0].turn.first):
                nearest = slot, one
        if nearest is not None:
            slot, one = nearest
            if one in slot.turn.shared:
                # Several calls of the turn may be meant: the one that spells its id so goes first.
                alike = slot.turn.by_wire.get((found.result.id or "").strip())
                exact = None if alike is None else alike.free()
                if exact is not None and self._may_answer(exact, found):
                    slot = exact
            _join(slot, found, one)
            return
        for one, key in keys:
            slot = self._latest.get(key)
            if slot is None or slot.found is None:
                continue
            # An earlier result that fits two calls of the turn makes room for one that fits only this.
            holder = slot.found
            if holder.via is not None and holder.via != one and holder.via in slot.turn.shared:
                other = self._outstanding(dict(self.form.result_keys(holder.result))[holder.via])
                if other is not None and other.turn is slot.turn:
                    _join(other, holder, holder.via)
                    _join(slot, found, one)
                    return
            if holder.result.synthetic and not found.result.synthetic:
                holder.slot, holder.rival = None, slot
                _join(slot, found, one)
                return
            found.rival = slot
            break
        positional = self.form.positional or found.result.kind == "function_call"
        if positional and turn is not None and found.rival is None:
            turn.loose.append(found)
        else:
            self.lone.append(found)

    def match_turns(self) -> None:
        """Pair results without ids that stand right behind the turn they belong to."""
        for turn in self.turns:
            if turn.loose:
                self._by_position(turn)

    def match_rest(self) -> None:
        """Pair what no earlier call of the same id took."""
        self._with_later_calls()
        self._only_one_left()
        if self.form.unique_items:
            self._replayed_items()

    def _by_position(self, turn: Turn) -> None:
        left: list[Found] = []
        free = [slot for slot in turn.slots if slot.found is None and not slot.dropped]
        # By name, those without an id apart: a result that has an id may go to these only.
        named: dict[tuple[str | None, bool], _Group] = {}
        for slot in free:
            for with_id in (False, True) if not slot.call.ids else (False,):
                named.setdefault((slot.call.name, with_id), _Group(turn)).slots.append(slot)
        for found in turn.loose:
            name = found.result.name
            slot = None
            if name is not None:
                # A result of role `function` has no id, nor has the call it is meant for.
                for bare in (False,) if self.form.positional and not found.result.ids else (True, False):
                    group = named.get((name, bare))
                    slot = None if group is None else group.free()
                    if slot is not None or found.result.ids:
                        break
            if slot is None:
                left.append(found)
            else:
                _join(slot, found, None)
        free = [slot for slot in free if slot.found is None]
        # A response that is named after another call of the turn is one too many of that call.
        names = {slot.call.name for slot in turn.slots} - {slot.call.name for slot in free}
        strange = all(found.result.name not in names for found in left)
        if strange and len(left) == len(free) and all(map(_may_pair, free, left)):
            for slot, found in zip(free, left, strict=True):
                _join(slot, found, None)
        else:
            self.lone.extend(left)

    def _with_later_calls(self) -> None:
        waiting = [found for found in self.lone if found.result.ids and not found.result.synthetic]
        if not waiting:
            return
        waiting.sort(key=_place)
        free: dict[str, list[Slot]] = {}
        for slot in self.slots:
            if slot.found is None:
                for _, key in self.form.call_keys(slot.call):
                    free.setdefault(key, []).append(slot)
        for slots in free.values():
            slots.reverse()
        for found in waiting:
            for one, key in self.form.result_keys(found.result):
                slots = free.get(key)
                while slots and (slots[-1].found is not None or slots[-1].at < found.at):
                    slots.pop()
                if slots and not _repeats(found):
                    _join(slots[-1], found, one)
                    break
        self.lone = [found for found in self.lone if found.slot is None]

    def _only_one_left(self) -> None:
        waiting = [found for found in self.lone if not found.result.ids]
        if not waiting:
            return
        waiting.sort(key=_place)
        free = [slot for slot in self.slots if slot.found is None]
        free.sort(key=lambda slot: slot.at, reverse=True)
        # By the kind of result and name, and under None all.
        outstanding: dict[tuple[str, str | None], dict[int, Slot]] = {}
        for found in waiting:
            named = self.form.positional and found.result.name is not None
            while free and free[-1].at <= found.at:
                slot = free.pop()
                for key in self._places(slot):
                    outstanding.setdefault(key, {})[id(slot)] = slot
            kind = found.result.kind if self.form.unique_items else ""
            slots = outstanding.get((kind, found.result.name if named else None), {})
            if len(slots) == 1:
                slot = next(iter(slots.values()))
                _join(slot, found, None)
                for key in self._places(slot):
                    del outstanding[key][id(slot)]
        self.lone = [found for found in self.lone if found.slot is None]

    def _places(self, slot: Slot) -> set[tuple[str, str | None]]:
        return {(kind, name) for kind in self.form.call_kinds(slot.call) for name in (None, slot.call.name)}

    def _may_answer(self, slot: Slot, found: Found) -> bool:
        return not self.form.unique_items or found.result.kind in self.form.call_kinds(slot.call)

    def _replayed_items(self) -> None:
        """A stored item may stand there once: what repeats one, and says nothing new, goes."""
        first: dict[str, tuple[int, Slot | None]] = {}
        slot_at = {slot.at: slot for slot in self.slots}
        for at, message in enumerate(self.messages):
            name = self.form.item_id(message)
            if name is None:
                continue
            slot = slot_at.get(at)
            if name not in first:
                first[name] = (at, slot)
                continue
            earlier_at, earlier = first[name]
            if slot is None or earlier is None:
                if slot is earlier is None and same(message.raw, self.messages[earlier_at].raw):
                    self.dropped_messages.add(at)
                continue
            if slot.turn is earlier.turn or not _twins(slot.call, earlier.call):
                continue
            if earlier.found is None and slot.found is not None:
                _join(earlier, slot.found, slot.found.via)
                slot.found = None
            elif slot.found is not None and earlier.found is not None:
                if not same(slot.found.result.content, earlier.found.result.content):
                    continue
                slot.found.slot, slot.found.rival = None, earlier
                self.lone.append(slot.found)
            slot.dropped = True

    def has_call(self, result: Result) -> bool:
        """Does a call of the history have one of the ids of this result?"""
        return any(key in self._latest for _, key in self.form.result_keys(result))

    def release(self) -> None:
        """Take the web of calls and results apart, so that it is gone without the garbage collector."""
        for turn in self.turns:
            turn.slots.clear()
            turn.by_wire.clear()
        for found in self.founds:
            found.slot = found.rival = None

    def free_id(self, text: str) -> str:
        """Another id for the call of id `text`, that no call or result of the history has."""
        head = text.strip().partition("|")[0].strip() or text.strip()
        taken = self._all_ids()
        number = self._next.get(head, 2)
        while f"{head}_d{number}" in taken:
            number += 1
        self._next[head] = number + 1
        taken.add(f"{head}_d{number}")
        return rename_id(text.strip(), f"{head}_d{number}")

    def id_for(self, call: Call) -> str:
        """An id for a call that has none: the same for the same call, and unique in the history."""
        from hashlib import blake2b

        form = f"{call.name}\0{canonical_arguments(call.arguments)}"
        made = "call_" + blake2b(form.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        if made in self._all_ids():
            return self.free_id(made)
        self._all_ids().add(made)
        return made

    def _all_ids(self) -> set[str]:
        if self._taken is None:
            self._taken = {
                one
                for message in chain(self._before(), self.messages)
                for block in message.blocks
                if isinstance(block, (Call, Result))
                for one in block.ids
            }
        return self._taken


def pair(
    messages: list[Message], form: Format, keep_orphans: bool, log: Log, pending: Set[str] = frozenset()
) -> Pairs:
    """Take a history apart, pair calls with results, and mend ids and names. Nothing is moved yet.

    The ids of `pending` calls stay, as their results will come under them.
    """
    pairs = Pairs(messages, form)
    pairs.match_turns()
    pairs.match_rest()
    return settled(pairs, keep_orphans, log, pending)


def pair_end(
    messages: list[Message],
    before: Callable[[], Iterable[Message]],
    form: Format,
    log: Log,
    pending: Set[str],
) -> Pairs | None:
    """`pair` for the end of a history, where all before is whole (`whole_until`).

    None where a result of the end may have to do with a call before: then the whole is to be paired.
    """
    pairs = Pairs(messages, form, before)
    pairs.match_turns()
    return None if pairs.lone else settled(pairs, False, log, pending)


def _join(slot: Slot, found: Found, via: str | None) -> None:
    slot.found, found.slot, found.via, found.rival = found, slot, via, None


def _place(found: Found) -> tuple[int, int]:
    return found.at, found.block


def _may_pair(slot: Slot, found: Found) -> bool:
    """By position: unless both have ids, which then say that they do not belong together."""
    return not (slot.call.ids and found.result.ids)


def _repeats(found: Found) -> bool:
    """Is this result the one that an earlier call of its id got, once more?"""
    holder = None if found.rival is None else found.rival.found
    return holder is not None and same(holder.result.content, found.result.content)


def _twins(one: Call, other: Call) -> bool:
    return one.name == other.name and one.kind == other.kind and _form(one) == _form(other)


def _form(call: Call) -> tuple[Any, ...]:
    """Equal for two calls that are the same. Python's own `==` takes 1 for True."""
    return call.name, call.kind, frozenset(call.ids), canonical_arguments(call.arguments)
