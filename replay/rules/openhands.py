"""OpenHands: the stuck detector of the agent SDK."""

from __future__ import annotations

from collections import deque

from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "OpenHands"]


class OpenHands(LoopRule):
    """Looks back when a step is done: equal pairs, one call that fails, two pairs in turn."""

    __slots__ = (
        "_action_error",
        "_action_observation",
        "_alternating",
        "_equal",
        "_failing",
        "_pairs",
        "_turns",
    )

    def __init__(
        self,
        *,
        action_observation: int = 4,
        action_error: int = 3,
        alternating_pattern: int = 6,
        window: int = 20,
    ) -> None:
        # A call is two events of the window. What does not fit into it is never seen.
        pairs = window // 2
        self._action_observation = action_observation if action_observation <= pairs else None
        self._action_error = action_error if action_error < pairs else None
        self._alternating = alternating_pattern if alternating_pattern <= pairs else None
        self._pairs: deque[tuple[object, object, bool]] = deque(maxlen=2)
        self._equal = 0  # pairs in a row that are equal to the last
        self._failing = 0  # failures of one call in a row
        self._turns = 0  # pairs in a row that are equal to the one two before

    def observe(self, call: RuleCall) -> Said | None:
        """Checks run between steps, so of several calls of one response only the last can fire."""
        action = call.same if call.same is not None else object()
        failed = call.failed is True
        observation = (failed, call.result) if call.result is not None else object()
        pairs = self._pairs
        pair = (action, observation, failed)
        last = pairs[-1] if pairs else None
        self._equal = self._equal + 1 if last == pair else 1
        if not failed:
            self._failing = 0
        else:
            self._failing = self._failing + 1 if last is not None and last[0] == action and last[2] else 1
        self._turns = self._turns + 1 if len(pairs) == 2 and pairs[0] == pair else 0
        pairs.append(pair)
        if not call.ends_turn:
            return None
        if (
            (self._action_observation is not None and self._equal >= self._action_observation)
            or (self._action_error is not None and self._failing > self._action_error)
            or (self._alternating is not None and self._turns >= self._alternating - 2)
        ):
            return Said.HALT_AFTER
        return Said.NOTICE if self._failing == self._action_error else None

    def may_fire(self, run: RunShape) -> bool:
        """Each of the three needs equal calls: as many as the threshold, or half of it if they take turns."""
        needed = (self._action_observation, self._action_error, self._alternating and self._alternating // 2)
        return run.same >= min((one for one in needed if one is not None), default=run.calls + 1)


RULES = (
    RuleInfo(
        name="openhands",
        framework="OpenHands",
        title="OpenHands stuck detector, 4 / 3 / 6",
        source=(
            "OpenHands/software-agent-sdk@611629e openhands-sdk/openhands/sdk/conversation/stuck_detector.py"
        ),
        says=(
            "Looks at the last 20 events (10 calls) when a step is done. Stuck: 4 equal calls with "
            "equal results in a row; the same call failing more than 3 times in a row, whatever the "
            "error; 6 calls in which each equals the one two before, results too. The third failure in "
            "a row of a call brings one note."
        ),
        unseen=(
            "The thought beside a call is part of its identity there and is taken as equal here; the "
            "rule against three messages in a row concerns no calls."
        ),
        needs=("arguments", "result", "outcome"),
        does="halts",
        make=OpenHands,
    ),
)
