"""What a check hands out, as plain frozen data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from .._text import plural
from .._types import SCHEMA_VERSION, Coverage, Incident, Totals

if TYPE_CHECKING:
    from ...guard import GuardPolicy

__all__ = ["CheckResult", "CheckStatus", "CheckedCall", "CheckedRun", "Limit", "Limits"]


class CheckStatus(StrEnum):
    """How a check ended."""

    CLEAN = "clean"
    OVER_THE_LIMIT = "over_the_limit"
    NOTHING_JUDGED = "nothing_judged"  # no run in which a repeat could have been seen
    BAD_INPUT = "bad_input"  # a file could not be read


@dataclass(frozen=True, slots=True)
class Limits:
    """How many runs may be blocked or nudged, and how many incidents there may be; None: any number."""

    blocked: int | None = 0
    nudged: int | None = None
    incidents: int | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit and what was found."""

    name: str  # "blocked" | "nudged" | "incidents"
    found: int
    limit: int | None

    @property
    def within(self) -> bool:
        return self.limit is None or self.found <= self.limit

    def counted(self, number: int) -> str:
        """The number with its noun: "2 blocked runs"."""
        if self.name == "incidents":
            return plural(number, "incident")
        return plural(number, f"{self.name} run")


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """The call at which a run was blocked, or first nudged."""

    seq: int  # number of the call in its run, from 1
    action: str  # "block" | "nudge"
    count: int  # equal results in a row, this one included
    exact: bool  # False: the agent had not seen an earlier nudge or block, and might have done something else
    tool_name: str
    arguments: str | None  # bounded; None: not recorded
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """A run with finished calls, and what the policy says of it."""

    run_id: str
    trace_id: str
    service_name: str | None
    agent_name: str | None  # None: not recorded, or several
    source: str | None  # the file it came from, where that is known
    first_ns: int
    last_ns: int
    calls: int
    calls_judged: int  # of these, calls of which the guard can tell what they are
    calls_without_arguments: int
    calls_nudged: int
    calls_blocked: int
    calls_avoidable: int  # after the block
    calls_lost: int
    calls_unjudged: int
    guarded: bool  # recorded while a live guard wrote into results
    decisive: CheckedCall | None
    incidents: tuple[str, ...]  # keys

    @property
    def verdict(self) -> str:
        """blocked | nudged | incident | not_judged | clean"""
        if self.calls_blocked:
            return "blocked"
        if self.calls_nudged:
            return "nudged"
        if self.incidents:
            return "incident"
        return "clean" if self.calls_judged else "not_judged"

    @property
    def why_not_judged(self) -> str:
        """What was not recorded, of a run that could not be judged."""
        return "arguments" if self.calls_without_arguments == self.calls else "results"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a policy says of recorded runs, held to limits.

    `runs` are at most 10,000, those with a finding first; the counts are over all.
    """

    policy: GuardPolicy
    limits: tuple[Limit, ...]
    runs: tuple[CheckedRun, ...]
    runs_total: int  # with a finished call
    runs_judged: int
    runs_without_arguments: int  # not judged, because no call's arguments were recorded
    runs_without_results: int  # not judged, because no call's result was recorded
    runs_without_calls: int  # asked a model and called no tool: not among `runs_total`
    runs_guarded: int
    findings_total: int  # runs that were blocked, nudged or had an incident
    totals: Totals
    exact: Totals
    coverage: Coverage
    incidents: tuple[Incident, ...]
    unread: tuple[tuple[str, str], ...] = ()  # (file, why) that could not be read

    @property
    def status(self) -> CheckStatus:
        """Bad input before all: what does not cover its input is no answer."""
        if self.unread:
            return CheckStatus.BAD_INPUT
        if not self.runs_judged:
            return CheckStatus.NOTHING_JUDGED
        if all(limit.within for limit in self.limits):
            return CheckStatus.CLEAN
        return CheckStatus.OVER_THE_LIMIT

    @property
    def findings(self) -> tuple[CheckedRun, ...]:
        """The runs of `runs` that were blocked, nudged or had an incident."""
        return tuple(run for run in self.runs if run.verdict not in ("clean", "not_judged"))

    def over(self, run: CheckedRun) -> tuple[Limit, ...]:
        """The exceeded limits that this run has a part in."""
        part = {"blocked": run.calls_blocked, "nudged": run.calls_nudged, "incidents": len(run.incidents)}
        return tuple(limit for limit in self.limits if part[limit.name] and not limit.within)

    def to_json(self) -> dict[str, Any]:
        """The JSON of `loopscope check --format json` (docs/ci.md)."""
        shown = [run for run in self.runs if run.verdict != "clean"]
        return {
            "schema_version": SCHEMA_VERSION,
            "status": self.status.value,
            "policy": {**self.policy.to_dict(), "policy_hash": self.policy.policy_hash},
            "limits": [{**asdict(limit), "within": limit.within} for limit in self.limits],
            "runs": {
                "total": self.runs_total,
                "judged": self.runs_judged,
                "without_arguments": self.runs_without_arguments,
                "without_results": self.runs_without_results,
                "without_calls": self.runs_without_calls,
                "guarded": self.runs_guarded,
            },
            "coverage": self.coverage.to_json(),
            "totals": {**self.totals.to_json(), "exact": self.exact.to_json()},
            "findings": [{**asdict(run), "verdict": run.verdict} for run in shown],
            "findings_left_out": self.findings_total - len(self.findings),
            "unread": [{"file": file, "why": why} for file, why in self.unread],
        }
