"""What a policy would have changed, as plain frozen data. Durations are nanoseconds, cost US dollars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from .._filters import Filters
from .._types import SCHEMA_VERSION, Coverage, Totals

if TYPE_CHECKING:
    from ...guard import GuardPolicy

__all__ = [
    "PARTS",
    "AfterBlock",
    "CallAfterBlock",
    "CallsAfterBlock",
    "ChangedCall",
    "Divergence",
    "Effect",
    "Impact",
    "ImpactPart",
    "PolicyComparison",
    "PositionBin",
    "SoftFailure",
    "SoftFailures",
    "Spent",
    "ToolComparison",
    "VerdictChange",
    "add_known",
]

PARTS = ("avoidable", "lost", "unjudged", "rest")
"""What comes after a block, in the order of the numbers in SQL."""


def add_known(one: float | None, other: float | None) -> Any:
    """The sum of what is known; None where nothing is."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls, and the requests to models that asked for them, took."""

    calls: int = 0
    tool_ns: int = 0  # summed run time of the calls
    wall_ns: int = 0  # how much longer the runs took for it
    requests: int = 0
    requests_with_usage: int = 0  # of these, with input and output tokens recorded
    input_tokens: int | None = None  # of the requests that recorded them; None: none did
    output_tokens: int | None = None
    requests_with_cost: int = 0
    cost: float | None = None  # of the requests whose cost is known; None: of none it is

    @property
    def usage_whole(self) -> bool:
        """True if every request recorded its tokens."""
        return self.requests_with_usage == self.requests

    @property
    def cost_whole(self) -> bool:
        """True if the cost of every request is known; else `cost` is "at least"."""
        return self.requests_with_cost == self.requests

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(add_known(getattr(self, name), getattr(other, name)) for name in _SPENT))

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {**asdict(self), "usage_whole": self.usage_whole, "cost_whole": self.cost_whole}


_SPENT = tuple(field.name for field in fields(Spent))


@dataclass(frozen=True, slots=True)
class AfterBlock:
    """What came after blocks, by what the calls brought."""

    avoidable: Spent = Spent()
    lost: Spent = Spent()
    unjudged: Spent = Spent()
    rest: Spent = Spent()  # requests that asked for no finished call: final answers, refused ones

    @property
    def total(self) -> Spent:
        """All of it."""
        return self.avoidable + self.lost + self.unjudged + self.rest

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {name: getattr(self, name).to_json() for name in PARTS}


@dataclass(frozen=True, slots=True)
class Effect:
    """Where a policy interferes, and what comes after its blocks."""

    runs_nudged: int = 0
    runs_blocked: int = 0
    calls_nudged: int = 0
    calls_blocked: int = 0
    after: AfterBlock = AfterBlock()

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {**counts, "after_block": self.after.to_json()}


_COUNTS = ("runs_nudged", "runs_blocked", "calls_nudged", "calls_blocked")


@dataclass(frozen=True, slots=True)
class ImpactPart:
    """The effect on one tool, agent, model, outcome or kind of error; name None: not recorded."""

    name: str | None
    effect: Effect
    exact: Effect

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {"name": self.name, **self.effect.to_json(), "exact": self.exact.to_json()}


