"""Gemini CLI: cycles of calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "GeminiCycles"]


class GeminiCycles(LoopRule):
    """One to five calls, repeated five times over; only calls are compared, with the order of their keys."""

    __slots__ = ("_found", "_history", "_matches", "_periods", "_repeats")

    def __init__(self, *, repeats: int = 5, longest: int = 5) -> None:
        self._repeats = repeats
        self._periods = range(1, longest + 1)
        self._history: deque[Hashable] = deque(maxlen=longest)
        self._matches = [0] * (longest + 1)  # by period: calls in a row equal to the one a period before
        self._found = 0

    def observe(self, call: RuleCall) -> Said | None:
        """Asked before the call is made: first the model is told and tries again, then it is over."""
        key = call.ordered
        history, matches = self._history, self._matches
        if key is None:
            key = object()
        fires = False
        for period in self._periods:
            if period <= len(history) and history[-period] == key:
                matches[period] += 1
                fires = fires or matches[period] >= period * (self._repeats - 1)
            else:
                matches[period] = 0
        history.append(key)
        if not fires:
            return None
        self._found += 1
        return Said.REFUSE if self._found == 1 else Said.HALT_BEFORE

    def may_fire(self, run: RunShape) -> bool:
        """Every call of a cycle occurs as often as the cycle."""
        return run.same >= self._repeats


RULES = (
    RuleInfo(
        name="gemini-cli",
        framework="Gemini CLI",
        title="Gemini CLI cycles, period 1–5, 5 times",
        source="google-gemini/gemini-cli@5411f11 packages/core/src/services/loopDetectionService.ts",
        says=(
            "Before a call: do the last calls of the prompt (at most 25) end in a cycle of 1 to 5 calls"
            " that ran 5 times? Calls are equal if name and JSON are, keys in the same order; results "
            "are not looked at. The first time the model is told and tries again; the second time the "
            "turn ends."
        ),
        unseen="The rules against chanted text and the check by a model after 30 turns.",
        needs=("arguments",),
        does="refuses",
        make=GeminiCycles,
    ),
)
