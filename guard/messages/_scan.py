"""One walk over a history that finds every rule it breaks, whoever enforces it.

`HistoryScan` is fed message by message and can be asked at any point, so a history that grows from request
to request is walked once. What a provider refuses is then a matter of sets: the rules that were broken and
the rules that it enforces (`_lint.py`, `_providers.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ._facts import BLANK_ID, arguments_faults, id_faults, is_blank_block
from ._formats import format_of
from ._formats._base import get, word
from ._model import Call, Message, Other, Result
from ._rules import Rule
from ._words import MessageFormat

__all__ = ["Finding", "HistoryScan"]

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


class _Free:
    """Calls of a turn that have no result yet, for results that no id leads to one."""

    __slots__ = ("_all", "_by_name")

    def __init__(self, calls: list[_Open]) -> None:
        self._all = deque(one for one in calls if not one.answered)
        self._by_name: dict[str | None, deque[_Open]] = {}
        for one in self._all:
            self._by_name.setdefault(one.call.name, deque()).append(one)

    def named(self, name: str | None) -> _Open | None:
        """The first of this name."""
        calls = self._by_name.get(name)
        return None if name is None or calls is None else _first(calls)

    def first(self) -> _Open | None:
        return _first(self._all)

    def only(self) -> _Open | None:
        """The one that is left, where it is one."""
        one = _first(self._all)
        while len(self._all) > 1 and self._all[-1].answered:
            self._all.pop()
        return one if len(self._all) == 1 else None


def _first(calls: deque[_Open]) -> _Open | None:
    while calls and calls[0].answered:
        calls.popleft()
    return calls[0] if calls else None


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
        self._rules: set[Rule] = set()
        self._counted = 0  # findings whose rules are in `_rules`
        self._deferred: list[Finding] = []  # hold unless the message they are about is the last one
        # The turn at hand: the calls since results, a user or a system message came last.
        self._turn: list[_Open] = []
        self._by_id: dict[str, list[_Open]] = {}  # those without a result
        self._answered: set[str] = set()
        self._keys: set[str] = set()  # the ids of its calls as they stand, stripped
        self._keyless: list[_Open] = []
        self._free: dict[str, _Free] = {}  # see `_unanswered_of`
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
            self._new_turn()
            self._run_open = True
        self._turn_last = index

    def _calls(self, calls: list[Call], message: Message, index: int) -> None:
        mine: set[str] = {one.key for one in self._turn} if self._items else set()
        for call in calls:
            if call.kind == "function_call":  # of old, without ids
                self._add(_Open(call, index, "", False))
            else:
                key = (call.id or "").strip()
                twin = bool(key) and key in mine
                if not self._positional:
                    self._call_id(call, message, index, key)
                    if twin:
                        self._found.append(Finding(Rule.UNIQUE_IN_TURN, index, key))
                    elif key in self._ids:
                        self._found.append(Finding(Rule.UNIQUE_IN_HISTORY, index, key))
                mine.add(key)
                self._add(_Open(call, index, key, twin))
            if call.kind in ("", "function_call"):
                for rule in arguments_faults(call.arguments, self.format_name):
                    self._found.append(Finding(rule, index, call.id, call.name or ""))
        self._ids |= mine
        self._ids.discard("")

    def _add(self, one: _Open) -> None:
        self._turn.append(one)
        self._free = {}
        self._keys.add(one.key)
        for _, key in self._format.call_keys(one.call):
            self._by_id.setdefault(key, []).append(one)
        if not one.key:
            self._keyless.append(one)

    def _call_id(self, call: Call, message: Message, index: int, key: str) -> None:
        if not key:
            self._found += [Finding(rule, index, call.id) for rule in BLANK_ID]
            self._blank_ids += 1
            if self._blank_ids > 1:
                self._found.append(Finding(Rule.BLANK_ID_TWICE, index, call.id))
            return
        self._check_id(call.id or "", index)
        if self._items and call.raw is not None:
            if not word(get(call.raw, "call_id")).strip():
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
            for rule in (Rule.RESULT_NULL, Rule.CONTENT_PRESENT):
                self._found.append(Finding(rule, index, results[0].id))
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
                self._found += [Finding(rule, index, text) for rule in BLANK_ID]
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
            repeats = not self._answered.isdisjoint(result.ids)
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
        for _, key in self._format.call_keys(found.call):
            self._by_id[key].remove(found)
        self._answered.update(found.call.ids)
        if found.index != self._turn_last and not self._items:
            self._found.append(Finding(Rule.SPLIT_TURN, index, text))
        call = found.call
        if self._chat and legacy != (call.kind == "function_call"):
            # The role `function` answers no `tool_calls`, nor `tool` a `function_call`.
            self._found.append(Finding(Rule.MISSING_RESULT, found.index, call.id, call.name or ""))
        if not self._positional and text != call.id and text and call.id and not legacy:
            self._found.append(Finding(Rule.ID_SPELLING, index, text, call.id))
        if self._positional and result.name != call.name:
            self._found.append(Finding(Rule.RESULT_NAME, index, text, call.name or ""))

    def _match(self, result: Result) -> _Open | None:
        """The call of the turn at hand that this result answers: the last message's first."""
        best: _Open | None = None
        said = (result.id or "").strip()
        for _, key in self._format.result_keys(result):
            waiting = self._by_id.get(key, ())
            if len(waiting) > 1 and waiting[0].key != said and said in self._keys:
                # Several calls may be meant: the one that spells its id so goes first.
                waiting = sorted(waiting, key=lambda one: one.key != said)
            for one in waiting:
                if self._items or one.index == self._turn_last:
                    return one
                if best is None or one.index > best.index:
                    best = one
        if best is not None:
            return best
        if self._chat and result.kind == "function_call":
            old = self._unanswered_of("old").first()
            if old is not None:
                return old
        free = self._unanswered_of("all" if self._positional or not result.ids else "keyless")
        return free.named(result.name) or (free.first() if self._positional else free.only())

    def _unanswered_of(self, which: str) -> _Free:
        """All calls of the turn, those without an id, or of those the ones of the older kind."""
        free = self._free.get(which)
        if free is None:
            calls = self._turn if which == "all" else self._keyless
            if which == "old":
                calls = [one for one in calls if one.call.kind == "function_call"]
            free = self._free[which] = _Free(calls)
        return free

    def _end_run(self) -> None:
        """Something came that is no result: what is not answered now is late at best."""
        if not self._run_open:
            return
        self._run_open = False
        counted, unanswered = self._closed()
        self._found += counted
        self._unanswered += unanswered
        self._new_turn()

    def _new_turn(self) -> None:
        self._turn, self._by_id, self._keyless, self._run_results = [], {}, [], 0
        self._keys, self._free = set(), {}
        if self._answered:
            self._answered = set()

    def _closed(self) -> tuple[list[Finding], list[tuple[_Open, bool]]]:
        """If nothing follows the turn at hand: what is wrong with its number of results; calls without."""
        results = self._run_results
        asked = [one for one in self._turn if one.answered or not self._is_pending(one.call)]
        counted = []
        if results and asked and results != len(asked) and not self._items:
            detail = f"{len(asked)} calls, {results} results"
            counted.append(Finding(Rule.RESULT_COUNT, self._run_last, None, detail))
        return counted, [(one, results > 0) for one in asked if not one.answered and not one.twin]

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
        found = self._found + self._open_findings(previous_response_id)
        found.sort(key=lambda one: one.place)
        return found

    def broken(self, previous_response_id: str | None = None) -> frozenset[Rule]:
        """The names of the rules that the history breaks as fed so far; cheap to ask again and again."""
        self._rules.update(one.rule for one in self._found[self._counted :])
        self._counted = len(self._found)
        return frozenset(self._rules).union(one.rule for one in self._open_findings(previous_response_id))

    def _open_findings(self, previous_response_id: str | None) -> list[Finding]:
        """What is wrong if the history ends here, and may still come right."""
        unanswered = self._unanswered
        found: list[Finding] = []
        if self._run_open:
            found, of_turn = self._closed()
            if of_turn:
                unanswered = unanswered + of_turn
        if self._strays:
            elsewhere = bool(previous_response_id) or self._has_reference
            unanswered = self._settle_strays(found, unanswered, elsewhere)
        for one, partly in unanswered:
            rule = Rule.MISSING_SOME_RESULTS if partly else Rule.MISSING_RESULT
            found.append(Finding(rule, one.index, one.key or None, one.call.name or ""))
        if self._reasoning >= 0:
            found.append(Finding(Rule.REASONING_FOLLOWED, self._reasoning, None))
        if self.count and not self._has_user:
            found.append(Finding(Rule.NEEDS_USER, 0, None))
        return found

    def _settle_strays(
        self, found: list[Finding], unanswered: list[tuple[_Open, bool]], elsewhere: bool
    ) -> list[tuple[_Open, bool]]:
        """Results without a call in their turn: of a call elsewhere, or of none. Answers the calls left."""
        by_id: dict[str, list[_Open]] = {}
        for one, _ in unanswered:
            for _, key in self._format.call_keys(one.call):
                by_id.setdefault(key, []).append(one)
        taken: set[int] = set()
        for index, result, otherwise in self._strays:
            keys = self._format.result_keys(result)
            fits = next((by_id[key] for _, key in keys if by_id.get(key)), None)
            if fits is None and not result.ids and len(unanswered) - len(taken) == 1:
                fits = [one for one, _ in unanswered if id(one) not in taken]
            if fits:
                earlier = bisect_left(fits, index, key=lambda one: one.index)
                one = fits[earlier - 1] if earlier else fits[0]
                taken.add(id(one))
                for _, key in self._format.call_keys(one.call):
                    by_id[key].remove(one)
                found.append(Finding(Rule.MISPLACED_RESULT, index, result.id))
                if self._items and result.id and one.call.id and result.id != one.call.id:
                    found.append(Finding(Rule.ID_SPELLING, index, result.id, one.call.id))
            elif not elsewhere:
                found.append(Finding(otherwise, index, result.id))
        return [pair for pair in unanswered if id(pair[0]) not in taken]
