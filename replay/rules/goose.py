"""goose: equal calls in a row (REP-001), equal errors in a row (REP-002)."""

from __future__ import annotations

from collections.abc import Hashable

from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "GooseRepeatedCalls", "GooseRepeatedErrors"]


class GooseRepeatedCalls(LoopRule):
    """Equal calls in a row, off unless a limit is set."""

    __slots__ = ("_count", "_last", "_max_repetitions")

    def __init__(self, *, max_repetitions: int | None = None) -> None:
        self._max_repetitions = max_repetitions
        self._last: Hashable = None
        self._count = 0

    def observe(self, call: RuleCall) -> Said | None:
        """Asked before the call is made."""
        if self._max_repetitions is None:
            return None
        key = call.same
        self._count = self._count + 1 if key is not None and key == self._last else 1
        self._last = key
        return Said.REFUSE if self._count > self._max_repetitions else None

    def may_fire(self, run: RunShape) -> bool:
        """Only equal calls in a row count."""
        limit = self._max_repetitions
        return limit is not None and run.in_row >= min(limit + 1, 5)


class GooseRepeatedErrors(LoopRule):
    """One tool failing with one error, whatever its arguments."""

    reads_errors = True
    __slots__ = ("_count", "_denied", "_error", "_limit", "_tool", "_turn")

    def __init__(self, *, limit: int = 3) -> None:
        self._limit = limit
        self._tool: str | None = None
        self._error: str | None = None
        self._count = 0
        self._turn: int | None = None
        self._denied: str | None = None  # the tool that is denied in this response

    def observe(self, call: RuleCall) -> Said | None:
        """Asked once for all calls of a response, before they are made."""
        if call.turn is None or call.turn != self._turn:
            self._turn = call.turn
            self._denied = None
            if self._count >= self._limit:
                self._denied = self._tool
                self._count = 0  # whether or not the tool is called now
        if call.tool == self._denied:
            return Said.REFUSE
        if call.failed is False:
            self._tool = self._error = None
            self._count = 0
        elif call.failed:
            error = None if call.error is None else call.error[:100]
            if error is not None and (call.tool, error) == (self._tool, self._error):
                self._count += 1
            else:
                self._tool, self._error, self._count = call.tool, error, 1
        return None

    def may_fire(self, run: RunShape) -> bool:
        """The tool fails as often as the limit says, and is then called once more."""
        return run.tool_failures >= self._limit and run.calls > self._limit


_FILE = "aaif-goose/goose@37c043b crates/goose/src/tool_monitor.rs"

RULES = (
    RuleInfo(
        name="goose-rep-001",
        framework="goose",
        title="goose REP-001, equal calls in a row (off unless set)",
        source=_FILE,
        says=(
            "Before a call: is it equal to the one before it more often than `max_repetitions` in a "
            "row? Then it is denied. Off unless set. Results are not looked at."
        ),
        unseen="",
        needs=("arguments",),
        does="refuses",
        make=GooseRepeatedCalls,
    ),
    RuleInfo(
        name="goose-rep-002",
        framework="goose",
        title="goose REP-002, 3 equal errors of a tool",
        source=_FILE,
        says=(
            "Did one tool fail 3 times in a row with one error (its first 100 characters), whatever its"
            " arguments? Then the calls of that tool in the next response are denied, once, and "
            "counting starts anew. A success of any tool starts it anew, too."
        ),
        unseen=(
            "Where the response that asked for a call is not known, each call is taken for one of its own."
        ),
        needs=("result", "outcome", "turn"),
        does="refuses",
        make=GooseRepeatedErrors,
    ),
)
