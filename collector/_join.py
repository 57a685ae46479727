"""What the LLM requests of a run say about its tool calls: turns, ids, arguments, results.

Half of the instrumentations write no call id on the tool span, and none of the failed ones a
result. Both stand in the messages: the response before the call asked for it, and the next
request brings its result back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..guard import fingerprint
from ._parts import MessageFacts, Requested, Responded, facts_of, is_stub

__all__ = ["Exchange", "JoinedCall", "KnownFacts", "Unclaimed", "join_run", "result_of", "same_result"]

# How far back in a history a result is looked for. Results of a call stand at the end of the next request.
_MAX_BACK = 500


class Exchange:
    """An LLM request and its answer, as far as calls are concerned."""

    __slots__ = ("answered", "end_ns", "input", "output", "span_id", "start_ns", "turn")

    def __init__(
        self,
        span_id: str,
        start_ns: int,
        end_ns: int,
        *,
        answered: bool,
        input: list[str] | None,
        output: list[str] | None,
    ) -> None:
        self.span_id = span_id
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.answered = answered
        self.input = input
        self.output = output
        self.turn: int | None = None  # ordinal of the answer in the run


@dataclass(slots=True, eq=False)
class Unclaimed:
    """A call that an answer asked for, and that no call of the run turned out to be."""

    answer: Exchange
    position: int  # ordinal among the calls of the answer, from 1
    nth: int  # ordinal among those of them with the same id (without ids: the same name), from 0
    requested: Requested


class JoinedCall(Protocol):
    """The facts of a call that messages can add to."""

    start_ns: int
    end_ns: int | None
    span_id: str
    name: str
    call_id: str | None
    arguments: str | None
    result: str | None
    result_failed: bool | None
    turn: int | None
    claimed: bool  # is it known which answer asked for it?


class _Group:
    """Requests for calls with one key in one answer, in order."""

    __slots__ = ("index", "items", "next")

    def __init__(self, index: int) -> None:
        self.index = index
        self.items: list[Requested] = []
        self.next = 0

    def take(self) -> Requested | None:
        while self.next < len(self.items):
            item = self.items[self.next]
            self.next += 1
            if not item.taken:
                item.taken = True
                return item
        return None


class KnownFacts:
    """Facts of messages, each message read once."""

    def __init__(self) -> None:
        self._known: dict[str, MessageFacts] = {}

    def __call__(self, text: str) -> MessageFacts:
        facts = self._known.get(text)
        if facts is None:
            facts = self._known[text] = facts_of(text)
        return facts


def join_run(calls: Sequence[JoinedCall], exchanges: Sequence[Exchange]) -> list[Unclaimed]:
    """Fill turns, and what calls lack, from the exchanges of the same run. Numbers the answers, too.

    Returns what answers asked for beyond `calls`, in the order of asking.
    """
    answers = sorted(
        (exchange for exchange in exchanges if exchange.answered),
        key=lambda exchange: (exchange.end_ns, exchange.start_ns, exchange.span_id),
    )
    for turn, answer in enumerate(answers, start=1):
        answer.turn = turn
    if not exchanges:
        return []
    calls = sorted(calls, key=lambda call: (call.start_ns, call.end_ns or 0, call.span_id))
    asked = _match_answers(calls, answers)
    if calls:
        _match_results(calls, exchanges, KnownFacts())
    return asked


# -- which answer asked for a call --------------------------------------------------------------------


def _match_answers(calls: Sequence[JoinedCall], answers: Sequence[Exchange]) -> list[Unclaimed]:
    ends = [answer.end_ns for answer in answers]
    groups: dict[Hashable, list[_Group]] = {}
    asked: list[Unclaimed] = []
    ids_only = all(call.call_id is not None for call in calls)
    for index, answer in enumerate(answers):
        position = 0
        seen: dict[Hashable, int] = {}
        for text in answer.output or ():
            # Not through the cache: an equal answer of another turn is another request.
            for requested in facts_of(text).calls:
                position += 1
                same = same_result(requested)
                nth = seen[same] = seen.get(same, -1) + 1
                asked.append(Unclaimed(answer, position, nth, requested))
                for key in _keys_of_request(requested, ids_only=ids_only):
                    known = groups.setdefault(key, [])
                    if not known or known[-1].index != index:
                        known.append(_Group(index))
                    known[-1].items.append(requested)
    for call in calls:
        before = bisect_right(ends, call.start_ns)
        # An answer still streaming when the tool began: only where none that had ended fits.
        limit = before
        while limit < len(answers) and limit < before + 4 and answers[limit].start_ns <= call.start_ns:
            limit += 1
        found = None
        for key in _keys_of_call(call):
            found = _take(groups.get(key), before, limit)
            if found is not None:
                break
        if found is None and call.call_id is None and before:
            # The arguments differ from what was asked for, say by defaults: the answer just before will do.
            named = groups.get(("name", call.name))
            if named and any(group.index == before - 1 for group in named[-1:]):
                found = _take(named, before, before)
        if found is None:
            call.turn = answers[before - 1].turn if before else None
            continue
        requested, index = found
        call.claimed = True
        call.turn = answers[index].turn
        call.call_id = call.call_id or requested.call_id
        if call.arguments is None:
            call.arguments = requested.arguments
    return [one for one in asked if not one.requested.taken]


def _keys_of_request(requested: Requested, *, ids_only: bool) -> list[Hashable]:
    keys: list[Hashable] = []
    if requested.call_id is not None:
        keys.append(("id", requested.call_id))
    if requested.name is not None and not ids_only:
        keys.append(("call", requested.name, requested.key()))
        keys.append(("name", requested.name))
        bare = requested.bare()
        if bare is not None:
            keys.append(("bare", *bare))
    return keys


def _keys_of_call(call: JoinedCall) -> list[Hashable]:
    """By what to look for the request of a call, best evidence first."""
    if call.call_id is not None:
        return [("id", call.call_id)]
    if call.arguments is None:
        return [("name", call.name)]
    return [("call", call.name, fingerprint(call.name, call.arguments)), ("bare", call.name, call.arguments)]


def _take(groups: list[_Group] | None, before: int, limit: int) -> tuple[Requested, int] | None:
    """The next free request of the latest answer before `before`, else of the first up to `limit`."""
    if not groups:
        return None
    position = bisect_left(groups, before, key=lambda group: group.index)
    while position > 0:
        group = groups[position - 1]
        item = group.take()
        if item is not None:
            return item, group.index
        del groups[position - 1]  # used up: nobody needs to look at it again
        position -= 1
    while position < len(groups) and groups[position].index < limit:
        item = groups[position].take()
        if item is not None:
            return item, groups[position].index
        position += 1
    return None


# -- what the next request says about a call ----------------------------------------------------------


def _match_results(calls: Sequence[JoinedCall], exchanges: Sequence[Exchange], facts: KnownFacts) -> None:
    requests = sorted(
        (exchange for exchange in exchanges if exchange.input),
        key=lambda exchange: (exchange.start_ns, exchange.end_ns, exchange.span_id),
    )
    if not requests:
        return
    starts = [request.start_ns for request in requests]
    later: dict[Hashable, list[int]] = {}  # for each key, when its calls ended
    for call in calls:
        if call.end_ns is not None:
            later.setdefault(_result_key(call), []).append(call.end_ns)
    for ends in later.values():
        ends.sort()
    for call in calls:
        if call.end_ns is None or (call.result is not None and call.call_id is not None):
            continue
        index = bisect_left(starts, call.end_ns)
        if index == len(requests):
            continue
        request = requests[index]
        ends = later[_result_key(call)]
        # Equal calls that ended after this one and before the request: their results come behind.
        skip = bisect_right(ends, request.start_ns) - bisect_right(ends, call.end_ns)
        messages = request.input or []
        if call.call_id is None:
            requested = _find_back(messages, facts, skip, _asks_for(call))
            if requested is not None:
                call.call_id = requested.call_id
                if call.arguments is None:
                    call.arguments = requested.arguments
        if call.result is None:
            result = _find_back_result(messages, facts, skip, call)
            if result is not None:
                call.result = result.text
                if result.failed is not None:
                    call.result_failed = result.failed


def _result_key(call: JoinedCall) -> Hashable:
    return ("id", call.call_id) if call.call_id is not None else ("name", call.name)


def _asks_for(call: JoinedCall) -> Callable[[Requested], bool]:
    if call.arguments is None:
        return lambda requested: requested.name == call.name
    wanted = fingerprint(call.name, call.arguments)
    bare = (call.name, call.arguments)
    return lambda requested: (
        requested.name == call.name and (requested.key() == wanted or requested.bare() == bare)
    )


def _find_back(
    messages: list[str], facts: KnownFacts, skip: int, wanted: Callable[[Requested], bool]
) -> Requested | None:
    for text in messages[: -_MAX_BACK - 1 : -1]:
        for requested in reversed(facts(text).calls):
            if wanted(requested):
                if not skip:
                    return requested
                skip -= 1
    return None


def _find_back_result(
    messages: list[str], facts: KnownFacts, skip: int, call: JoinedCall
) -> Responded | None:
    """The last result with the call's id (of the tool's name, where there are no ids) but `skip`.

    Ids recur, so a result that stands before the request for the call is that of another one. A stub in
    the place of a lost result says nothing of the call.
    """
    skip_requests = skip
    wanted, name = call.call_id, call.name
    for text in messages[: -_MAX_BACK - 1 : -1]:
        found = facts(text)
        for result in reversed(found.results):
            if result.call_id == wanted and (wanted is not None or result.name == name):
                if not skip:
                    return None if is_stub(result.text) else result
                skip -= 1
        for requested in reversed(found.calls):
            if requested.call_id == wanted and (wanted is not None or requested.name == name):
                if not skip_requests:
                    return None
                skip_requests -= 1
    return None


# -- the result of a call that has no span ------------------------------------------------------------

_MAX_AHEAD = 4  # requests after an answer that may bring a result: others of the run can lie between


def result_of(
    one: Unclaimed, requests: Sequence[Exchange], facts: Callable[[str], MessageFacts]
) -> tuple[Responded, Exchange] | None:
    """The result that a later request brings for a call, and that request; None where nothing answers it.

    `requests` are those of the run with a recorded input, by start time. A result counts only if the
    request whose answer asked for the call did not hold it yet: ids recur.
    """
    wanted = same_result(one.requested)
    first = bisect_left(requests, one.answer.end_ns, key=lambda request: request.start_ns)
    for request in requests[first : first + _MAX_AHEAD]:
        if request is one.answer:
            continue
        fresh = _fresh(one.answer.input or [], request.input or [], wanted, facts)
        if one.nth < len(fresh):
            return fresh[one.nth], request
    return None


def _fresh(
    before: list[str], after: list[str], wanted: Hashable, facts: Callable[[str], MessageFacts]
) -> list[Responded]:
    """The results wanted that a history holds beyond an earlier one."""
    if after[: len(before)] == before:
        return _results(after[len(before) :], wanted, facts)
    # A delta, or a history that somebody shortened or rewrote.
    old = _results(before[-_MAX_BACK:], wanted, facts)
    return _results(after[-_MAX_BACK:], wanted, facts)[len(old) :]


def _results(messages: list[str], wanted: Hashable, facts: Callable[[str], MessageFacts]) -> list[Responded]:
    return [result for text in messages for result in facts(text).results if same_result(result) == wanted]


def same_result(part: Requested | Responded) -> Hashable:
    """By what a result is told to be that of a call: the id, without one the tool's name."""
    return ("id", part.call_id) if part.call_id is not None else ("name", part.name)
