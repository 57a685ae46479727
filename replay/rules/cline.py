"""Cline: equal calls in a row."""

from __future__ import annotations

from collections.abc import Hashable

from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "ClineLoop"]


class ClineLoop(LoopRule):
    """A note at exactly the soft threshold, the end of the run from the hard one on."""

    __slots__ = ("_count", "_hard", "_last", "_soft")

    def __init__(self, *, soft: int = 3, hard: int = 5) -> None:
        self._soft = soft
        self._hard = hard
        self._last: Hashable = None
        self._count = 0

    def observe(self, call: RuleCall) -> Said | None:
        """Asked before the call is made."""
        key = call.same
        self._count = self._count + 1 if key is not None and key == self._last else 1
        self._last = key
        if self._count >= self._hard:
            return Said.HALT_BEFORE
        return Said.NOTICE if self._count == self._soft else None

    def may_fire(self, run: RunShape) -> bool:
        """Only equal calls in a row count."""
        return run.in_row >= min(self._soft, self._hard, 5)


RULES = (
    RuleInfo(
        name="cline",
        framework="Cline",
        title="Cline repeated calls, 3 / 5",
        source="cline/cline@21cb8d2 sdk/packages/core/src/runtime/safety/loop-detection.ts",
        says=(
            "Before a call: how many equal calls in a row is this, keys in any order? At 3 a note, from"
            " 5 on the run stops. Another call starts again at 1. Results are not looked at. (A later "
            "version takes the calls of one response together and lets changed results start again.)"
        ),
        unseen="",
        needs=("arguments",),
        does="halts",
        make=ClineLoop,
    ),
)