@dataclass(frozen=True, slots=True)
class PositionBin:
    """Runs whose first divergence lies at a position from `first` to `last`, both included."""

    first: int
    last: int
    runs: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where runs leave what was recorded: at their first nudge or block that the agent did not see.

    The position is the number of that call in its run; 0 where a run around it had left before it
    started. What comes later is projected.
    """

    runs: int = 0  # runs that leave; all others are exact as a whole
    positions: tuple[PositionBin, ...] = ()  # call number in the run; only bins with runs
    shares: tuple[PositionBin, ...] = ()  # the same in percent of the run's calls: always ten bins
    median_position: int | None = None
    median_share: float | None = None  # 0 to 1

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CallAfterBlock:
    """One call that a block would have prevented."""

    run_id: str
    trace_id: str
    span_id: str
    position: int  # in its span
    agent_name: str | None
    tool_name: str
    call: int  # its number in the run, from 1
    calls: int  # finished calls of the run
    blocked_call: int | None  # number of the blocked call; None: it lies in another run
    judged: str  # avoidable | lost | unjudged
    exact: bool
    outcome: str | None  # as recorded
    error_kind: str | None
    wall_ns: int
    arguments: str | None  # bounded; None: not recorded
    result: str | None
    arguments_length: int | None  # characters of the whole text
    result_length: int | None
    start_ns: int


@dataclass(frozen=True, slots=True)
class CallsAfterBlock:
    """Calls after blocks; `total` counts those that are not listed, too."""

    calls: tuple[CallAfterBlock, ...]
    total: int


@dataclass(frozen=True, slots=True)
class SoftFailure:
    """A run that went in circles and whose agent span ended all the same without an error."""

    run_id: str
    agent_name: str | None
    service_name: str | None
    resolved: bool  # every incident of it was left behind: another result or other work followed
    incident: str  # key of its worst incident; an unresolved one, where there is one
    kind: str
    tool_name: str
    calls: int  # of that incident
    incidents: int  # of the run, twins left out
    nudged: bool  # by the policy
    blocked: bool
    answer: str | None  # final answer as recorded, bounded; None: not recorded
    answer_length: int | None
    answer_from: str | None  # request | agent_span


@dataclass(frozen=True, slots=True)
class SoftFailures:
    """Runs that looped and were booked as done. They do not depend on the policy, but for `…_blocked`."""

    runs: int = 0
    unresolved: int = 0  # of these, runs with an incident in which they ended
    unresolved_nudged: int = 0
    unresolved_blocked: int = 0
    resolved_nudged: int = 0
    resolved_blocked: int = 0  # stopped although they got out by themselves
    shown: tuple[SoftFailure, ...] = ()  # unresolved ones first, most repeated calls first

    @property
    def resolved(self) -> int:
        """Runs that got out of every circle."""
        return self.runs - self.unresolved

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {**asdict(self), "resolved": self.resolved}


@dataclass(frozen=True, slots=True)
class Impact:
    """What one policy would have changed."""

    policy: GuardPolicy
    filters: Filters
    coverage: Coverage
    totals: Totals  # as of `totals`
    exact_totals: Totals
    effect: Effect
    exact: Effect  # the part of it that is exact; the rest is projected
    by_tool: tuple[ImpactPart, ...]
    by_agent: tuple[ImpactPart, ...]
    by_model: tuple[ImpactPart, ...]  # the model that asked for the call
    by_outcome: tuple[ImpactPart, ...]  # unknown: None
    by_error_kind: tuple[ImpactPart, ...]
    divergence: Divergence
    lost: CallsAfterBlock  # examples
    soft_failures: SoftFailures

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {
            "schema_version": SCHEMA_VERSION,
            "policy": {**self.policy.to_dict(), "policy_hash": self.policy.policy_hash},
            "coverage": self.coverage.to_json(),
            "totals": {**self.totals.to_json(), "exact": self.exact_totals.to_json()},
            **self.effect_json(),
            **{name: [one.to_json() for one in getattr(self, name)] for name in _BY},
        }

    def effect_json(self) -> dict[str, Any]:
        """What `loopscope replay --format json` gives under `impact`."""
        return {
            "after_block": {**self.effect.after.to_json(), "exact": self.exact.after.to_json()},
            "divergence": self.divergence.to_json(),
            "lost": asdict(self.lost),
            "soft_failures": self.soft_failures.to_json(),
        }


_BY = ("by_tool", "by_agent", "by_model", "by_outcome", "by_error_kind")


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """Calls that one policy judges `before` and the other `after`."""

    before: str  # allow | nudge | block | not_counted | after_block
    after: str
    calls: int
    runs: int
    exact_calls: int  # exact under both


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """A call whose verdict differs."""

    before: str
    after: str
    exact: bool
    judged: str | None  # avoidable | lost | unjudged, where one of the two is after_block
    run_id: str
    trace_id: str
    span_id: str
    position: int
    agent_name: str | None
    tool_name: str
    call: int  # its number in the run, from 1
    arguments: str | None  # bounded
    result: str | None
    start_ns: int


@dataclass(frozen=True, slots=True)
class ToolComparison:
    """One tool under two policies."""

    name: str | None
    before: Effect
    after: Effect
    calls_changed: int


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """What changes when one policy takes the place of another.

    Gain and harm are counted call by call: a call that both policies prevent is in none of them.
    """

    before: Impact
    after: Impact
    calls_changed: int
    calls_changed_exact: int
    runs_changed: int
    changes: tuple[VerdictChange, ...]  # most calls first
    examples: tuple[ChangedCall, ...]  # of each change, bounded
    runs_newly_blocked: int
    runs_spared: int  # blocked before and no more
    newly_blocked: tuple[str, ...]  # run ids, bounded
    spared: tuple[str, ...]
    newly_avoided: int  # avoidable calls that only the second policy prevents
    no_longer_avoided: int
    newly_lost: int  # calls that brought something new and that only the second policy prevents
    no_longer_lost: int
    newly_unjudged: int
    no_longer_unjudged: int
    by_tool: tuple[ToolComparison, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        plain = {
            name: getattr(self, name)
            for name in self.__slots__
            if name not in ("before", "after", "changes", "examples", "by_tool")
        }
        return {
            "schema_version": SCHEMA_VERSION,
            "before": _short(self.before),
            "after": _short(self.after),
            **plain,
            "changes": _dicts(self.changes),
            "examples": _dicts(self.examples),
            "by_tool": [
                {
                    "name": one.name,
                    "calls_changed": one.calls_changed,
                    "before": one.before.to_json(),
                    "after": one.after.to_json(),
                }
                for one in self.by_tool
            ],
        }


def _short(one: Impact) -> dict[str, Any]:
    return {
        "policy": {**one.policy.to_dict(), "policy_hash": one.policy.policy_hash},
        "totals": {**one.totals.to_json(), "exact": one.exact_totals.to_json()},
        "after_block": {**one.effect.after.to_json(), "exact": one.exact.after.to_json()},
        "divergence": one.divergence.to_json(),
    }


def _dicts(several: Iterable[Any]) -> list[dict[str, Any]]:
    return [asdict(one) for one in several]
