"""hermes-agent: the guardrails of 0.19, and the cycle rule that came later."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable

from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "HermesCycles", "HermesGuardrails"]

# The tools that 0.19 knows to change nothing.
_READ_ONLY = frozenset(
    {
        "read_file",
        "search_files",
        "web_search",
        "web_extract",
        "session_search",
        "browser_snapshot",
        "browser_console",
        "browser_get_images",
        "mcp_filesystem_read_file",
        "mcp_filesystem_read_text_file",
        "mcp_filesystem_read_multiple_files",
        "mcp_filesystem_list_directory",
        "mcp_filesystem_list_directory_with_sizes",
        "mcp_filesystem_directory_tree",
        "mcp_filesystem_get_file_info",
        "mcp_filesystem_search_files",
    }
)


class HermesGuardrails(LoopRule):
    """Failures of one call, failures of one tool, equal results of one call that changes nothing.

    With `hard_stop` off, their default, there are notes only. `also_read_only` names tools that change
    nothing, beside those that 0.19 knows.
    """

    __slots__ = (
        "_exact_block",
        "_exact_failures",
        "_exact_warn",
        "_hard_stop",
        "_progress_block",
        "_progress_warn",
        "_read_only",
        "_results",
        "_tool_failures",
        "_tool_halt",
        "_tool_warn",
    )

    def __init__(
        self,
        *,
        hard_stop: bool = False,
        exact_failure_warn: int = 2,
        exact_failure_block: int = 5,
        same_tool_failure_warn: int = 3,
        same_tool_failure_halt: int = 8,
        no_progress_warn: int = 2,
        no_progress_block: int = 5,
        also_read_only: Collection[str] = (),
    ) -> None:
        self._hard_stop = hard_stop
        self._exact_warn, self._exact_block = exact_failure_warn, exact_failure_block
        self._tool_warn, self._tool_halt = same_tool_failure_warn, same_tool_failure_halt
        self._progress_warn, self._progress_block = no_progress_warn, no_progress_block
        self._read_only = _READ_ONLY | frozenset(also_read_only)
        self._exact_failures: dict[Hashable, int] = {}
        self._tool_failures: dict[str, int] = {}
        self._results: dict[Hashable, tuple[Hashable, int]] = {}

    def observe(self, call: RuleCall) -> Said | None:
        """A refusal, which ends the turn too, is decided before the call; the rest when it has finished."""
        key = call.same
        read_only = call.read_only or call.tool in self._read_only
        if self._hard_stop and key is not None:
            if self._exact_failures.get(key, 0) >= self._exact_block:
                return Said.HALT_BEFORE
            if read_only and self._results.get(key, (None, 0))[1] >= self._progress_block:
                return Said.HALT_BEFORE
        if call.failed is None:
            return None
        return self._failed(call.tool, key) if call.failed else self._returned(call, key, bool(read_only))

    def _failed(self, tool: str, key: Hashable) -> Said | None:
        of_tool = self._tool_failures[tool] = self._tool_failures.get(tool, 0) + 1
        exact = 0
        if key is not None:
            exact = self._exact_failures[key] = self._exact_failures.get(key, 0) + 1
            self._results.pop(key, None)
        if self._hard_stop and of_tool >= self._tool_halt:
            return Said.HALT_AFTER
        return Said.NOTICE if exact >= self._exact_warn or of_tool >= self._tool_warn else None

    def _returned(self, call: RuleCall, key: Hashable, read_only: bool) -> Said | None:
        self._exact_failures.pop(key, None)
        self._tool_failures.pop(call.tool, None)
        if not read_only or key is None:
            return None
        if call.result is None:
            self._results.pop(key, None)
            return None
        last, count = self._results.get(key, (None, 0))
        count = count + 1 if last == call.result else 1
        self._results[key] = call.result, count
        return Said.NOTICE if count >= self._progress_warn else None

    def special_tools(self, tools: Collection[str]) -> Collection[str]:
        """Of those that change nothing, successes count too."""
        return self._read_only

    def may_fire(self, run: RunShape) -> bool:
        """Failures of one call are failures of one tool; successes count for tools that change nothing."""
        fewest = min(self._exact_warn, self._exact_block, self._tool_warn, self._tool_halt)
        equal = min(self._progress_warn, self._progress_block)
        return run.tool_failures >= fewest or (run.special and run.same >= equal)


class HermesCycles(LoopRule):
    """Calls that take turns with equal results; with `streaks`, also one call in a row.

    With `hard_stop` off there are notes only.
    """

    __slots__ = (
        "_halt",
        "_hard_stop",
        "_history",
        "_kept",
        "_longest",
        "_matches",
        "_notice",
        "_row",
        "_streaks",
    )

    def __init__(
        self,
        *,
        notice_laps: int = 3,
        halt_laps: int = 5,
        longest: int = 4,
        history: int = 64,
        hard_stop: bool = True,
        streaks: bool = False,
    ) -> None:
        self._notice, self._halt = notice_laps, halt_laps
        self._longest = longest
        self._kept = history
        self._hard_stop = hard_stop
        self._streaks = streaks
        self._history: deque[tuple[Hashable, bool]] = deque(maxlen=longest)
        self._matches = [0] * (longest + 1)
        self._row = 0

    def observe(self, call: RuleCall) -> Said | None:
        """Looked at when the call has finished."""
        history, matches = self._history, self._matches
        if call.result is None:
            history.clear()
            self._matches = [0] * (self._longest + 1)
            self._row = 0
            return None
        pair = (call.same if call.same is not None else object(), call.result)
        poller = call.tool == "process_manage" or call.tool.endswith(("_get_result", "_poll"))
        self._row = self._row + 1 if history and history[-1][0] == pair else 1
        for period in range(2, self._longest + 1):
            same = period <= len(history) and history[-period][0] == pair
            matches[period] = min(matches[period] + 1, self._kept - period) if same else 0
        history.append((pair, poller))
        if not poller and self._row >= self._notice:  # then cycles are not asked for
            return self._said(self._row) if self._streaks else None
        for period in range(2, self._longest + 1):
            laps = matches[period] // period + 1
            if laps >= self._notice and not all(history[-back][1] for back in range(1, period + 1)):
                return self._said(laps)
        return None

    def _said(self, laps: int) -> Said:
        return Said.HALT_AFTER if self._hard_stop and laps >= self._halt else Said.NOTICE

    def may_fire(self, run: RunShape) -> bool:
        """Every call of a cycle occurs as often as the cycle."""
        return run.same >= min(self._notice, self._halt)


RULES = (
    RuleInfo(
        name="hermes-0.19",
        framework="hermes-agent",
        title="hermes-agent 0.19 guardrails, hard stop on",
        source="hermes-agent 0.19.0 (PyPI) agent/tool_guardrails.py",
        says=(
            "Per turn, not only in a row: one call that failed twice or more, or one tool that failed "
            "3 times or more with any arguments, gets a note; once one call has failed 5 times, its next "
            "is refused and the turn ends; at 8 failures of one tool the turn ends. A tool that changes "
            "nothing (a list of names) gets a note from its second equal result for one call; after the "
            "fifth the next is refused and the turn ends. A success clears the failures of that call and "
            "that tool. Stopping is off by default and on here."
        ),
        unseen=(
            "Results compare as text (as JSON there). Tools of other frameworks are not on its list of "
            "names; name yours with `also_read_only`."
        ),
        needs=("arguments", "result", "outcome"),
        does="halts",
        make=HermesGuardrails,
        options={"hard_stop": True},
    ),
    RuleInfo(
        name="hermes-cycles",
        framework="hermes-agent",
        title="hermes-agent newer cycle rule alone, 3 / 5 laps",
        source="NousResearch/hermes-agent@06c25ac agent/tool_guardrails.py (pull request 106428)",
        says=(
            "When a call is done: do the last 64 end in a cycle of 2 to 4 calls, arguments and results "
            "equal in every lap? At 3 laps a note, at 5 the turn ends. A cycle of pollers alone "
            "(`…_poll`, `…_get_result`, `process_manage`) is let be. One call in a row is another of "
            "its rules (`streaks`) and off here."
        ),
        unseen="Results compare as text (as JSON there).",
        needs=("arguments", "result"),
        does="halts",
        make=HermesCycles,
    ),
)
