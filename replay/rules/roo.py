"""Roo-Code: equal calls in a row."""

from __future__ import annotations

from collections.abc import Hashable

from ._arguments import argument
from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "RooRepetition"]


class RooRepetition(LoopRule):
    """Counts from 0, so with a limit of 3 the fourth equal call is refused; then counting starts anew."""

    reads_arguments_of = frozenset({"browser_action"})
    __slots__ = ("_count", "_last", "_limit")

    def __init__(self, *, limit: int | None = 3) -> None:
        self._limit = limit
        self._last: Hashable = None
        self._count = 0

    def observe(self, call: RuleCall) -> Said | None:
        """Asked before the call is made."""
        if call.tool == "browser_action" and argument(call, "action") in ("scroll_down", "scroll_up"):
            return None
        key = call.shallow
        if key is not None and key == self._last:
            self._count += 1
        else:
            self._count = 0
            self._last = key
        if not self._limit or self._count < self._limit:
            return None
        self._count = 0
        self._last = None
        return Said.REFUSE

    def may_fire(self, run: RunShape) -> bool:
        """Only equal calls in a row count (scrolling between them does not break the row)."""
        return bool(self._limit) and (run.special or run.in_row >= min((self._limit or 0) + 1, 5))


RULES = (
    RuleInfo(
        name="roo-code",
        framework="Roo-Code",
        title="Roo-Code repetition, limit 3",
        source="RooCodeInc/Roo-Code@cb83656 src/core/tools/ToolRepetitionDetector.ts",
        says=(
            "Before a call: is it equal to the one before it, outermost keys in any order? The first "
            "call counts 0, so a limit of 3 lets three equal calls run and asks the user about the "
            "fourth; then counting starts anew. Scrolling in the browser does not count. Results are "
            "not looked at. Without a limit it is off (0 there)."
        ),
        unseen="",
        needs=("arguments",),
        does="refuses",
        make=RooRepetition,
    ),
)
