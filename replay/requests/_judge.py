"""Would a repaired history have been accepted? The verdict on one refused request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...guard.messages._formats import format_of
from ...guard.messages._lint import lint_parsed
from ...guard.messages._model import Message
from ...guard.messages._provider_errors import ProviderError
from ...guard.messages._providers import ProviderRules
from ...guard.messages._rules import Rule, rule_class
from ...guard.messages._sanitize import sanitize_parsed
from ...guard.messages._types import Repair, Violation
from ...guard.messages._words import ErrorClass, RepairKind
from ._histories import History, joined_turns
from ._types import RequestVerdict, Undetermined

__all__ = ["Judgement", "judge", "lint_history", "repaired"]

_DEDUP = frozenset({RepairKind.DROPPED_DUPLICATE_CALL, RepairKind.DROPPED_DUPLICATE_RESULT})
_DUPLICATES = frozenset({ErrorClass.DUPLICATE_CALL_ID, ErrorClass.DUPLICATE_RESULT})
_UNPAIRED = frozenset(
    {
        ErrorClass.ORPHAN_RESULT,
        ErrorClass.MISSING_RESULT,
        ErrorClass.MISPLACED_RESULT,
        ErrorClass.COUNT_MISMATCH,
    }
)
# Classes whose refusal names calls by their ids, and that cannot be judged where the recording left ids out.
_ABOUT_IDS = _DUPLICATES | _UNPAIRED | {ErrorClass.ID_FORMAT}
# Texts of the Responses API (rows of the catalogue): there a turn may be recorded item by item.
_OF_ITEMS = frozenset({"O6", "O7", "O8", "O9", "O10", "O11", "O12", "O13"})
# Classes in which a refusal, beside a history that shows the fault, proves that the provider has the rule.
# Not the order of roles and the form of ids: there a history breaks many providers' rules at once.
_PROVABLE = _DUPLICATES | _UNPAIRED | {
    ErrorClass.EMPTY_TOOL_CALLS,
    ErrorClass.EMPTY_CONTENT,
    ErrorClass.ARGUMENTS_JSON,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with its reason. `fault` names what is broken, so that retries of it are recognised."""

    verdict: RequestVerdict
    reason: str
    repairs: tuple[str, ...] = ()
    repairs_total: int = 0
    prevented_by_dedup: bool = False
    call_id: str | None = None
    fault: tuple[Any, ...] = ()
    rules: ProviderRules | None = None  # with what the refusal itself proves
    undetermined: Undetermined | None = None


def lint_history(messages: Sequence[Message], rules: ProviderRules, history: History) -> list[Violation]:
    """What the provider would refuse in `messages`, a form of `history`."""
    return list(lint_parsed(messages, rules, history.format))


def repaired(history: History, rules: ProviderRules | None) -> tuple[list[Message], list[Repair]]:
    """The sanitized form of a history."""
    return sanitize_parsed(history.messages, format_of(history.format), rules, (), None)


def judge(history: History, refusal: ProviderError, rules: ProviderRules) -> Judgement:
    """The verdict on a request whose history was recorded, refused by a provider with these rules."""
    wanted, named = refusal.error_class, tuple(refusal.call_ids)
    if refusal.text_id in _OF_ITEMS:
        history = replace(history, messages=joined_turns(history) or history.messages)
    call_id = named[0] if named else None
    doubt = _incomplete(history, wanted) or _contradicted(history, wanted, named)
    if doubt:
        why, reason = doubt
        fault = ("named", str(wanted), named)
        return Judgement("undetermined", reason, call_id=call_id, fault=fault, undetermined=why)
    rules, found, note = _faults(history, rules, wanted, named)
    if named:
        of_these = [violation for violation in found if violation.call_id and _names(named, violation)]
        # Another call's fault is no reason for what is said of these.
        found = of_these or ([] if all(_paired(history, name) for name in named) else found)
    if not found:
        return _nothing_found(history, rules, wanted, named)
    first = min(found, key=lambda violation: violation.message_index)
    messages, repairs = repaired(history, rules)
    left = lint_history(messages, rules, history)
    dedup = bool(repairs) and all(repair.kind in _DEDUP for repair in repairs)
    if left:
        reason = f"After the repair {rules.title} would still refuse it: {left[0].detail}"
    else:
        what = first.detail.rstrip(".")
        reason = f"{what[:1].upper()}{what[1:]}. Repaired, it breaks no rule of {rules.title}.{note}"
    return Judgement(
        verdict="not_prevented" if left else "prevented",
        reason=reason,
        repairs=tuple(dict.fromkeys(str(repair.kind) for repair in repairs)),
        repairs_total=len(repairs),
        prevented_by_dedup=dedup and not left,
        call_id=call_id or first.call_id,
        fault=("found", str(first.error_class), None if first.call_id else first.message_index),
        rules=rules,
    )


