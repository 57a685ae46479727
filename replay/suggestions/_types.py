"""What a suggestion says, as plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from .._text import plural
from .._types import SCHEMA_VERSION, Totals

if TYPE_CHECKING:
    from ...guard import GuardPolicy

__all__ = ["Effect", "Example", "Fact", "HarmLimit", "Suggestion", "SuggestionKind", "SuggestionReport"]


class SuggestionKind(StrEnum):
    """What a suggestion would change."""

    RESETS = "resets"  # tools whose success makes a repeat legitimate
    WAITING = "waiting"  # a tool that is meant to be asked again: thresholds of its own, or exempt
    THRESHOLDS = "thresholds"  # the pair for all tools
    ARGUMENTS = "arguments"  # argument names that vary while nothing else does
    RESULTS = "results"  # keys or passages of results that vary while nothing else does
    OUTCOMES = "outcomes"  # what a call came to, by its text


@dataclass(frozen=True, slots=True)
class HarmLimit:
    """How much a policy may cost: calls that a block would have cut off although they brought something new.

    `calls` counts them, `share` is a part of all calls; where both are set, both hold. `runs` bounds the
    blocked runs that went on to something new. None: no limit of that kind.
    """

    calls: int | None = None
    share: float | None = 0.01
    runs: int | None = None

    def lost(self, calls: int) -> int | None:
        """Calls that may be lost of so many; None: any number."""
        limits = [] if self.calls is None else [self.calls]
        if self.share is not None:
            limits.append(int(self.share * calls + 1e-9))
        return min(limits, default=None)

    def allows(self, totals: Totals, runs_lost: int) -> bool:
        """Is what a policy costs within the limit?"""
        most = self.lost(totals.calls)
        return (most is None or totals.calls_lost <= most) and (self.runs is None or runs_lost <= self.runs)

    def words(self, calls: int) -> str:
        """The limit for people: "13 calls lost (1% of 1,310)"."""
        parts: list[str] = []
        most = self.lost(calls)
        if most is not None:
            parts.append(f"{plural(most, 'call')} lost")
            if self.share is not None and (self.calls is None or most < self.calls):
                parts[-1] += f" ({100 * self.share:.3g}% of {calls:,})"
        if self.runs is not None:
            parts.append(f"{self.runs:,} blocked runs that went on to something new")
        return " and ".join(parts) or "any number of calls lost"


@dataclass(frozen=True, slots=True)
class Example:
    """One recorded call that shows what is meant."""

    run_id: str
    seq: int  # the call's place in its run, from 1
    tool_name: str
    text: str  # what is to be seen there, bounded
    incident: str | None = None  # key of the incident that the call belongs to, if there is one


@dataclass(frozen=True, slots=True)
class Fact:
    """One piece of evidence: a sentence, the counts it rests on, and at most five examples."""

    text: str
    n: int  # how often it was seen
    of: int | None = None  # ... of how many; None: of all there are
    runs: int = 0  # in how many runs
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """Which nudges and blocks go away, stay, and come.

    `moved_…`: of all nudges and blocks those on calls that later gave another result in the same run; a note
    on such a call disturbs work, a block ends it.
    """

    nudges_gone: int = 0
    nudges_stay: int = 0
    nudges_new: int = 0
    blocks_gone: int = 0
    blocks_stay: int = 0
    blocks_new: int = 0
    moved_before: int = 0
    moved_after: int = 0
    gone: tuple[Example, ...] = ()  # at most five each
    stay: tuple[Example, ...] = ()
    new: tuple[Example, ...] = ()

    @property
    def changes(self) -> bool:
        """True if any call is judged otherwise."""
        return bool(self.nudges_gone or self.nudges_new or self.blocks_gone or self.blocks_new)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One change to the policy, what speaks for it, and what it would have done to the recorded runs.

    `before` and `after` are totals under the present policy and with this suggestion alone accepted.
    """

    kind: SuggestionKind
    key: str  # names the change: equal for the same change, whatever else is recorded
    title: str
    evidence: tuple[Fact, ...]
    change: Mapping[str, Any]  # in the shape of the policy file; see `accept`
    policy: GuardPolicy  # after accepting this one
    before: Totals
    before_exact: Totals
    after: Totals
    after_exact: Totals
    effect: Effect
    runs: int  # runs in which the evidence was seen
    warning: str | None = None  # where the support is thin
    covers: str | None = None  # what was replayed, where it was not all

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {
            "key": self.key,
            "kind": self.kind.value,
            "title": self.title,
            "warning": self.warning,
            "runs": self.runs,
            "evidence": [asdict(fact) for fact in self.evidence],
            "change": dict(self.change),
            "before": {**self.before.to_json(), "exact": self.before_exact.to_json()},
            "after": {**self.after.to_json(), "exact": self.after_exact.to_json()},
            "effect": asdict(self.effect),
            "covers": self.covers,
            "policy": {**self.policy.to_dict(), "policy_hash": self.policy.policy_hash},
        }


@dataclass(frozen=True, slots=True)
class SuggestionReport:
    """The suggestions for one policy, and why there are no more."""

    policy: GuardPolicy
    harm_limit: HarmLimit
    runs: int  # that were looked at
    calls: int
    runs_guarded: int  # left out: recorded while a live guard wrote notes
    suggestions: tuple[Suggestion, ...]
    notes: tuple[str, ...] = field(default=())  # what was looked for and not suggested, and why

    def to_json(self) -> dict[str, Any]:
        """The JSON of `loopscope suggest --format json` (docs/suggestions.md)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "policy": {**self.policy.to_dict(), "policy_hash": self.policy.policy_hash},
            "harm_limit": asdict(self.harm_limit),
            "runs": self.runs,
            "calls": self.calls,
            "runs_guarded": self.runs_guarded,
            "suggestions": [one.to_json() for one in self.suggestions],
            "notes": list(self.notes),
        }
