"""Qwen-code: what is always on, and the further rules that can be switched on."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Hashable

from ._arguments import argument
from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "QwenLoop"]

_SHELL = "run_shell_command"
_BETWEEN = re.compile(r"&&|\|\||[;&|\n]")
_GIT = re.compile(r"git(?:\s+(?:-C\s+\S+|--no-pager))*\s+(status|diff|ls-files)\b", re.IGNORECASE)
_REVISION = re.compile(r"(?:HEAD|@)(?:[~^]\d*)*|(?i:[0-9a-f]{7,40})|\S+?\.{2,3}\S+")


class QwenLoop(LoopRule):
    """Equal calls in a row, looks at the repository in a row, too many calls; with `opt_in` four more."""

    reads_arguments_of = frozenset({_SHELL})
    __slots__ = (
        "_alternating",
        "_cap",
        "_cap_is_hard",
        "_counts",
        "_git",
        "_git_limit",
        "_hard_cap",
        "_in_row",
        "_key_before",
        "_last",
        "_most",
        "_name",
        "_name_limit",
        "_name_row",
        "_opt_in",
        "_other_tool",
        "_reads",
        "_reads_limit",
        "_repeats",
        "_row",
        "_total",
        "_turns",
    )

    def __init__(
        self,
        *,
        opt_in: bool = False,
        in_row: int = 5,
        git_overviews: int = 8,
        cap: int = 100,
        cap_is_hard: bool = False,
        repeats: int = 6,
        alternating_laps: int = 3,
        same_name: int = 8,
        reads: int = 8,
        reads_window: int = 15,
    ) -> None:
        self._opt_in = opt_in
        self._in_row = in_row
        self._git_limit = git_overviews
        self._cap, self._hard_cap, self._cap_is_hard = cap, cap * 10, cap_is_hard
        self._repeats = repeats
        self._alternating = 2 * alternating_laps
        self._name_limit = same_name
        self._reads_limit = reads
        self._last: Hashable = None
        self._row = 0
        self._git = 0
        self._total = 0
        self._counts: dict[Hashable, int] = {}
        self._most = 0
        self._key_before: Hashable = None
        self._turns = 0  # calls in a row that are equal to the one two before and not to the one before
        self._name: str | None = None
        self._name_row = 0
        self._reads: deque[bool] = deque(maxlen=reads_window)
        self._other_tool = False

    def observe(self, call: RuleCall) -> Said | None:
        """Asked before the call is made; the turn ends."""
        key = call.same
        count = 0
        again = key is not None and key == self._last
        self._row = self._row + 1 if again else 1
        if self._opt_in:
            self._turns = self._turns + 1 if key is not None and key == self._key_before and not again else 0
            self._key_before = self._last
        self._last = key
        if key is not None:
            count = self._counts[key] = self._counts.get(key, 0) + 1
            self._most = max(self._most, count)
        self._git = self._git + 1 if call.tool == _SHELL and _git_overview(call) else 0
        self._total += 1
        if (
            self._row >= self._in_row
            or self._git >= self._git_limit
            or (self._total > self._cap and self._over_cap())
            or (self._opt_in and self._further(call.tool, count))
        ):
            return Said.HALT_BEFORE
        return None

    def _over_cap(self) -> bool:
        return self._cap_is_hard or self._total > self._hard_cap or self._most >= self._repeats

    def _further(self, tool: str, count: int) -> bool:
        self._name_row = self._name_row + 1 if tool == self._name else 1
        self._name = tool
        reads = _reads(tool)
        self._other_tool = self._other_tool or not reads
        self._reads.append(reads)
        return (
            count >= self._repeats
            or self._name_row >= self._name_limit
            or self._turns >= self._alternating - 2
            or (self._other_tool and sum(self._reads) >= self._reads_limit)
        )

    def special_tools(self, tools: Collection[str]) -> Collection[str]:
        """The shell, and what counts as a read."""
        return {_SHELL, *filter(_reads, tools)} if self._opt_in else {_SHELL}

    def may_fire(self, run: RunShape) -> bool:
        """Equal calls in a row, a shell command, more calls than the cap, or what the further rules count."""
        if run.special or run.calls > self._cap or run.in_row >= min(self._in_row, 5):
            return True
        # Rows of fewer than eight calls of one tool are not told apart.
        long_row = run.name_in_row >= 8 if self._name_limit >= 8 else run.calls >= self._name_limit
        return self._opt_in and (long_row or run.same >= min(self._repeats, self._alternating // 2))


def _reads(tool: str) -> bool:
    return tool.startswith(("read_", "list_")) or tool == "zoom_image"


def _git_overview(call: RuleCall) -> bool:
    """Does the command do nothing but look over the repository?"""
    command = argument(call, "command")
    if not isinstance(command, str):
        return False
    parts = [part for one in _BETWEEN.split(command) if (part := one.strip())]
    return bool(parts) and all(_overview(part) for part in parts)


def _overview(part: str) -> bool:
    match = _GIT.match(part)
    if match is None:
        return False
    if match[1].lower() != "diff":
        return True
    rest = part[match.end() :].split()
    if "--" in rest and rest.index("--") < len(rest) - 1:  # names files
        return False
    return all(one.startswith("-") or _REVISION.fullmatch(one) for one in rest)


_FILE = "QwenLM/qwen-code packages/core/src/services/loopDetectionService.ts"

RULES = (
    RuleInfo(
        name="qwen-code",
        framework="Qwen-code",
        title="Qwen-code, always on: 5 in a row",
        source=_FILE,
        says=(
            "Before a call, within a turn: 5 equal calls in a row, keys in any order; 8 shell commands "
            "in a row that do nothing but look over the git repository; more than 100 calls of which "
            "one call occurred 6 times; more than 1,000 calls. Then the turn ends. Results are not "
            "looked at."
        ),
        unseen="Old names of its own tools are not taken for the new ones.",
        needs=("arguments",),
        does="halts",
        make=QwenLoop,
    ),
    RuleInfo(
        name="qwen-code-opt-in",
        framework="Qwen-code",
        title="Qwen-code with the rules that are off by default",
        source=_FILE,
        says=(
            "What is always on, and: one call 6 times anywhere in the turn; two calls in turn for 3 "
            "laps; 8 calls in a row of one tool, whatever their arguments; once another tool has run, 8"
            " of the last 15 calls are reads. `skipLoopDetection` leaves these off by default."
        ),
        unseen="The rules against chanted text and repeated thoughts.",
        needs=("arguments",),
        does="halts",
        make=QwenLoop,
        options={"opt_in": True},
    ),
)
