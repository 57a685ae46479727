"""CrewAI: the call before."""

from __future__ import annotations

from collections.abc import Hashable

from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "CrewaiRepeatedUsage"]


class CrewaiRepeatedUsage(LoopRule):
    """Refuses a call equal to the last one that returned.

    With `failed_calls_count` a call that failed is remembered as well, as where tools hand their
    errors back as text and raise nothing.
    """

    __slots__ = ("_failed_calls_count", "_last")

    def __init__(self, *, failed_calls_count: bool = False) -> None:
        self._failed_calls_count = failed_calls_count
        self._last: Hashable = None

    def observe(self, call: RuleCall) -> Said | None:
        """Asked before the call is made."""
        key = call.same
        if key is not None and key == self._last:
            return Said.REFUSE
        if self._failed_calls_count or call.failed is not True:
            self._last = key
        return None

    def may_fire(self, run: RunShape) -> bool:
        """Failed calls that are not remembered may lie between two equal ones."""
        return run.in_row >= 2 if self._failed_calls_count else run.same >= 2


RULES = (
    RuleInfo(
        name="crewai",
        framework="CrewAI",
        title="CrewAI repeated usage",
        source=(
            "crewAIInc/crewAI@f4731f5 lib/crewai/src/crewai/tools/tool_usage.py, …/agents/tools_handler.py"
        ),
        says=(
            "Before a call: is it equal, tool and arguments, to the last one that returned? Then it is "
            "not made and the model is told that it tried the same input again. A tool that raises is "
            "not remembered, so a failing call can be repeated without end; a refused one is not "
            "remembered either."
        ),
        unseen=(
            "A failed call is taken for one that raised. Only the text-based executor asks this; the "
            "one for native tool calls does not."
        ),
        needs=("arguments", "outcome"),
        does="refuses",
        make=CrewaiRepeatedUsage,
    ),
)
