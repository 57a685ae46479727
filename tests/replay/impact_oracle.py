"""What a policy would have changed, computed by hand over the guard's fold: loops and sums, no SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from test_replay_engine import PARENTS, Judged, judge, units

from loopscope.collector import LlmRequest, ToolCall
from loopscope.guard import GuardPolicy
from loopscope.replay import AfterBlock, Effect, Spent

PARTS = ("avoidable", "lost", "unjudged", "rest")


@dataclass
class Call:
    """A call with its verdict and what it took."""

    judged: Judged
    unit: str
    wall_ns: int = 0
    request: Request | None = None

    @property
    def made(self) -> ToolCall:
        return self.judged.call

    @property
    def end(self) -> int:
        assert self.made.end_ns is not None
        return self.made.end_ns


@dataclass
class Request:
    """A request that came after a block, or asked for a call of interest."""

    sent: LlmRequest
    unit: str
    after: bool = False
    exact: bool = True
    wall_ns: int = 0
    asked: list[Call] = field(default_factory=list)

    @property
    def end(self) -> int:
        assert self.sent.end_ns is not None
        return self.sent.end_ns

    @property
    def part(self) -> str:
        parts = {one.judged.after for one in self.asked}
        return next((part for part in ("lost", "unjudged", "avoidable") if part in parts), "rest")


def replayed(
    calls: list[ToolCall], requests: list[LlmRequest], policy: GuardPolicy
) -> tuple[list[Call], list[Request]]:
    """Every call and request, with what comes after blocks worked out."""
    of_unit = {id(one): name for name, mine in units(calls, policy.scope).items() for one in mine}
    made = [Call(one, of_unit[id(one.call)]) for one in judge(calls, policy)]
    sent = [Request(one, _unit(one, policy.scope)) for one in requests]
    names = dict.fromkeys(one.unit for one in made)
    blocks = {one.unit: one for one in made if one.judged.action == "block"}
    # A request in a unit without an intervention is not looked at.
    spoken = [one for one in made if one.judged.action in ("nudge", "block", "after_block")]
    looked_at = [one for one in sent if one.unit in {call.unit for call in spoken}]
    for one in spoken:
        if one.judged.action != "after_block":
            one.request = _asked_by(one, looked_at)
    for name in names:
        mine = [one for one in made if one.unit == name]
        after = [one for one in mine if one.judged.action == "after_block"]
        block = blocks.get(name)
        if block is None and not after:
            continue
        around = PARENTS.get(name) if policy.scope == "run" else None
        until = None
        while around is not None and around in names:
            if around in blocks:
                end = blocks[around].end
                until = end if until is None else min(until, end)
            around = PARENTS.get(around)

        def up_to(moment: int, until: int | None = until) -> int:
            return moment if until is None else min(moment, until)

        clock = None if block is None else block.end
        for one in after:
            if clock is not None:
                one.wall_ns = max(0, up_to(one.end) - clock)
            clock = one.end if clock is None else max(clock, one.end)
        exact = all(one.judged.exact for one in after)
        if block is not None:
            exact = exact and block.judged.exact and block.made.recorded_verdict == "block"
        for one in sent:
            if one.unit == name and (block is None or one.sent.start_ns >= block.end):
                one.after, one.exact = True, exact
        for call in after:
            call.request = _asked_by(call, looked_at)
            if call.request is not None:
                call.request.asked.append(call)
        assert clock is not None
        rest = [one for one in sent if one.unit == name and one.after and not one.asked]
        for one in sorted(rest, key=lambda one: one.end):
            one.wall_ns = max(0, up_to(one.end) - clock)
            clock = max(clock, one.end)
    return made, sent


def _unit(request: LlmRequest, scope: str) -> str:
    if scope == "run":
        return request.run_id
    return request.trace_id if scope == "trace" else request.session_id or f"run {request.run_id}"


def _asked_by(call: Call, sent: Iterable[Request]) -> Request | None:
    mine = [one for one in sent if one.sent.run_id == call.made.run_id and one.sent.turn is not None]
    if call.made.turn is not None:
        return next((one for one in mine if one.sent.turn == call.made.turn), None)
    before = [one for one in mine if one.end <= call.made.start_ns]
    return max(before, key=lambda one: (one.end, one.sent.start_ns, one.sent.span_id), default=None)


def effect(calls: list[Call], requests: list[Request]) -> Effect:
    """The effect on these calls and requests."""
    after = {}
    for part in PARTS:
        mine = [one for one in calls if one.judged.after == part]
        sent = [one for one in requests if one.after and one.part == part]
        inputs = [one.sent.input_tokens for one in sent if one.sent.input_tokens is not None]
        outputs = [one.sent.output_tokens for one in sent if one.sent.output_tokens is not None]
        costs = [one.sent.cost for one in sent if one.sent.cost is not None]
        after[part] = Spent(
            calls=len(mine),
            tool_ns=sum(max(0, one.end - one.made.start_ns) for one in mine),
            wall_ns=sum(one.wall_ns for one in mine) + sum(one.wall_ns for one in sent),
            requests=len(sent),
            requests_with_usage=sum(
                one.sent.input_tokens is not None and one.sent.output_tokens is not None for one in sent
            ),
            input_tokens=sum(inputs) if inputs else None,
            output_tokens=sum(outputs) if outputs else None,
            requests_with_cost=len(costs),
            cost=sum(costs) if costs else None,
        )

    def runs(action: str) -> int:
        return len({one.made.run_id for one in calls if one.judged.action == action})

    def number(action: str) -> int:
        return sum(one.judged.action == action for one in calls)

    return Effect(runs("nudge"), runs("block"), number("nudge"), number("block"), AfterBlock(**after))


def effects(
    calls: list[Call],
    requests: list[Request],
    of_call: Callable[[Call], object],
    of_request: Callable[[Request], object] | None,
) -> dict[object, tuple[Effect, Effect]]:
    """(everything, exact) by label, of calls and requests under the filter.

    `of_request` None: a request has the labels of the calls that it asked for.
    """
    spoken = [one for one in calls if one.judged.action in ("nudge", "block", "after_block")]
    after = [one for one in requests if one.after]

    def labels(one: Request) -> set[object]:
        if of_request is not None:
            return {of_request(one)}
        chosen = {id(call) for call in calls}
        return {of_call(call) for call in one.asked if id(call) in chosen}

    found = {}
    for label in {of_call(one) for one in spoken} | {name for one in after for name in labels(one)}:
        mine = [one for one in spoken if of_call(one) == label]
        sent = [one for one in after if label in labels(one)]
        found[label] = (
            effect(mine, sent),
            effect([one for one in mine if one.judged.exact], [one for one in sent if one.exact]),
        )
    return found
