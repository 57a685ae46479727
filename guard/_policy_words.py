"""What changes from one policy to another, in plain sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ._outcome import Outcome
from ._outcome_rules import OutcomeRule
from ._policy import INHERIT, GuardPolicy, Inherit, ToolPolicy
from ._policy_checks import show

__all__ = ["describe_changes"]

_THRESHOLDS = (
    ("nudge_threshold", "equal results in a row", "nudged"),
    ("block_threshold", "equal results in a row", "blocked"),
    ("error_nudge_threshold", "equal general errors in a row", "nudged"),
    ("error_block_threshold", "equal general errors in a row", "blocked"),
)
_OUTCOMES = {
    Outcome.SUCCESS: "Successes",
    Outcome.SCHEMA_ERROR: "Schema errors",
    Outcome.GENERAL_TOOL_ERROR: "General errors",
}
_NAMES = (
    ("metadata_keys", "argument"),
    ("ignored_result_keys", "result key"),
    ("ignored_result_patterns", "result pattern"),
)
_SWITCHES = (
    (
        "exempt",
        "its calls are always allowed and never counted",
        "its calls are counted again",
    ),
    (
        "resets",
        "a success of it sets the counts of other tools back",
        "a success of it no longer sets the counts of other tools back",
    ),
)


def describe_changes(a: GuardPolicy, b: GuardPolicy) -> list[str]:
    """What is different in `b`, one sentence for each change; empty if the policies are equal.

    Names from the policies are quoted, and cut where they are long; sentences are single lines.
    """
    return [*_of_policy(a, b), *_of_tools(a, b)]


def _of_policy(a: GuardPolicy, b: GuardPolicy) -> Iterator[str]:
    yield from (f"{_capital(sentence)}." for sentence in _of_thresholds(a, b))
    for outcome, name in _OUTCOMES.items():
        if (outcome in a.counted_outcomes) != (outcome in b.counted_outcomes):
            how = "are counted" if outcome in b.counted_outcomes else "are no longer counted"
            yield f"{name} {how} among the equal results."
    yield from (f"{_capital(sentence)}." for sentence in _of_names(a, b))
    yield from _of_rules(a.outcome_rules, b.outcome_rules)
    if a.scope != b.scope:
        yield f"A count spans a {b.scope} instead of a {a.scope}."
    if a.shadow != b.shadow:
        yield (
            "Shadow mode is on: the guard decides and changes nothing."
            if b.shadow
            else "Shadow mode is off: the guard acts on what it decides."
        )
    if a.strip_annotations != b.strip_annotations:
        yield (
            "Replay takes recorded notes off results before it compares them."
            if b.strip_annotations
            else "Replay compares results with the notes that were recorded in them."
        )


def _of_rules(a: Sequence[OutcomeRule], b: Sequence[OutcomeRule]) -> Iterator[str]:
    for rule in b:
        if rule not in a:
            yield f"New outcome rule: {_rule(rule)}."
    for rule in a:
        if rule not in b:
            yield f"No longer an outcome rule: {_rule(rule)}."
    if [rule for rule in a if rule in b] != [rule for rule in b if rule in a]:
        yield "The outcome rules are asked in another order."


def _rule(rule: OutcomeRule) -> str:
    calls = "results" if rule.on_success else "failures"
    if rule.tool is not None:
        calls += f" of the tool {show(rule.tool)}"
    if rule.on_success:
        calls += f" that begin with {show(rule.text_pattern)}"
    else:
        met = [
            f"{what} {show(value)}"
            for what, value in (
                ("the error type", rule.error_type),
                ("the HTTP status", rule.http_status),
                ("a text like", rule.text_pattern),
            )
            if value is not None
        ]
        calls += f" with {' and '.join(met)}" if met else ""
    kind = "" if rule.kind is None else f" of the kind {rule.kind}"
    return f"{calls} are {_OUTCOMES[rule.outcome].lower()}{kind}"


def _of_tools(a: GuardPolicy, b: GuardPolicy) -> Iterator[str]:
    for name in sorted({*a.tools, *b.tools}):
        before, after = a.tools.get(name), b.tools.get(name)
        if before == after:
            continue
        sentences = list(_of_tool(before or ToolPolicy(), after or ToolPolicy()))
        if not sentences:
            sentences = ["it is listed, without exceptions" if after else "it is no longer listed"]
        yield from (f"Tool {show(name)}: {sentence}." for sentence in sentences)


def _of_tool(a: ToolPolicy, b: ToolPolicy) -> Iterator[str]:
    for key, on, off in _SWITCHES:
        if getattr(a, key) != getattr(b, key):
            yield on if getattr(b, key) else off
    yield from _of_thresholds(a, b)
    yield from _of_names(a, b)


def _of_thresholds(a: GuardPolicy | ToolPolicy, b: GuardPolicy | ToolPolicy) -> Iterator[str]:
    for key, what, done in _THRESHOLDS:
        before, after = getattr(a, key), getattr(b, key)
        if before != after:
            now = f"never {done}" if after is None else f"{done} {_from(after)}"
            yield f"{what} are {now} (before: {'never' if before is None else _from(before)})"


def _of_names(a: GuardPolicy | ToolPolicy, b: GuardPolicy | ToolPolicy) -> Iterator[str]:
    for key, what in _NAMES:
        before, after = getattr(a, key), getattr(b, key)
        for name in _only_in(after, before):
            yield f"the {what} {show(name)} is ignored"
        for name in _only_in(before, after):
            yield f"the {what} {show(name)} is no longer ignored"
        if before != after and set(before) == set(after):
            yield f"the {what}s are applied in another order"


def _only_in(names: Collection[str], others: Collection[str]) -> list[str]:
    return [name for name in sorted(names) if name not in others]


def _from(threshold: int | Inherit) -> str:
    return "as the policy says" if threshold is INHERIT else f"from {threshold} on"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
