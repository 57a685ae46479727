"""Calls that stand only in messages: asked for by a model, with no span of their execution.

Where an instrumentation writes no tool spans they are all the calls there are; where it does, they are what
was refused, dropped or lost before it ran. One whose result a later request brings is a call like any other.
One that nothing answers is known and never counted: it has no end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence

from ._attributes import as_int, as_text, first
from ._calls import CallDraft
from ._join import Exchange, KnownFacts, Unclaimed, result_of, same_result
from ._messages import MessageReader
from ._parts import Responded, facts_of, is_stub
from ._records import SpanRecord
from ._requests import RequestDraft
from ._runs import Run, Runs
from ._transcripts import is_transcript
from ._tree import Node
from .dialects import Keys, Kind, dialect_of
from .dialects.crewai import TASKS_OUTPUT, task_messages
from .dialects.pydantic_ai import NEW_MESSAGES

__all__ = ["calls_asked_for", "calls_of_agents"]


def calls_asked_for(
    asked: Mapping[str, Sequence[Unclaimed]],
    exchanges: Mapping[str, Sequence[Exchange]],
    drafts: Mapping[str, RequestDraft],
    calls: Iterable[CallDraft],
) -> list[CallDraft]:
    """Drafts of the calls that no span stands for.

    `asked` and `exchanges` by run, `drafts` of requests by span id, `calls` are those with spans, joined.
    """
    if not any(asked.values()):
        return []
    left = _without_spans([one for ones in asked.values() for one in ones], calls, drafts)
    facts = KnownFacts()
    histories = {
        run_id: sorted(
            (exchange for exchange in exchanges[run_id] if exchange.input),
            key=lambda exchange: (exchange.start_ns, exchange.end_ns, exchange.span_id),
        )
        for run_id in {_run_id(drafts, one) for one in left}
    }
    found: list[CallDraft] = []
    for one in left:
        draft = drafts[one.answer.span_id]
        answered = result_of(one, histories[_run_id(drafts, one)], facts)
        if answered is not None and is_stub(answered[0].text):
            answered = None  # nobody knows what came of the call
        result, request = answered if answered is not None else (None, None)
        assert draft.run is not None
        found.append(
            _draft(
                draft.node,
                draft.run,
                one.requested.name or "",
                call_id=one.requested.call_id,
                arguments=one.requested.arguments,
                result=result,
                position=one.position,
                start_ns=one.answer.end_ns,
                end_ns=None if request is None else request.start_ns,
                turn=one.answer.turn,
                dialect=draft.dialect,
                agent_name=draft.agent_name,
                service_name=draft.service_name,
            )
        )
    return found


def _run_id(drafts: Mapping[str, RequestDraft], one: Unclaimed) -> str:
    run = drafts[one.answer.span_id].run
    assert run is not None
    return run.run_id


def _without_spans(
    asked: list[Unclaimed], calls: Iterable[CallDraft], drafts: Mapping[str, RequestDraft]
) -> list[Unclaimed]:
    """Leave out what a span that was not matched may well be: one of another run, or under another name."""
    loose = sorted(
        (call for call in calls if not call.claimed),
        key=lambda call: (call.start_ns, call.end_ns or 0, call.span_id),
    )
    left = sorted(
        asked, key=lambda one: (one.answer.end_ns, one.answer.start_ns, one.answer.span_id, one.position)
    )
    if not loose:
        return left
    spans = _Loose(loose)
    left = [
        one
        for one in left
        if one.requested.call_id is None or not spans.take(("id", one.requested.call_id), one)
    ]
    left = [one for one in left if not spans.take((*_named(one), one.requested.name), one)]
    # Some instrumentations name tools after their class or plugin.
    return [one for one in left if not spans.take((*_named(one), _run_id(drafts, one), one.answer.turn), one)]


def _named(one: Unclaimed) -> tuple[str, ...]:
    """Two ids that differ are two calls, whatever else is equal."""
    return ("any",) if one.requested.call_id is None else ("no id",)


class _Loose:
    """Calls with spans of which nobody asked for, by what they may be taken for."""

    def __init__(self, calls: list[CallDraft]) -> None:
        self._waiting: dict[Hashable, deque[CallDraft]] = {}
        self._used: set[str] = set()
        for call in calls:
            keys: list[Hashable] = [("any", call.name), ("any", call.run.run_id, call.turn)]
            if call.call_id is not None:
                keys.append(("id", call.call_id))
            else:
                keys += [("no id", call.name), ("no id", call.run.run_id, call.turn)]
            for key in keys:
                self._waiting.setdefault(key, deque()).append(call)

    def take(self, key: Hashable, one: Unclaimed) -> bool:
        """Is there a span left with this key that began after the answer did? It is used up, then."""
        waiting = self._waiting.get(key)
        while waiting:
            call = waiting.popleft()
            if call.span_id not in self._used and call.start_ns >= one.answer.start_ns:
                self._used.add(call.span_id)
                return True
        return False


# -- agents that record their whole conversation, and nothing of its parts ------------------------------


def calls_of_agents(nodes: Iterable[Node], runs: Runs, reader: MessageReader) -> list[CallDraft]:
    """Calls in the conversations that agent spans hold. For traces in which nothing else holds any."""
    found: list[CallDraft] = []
    told: set[str] = set()  # runs whose conversation was read: a second instrumentation repeats it
    for node in nodes:
        if node.kind is Kind.AGENT and not is_transcript(node.span):
            run = runs.of(node)
            if run.run_id not in told:
                calls = _calls_of_agent(node, run, reader)
                if calls:
                    told.add(run.run_id)
                    found += calls
    return found


def _conversation(span: SpanRecord, reader: MessageReader) -> list[tuple[str, str | None]]:
    """The messages that an agent's run added, as JSON texts, and whose they are where that is said."""
    attributes = span.attributes
    tasks = attributes.get(TASKS_OUTPUT)
    if isinstance(tasks, str):
        return task_messages(tasks)
    hit = first(attributes, Keys.agent_messages)
    if hit is not None:
        skip = as_int(attributes.get(NEW_MESSAGES)) or 0
        return [(text, None) for text in (reader.read_list(hit[1]).input or [])[max(0, skip) :]]
    hit = first(attributes, Keys.output_messages)
    return [] if hit is None else [(text, None) for text in reader.read_list(hit[1]).input or []]


