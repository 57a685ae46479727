"""OpenLIT: the view of looping traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "OpenlitLoops"]


class OpenlitLoops(LoopRule):
    """Equal calls anywhere; a mark in a view, nothing is stopped."""

    __slots__ = ("_counts", "_threshold")

    def __init__(self, *, threshold: int = 3) -> None:
        self._threshold = threshold
        self._counts: Counter[Hashable] = Counter()

    def observe(self, call: RuleCall) -> Said | None:
        """Looked at afterwards: the call that makes it a loop."""
        if call.blanks is None:
            return None
        self._counts[call.blanks] += 1
        return Said.NOTICE if self._counts[call.blanks] >= self._threshold else None

    def may_fire(self, run: RunShape) -> bool:
        """Needs as many equal calls."""
        return run.same >= self._threshold


RULES = (
    RuleInfo(
        name="openlit",
        framework="OpenLIT",
        title="OpenLIT agent loops, 3 anywhere (view only)",
        source=(
            "openlit/openlit@3236ab1 src/client/src/lib/platform/agent-loop/classify.ts (pull request 1494)"
        ),
        says=(
            "Marks a conversation (else session, else trace) in which one call occurs 3 times, "
            "anywhere. Arguments compare as text with runs of blanks as one; calls without any are left"
            " out. Results are not looked at. Tokens and cost of all copies but the first are shown as "
            "wasted. Nothing is stopped."
        ),
        unseen=(
            "Here it looks at runs. In a store, calls that differ only in blanks inside a value are "
            "different."
        ),
        needs=("arguments",),
        does="marks",
        make=OpenlitLoops,
    ),
)
