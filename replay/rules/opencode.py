"""opencode: the doom loop question."""

from __future__ import annotations

from collections.abc import Hashable

from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "OpencodeDoomLoop"]


class OpencodeDoomLoop(LoopRule):
    """Three equal calls as the last parts of one assistant message.

    With `one_message` all calls of the run are taken as parts of one message.
    """

    __slots__ = ("_count", "_last", "_one_message", "_threshold", "_turn")

    def __init__(self, *, threshold: int = 3, one_message: bool = False) -> None:
        self._threshold = threshold
        self._one_message = one_message
        self._turn: int | None = None
        self._last: Hashable = None
        self._count = 0

    def observe(self, call: RuleCall) -> Said | None:
        """Asked before the call is made; the user may allow it."""
        key = call.ordered
        together = self._one_message or (call.turn is not None and call.turn == self._turn)
        self._count = self._count + 1 if together and key is not None and key == self._last else 1
        self._last, self._turn = key, call.turn
        return Said.REFUSE if self._count >= self._threshold else None

    def may_fire(self, run: RunShape) -> bool:
        """Only equal calls in a row count."""
        return run.in_row >= min(self._threshold, 5)


RULES = (
    RuleInfo(
        name="opencode",
        framework="opencode",
        title="opencode doom loop, 3 in one message",
        source="anomalyco/opencode@002d982 packages/opencode/src/session/processor.ts",
        says=(
            "Before a call: are the last three parts of this assistant message, this call among them, "
            "calls of one tool with the same JSON, keys in the same order? Then the user is asked. "
            "Calls of another message are not seen, and most models ask for one call a message. Results"
            " are not looked at."
        ),
        unseen=(
            "Text or reasoning between two calls of one message breaks the row there and is not known here."
        ),
        needs=("arguments", "turn"),
        does="refuses",
        make=OpencodeDoomLoop,
    ),
)
