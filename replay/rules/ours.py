"""Our own two guards as rules of the same kind."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable

from ...guard import Action, DuplicateCallGuard, GuardPolicy, Outcome, RecordedCall
from ._arguments import arguments_of
from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "GuardRule", "OverrideRule"]

_REASON = "_duplicate_reasoning"
_SAID = {Action.NUDGE: Said.NOTICE, Action.BLOCK: Said.HALT_AFTER}


class GuardRule(LoopRule):
    """`DuplicateCallGuard` with any policy."""

    __slots__ = ("_guard", "_hashed")

    def __init__(self, policy: GuardPolicy | None = None) -> None:
        self._guard = DuplicateCallGuard(policy)
        self._hashed = self._guard.policy.set_based

    def observe(self, call: RuleCall) -> Said | None:
        """The blocked call was made: the guard sees results."""
        guard = self._guard
        if self._hashed:
            key = None if call.ours is None else (call.agent, call.ours)
            action, _ = guard.observe_hashed(call.tool, key, call.result, call.outcome, agent=call.agent)
        else:
            # The stored hash is of no use to a policy that compares otherwise.
            known = RecordedCall(
                call.tool, call.arguments, call.output, call.outcome, call.agent, error_message=call.error
            )
            action, _ = guard.observe_recorded(known)
        return _SAID.get(action)


class OverrideRule(LoopRule):
    """`ReasonedOverrideGuard`: a repeat of any earlier call is refused unless it brings a new reason."""

    __slots__ = ("_calls", "_kept", "_policy", "_reasons")

    def __init__(self, policy: GuardPolicy | None = None) -> None:
        self._policy = GuardPolicy() if policy is None else policy
        self._calls: set[Hashable] = set()
        self._kept: set[Hashable] = set()
        self._reasons: set[str] = set()

    def observe(self, call: RuleCall) -> Said | None:
        """Asked before the call is made; of a refused call nothing is written down."""
        rules = self._policy.rules_for(call.tool)
        if rules.exempt or call.ours is None:
            return None
        seen = self._kept if rules.resets else self._calls
        reason = "" if call.arguments is None else _reason(call)
        if call.ours in seen and (not reason or reason in self._reasons):
            return Said.REFUSE
        seen.add(call.ours)
        if reason:
            self._reasons.add(reason)
        if rules.resets and call.outcome == Outcome.SUCCESS:
            self._calls.clear()
        return None

    def may_fire(self, run: RunShape) -> bool:
        """Needs a repeat."""
        return run.same >= 2


def _reason(call: RuleCall) -> str:
    """The reason in the form in which reasons compare; "" for none."""
    given = arguments_of(call).get(_REASON)
    if not isinstance(given, str):
        return ""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", given).casefold())
    return " ".join("".join(one for one in folded if unicodedata.category(one) != "Cf").split())


RULES = (
    RuleInfo(
        name="ours",
        framework="Loopscope",
        title="Our guard with the policy given",
        source="guard/_guard.py",
        says=(
            "When a call is done: equal results in a row of one call of one agent, whatever lies "
            "between. From the nudge threshold on a note, at the block threshold the run ends. General "
            "tool errors do not count."
        ),
        unseen="",
        needs=("arguments", "result", "outcome"),
        does="halts",
        make=GuardRule,
    ),
    RuleInfo(
        name="reasoned-override",
        framework="Loopscope",
        title="Our reasoned override",
        source="guard/_override.py",
        says=(
            "Before a call: was it made before in the run? Then it is refused, unless it brings a "
            "reason not used before. In recordings made without it no call brings one, so every repeat "
            "is refused, and all after the first refusal is projected. Results are not looked at."
        ),
        unseen="",
        needs=("arguments",),
        does="refuses",
        make=OverrideRule,
    ),
)
