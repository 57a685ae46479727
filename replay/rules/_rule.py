"""What a rule is: fed the finished calls of a run one by one, it says where it would step in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from ._calls import RuleCall

__all__ = ["LoopRule", "RuleInfo", "RuleVerdicts", "RunShape", "Said", "fold"]


class Said(StrEnum):
    """What a rule does about a call."""

    NOTICE = "notice"  # a note to the model or a mark in a view; everything goes on
    REFUSE = "refuse"  # this call is not made, or the user is asked about it; the agent goes on
    HALT_BEFORE = "halt_before"  # the run ends and this call is not made
    HALT_AFTER = "halt_after"  # this call was made; the run ends behind it


class RunShape(NamedTuple):
    """Numbers of one run's calls that say which rules cannot fire on it. Of one agent's calls each.

    Attributes:
        calls: finished calls.
        same: most calls with one fingerprint.
        in_row: most calls with one fingerprint in a row, 5 for more.
        name_in_row: 8 where there are 8 or more calls of one tool in a row, else 1.
        tool_failures: most failed calls of one tool.
        special: has a call of a tool that the rule looks at more closely.
    """

    calls: int
    same: int
    in_row: int
    name_in_row: int
    tool_failures: int
    special: bool = False


class LoopRule:
    """A rule over the calls of one agent in one run. Make a new one for every run.

    `observe` is given finished calls, in the order in which they finished. What a rule decides
    before a call is made it says as if it had been asked then: it uses nothing of that call's result.
    """

    reads_arguments_of: ClassVar[frozenset[str]] = frozenset()
    """Tools of which the rule reads the arguments themselves, not only whether they are equal."""
    reads_results_of: ClassVar[frozenset[str]] = frozenset()
    """Likewise the results."""
    reads_errors: ClassVar[bool] = False
    """Does it read what failed calls said?"""

    __slots__ = ()

    def observe(self, call: RuleCall) -> Said | None:
        """Take a call, and say what the rule does about it; None: nothing."""
        raise NotImplementedError

    def special_tools(self, tools: Collection[str]) -> Collection[str]:
        """Of these tools, those that make `RunShape.special` true."""
        return self.reads_arguments_of | self.reads_results_of

    def may_fire(self, run: RunShape) -> bool:
        """False only where it is certain that `observe` says nothing on any call of such a run."""
        return True


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A rule that can be run beside ours.

    Attributes:
        name: what it is called here.
        framework: whose it is.
        title: one line.
        source: repository, file and commit that were read.
        says: what it compares, counts and does, with its defaults.
        unseen: what of the framework's rule a recording of tool calls cannot show.
        needs: what must be recorded for it: arguments, result, outcome, turn.
        does: "halts" (the run ends), "refuses" (single calls are not made) or "marks" (nothing is stopped).
        make: gives a fresh rule; takes the rule's knobs.
        options: the knobs that differ from the framework's own defaults when it is run here.
    """

    name: str
    framework: str
    title: str
    source: str
    says: str
    unseen: str
    needs: tuple[str, ...]
    does: str
    make: Callable[..., LoopRule] = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)

    def rule(self, **options: Any) -> LoopRule:
        """A fresh rule, with these knobs in place of its defaults."""
        return self.make(**{**self.options, **options})


@dataclass(frozen=True, slots=True)
class RuleVerdicts:
    """What a rule does on one run. Numbers of calls count from 1.

    Attributes:
        notice_at: its first notice, if that comes before it stops anything.
        stop_at: the first call that it refuses, halts at or asks the user about.
        made: was the call at `stop_at` made all the same (the rule halts behind it)?
        refused: every call it refuses if the agent goes on as recorded; of a rule that halts, none.
    """

    notice_at: int | None = None
    stop_at: int | None = None
    made: bool = False
    refused: tuple[int, ...] = ()


def fold(rule: LoopRule, calls: Iterable[RuleCall]) -> RuleVerdicts:
    """Feed one agent's calls to a rule."""
    notice = stop = None
    refused: list[int] = []
    observe = rule.observe
    for number, call in enumerate(calls, 1):
        said = observe(call)
        if said is None:
            continue
        if said is Said.NOTICE:
            if notice is None and stop is None:
                notice = number
        elif said is Said.REFUSE:
            refused.append(number)
            if stop is None:
                stop = number
        else:
            made = said is Said.HALT_AFTER
            if stop is None:
                return RuleVerdicts(notice, number, made)
            if not made:
                refused.append(number)
            break
    return RuleVerdicts(notice, stop, False, tuple(refused))