def _faults(
    history: History, rules: ProviderRules, wanted: ErrorClass, named: Sequence[str]
) -> tuple[ProviderRules, list[Violation], str]:
    """The rules to judge by, the violations that explain the refusal, and a note."""
    shown = rules.reported_as(wanted)
    violations = lint_history(history.messages, rules, history)
    found = [violation for violation in violations if violation.error_class in shown]
    if found or wanted not in _PROVABLE:
        return rules, found, ""
    more = [rule for rule in Rule if rule_class(rule) == wanted and rule not in rules.rules]
    strict = rules.with_rules(*more)
    proofs = [
        violation
        for violation in lint_history(history.messages, strict, history)
        if violation.error_class == wanted
        and (not named or violation.call_id is None or _names(named, violation))
    ]
    if not proofs:
        return rules, [], ""
    proven = rules.with_rules(*{Rule(violation.rule) for violation in proofs})
    violations = lint_history(history.messages, proven, history)
    found = [violation for violation in violations if violation.error_class == wanted]
    return proven, found, " That this provider has the rule is proven by its refusal."


def _names(named: Sequence[str], violation: Violation) -> bool:
    return _is_known(violation.call_id or "", {_bare(name) for name in named})


def _incomplete(history: History, wanted: ErrorClass) -> tuple[Undetermined, str] | None:
    """Why the recording is not enough to judge."""
    if history.silent is not None:
        what = f"Of message {history.silent} only the role was recorded"
        return "truncated", f"{what}: what it asked for or said is not known."
    if history.without_ids and wanted in _ABOUT_IDS:
        noun = "call or result was" if history.without_ids == 1 else "calls and results were"
        what = f"{history.without_ids} {noun} recorded without an id"
        return "without_ids", f"{what}: what belongs together is not known."
    return None


def _contradicted(
    history: History, wanted: ErrorClass, named: Sequence[str]
) -> tuple[Undetermined, str] | None:
    """How the refusal contradicts the recording: what was recorded is then not what was sent."""
    if wanted not in _ABOUT_IDS or not named:
        return None
    known = _known_ids(history.messages)
    absent = [name for name in named if not _is_known(name, known)]
    if absent:
        what = f"The refusal names {_quoted(absent)}, which the recorded messages do not hold"
        return "contradicted", f"{what}: what was recorded is not what was sent."
    return None


def _nothing_found(
    history: History, rules: ProviderRules, wanted: ErrorClass, named: Sequence[str]
) -> Judgement:
    """No rule of the class is broken. Does the recording show that what the refusal says is untrue?"""
    fault = ("named", str(wanted), tuple(named))
    call_id = named[0] if named else None
    doubt = None
    if wanted in _DUPLICATES:
        which = f"{_quoted(named)} stands" if named else "each id stands"
        doubt = f"The refusal speaks of a doubled id, but {which} once in the recorded messages"
    elif named and wanted in _UNPAIRED and all(_paired(history, name) for name in named):
        doubt = f"The refusal names {_quoted(named)}, but as recorded call and result stand together"
    elif wanted is ErrorClass.ORPHAN_RESULT and not any(message.results for message in history.messages):
        doubt = "The refusal speaks of a result, but the recorded messages hold none"
    elif wanted is ErrorClass.MISSING_RESULT and not any(message.calls for message in history.messages):
        doubt = "The refusal speaks of a call, but the recorded messages hold none"
    if doubt:
        reason = f"{doubt}: what was recorded is not what was sent."
        return Judgement("undetermined", reason, call_id=call_id, fault=fault, undetermined="contradicted")
    reason = f"The recorded history breaks no rule that {rules.title} is known to have of this kind."
    return Judgement("not_prevented", reason, call_id=call_id, fault=fault)


def _known_ids(messages: Iterable[Message]) -> set[str]:
    known: set[str] = set()
    for message in messages:
        for block in (*message.calls, *message.results):
            known.update(_bare(name) for name in block.ids)
            if block.id:
                known.add(_bare(block.id))
        if isinstance(message.raw, dict) and isinstance(message.raw.get("id"), str):
            known.add(_bare(message.raw["id"]))  # an item of the Responses API
    return known


def _is_known(name: str, known: set[str]) -> bool:
    return _bare(name) in known or any(_bare(part) in known for part in name.split("|"))


def _bare(name: str) -> str:
    return name.strip()


def _paired(history: History, name: str) -> bool:
    """Does exactly one call with this id stand right before exactly one result?"""
    wanted = _bare(name)
    calls = [
        at for at, message in enumerate(history.messages) for call in message.calls if wanted in call.ids
    ]
    results = [
        at for at, message in enumerate(history.messages) for one in message.results if wanted in one.ids
    ]
    if len(calls) != 1 or len(results) != 1 or results[0] <= calls[0]:
        return False
    return all(message.results or message.calls for message in history.messages[calls[0] + 1 : results[0]])


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(name if len(name) <= 60 else name[:60] + "…" for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
