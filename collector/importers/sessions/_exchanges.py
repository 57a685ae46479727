"""Transcripts of the Anthropic Messages API and of the OpenAI Responses API.

A conversation as a list of messages or items; or a log of requests and responses, each of which sends again
what was said before. There a history is recognised by its content, so that a call that is sent again with
every later request is one call, in one run.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Protocol

from .._clock import parse_time
from .._report import FormatError, SkipList
from ._blocks import inner, text_of
from ._history import Contents, Node
from ._lines import Entry
from ._model import Sink, Turn, Usage, digest
from ._run import SessionRun

__all__ = ["Asked", "Exchange", "Exchanges", "Notation"]

_REMEMBERED = 20_000
_TIME_KEYS = ("timestamp", "created_at", "created", "time", "start_time", "started_at")
_SESSION_KEYS = ("conversation_id", "session_id", "thread_id", "id")
_STATUS_KEYS = ("status_code", "status", "http_status")


@dataclass(slots=True)
class Exchange:
    """What one value of a file says."""

    items: list[dict[str, Any]]  # what was sent, or the whole conversation
    answer: list[dict[str, Any]] | None = None  # what came back; None: nothing, or it is among the items
    refused: str | None = None  # the text of an error that came back instead
    status: int | None = None
    error_type: str | None = None
    model: str | None = None
    usage: Usage | None = None
    begun: int | None = None
    ended: int | None = None
    session_id: str | None = None
    response_id: str | None = None
    previous_id: str | None = None  # the response that this one goes on from
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def paired(self) -> bool:
        return self.answer is not None or self.refused is not None


@dataclass(slots=True)
class Asked:
    """A call in an item of the model."""

    call_id: str | None
    name: str | None
    arguments: str | None


class Notation(Protocol):
    """One maker's way to write a conversation."""

    name: str
    provider: str

    def read(self, value: Any) -> Exchange | None:
        """A value that holds a conversation or an exchange; None for anything else."""
        ...

    def is_item(self, value: Any) -> bool:
        """Whether a value is a single message or item."""
        ...

    def is_answer(self, item: dict[str, Any]) -> bool:
        """Whether the model said this."""
        ...

    def grouped(self) -> bool:
        """Whether items of the model that follow each other are one answer."""
        ...

    def normal(self, item: dict[str, Any]) -> Any:
        """What makes this item the same when it is sent again."""
        ...

    def parts(self, item: dict[str, Any]) -> list[dict[str, Any]]: ...

    def role(self, item: dict[str, Any]) -> str: ...

    def calls(self, item: dict[str, Any]) -> list[Asked]: ...

    def results(self, item: dict[str, Any]) -> list[tuple[str | None, str | None, bool | None]]:
        """(call id, text, failed) of each result in an item."""
        ...

    def result_part(self, call_id: str | None, text: str | None) -> dict[str, Any]: ...


@dataclass(slots=True, eq=False)
class _Place:
    """A point of a conversation: what was said up to here, and the run it belongs to."""

    node: Node
    chain: str
    turn: Turn | None = None  # still open: the next item may belong to it
    at_end: bool = False
    again: bool = False  # what follows may be known, from a history that was not rewritten
    told: tuple[str | None, int | None] | None = None  # the response that said the last of it


