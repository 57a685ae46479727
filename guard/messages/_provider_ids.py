"""Ids that a provider takes: rewritten on both sides in step, always the same for the same history.

Ids feed prompt caches, so an id once given to a call does not change when messages are added behind it:
whoever comes first keeps its id or gets the plainest one, and whoever comes later makes way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b

from ._facts import id_faults
from ._formats import Format
from ._formats._base import get, plain, word
from ._model import Block, Call, Message, Result
from ._providers import ProviderRules
from ._repairs import Log
from ._rules import Rule
from ._words import RepairKind

__all__ = ["ID_RULES", "mend_ids", "mend_item_ids"]

ID_RULES = frozenset(
    {
        Rule.UNIQUE_IN_TURN,
        Rule.UNIQUE_IN_HISTORY,
        Rule.BLANK_ID_TWICE,
        Rule.ID_PRESENT,
        Rule.ID_SPELLING,
        Rule.ID_MAX_40,
        Rule.ID_MAX_64,
        Rule.ID_WORD,
        Rule.ID_BEDROCK,
        Rule.ID_MISTRAL,
    }
)

_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class _Asked:
    """A call that waits for its result."""

    __slots__ = ("answered", "id", "said", "turn", "was")

    def __init__(self, was: str | None, new_id: str, turn: int) -> None:
        self.was = was
        self.said = (was or "").strip()
        self.id = new_id
        self.turn = turn
        self.answered = False


class _Ids:
    """The ids given so far."""

    def __init__(self, rules: ProviderRules) -> None:
        self.rules = rules.rules
        self.once = Rule.UNIQUE_IN_HISTORY in rules.rules
        self.in_turn = self.once or Rule.UNIQUE_IN_TURN in rules.rules
        self.given: dict[str, str] = {}  # id on the wire → the one it got first
        self.next: dict[str, int] = {}  # the number that the next name of a kind is tried with
        self.owner: dict[str, str] = {}  # id given, stripped → id on the wire that has it

    def fits(self, text: str) -> bool:
        return self.rules.isdisjoint(id_faults(text))

    def of(self, text: str, turn: set[str]) -> str:
        """The id that a call with this one gets; `turn` holds those of its turn so far."""
        given = self.given.get(text)
        if given is not None and not self.once and not (self.in_turn and given.strip() in turn):
            return given
        candidate = next(one for one in self._candidates(text) if self._is_free(one, text, turn))
        self.given.setdefault(text, candidate)
        self.owner[candidate.strip()] = text
        return candidate

    def _is_free(self, candidate: str, text: str, turn: set[str]) -> bool:
        """Padding does not tell two ids apart."""
        owner = self.owner.get(candidate.strip())
        if owner is not None and (self.once or owner != text):
            return False
        return candidate.strip() not in turn and self.fits(candidate)

    def _candidates(self, text: str) -> Iterator[str]:
        yield text
        bare = text.strip()
        yield bare
        head = bare.partition("|")[0].strip()
        if head:
            yield head  # of `A|B`: the call's own part
        if Rule.ID_MISTRAL in self.rules:
            while True:
                number = self.next.get(bare, 1)
                self.next[bare] = number + 1
                yield _nine(f"{bare}\0{number}")
        plain_text = "".join(one if one in _WORD else "_" for one in (head or bare)) or "call"
        if Rule.ID_WORD not in self.rules and Rule.ID_BEDROCK in self.rules:
            plain_text = "".join(one if one in _WORD or one in ".:" else "_" for one in bare) or "call"
        elif Rule.ID_WORD not in self.rules:
            plain_text = head or bare or "call"
        limit = 40 if Rule.ID_MAX_40 in self.rules else 64
        if len(plain_text) > limit:
            mark = blake2b(bare.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
            plain_text = f"{plain_text[: limit - len(mark) - 5]}_{mark}"
        yield plain_text
        while True:
            number = self.next.get(plain_text, 2)
            self.next[plain_text] = number + 1
            mark = f"_d{number}"
            yield plain_text[: limit - len(mark)] + mark


def _nine(text: str) -> str:
    value = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    letters = []
    for _ in range(9):
        value, rest = divmod(value, 62)
        letters.append(_BASE62[rest])
    return "".join(letters)


def mend_ids(messages: list[Message], rules: ProviderRules, form: Format, log: Log) -> list[Message]:
    """Every call under an id that the provider takes, and its result under the same."""
    ids = _Ids(rules)
    waiting: dict[str, list[_Asked]] = {}
    out: list[Message] = []
    turn = 0
    in_turn: set[str] = set()
    joined = form.placement == "anywhere"
    previous = ""
    for message in messages:
        if message.role == "assistant" and not (joined and previous == "assistant"):
            turn += 1
            in_turn = set()
        previous = message.role
        blocks: list[Block] = []
        for block in message.blocks:
            new: Block = block
            if type(block) is Call and not block.server and block.kind != "function_call":
                new = _call(block, message, ids, in_turn, form, log)
                asked = _Asked(block.id, new.id or "", turn)
                for one in block.ids:  # under which its result looks for it
                    waiting.setdefault(one, []).append(asked)
            elif type(block) is Result and not block.server and block.kind != "function_call":
                new = _result(block, message, waiting, form, log)
            blocks.append(new)
        if all(new is old for new, old in zip(blocks, message.blocks, strict=True)):
            out.append(message)
        else:
            out.append(replace(message, blocks=tuple(blocks), changed=True))
    return out


def _call(call: Call, message: Message, ids: _Ids, in_turn: set[str], form: Format, log: Log) -> Call:
    text = call.id or ""
    new = ids.of(text, in_turn)
    in_turn.add(new.strip())
    if new == call.id:
        return call
    name = log.quoted(call.name)
    if ids.fits(text):
        kind = RepairKind.RENAMED_CALL_ID
        why = f"renamed this call of {name} and its result to {log.quoted(new)}: an earlier call has its id"
    else:
        kind = RepairKind.REWROTE_ID
        why = f"rewrote the id of this call of {name} and of its result as {log.quoted(new)}: it is refused"
    log.add(kind, message, call.id, why)
    return form.rename_call(call, new)


def _result(
    result: Result, message: Message, waiting: dict[str, list[_Asked]], form: Format, log: Log
) -> Result:
    asked = _answered(result, waiting)
    if asked is None or asked.id == result.id:
        return result
    if result.id != asked.was:  # else it was told with the call
        why = f"spelled the id of this result as its call does, {log.quoted(asked.id)}"
        log.add(RepairKind.REWROTE_ID, message, result.id, why)
    return form.rename_result(result, asked.id)


def _answered(result: Result, waiting: dict[str, list[_Asked]]) -> _Asked | None:
    """The call of the nearest earlier turn that still waits for a result of this id.

    There the first, but before it one that has the very id.
    """
    said = (result.id or "").strip()
    for one in result.ids:
        stack = waiting.get(one)
        while stack and stack[-1].answered:
            stack.pop()
        if not stack:
            continue
        found = stack[-1]
        for asked in reversed(stack):
            if asked.turn != found.turn:
                break
            if not asked.answered and (asked.said == said or found.said != said):
                found = asked
        found.answered = True
        return found
    return None


def mend_item_ids(messages: list[Message], broken: frozenset[Rule], form: Format, log: Log) -> list[Message]:
    """Responses items without an item id that is refused; calls are known by their call id alone."""
    seen: set[str] = set()
    out: list[Message] = []
    for message in messages:
        item = form.item_id(message)
        call = message.calls[0] if message.calls else None
        why = ""
        if call is not None and call.raw is not None:
            if Rule.ITEM_ID_PREFIX in broken and not call.kind and not (item or "fc").startswith("fc"):
                why = "it is no id of a function call"
            elif Rule.ID_PRESENT in broken and not word(get(call.raw, "call_id")).strip():
                why = "it stood in the place of the call id"
        if not why and item is not None and item in seen and Rule.ITEM_ID_UNIQUE in broken:
            why = "an earlier item has it"
        if item is not None and not why:
            seen.add(item)
        out.append(_without_item_id(message, why, log) if why else message)
    return out


def _without_item_id(message: Message, why: str, log: Log) -> Message:
    raw = plain(message.raw)
    item = raw.pop("id", None)
    blocks = message.blocks
    if blocks and isinstance(blocks[0], Call):
        call = blocks[0]
        raw["call_id"] = call.id
        blocks = (replace(call, raw=raw),)
    said = word(item) or None
    log.add(RepairKind.REWROTE_ID, message, said, f"left out the item id {log.quoted(said)}: {why}")
    return replace(message, raw=raw, blocks=blocks, changed=True)
