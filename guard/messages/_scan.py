"""One walk over a history that finds every rule it breaks, whoever enforces it.

`HistoryScan` is fed message by message and can be asked at any point, so a history that grows from request
to request is walked once. What a provider refuses is then a matter of sets: the rules that were broken and
the rules that it enforces (`_lint.py`, `_providers.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from ._formats import format_of
from ._formats._base import get
from ._model import Block, Call, Message, Other, Result
from ._rules import Rule
from ._words import MessageFormat

__all__ = ["Finding", "HistoryScan", "arguments_faults", "id_faults", "is_blank_block"]

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_WORD = _LETTERS | frozenset("_-")
_BEDROCK = _WORD | frozenset(".:")
_BLANK_ID = (Rule.ID_PRESENT, Rule.ID_WORD, Rule.ID_BEDROCK, Rule.ID_MISTRAL)
_OBJECT_FORMATS = frozenset({"anthropic", "gemini", "bedrock-converse"})
_SPOKEN_KEYS = frozenset({"refusal", "audio"})  # members beside the content that say something to the user


class Finding(NamedTuple):
    """A rule that a history breaks, and where."""

    rule: Rule
    place: int  # of the message in the history
    call_id: str | None
    extra: str = ""


class _Open:
    """A call of the turn at hand."""

    __slots__ = ("answered", "call", "index", "key", "twin")

    def __init__(self, call: Call, index: int, key: str, twin: bool) -> None:
        self.call = call
        self.index = index
        self.key = key
        self.twin = twin  # repeats the id of another call of its message
        self.answered = False


def id_faults(text: str | None) -> tuple[Rule, ...]:
    """The id rules that this id, as it stands on the wire, breaks."""
    if text is None or not text.strip():
        return _BLANK_ID
    broken = []
    letters = frozenset(text)
    size = len(text)
    if size > 40:
        broken.append(Rule.ID_MAX_40)
    if size > 64:
        broken.append(Rule.ID_MAX_64)
    if not letters <= _WORD:
        broken.append(Rule.ID_WORD)
    if size > 64 or not letters <= _BEDROCK:
        broken.append(Rule.ID_BEDROCK)
    if size != 9 or not letters <= _LETTERS:
        broken.append(Rule.ID_MISTRAL)
    return tuple(broken)


def arguments_faults(arguments: Any, format_name: MessageFormat) -> tuple[Rule, ...]:
    """The rules about arguments that these break."""
    if format_name in _OBJECT_FORMATS:
        if arguments is None:
            return () if format_name == "gemini" else (Rule.ARGUMENTS_OBJECT,)
        if isinstance(arguments, (str, bytes, int, float, list, tuple)):
            return (Rule.ARGUMENTS_OBJECT,)
        return ()
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return (Rule.ARGUMENTS_BLANK,)
    if not isinstance(arguments, str):
        return ()
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return (Rule.ARGUMENTS_JSON, Rule.ARGUMENTS_OBJECT)
    return () if isinstance(value, dict) else (Rule.ARGUMENTS_OBJECT,)


def is_blank_block(block: Block, message: Message) -> bool:
    """A text block of white space only; not a content that is plain text, which may be empty at the end."""
    if type(block) is not Other or block.kind != "text" or not block.empty:
        return False
    return type(block.raw) is not str or len(message.blocks) > 1


class HistoryScan:
    """The rules that a history breaks so far. Messages are read, never changed or kept."""

    def __init__(self, format_name: MessageFormat, pending_call_ids: Collection[str] = ()) -> None:
        self.format_name: MessageFormat = format_name
        self.count = 0  # messages fed
        self._format = format_of(format_name)
        self._chat = format_name == "openai-chat"
        self._items = format_name == "openai-responses"
        self._positional = self._format.positional
        self._pending = frozenset(one.strip() for one in pending_call_ids)
        self._found: list[Finding] = []
        self._deferred: list[Finding] = []  # hold unless the message they are about is the last one
        # The turn at hand: the calls since results, a user or a system message came last.
        self._turn: list[_Open] = []
        self._turn_last = -1  # the last assistant message of it
        self._run_open = False  # results of it may follow here
        self._run_results = 0
        self._run_last = -1
        self._unanswered: list[tuple[_Open, bool]] = []  # of past turns; True: others of the turn have one
        # Results that no call of their turn asked for, and the rule they break unless another call did.
        self._strays: list[tuple[int, Result, Rule]] = []
        # Ids seen
        self._ids: set[str] = set()
        self._checked: dict[str, None] = {}
        self._item_ids: set[str] = set()
        self._blank_ids = 0
        # Roles
        self._previous = ""  # user | assistant | tool, of the last message that is one of these
        self._expected = "user"  # by templates that want user and assistant in turns
        self._previous_role = ""
        self._has_user = False
        self._has_reference = False
        self._reasoning = -1  # a reasoning item that still lacks what it led to

    def extend(self, messages: Iterable[Message]) -> HistoryScan:
        """Feed messages in order."""
        for message in messages:
            self.feed(message)
        return self

    def feed(self, message: Message) -> None:
        """Take the next message of the history."""
        index = self.count
        self.count += 1
        if self._deferred:
            self._found += self._deferred
            self._deferred = []
        role = message.role
        if role == "assistant":
            self._assistant(message, index)
            return
        if self._reasoning >= 0 and role in ("user", "system", "tool"):
            self._found.append(Finding(Rule.REASONING_FOLLOWED, self._reasoning, None))
            self._reasoning = -1
        results = [block for block in message.blocks if type(block) is Result and not block.server]
        if results:
            self._results(message, results, index)
        elif role == "user":
            self._end_run()
            self._user(message, index)
        elif role == "reference":
            self._has_reference = True
        elif role != "item":
            self._end_run()
            if self._chat:
                self._system(message, index)

    # --- assistant messages -------------------------------------------------------------------------

    def _assistant(self, message: Message, index: int) -> None:
        calls: list[Call] = []
        said = spoken = False  # content that is there; content that is not blank
        reasoning = False
        blank_block = False
        for block in message.blocks:
            if type(block) is Call:
                if not block.server:
                    calls.append(block)
                else:
                    said = spoken = True
            elif type(block) is Other:
                if block.kind == "reasoning":
                    reasoning = True
                    if block.key in _SPOKEN_KEYS:
                        spoken = said = True
                elif not block.key:
                    said = True
                    if not block.empty:
                        spoken = True
                    elif is_blank_block(block, message):
                        blank_block = True
            else:
                said = spoken = True
                if type(block) is Result and not block.server:
                    self._strays.append((index, block, Rule.ORPHAN_RESULT))
        self._join_turn(index)
        if calls:
            self._calls(calls, message, index)
        found = self._found
        if self._items:
            self._item(message, index, reasoning)
            self._previous = "assistant"
            return
        if not calls:
            if not spoken:
                found.append(Finding(Rule.ASSISTANT_EMPTY, index, None))
                if self._chat and not said:
                    found.append(Finding(Rule.ASSISTANT_NULL, index, None))
                if not reasoning:
                    self._deferred.append(Finding(Rule.EMPTY_MESSAGE, index, None))
            if spoken or said or not reasoning:
                self._alternate("assistant", index)
        elif not self._previous or (self.format_name == "gemini" and self._previous == "assistant"):
            found.append(Finding(Rule.CALL_TURN_ORDER, index, calls[0].id))
        if blank_block and not self._chat:
            found.append(Finding(Rule.BLANK_TEXT, index, None))
        if self._chat:
            if not said:
                found.append(Finding(Rule.CONTENT_PRESENT, index, None))
            if message.empty_tool_calls and get(message.raw, "tool_calls") is not None:
                found.append(Finding(Rule.EMPTY_TOOL_CALLS, index, None))
        elif not message.blocks:
            found.append(Finding(Rule.PARTS_PRESENT, index, None))
        self._role(message.role, "assistant", index)

    def _join_turn(self, index: int) -> None:
        """An assistant message opens a turn, or goes on with one that has no results yet."""
        if not (self._run_open and self._run_results == 0):
            self._end_run()
            self._turn = []
            self._run_open = True
        self._turn_last = index

    def _calls(self, calls: list[Call], message: Message, index: int) -> None:
        mine: set[str] = {one.key for one in self._turn} if self._items else set()
        for call in calls:
            if call.kind == "function_call":  # of old, without ids
                self._turn.append(_Open(call, index, "", False))
            else:
                key = (call.id or "").strip()
                if key or not self._positional:
                    self._call_id(call, message, index, key)
                twin = bool(key) and key in mine
                if twin:
                    self._found.append(Finding(Rule.UNIQUE_IN_TURN, index, key))
                elif key and key in self._ids:
                    self._found.append(Finding(Rule.UNIQUE_IN_HISTORY, index, key))
                mine.add(key)
                self._turn.append(_Open(call, index, key, twin))
            if call.kind in ("", "function_call"):
                for rule in arguments_faults(call.arguments, self.format_name):
                    self._found.append(Finding(rule, index, call.id, call.name or ""))
        self._ids |= mine
        self._ids.discard("")

    def _call_id(self, call: Call, message: Message, index: int, key: str) -> None:
        if not key:
            self._found += [Finding(rule, index, call.id) for rule in _BLANK_ID]
            self._blank_ids += 1
            if self._blank_ids > 1:
                self._found.append(Finding(Rule.BLANK_ID_TWICE, index, call.id))
            return
        self._check_id(call.id or "", index)
        if self._items and call.raw is not None:
            if not str(get(call.raw, "call_id") or "").strip():
                self._found.append(Finding(Rule.ID_PRESENT, index, key))
            item = get(call.raw, "id")
            if not call.kind and isinstance(item, str) and item.strip() and not item.startswith("fc"):
                self._found.append(Finding(Rule.ITEM_ID_PREFIX, index, key, item))

    def _check_id(self, text: str, index: int) -> None:
        if text in self._checked:
            return
        self._checked[text] = None
        self._found += [Finding(rule, index, text) for rule in id_faults(text)]

    def _item(self, message: Message, index: int, reasoning: bool) -> None:
        item = self._format.item_id(message)
        if item is not None:
            if item in self._item_ids:
                self._found.append(Finding(Rule.ITEM_ID_UNIQUE, index, None, item))
            self._item_ids.add(item)
        self._reasoning = index if reasoning and len(message.blocks) == 1 else -1

    # --- results ------------------------------------------------------------------------------------

    def _results(self, message: Message, results: list[Result], index: int) -> None:
        other = False  # content beside results
        before = False  # and a result behind it
        for block in message.blocks:
            if type(block) is Result and not block.server:
                before = before or other
                self._result(block, index)
            elif not (type(block) is Other and block.key):
                other = True
        if before:
            self._found.append(Finding(Rule.RESULTS_FIRST, index, results[0].id))
        if self._chat and results[0].content is None:
            self._found.append(Finding(Rule.CONTENT_PRESENT, index, results[0].id))
        self._role(message.role, "tool", index)
        if other and message.role == "user":
            self._found.append(Finding(Rule.USER_AFTER_TOOL, index, results[0].id))
            self._has_user = True
            self._end_run()
            self._blank_blocks(message, index)
            self._previous = "user"
            self._alternate("user", index)

    def _result(self, result: Result, index: int) -> None:
        legacy = result.kind == "function_call" and self._chat
        text = result.id
        if not legacy and not self._positional:
            if text is None or not text.strip():
                self._found += [Finding(rule, index, text) for rule in _BLANK_ID]
            elif text not in self._checked:
                self._check_id(text, index)
        if result.failed and not result.content:
            self._found.append(Finding(Rule.FAILED_RESULT_EMPTY, index, text))
        if not self._run_open:
            self._strays.append((index, result, Rule.ORPHAN_RESULT))
            return
        in_run = bool(self._turn)
        self._run_last = index
        found = self._match(result)
        if found is None:
            repeats = any(one.answered and not set(one.call.ids).isdisjoint(result.ids) for one in self._turn)
            if repeats and not self._items:
                self._found.append(Finding(Rule.DUPLICATE_RESULT, index, text))
            elif repeats:
                self._strays.append((index, result, Rule.DUPLICATE_RESULT))
            else:
                self._strays.append((index, result, Rule.UNKNOWN_RESULT_ID if in_run else Rule.ORPHAN_RESULT))
            if in_run:
                self._run_results += 1
            return
        self._run_results += 1
        found.answered = True
        if found.index != self._turn_last:
            self._found.append(Finding(Rule.SPLIT_TURN, index, text))
        call = found.call
        if text != call.id and text and call.id and not legacy:
            self._found.append(Finding(Rule.ID_SPELLING, index, text, call.id))
        if self._positional and result.name != call.name:
            self._found.append(Finding(Rule.RESULT_NAME, index, text, call.name or ""))

    def _match(self, result: Result) -> _Open | None:
        """The call of the turn at hand that this result answers: the last message's first."""
        best: _Open | None = None
        ids = result.ids
        if ids:
            for one in self._turn:
                if one.answered or set(ids).isdisjoint(one.call.ids):
                    continue
                if self._items or one.index == self._turn_last:
                    return one
                best = one if best is None or one.index > best.index else best
            if best is not None:
                return best
        free = [
            one for one in self._turn if not one.answered and (self._positional or not ids or not one.key)
        ]
        if ids and not self._positional:
            free = [one for one in free if not one.key]
        for one in free:
            if result.name is not None and one.call.name == result.name:
                return one
        if self._positional:
            return free[0] if free else None
        return free[0] if len(free) == 1 else None

    def _end_run(self) -> None:
        """Something came that is no result: what is not answered now is late at best."""
        if not self._run_open:
            return
        self._run_open = False
        self._close(self._found, self._unanswered)

    def _close(self, found: list[Finding], unanswered: list[tuple[_Open, bool]]) -> None:
        turn, results = self._turn, self._run_results
        self_needed = [one for one in turn if one.answered or not self._is_pending(one.call)]
        if results and results != len(self_needed) and self_needed:
            detail = f"{len(self_needed)} calls, {results} results"
            found.append(Finding(Rule.RESULT_COUNT, max(self._run_last, 0), None, detail))
        for one in self_needed:
            if not one.answered and not one.twin:
                unanswered.append((one, results > 0))
        if found is self._found:
            self._turn, self._run_results = [], 0

    def _is_pending(self, call: Call) -> bool:
        return bool(self._pending) and not self._pending.isdisjoint(call.ids)

    # --- other messages -----------------------------------------------------------------------------

    def _user(self, message: Message, index: int) -> None:
        self._has_user = True
        if self._items:
            self._previous = "user"
            return
        if self._chat and not message.blocks:
            self._found.append(Finding(Rule.CONTENT_PRESENT, index, None))
        if all(type(block) is Other and block.empty for block in message.blocks):
            self._found.append(Finding(Rule.EMPTY_MESSAGE, index, None))
            if not message.blocks and not self._chat:
                self._found.append(Finding(Rule.PARTS_PRESENT, index, None))
        self._blank_blocks(message, index)
        if self._previous == "tool":
            self._found.append(Finding(Rule.USER_AFTER_TOOL, index, None))
        self._alternate("user", index)
        self._role(message.role, "user", index)

    def _blank_blocks(self, message: Message, index: int) -> None:
        if not self._chat and any(is_blank_block(block, message) for block in message.blocks):
            self._found.append(Finding(Rule.BLANK_TEXT, index, None))

    def _system(self, message: Message, index: int) -> None:
        if message.wire_role == "developer":
            self._found.append(Finding(Rule.KNOWN_ROLES, index, None, message.wire_role))
        if not message.blocks:
            self._found.append(Finding(Rule.CONTENT_PRESENT, index, None))

    def _role(self, role: str, side: str, index: int) -> None:
        if not self._previous and side == "assistant":
            self._found.append(Finding(Rule.STARTS_WITH_USER, index, None))
        if self.format_name == "bedrock-converse":
            if role == self._previous_role:
                self._found.append(Finding(Rule.ALTERNATE, index, None, role))
            self._previous_role = role
        self._previous = side

    def _alternate(self, side: str, index: int) -> None:
        if side != self._expected:
            self._found.append(Finding(Rule.TEMPLATE_ALTERNATION, index, None, side))
        self._expected = "assistant" if side == "user" else "user"

    # --- answers ------------------------------------------------------------------------------------

    def findings(self, previous_response_id: str | None = None) -> list[Finding]:
        """All that is wrong with the history as fed so far, in order of place. Changes nothing."""
        found = list(self._found)
        found += [one for one in self._deferred if one.rule is not Rule.EMPTY_MESSAGE]
        unanswered = list(self._unanswered)
        if self._run_open:
            self._close(found, unanswered)
        left = self._strayed(found, unanswered, bool(previous_response_id) or self._has_reference)
        for one, partly in left:
            rule = Rule.MISSING_SOME_RESULTS if partly else Rule.MISSING_RESULT
            found.append(Finding(rule, one.index, one.key or None, one.call.name or ""))
        if self._reasoning >= 0:
            found.append(Finding(Rule.REASONING_FOLLOWED, self._reasoning, None))
        if self.count and not self._has_user:
            found.append(Finding(Rule.NEEDS_USER, 0, None))
        found.sort(key=lambda one: one.place)
        return found

    def _strayed(
        self, found: list[Finding], unanswered: list[tuple[_Open, bool]], elsewhere: bool
    ) -> list[tuple[_Open, bool]]:
        """Results without a call in their turn: of a call elsewhere, or of none."""
        if not self._strays:
            return unanswered
        left = list(unanswered)
        for index, result, otherwise in self._strays:
            ids = set(result.ids)
            fits = (
                [one for one in left if not ids.isdisjoint(one[0].call.ids)]
                if ids
                else left[:1] * (len(left) == 1)
            )
            if fits:
                earlier = [one for one in fits if one[0].index < index]
                taken = earlier[-1] if earlier else fits[0]
                left.remove(taken)
                found.append(Finding(Rule.MISPLACED_RESULT, index, result.id))
            elif not elsewhere:
                found.append(Finding(otherwise, index, result.id))
        return left

    def broken(self, previous_response_id: str | None = None) -> frozenset[Rule]:
        """The names of the rules that the history breaks as fed so far."""
        return frozenset(one.rule for one in self.findings(previous_response_id))