def _calls_of_agent(node: Node, run: Run, reader: MessageReader) -> list[CallDraft]:
    span = node.span
    calls: list[CallDraft] = []
    waiting: dict[Hashable, deque[CallDraft]] = {}
    turn = 0
    for text, agent in _conversation(span, reader):
        facts = facts_of(text)
        turn += bool(facts.calls)
        for requested in facts.calls:
            call = _draft(
                node,
                run,
                requested.name or "",
                call_id=requested.call_id,
                arguments=requested.arguments,
                result=None,
                position=len(calls) + 1,
                start_ns=span.start_ns,
                end_ns=None,
                turn=turn,
                dialect=dialect_of(span, node.shape),
                agent_name=agent or node.agent_name,
                service_name=as_text(span.resource.get("service.name")),
            )
            calls.append(call)
            waiting.setdefault(same_result(requested), deque()).append(call)
        for result in facts.results:
            queue = waiting.get(same_result(result))
            if queue and not is_stub(result.text):
                call = queue.popleft()
                call.result, call.result_failed = result.text, result.failed
                # When in the agent's time it ended is not recorded; the position keeps the order.
                call.end_ns = span.end_ns
    return calls


def _draft(
    node: Node,
    run: Run,
    name: str,
    *,
    call_id: str | None,
    arguments: str | None,
    result: Responded | None,
    position: int,
    start_ns: int,
    end_ns: int | None,
    turn: int | None,
    dialect: str,
    agent_name: str | None,
    service_name: str | None,
) -> CallDraft:
    """A call by what messages of a span say; `position` tells the calls of the span apart."""
    span = node.span
    return CallDraft(
        node=node,
        run=run,
        trace_id=span.trace_id,
        span_id=span.span_id,
        start_ns=start_ns,
        end_ns=end_ns,
        dialect=dialect,
        agent_name=agent_name,
        service_name=service_name,
        name=name,
        call_id=call_id,
        arguments=arguments,
        result=None if result is None else result.text,
        failed=None,
        explicit=False,
        error_type=None,
        error_text=None,
        jsonrpc_code=None,
        http_status=None,
        cut=False,
        result_failed=None if result is None else result.failed,
        turn=turn,
        position=position,
    )
