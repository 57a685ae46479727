"""One call is one call: log events of a session, and its spans in whatever trace, taken together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..guard import fingerprint
from ._calls import CallDraft
from ._errors import is_vague
from ._messages import MessageReader
from ._records import SpanRecord
from ._requests import RequestDraft, complete_request
from ._runs import Runs
from ._tree import Node
from .dialects.cli_agents import session_of_span

__all__ = ["Unit", "attach", "merge_sessions"]

_Item = TypeVar("_Item", CallDraft, RequestDraft)
_Times = tuple[int, int, str]  # start, end, span id

_SLACK_NS = 1_000_000_000  # between the end of a span and the event that tells of it


# -- what is derived together ----------------------------------------------------------------------------


@dataclass(slots=True)
class Unit:
    """A trace while its calls and requests come together. `told_…` are those that log events tell of."""

    nodes: list[Node]
    runs: Runs
    reader: MessageReader
    calls: list[CallDraft] = field(default_factory=list)
    requests: list[RequestDraft] = field(default_factory=list)
    told_calls: list[CallDraft] = field(default_factory=list)
    told_requests: list[RequestDraft] = field(default_factory=list)

    def release(self) -> None:
        """Let go of what nodes say of themselves, when nobody needs it any more.

        A tool span is the outermost span of its own call. Such circles are left to the garbage collector,
        which looks at all that a fold has in its hands to find them: 3 µs a span.
        """
        for node in self.nodes:
            node.agent = node.call = node.tool = node.llm = None


def attach(told: Iterable[SpanRecord], nodes: Iterable[Node]) -> list[Node]:
    """Nodes of the spans made out of events, below the agents in whose spans they were logged."""
    made = [Node(span) for span in sorted(told, key=lambda span: (span.start_ns, span.span_id))]
    if made:
        by_id = {node.span.span_id: node for node in nodes}
        for node in made:
            parent = by_id.get(node.span.parent_span_id or "")
            while parent is not None and (parent.call is not None or parent.llm is not None):
                parent = parent.parent
            node.parent = parent
    return made


def merge_sessions(units: Sequence[Unit]) -> None:
    """Let the events of each session complete its spans in all units.

    What has no span stays in the unit where it was told of.
    """
    if not any(unit.told_calls or unit.told_requests for unit in units):
        return
    calls = _by_session((call, call.node.span) for unit in units for call in unit.calls)
    requests = _by_session((draft, draft.node.span) for unit in units for draft in unit.requests)
    told_calls = _by_told(
        (call, call.dialect, call.run.session_id) for unit in units for call in unit.told_calls
    )
    told_requests = _by_told(
        (draft, draft.dialect, draft.run.session_id if draft.run else None)
        for unit in units
        for draft in unit.told_requests
    )
    left_calls = {
        id(call) for key, told in told_calls.items() for call in merge_calls(calls.get(key, ()), told)
    }
    left_requests = {
        id(draft)
        for key, told in told_requests.items()
        for draft in merge_requests(requests.get(key, ()), told)
    }
    for unit in units:
        unit.calls += [call for call in unit.told_calls if id(call) in left_calls]
        unit.requests += [draft for draft in unit.told_requests if id(draft) in left_requests]


_Key = tuple[str, str | None]  # dialect, session


def _by_session(items: Iterable[tuple[_Item, SpanRecord]]) -> dict[_Key, list[_Item]]:
    found: dict[_Key, list[_Item]] = {}
    for item, span in items:
        session = session_of_span(span)
        if session is not None:
            found.setdefault(session, []).append(item)
    return found


def _by_told(items: Iterable[tuple[_Item, str, str | None]]) -> dict[_Key, list[_Item]]:
    found: dict[_Key, list[_Item]] = {}
    for item, dialect, session in items:
        found.setdefault((dialect, session), []).append(item)
    return found


# -- one call is one call: the events of a session and its spans -----------------------------------------


def merge_calls(spans: Sequence[CallDraft], events: Sequence[CallDraft]) -> list[CallDraft]:
    """Let events complete the spans of the same calls; the events of calls without a span."""
    by_id: dict[tuple[str, str], deque[CallDraft]] = {}
    for call in sorted(spans, key=_call_times):
        if call.call_id is not None:
            by_id.setdefault((call.call_id, call.name), deque()).append(call)
    left: list[CallDraft] = []
    taken: set[int] = set()
    for event in sorted(events, key=_call_times):
        same = by_id.get((event.call_id, event.name)) if event.call_id is not None else None
        if same:
            call = same.popleft()
            taken.add(id(call))
            _complete_call(call, event)
        else:
            left.append(event)
    # Two ids that differ are two calls.
    known = [event for event in left if event.call_id is not None]
    left = [event for event in left if event.call_id is None]
    free = [call for call in spans if id(call) not in taken]
    pairs, left = _paired(free, left, _alike, _call_times)
    for call, event in pairs:
        _complete_call(call, event)
    return known + left


def _alike(call: CallDraft) -> Hashable:
    return call.name, fingerprint(call.name, call.arguments)


def _call_times(call: CallDraft) -> _Times:
    return call.start_ns, call.end_ns or call.start_ns, call.span_id


def merge_requests(spans: Sequence[RequestDraft], events: Sequence[RequestDraft]) -> list[RequestDraft]:
    """As `merge_calls`."""
    pairs, left = _paired(spans, events, _refused, _request_times)
    for request, event in pairs:
        complete_request(request, event)
    return left


def _refused(request: RequestDraft) -> Hashable:
    return request.failed


def _request_times(request: RequestDraft) -> _Times:
    span = request.node.span
    return span.start_ns, span.end_ns or span.start_ns, span.span_id


def _paired(
    spans: Iterable[_Item],
    events: Iterable[_Item],
    key: Callable[[_Item], Hashable],
    times: Callable[[_Item], _Times],
) -> tuple[list[tuple[_Item, _Item]], list[_Item]]:
    """Pairs of a span and an event with one key, those that fit in time first, the others in order."""
    free: dict[Hashable, list[_Item]] = {}
    for item in sorted(spans, key=times):
        free.setdefault(key(item), []).append(item)
    pairs: list[tuple[_Item, _Item]] = []
    waiting = sorted(events, key=lambda item: (times(item)[1], times(item)))
    for in_time in (True, False):
        left: list[_Item] = []
        for event in waiting:
            candidates = free.get(key(event), [])
            ended = times(event)[1]
            for number, item in enumerate(candidates):
                start, end, _ = times(item)
                if not in_time or start - _SLACK_NS <= ended <= end + _SLACK_NS:
                    pairs.append((item, event))
                    del candidates[number]
                    break
                if start - _SLACK_NS > ended:  # and so do all that follow
                    left.append(event)
                    break
            else:
                left.append(event)
        waiting = left
    return pairs, waiting


def _complete_call(call: CallDraft, event: CallDraft) -> None:
    """What an event knows of a call beyond its span."""
    call.call_id = call.call_id or event.call_id
    if event.arguments is not None and (call.arguments is None or call.rough):
        call.arguments, call.rough = event.arguments, False
        call.cut = call.cut or event.cut
    if call.result is None and event.result is not None:
        call.result = event.result
        call.cut = call.cut or event.cut
    if call.explicit or event.failed is None:
        return
    if event.failed and call.failed is not True:
        call.failed = True
    elif call.failed is None:
        call.failed = event.failed
    if call.failed:
        if is_vague(call.error_type):
            call.error_type = event.error_type or call.error_type
        call.error_text = call.error_text or event.error_text
