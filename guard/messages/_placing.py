"""Results behind their calls: real ones first, in the order they were recorded, then stubs in call order."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from ._formats import Format
from ._model import Block, Message, Result
from ._pairing import Found, Pairs, Slot, Turn
from ._repairs import Log
from ._words import RepairKind

__all__ = ["CALL_REMOVED", "RESULT_REMOVED", "place"]

RESULT_REMOVED = "(tool result removed)"
CALL_REMOVED = "(tool call removed)"


def place(pairs: Pairs, pending: Set[str], log: Log, *, fill: bool = True) -> list[Message]:
    """The messages with every result in its place and a stub where no result exists anywhere.

    No stubs for `pending` calls. Without `fill` a message that lost all it held stays as one without blocks.
    """
    builder = _Builder(pairs, pending, log)
    if pairs.form.placement == "grouped":
        grouped = builder.grouped()
        return _without_empty(grouped, pairs.form, log) if fill else grouped
    return builder.after() if pairs.form.placement == "after" else builder.anywhere()


class _Builder:
    def __init__(self, pairs: Pairs, pending: Set[str], log: Log) -> None:
        self.pairs, self.form, self.messages, self.log = pairs, pairs.form, pairs.messages, log
        self.pending = pending
        # What becomes of single blocks: position of the message → number of the block → the new one.
        self.edits: dict[int, dict[int, Block | None]] = {}
        self.results: dict[Turn, list[Found]] = {}
        self.stubs: dict[Turn, list[Result]] = {}
        self.found_at: dict[int, list[Found]] = {}
        for found in pairs.founds:
            self.found_at.setdefault(found.at, []).append(found)
            if found.slot is None and id(found) not in pairs.kept_orphans:
                self._edit(found.at, found.block, None)
        for turn in pairs.turns:
            self._settle(turn)
        for at in pairs.dropped_messages:
            for number in range(len(self.messages[at].blocks)):
                self._edit(at, number, None)
        if self.form.placement == "anywhere":
            self._drop_dangling_reasoning()

    def _edit(self, at: int, number: int, block: Block | None) -> None:
        self.edits.setdefault(at, {})[number] = block

    def _settle(self, turn: Turn) -> None:
        results: list[Found] = []
        stubs: list[Result] = []
        for slot in turn.slots:
            if slot.dropped:
                self._edit(slot.at, slot.block, None)
                continue
            if slot.call is not slot.original:
                self._edit(slot.at, slot.block, slot.call)
            if slot.found is not None:
                results.append(slot.found)
            elif self.pending.isdisjoint(slot.original.ids):
                self._stub(slot, stubs)
        results.sort(key=lambda found: (found.at, found.block))
        self.results[turn] = results
        if stubs:
            self.stubs[turn] = stubs

    def _stub(self, slot: Slot, stubs: list[Result]) -> None:
        message, call = self.messages[slot.at], slot.call
        if self.form.can_stub(call):
            stubs.append(self.form.stub(call))
            why = f"added a stub: no result of this call of {self.log.quoted(call.name or call.kind)} exists"
            self.log.add(RepairKind.ADDED_STUB_RESULT, message, call.id, why)
        else:
            self._edit(slot.at, slot.block, None)
            why = f"dropped this call: it has no result, and no stub can stand for that of a {call.kind}"
            self.log.add(RepairKind.DROPPED_UNPAIRED_CALL, message, call.id, why)

    def _drop_dangling_reasoning(self) -> None:
        """A reasoning item may not stay when the item it led to is gone."""
        gone = {at for at, edits in self.edits.items() if None in edits.values()}
        for at in sorted(gone):
            following = self.messages[at + 1].role if at + 1 < len(self.messages) else ""
            if following == "assistant" or not self.messages[at].calls:
                continue  # it leads to that one now; where that goes too, the last one of the run decides
            before = at - 1
            while before >= 0 and (before in gone or self.messages[before].is_reasoning):
                if before not in gone:
                    self._edit(before, 0, None)
                    why = "dropped a reasoning item with the call that it led to"
                    kind = RepairKind.DROPPED_REASONING
                    self.log.add(
                        kind, self.messages[before], self.pairs.form.item_id(self.messages[before]), why
                    )
                elif self.messages[before].role != "assistant":
                    break
                before -= 1

    def edited(self, at: int) -> Message:
        """A message with its blocks edited; the message itself where there is nothing to edit."""
        message, edits = self.messages[at], self.edits.get(at)
        if edits is None:
            return message
        blocks = [edits.get(number, block) for number, block in enumerate(message.blocks)]
        return replace(message, blocks=tuple(block for block in blocks if block is not None), changed=True)

    def result_message(self, found: Found) -> Message:
        message = self.messages[found.at]
        if found.result is found.original:
            return message
        return replace(message, blocks=(found.result,), changed=True)

    def made(self, results: Sequence[Result], turn: Turn) -> list[Message]:
        """New messages for results of a turn."""
        made = self.form.result_messages(results)
        for message in made:
            message.near = self.messages[turn.last].place
        return made

    def moved(self, found: Found, where: str = "stood behind another message") -> None:
        slot = found.slot
        assert slot is not None
        if found.at < slot.at:
            where = "stood before its call"
        elif found.at == slot.at:
            where = "stood in the message of its call"
        why = f"moved this result of {self.log.quoted(slot.call.name)} behind its call: it {where}"
        self.log.add(RepairKind.MOVED_RESULT, self.messages[found.at], slot.call.id, why)

    def after(self) -> list[Message]:
        """Each result a message of its own, right behind the turn."""
        turns = {turn.first: turn for turn in self.pairs.turns}
        out: list[Message] = []
        for at, message in enumerate(self.messages):
            if at in self.found_at:
                continue  # comes with its turn
            out.append(self.edited(at) if at in self.edits else message)
            turn = turns.get(at)
            if turn is None:
                continue
            in_place = at + 1
            while in_place in self.found_at:
                in_place += 1
            for found in self.results[turn]:
                if not at < found.at < in_place:
                    self.moved(found)
                out.append(self.result_message(found))
            if turn in self.stubs:
                out.extend(self.made(self.stubs[turn], turn))
        return out

    def anywhere(self) -> list[Message]:
        """Results may stand anywhere behind their call, before the next call of the same id."""
        ends = {turn.last: turn for turn in self.pairs.turns}
        away = self._displaced()
        out: list[Message] = []
        waiting: list[Message] = []  # stubs, which come behind the results that follow at once
        for at, message in enumerate(self.messages):
            founds = self.found_at.get(at)
            if founds:
                found = founds[0]
                if found.slot is None:
                    if id(found) in self.pairs.kept_orphans:
                        out.append(message)
                elif found not in away:
                    out.append(self.result_message(found))
                continue
            if waiting:
                out.extend(waiting)
                waiting = []
            edited = self.edited(at)
            if edited.blocks or not message.blocks:
                out.append(edited)
            turn = ends.get(at)
            if turn is not None:
                for found in self.results[turn]:
                    if found in away:
                        self.moved(found, "stood behind a later call of the same id")
                        out.append(self.result_message(found))
                waiting = self.made(self.stubs.get(turn, ()), turn)
        out.extend(waiting)
        return out

    def _displaced(self) -> set[Found]:
        """Results that stand before their call, or behind a later one of the same id."""
        away: set[Found] = set()
        following: dict[str, int] = {}  # where the next call of an id stands
        for turn in reversed(self.pairs.turns):
            for slot in reversed(turn.slots):
                key = (slot.call.id or "").strip()
                if not slot.dropped and slot.found is not None:
                    at = slot.found.at
                    if at < turn.last or at > following.get(key, at):
                        away.add(slot.found)
                if not slot.dropped:
                    following[key] = slot.at
        return away

    def grouped(self) -> list[Message]:
        """All results of a turn in one user message right behind it, before its other blocks."""
        homes: dict[int, Turn] = {}
        fresh: dict[int, Turn] = {}  # turns whose results need a message of their own
        for turn in self.pairs.turns:
            if self.results[turn] or turn in self.stubs:
                home = self._home(turn)
                if home is None:
                    fresh[turn.first] = turn
                else:
                    homes[home] = turn
        out: list[Message] = []
        for at, message in enumerate(self.messages):
            turn = homes.get(at)
            if turn is not None:
                out.append(self._filled_home(at, turn))
            else:
                for found in self.found_at.get(at, ()):
                    self._edit(at, found.block, None)
                out.append(self.edited(at) if at in self.edits else message)
            turn = fresh.get(at)
            if turn is not None:
                for found in self.results[turn]:
                    self.moved(found)
                results = [found.result for found in self.results[turn]]
                out.extend(self.made([*results, *self.stubs.get(turn, ())], turn))
        return out

    def _home(self, turn: Turn) -> int | None:
        """The user message that takes the results of a turn; None where a new one must."""
        first = turn.first + 1
        if first >= len(self.messages) or not self._may_be_home(first):
            return None
        at = first
        while at < len(self.messages) and self._may_be_home(at):
            founds = self.found_at.get(at, ())
            if any(found.slot is not None and found.slot.turn is turn for found in founds):
                return at
            if len(founds) < len(self.messages[at].blocks) or not founds:
                break  # something else stands there, which stays
            at += 1
        return first

    def _may_be_home(self, at: int) -> bool:
        message = self.messages[at]
        if message.role != "user" or message.protected:
            return False
        return self.form.mixes or at in self.found_at

    def _filled_home(self, at: int, turn: Turn) -> Message:
        message, results = self.messages[at], self.results[turn]
        founds, stubs = self.found_at.get(at, ()), self.stubs.get(turn, [])
        if not stubs and len(results) == len(founds) and at not in self.edits:
            as_they_are = all(found.at == at and found.result is found.original for found in results)
            # Behind other parts only where the format does not mind.
            if as_they_are and (not self.form.results_first or results[-1].block == len(results) - 1):
                return message
        here = {found.block: found for found in founds}
        edits = self.edits.get(at, {})
        rest = ((number, block) for number, block in enumerate(message.blocks) if number not in here)
        others = [edited for number, block in rest if (edited := edits.get(number, block)) is not None]
        blocks = (*(found.result for found in results), *stubs, *others)
        first_other = next((n for n in range(len(message.blocks)) if n not in here), len(message.blocks))
        for found in results:
            if found.at != at:
                self.moved(found)
            elif found.block > first_other and self.form.mixes:
                self.moved(found, "stood behind other content of its message")
        return replace(message, blocks=blocks, changed=True)


def _without_empty(messages: list[Message], form: Format, log: Log) -> list[Message]:
    """Without the messages that lost all their blocks; filled where the order of roles needs a message."""
    if all(message.blocks or not message.changed for message in messages):
        return messages
    following: Message | None = None
    next_kept: list[Message | None] = []
    for message in reversed(messages):
        next_kept.append(following)
        if message.blocks or not message.changed:
            following = message
    out: list[Message] = []
    for message, following in zip(messages, reversed(next_kept), strict=True):
        if message.blocks or not message.changed:
            out.append(message)
            continue
        other = "user" if message.role == "assistant" else "assistant"
        before = out[-1].role if out else other
        if following is None or following.role != other or before != other:
            continue
        text = CALL_REMOVED if other == "user" else RESULT_REMOVED
        log.add(
            RepairKind.FILLED_EMPTY_CONTENT,
            message,
            None,
            f'put "{text}" into a message that lost all it held, as its turn may not be left out',
        )
        out.append(replace(message, blocks=(form.text_block(text),)))
    return out
