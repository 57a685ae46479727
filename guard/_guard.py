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
from ._recorded import RecordedCall
from ._stubs import is_stub_result

__all__ = ["Action", "Certainty", "DuplicateCallGuard", "Escalation", "Verdict"]

Certainty = Literal["certain", "truncated", "missing"]

_GENERAL = Outcome.GENERAL_TOOL_ERROR
_SUCCESS = Outcome.SUCCESS
_ERRORS = object()  # marks the keys of counts of general errors


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
            further content block. In shadow mode there is none.
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
    `observe` is entered with their outputs. Memory: about 300 bytes per different call, however
    large arguments and outputs are; as much again where its errors are counted on their own.

    With a policy in shadow mode the verdicts are those of a guard at work, and nothing else
    happens: outputs come back as they are, without guidance, and `escalated` stays false. BLOCK
    then says that the run would have been stopped here, AFTER_BLOCK that the call would not have
    been made; counts are frozen there, as they are behind a real block.

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
        self._streaks: dict[Hashable, tuple[Hashable, int]] = {}
        self._kept: dict[Hashable, tuple[Hashable, int]] = {}  # of tools that reset the others
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
        return self._blocked and not self._policy.shadow

    @property
    def after_block(self) -> bool:
        """Is every verdict AFTER_BLOCK from here on? As `escalated`, but in shadow mode too."""
        return self._blocked

    @property
    def escalation(self) -> Escalation | None:
        """The call that was blocked, if one was in this run."""
        return None if self._policy.shadow else self._escalation

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
            output: what the tool gave, undecorated; text for an error. None if not known. The stub
                that a repair of the history put in the place of a lost result counts as not known.
            outcome: how it ended; None if not known.
            agent: who called. Agents of one run are counted apart.
            truncated: arguments or output were cut before they got here.

        Raises:
            ValueError: `outcome` is none of the Outcome values.
        """
        if outcome is not None:
            outcome = Outcome(outcome)
        rules = self._policy.rules_for(tool_name)
        call = fingerprint(tool_name, arguments, metadata_keys=rules.metadata_keys)
        if is_stub_result(output):
            result = outcome = None  # the place of a lost result: no tool said it
        else:
            result = result_hash(output) if rules.view is None else rules.view.hash(output)
        key = None if call is None else (agent, call)
        action, count = self.observe_hashed(tool_name, key, result, outcome, agent=agent)
        certainty: Certainty = (
            "missing" if key is None or result is None else "truncated" if truncated else "certain"
        )
        if (action is not Action.NUDGE and action is not Action.BLOCK) or self._policy.shadow:
            return Verdict(action, count, output, None, certainty)
        texts = self._guidance or Guidance.default()
        note = (texts.nudge_note if action is Action.NUDGE else texts.block_note)(tool_name, count)
        return Verdict(
            action, count, f"{output}\n\n{note}" if isinstance(output, str) else output, note, certainty
        )

    def observe_recorded(self, call: RecordedCall) -> tuple[Action, int]:
        """Judge a recorded call: its action and its count. Every knob of the policy is honoured.

        Feed the calls of one run (or trace, or session: the policy's scope) in the order of their
        `seq`. Stored fingerprints and result hashes are used as far as the policy allows. Its
        `outcome_rules` are asked again.
        """
        policy = self._policy
        tool_name, arguments, output, outcome, agent, identity, result, recorded_verdict = call[:8]
        if policy.outcome_rules:
            outcome, _ = policy.classify_recorded(call)
        if is_stub_result(output):
            output = result = outcome = None
        if identity is None or policy.changes_fingerprints(tool_name):
            identity = policy.fingerprint(tool_name, arguments)
        if result is None or policy.changes_results(tool_name):
            result = policy.result_hash(tool_name, output)
        compared: Hashable | None = result
        if result is not None and recorded_verdict is not None and not policy.strip_annotations:
            compared = object()  # with its note, which holds a number, it was like no other result
        key = None if identity is None else (agent, identity)
        return self.observe_hashed(tool_name, key, compared, outcome, agent=agent)

    def observe_hashed(
        self,
        tool_name: str,
        key: Hashable | None,
        result: Hashable | None,
        outcome: Outcome | str | None,
        *,
        agent: str | None = None,
    ) -> tuple[Action, int]:
        """The fold itself, over keys computed before: what replay runs on recorded calls.

        Args:
            tool_name: the tool, for its thresholds.
            key: what the count belongs to: (agent, fingerprint), or a recorded `scope_key`.
                None where the arguments are not known.
            result: the policy's `result_hash` of the output; None where it is not known.
            outcome: how the call ended; None where it is not known.
            agent: only named in `escalation`.
        """
        policy = self._policy
        thresholds, errors, exempt, resets, _, _ = policy.rules_for(tool_name)
        with self._lock:
            streaks, slot = self._streaks, key
            if errors is not None or resets:  # few policies pay for these
                if resets:
                    streaks = self._kept
                if outcome == _SUCCESS and not self._blocked:
                    if resets:
                        self._streaks.clear()
                    streaks.pop((_ERRORS, key), None)
                elif errors is not None and outcome == _GENERAL:
                    thresholds, slot = errors, (_ERRORS, key)
            last, count = streaks.get(slot, (None, 0))
            if self._blocked:
                return Action.AFTER_BLOCK, count
            if exempt:
                return Action.ALLOW, 0
            if key is None or result is None or outcome is None:
                return Action.NOT_COUNTED, count
            if slot is key and outcome not in policy.counted_outcomes:
                return Action.NOT_COUNTED, count
            count = count + 1 if result == last else 1
            streaks[slot] = (result, count)
            nudge, block = thresholds
            if block is not None and count >= block:
                self._blocked = True
                self._escalation = Escalation(tool_name, agent, count)
                return Action.BLOCK, count
            if nudge is not None and count >= nudge:
                return Action.NUDGE, count
            return Action.ALLOW, count