class Exchanges:
    """Reads one file, value by value."""

    def __init__(self, notation: Notation, sink: Sink, skipped: SkipList) -> None:
        self._notation = notation
        self._sink = sink
        self._skipped = skipped
        self._contents = Contents()
        self._runs: dict[SessionRun, None] = {}
        self._places: OrderedDict[str, _Place] = OrderedDict()  # by the chain of what was said
        self._responses: OrderedDict[str, _Place] = OrderedDict()
        self._sessions: dict[str, _Place] = {}
        self._ids: OrderedDict[tuple[str, str], SessionRun] = OrderedDict()
        self._equal: dict[str, int] = {}
        self._alone: tuple[int | None, _Place] | None = None
        self.known = 0

    def feed(self, line: Entry) -> None:
        value = line.value
        if self._notation.is_item(value):
            self.known += 1
            self._single(value, line)
            return
        exchange = self._notation.read(value)
        if exchange is None:
            if line.array is not None:
                raise FormatError(f"not of the format {self._notation.name}", where=line.where)
            self._skipped.add(line.where, f"not of the format {self._notation.name}")
            return
        self.known += 1
        self._alone = None
        self._exchange(exchange, line)

    def finish(self) -> None:
        for run in self._runs:
            run.finish()

    # -- which conversation ---------------------------------------------------------------------------

    def _single(self, item: dict[str, Any], line: Entry) -> None:
        """Messages that stand singly make up one conversation."""
        at = _time(item)
        if self._alone is None or self._alone[0] != line.array:
            place = self._new(Exchange([item], begun=at), digest(self._notation.normal(item)))
            self._alone = (line.array, place)
        self._put(self._alone[1], item, line.where, at)

    def _exchange(self, exchange: Exchange, line: Entry) -> None:
        items = exchange.items
        chains = [""]
        for item in items:
            chains.append(digest(chains[-1], self._notation.normal(item)))
        if self._was_told(exchange, chains[-1]):
            return  # a line that was read before
        place, done = self._known(exchange, chains)
        if place is None:
            place, done = self._new(exchange, self._key(exchange, chains)), 0
        run = place.node.run
        run.model = exchange.model or run.model
        for number, item in enumerate(items[done:], done + 1):
            self._put(place, item, f"{line.where}, message {number}", _time(item))
            if exchange.paired and self._notation.is_answer(item):
                self._remember(self._places, place.chain, place)
        self._close(place)
        place.again = False
        if exchange.paired:
            self._answer(exchange, place, line)
        place.at_end = True
        self._remember(self._places, place.chain, place)
        if exchange.response_id:
            self._remember(self._responses, exchange.response_id, place)
        if exchange.session_id:
            self._sessions[exchange.session_id] = place

    def _was_told(self, exchange: Exchange, chain: str) -> bool:
        told = (exchange.response_id, exchange.ended)
        if exchange.answer is None or told == (None, None):
            return False
        for item in exchange.answer:
            chain = digest(chain, self._notation.normal(item))
        known = self._places.get(chain)
        return known is not None and known.told in (None, told)

    def _known(self, exchange: Exchange, chains: list[str]) -> tuple[_Place | None, int]:
        """Where a conversation that was seen before goes on, and how many of the items it had then."""
        if exchange.previous_id is not None and (found := self._responses.get(exchange.previous_id)):
            return _copy(found), 0
        for length in range(len(exchange.items), 0, -1):
            found = self._places.get(chains[length])
            if found is None:
                continue
            if exchange.paired or (found.at_end and length < len(exchange.items)):
                return _copy(found), length
        # The history was rewritten, but calls in it are known.
        if exchange.paired:
            for item in exchange.items:
                for asked in self._notation.calls(item):
                    run = self._ids.get(_identity(asked)) if asked.call_id else None
                    if run is not None:
                        return _Place(run.start(), digest("again", chains[-1]), again=True), 0
        return None, 0

    def _key(self, exchange: Exchange, chains: list[str]) -> str:
        """What makes a conversation this one: its beginning where that has ids, else all of it."""
        facts = [exchange.session_id, exchange.previous_id]
        answer = exchange.answer or []
        for number, item in enumerate([*exchange.items, *answer], 1):
            if any(asked.call_id for asked in self._notation.calls(item)):
                first = [self._notation.normal(found) for found in [*exchange.items, *answer][:number]]
                return digest(facts, first)
        return digest(
            facts, chains[-1], [self._notation.normal(item) for item in answer], exchange.response_id
        )

    def _new(self, exchange: Exchange, key: str) -> _Place:
        ordinal = self._equal.get(key, 0)
        self._equal[key] = ordinal + 1
        notation = self._notation
        session = exchange.session_id
        run = SessionRun(
            self._sink,
            notation.name,
            f"{key} {ordinal}" if ordinal else key,
            begun=exchange.begun,
            session_id=session,
            agent="assistant",
            name=(session,) if session else (),
            contents=self._contents,
        )
        run.provider = notation.provider
        for name, value in exchange.facts.items():
            run.fact(name, value)
        self._runs[run] = None
        return _Place(run.start(), "")

    def _remember(self, places: OrderedDict[str, _Place], key: str, place: _Place) -> None:
        places[key] = _copy(place)
        if len(places) > _REMEMBERED:
            places.popitem(last=False)

    # -- what was said --------------------------------------------------------------------------------

    def _put(self, place: _Place, item: dict[str, Any], where: str, at: int | None) -> None:
        run, notation = place.node.run, self._notation
        place.chain = digest(place.chain, notation.normal(item))
        if notation.is_answer(item):
            asked = notation.calls(item)
            if (
                place.again
                and place.turn is None
                and asked
                and all(self._ids.get(_identity(one)) is run for one in asked)
            ):
                place.node = run.say(place.node, "assistant", notation.parts(item))  # sent once more
                return
            if place.turn is None:
                place.turn, place.node = run.begin(place.chain, place.node, at)
            self._say(place.turn, run, item, where, at)
            if not notation.grouped():
                self._close(place)
            return
        self._close(place)
        for call_id, text, failed in notation.results(item):
            call = run.waiting(call_id)
            if call is None:
                if not any(key[0] == call_id for key in self._ids):
                    self._skipped.add(where, f"a result for {call_id!r}, which no open call has")
            else:
                run.answer(call, text, at, failed=failed)
            part = notation.result_part(call_id, text)
            place.node = run.say(place.node, "tool", [part], call=call)
        if parts := notation.parts(item):
            place.node = run.say(place.node, notation.role(item), parts)

    def _say(self, turn: Turn, run: SessionRun, item: dict[str, Any], where: str, at: int | None) -> None:
        run.go_on(turn, self._notation.parts(item), at)
        for asked in self._notation.calls(item):
            if asked.name is None:
                self._skipped.add(where, "the call has no tool name")
                continue
            run.call(turn, f"{turn.span_id.hex()} {turn.asked}", asked.call_id, asked.name, asked.arguments)
            if asked.call_id is not None:
                self._ids[_identity(asked)] = run
                if len(self._ids) > _REMEMBERED:
                    self._ids.popitem(last=False)

    def _answer(self, exchange: Exchange, place: _Place, line: Entry) -> None:
        run = place.node.run
        run.settle()
        key = exchange.response_id or digest(place.chain, exchange.ended, "answer")
        if exchange.answer is None:
            key = digest(place.chain, exchange.ended, exchange.refused)
            again = self._equal.get(key, 0)
            self._equal[key] = again + 1
            run.fail(
                f"{key} {again}",
                place.node,
                exchange.ended,
                exchange.refused or "",
                status=exchange.status,
                kind=exchange.error_type,
            )
            return
        told = (exchange.response_id, exchange.ended)
        chain = place.chain
        for item in exchange.answer:
            chain = digest(chain, self._notation.normal(item))
        known = self._places.get(chain)
        if known is not None and known.node.run is run and known.told in (None, told):
            place.node, place.chain = known.node, chain  # a line that was read, or later histories hold
            return
        place.told = told
        turn, node = run.begin(key, place.node, exchange.ended)
        run.describe(turn)
        turn.usage = exchange.usage
        for item in exchange.answer:
            place.chain = digest(place.chain, self._notation.normal(item))
            self._say(turn, run, item, f"{line.where}, response", exchange.ended)
        run.close(turn)
        place.node = node

    def _close(self, place: _Place) -> None:
        if place.turn is not None:
            place.node.run.close(place.turn)
            place.turn = None


def _copy(place: _Place) -> _Place:
    return _Place(place.node, place.chain, at_end=place.at_end, told=place.told)


def _identity(asked: Asked) -> tuple[str, str]:
    return asked.call_id or "", digest(asked.name, asked.arguments)


def _time(value: Any) -> int | None:
    if not isinstance(value, dict):
        return None
    return next((time for key in _TIME_KEYS if (time := parse_time(value.get(key))) is not None), None)


def envelope(value: dict[str, Any], request: dict[str, Any], response: Any) -> Exchange:
    """What stands around a request and its response."""
    exchange = Exchange([])
    exchange.begun = _time(value) or _time(request) or _time(response)
    exchange.ended = _time(inner({"r": response}, "r")) or _time(value)
    exchange.session_id = next((text for key in _SESSION_KEYS if (text := text_of(value.get(key)))), None)
    exchange.model = text_of(inner({"r": response}, "r").get("model")) or text_of(request.get("model"))
    for holder in (value, inner(value, "response")):
        for key in _STATUS_KEYS:
            status = holder.get(key)
            if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599:
                exchange.status = exchange.status or status
    return exchange
