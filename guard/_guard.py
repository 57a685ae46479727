"""The duplicate-call guard: a fold over the calls of one run, in the order they finish."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Literal

from ._canonical import fingerprint, result_hash
from ._guidance import Guidance
from ._outcome import Outcome
from ._policy import GuardPolicy

__all__ = ["Action", "Certainty", "DuplicateCallGuard", "Escalation", "Verdict"]

Certainty = Literal["certain", "truncated", "missing"]


class Action(StrEnum):
    """What the guard does about a call."""

    ALLOW = "allow"
    NUDGE = "nudge"
    BLOCK = "block"
    NOT_COUNTED = "not_counted"
    AFTER_BLOCK = "after_block"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the guard says of one call.

    Attributes:
        action: what is done about it.
        count: equal results in a row for this agent and call, this one included; for a call
            that is not counted, the count so far.
        output: the tool's output, whole. Text carries the guidance behind it; any other object
            is the very object the tool returned.
        guidance: the note, where there is one. A host whose outputs are not text adds it as a
            further content block.
        certainty: "truncated" where arguments or output were cut before they got here, so that
            equal may not be equal; "missing" where one of them is not known.
    """

    action: Action
    count: int
    output: object
    guidance: str | None = None
    certainty: Certainty = "certain"


@dataclass(frozen=True, slots=True)
class Escalation:
    """The call that ended a run."""

    tool_name: str
    agent: str | None
    count: int


class DuplicateCallGuard:
    """Watches the calls of one run. Make a new one for every run and for every retry of it.

    Safe to use from several threads and from asyncio tasks; calls count in the order in which
    `observe` is entered with their outputs. Memory: one hash and one count per different call.

    Args:
        policy: thresholds and exceptions.
        guidance: the wording of the notes; None is our own.
        blocked: start as after a block; for a run nested in one that was already stopped.
    """

    def __init__(
        self, policy: GuardPolicy | None = None, *, guidance: Guidance | None = None, blocked: bool = False
    ) -> None:
        self._policy = GuardPolicy() if policy is None else policy
        self._guidance = guidance
        self._streaks: dict[Hashable, tuple[int, int]] = {}
        self._blocked = blocked
        self._escalation: Escalation | None = None
        self._lock = Lock()

    @property
    def policy(self) -> GuardPolicy:
        """The policy this guard follows."""
        return self._policy

    @property
    def escalated(self) -> bool:
        """Has a call been blocked? Then the host ends the task with a named outcome."""
        return self._blocked

    @property
    def escalation(self) -> Escalation | None:
        """The call that was blocked, if one was in this run."""
        return self._escalation

    def nested(self) -> DuplicateCallGuard:
        """A guard for a run that starts now inside this one: silent if this one has blocked."""
        return DuplicateCallGuard(self._policy, guidance=self._guidance, blocked=self._blocked)

    def observe(
        self,
        *,
        tool_name: str,
        arguments: object,
        output: object,
        outcome: Outcome | str | None,
        agent: str | None = None,
        truncated: bool = False,
    ) -> Verdict:
        """Judge a call that has finished, and say what its output is to be.

        Args:
            tool_name: the tool that ran.
            arguments: JSON text, other text or any object; None if not known.
            output: what the tool gave, undecorated; text for an error. None if not known.
            outcome: how it ended; None if not known.
            agent: who called. Agents of one run are counted apart.
            truncated: arguments or output were cut before they got here.

        Raises:
            ValueError: `outcome` is none of the Outcome values.
        """
        if outcome is not None:
            outcome = Outcome(outcome)
        call = fingerprint(tool_name, arguments, metadata_keys=self._policy.metadata_keys)
        result = result_hash(output)
        key = None if call is None else (agent, call)
        action, count = self.observe_hashed(tool_name, key, result, outcome, agent=agent)
        certainty: Certainty = (
            "missing" if key is None or result is None else "truncated" if truncated else "certain"
        )
        if action is not Action.NUDGE and action is not Action.BLOCK:
            return Verdict(action, count, output, None, certainty)
        texts = self._guidance or Guidance.default()
        note = (texts.nudge_note if action is Action.NUDGE else texts.block_note)(tool_name, count)
        return Verdict(
            action, count, f"{output}\n\n{note}" if isinstance(output, str) else output, note, certainty
        )

    def observe_hashed(
        self,
        tool_name: str,
        key: Hashable | None,
        result: int | None,
        outcome: Outcome | str | None,
        *,
        agent: str | None = None,
    ) -> tuple[Action, int]:
        """The fold itself, over keys computed before: what replay runs on recorded calls.

        Args:
            tool_name: the tool, for its thresholds.
            key: what the count belongs to: (agent, fingerprint), or a recorded `scope_key`.
                None where the arguments are not known.
            result: `result_hash` of the output; None where it is not known.
            outcome: how the call ended; None where it is not known.
            agent: only named in `escalation`.
        """
        policy = self._policy
        with self._lock:
            last, count = self._streaks.get(key, (None, 0))
            if self._blocked:
                return Action.AFTER_BLOCK, count
            if policy.is_exempt(tool_name):
                return Action.ALLOW, 0
            if key is None or result is None or outcome is None or outcome not in policy.counted_outcomes:
                return Action.NOT_COUNTED, count
            count = count + 1 if result == last else 1
            self._streaks[key] = (result, count)
            nudge, block = policy.thresholds_for(tool_name)
            if block is not None and count >= block:
                self._blocked = True
                self._escalation = Escalation(tool_name, agent, count)
                return Action.BLOCK, count
            if nudge is not None and count >= nudge:
                return Action.NUDGE, count
            return Action.ALLOW, count
