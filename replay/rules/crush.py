"""Crush: equal steps among the last ten."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "CrushLoop"]


class CrushLoop(LoopRule):
    """A step is all calls of one response with what came of them."""

    __slots__ = ("_counts", "_max_repeats", "_step", "_steps", "_window")

    def __init__(self, *, window: int = 10, max_repeats: int = 5) -> None:
        self._window = window
        self._max_repeats = max_repeats
        self._steps: deque[Hashable] = deque()
        self._counts: Counter[Hashable] = Counter()
        self._step: list[Hashable] = []

    def observe(self, call: RuleCall) -> Said | None:
        """Asked when a step is done."""
        known = call.text is not None and call.result is not None
        self._step.append((call.text, call.result) if known else object())
        if not call.ends_turn:
            return None
        signature = tuple(self._step)
        self._step = []
        self._steps.append(signature)
        self._counts[signature] += 1
        if len(self._steps) > self._window:
            old = self._steps.popleft()
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        if len(self._steps) < self._window:
            return None
        # Only the step that came in can have become too frequent, or the window has just become full.
        if self._counts[signature] > self._max_repeats or max(self._counts.values()) > self._max_repeats:
            return Said.HALT_AFTER
        return None

    def may_fire(self, run: RunShape) -> bool:
        """Needs a full window of steps, and one call more often than allowed."""
        return run.calls >= self._window and run.same > self._max_repeats


RULES = (
    RuleInfo(
        name="crush",
        framework="Crush",
        title="Crush equal steps, more than 5 of 10",
        source="charmbracelet/crush@37f36e9 internal/agent/loop_detection.go",
        says=(
            "When a step is done: among the last 10 steps (fewer are not looked at), is there one that "
            "occurs more than 5 times? A step is every call of one response, arguments to the letter, "
            "with its result. Then the run stops."
        ),
        unseen=(
            "Where the response that asked for a call is not known, each call is taken for a step of its own."
        ),
        needs=("arguments", "result", "turn"),
        does="halts",
        make=CrushLoop,
    ),
)
