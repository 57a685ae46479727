"""Keys and passages of results that vary from call to call while nothing else does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ...guard import GuardPolicy
from .._sql import rows, sql_text
from .._text import plural
from ._context import Candidate, Context
from ._leaves import BUDGET, LIMIT, differing, leaves_of, looks_like_noise, name_of_leaf, names_of
from ._names import is_address, is_noise
from ._types import Fact, SuggestionKind
from ._words import listed, quoted

__all__ = ["PATTERNS", "results"]

_TOOLS = 6  # that are looked at
_RUNS = 400  # of each
_CALLS = 4_000
_PAIRS = 3  # pairs of results that a suggestion rests on
_LEAST = 3  # calls alike in one run

PATTERNS = {
    "a duration": r"\b\d{1,9}(?:\.\d{1,6})? ?(?:ms|µs|us|ns|s|sec|secs|seconds|milliseconds)\b",
    "a date with a time": r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?",
    "a time of day": r"\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b",
    "a UUID": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    "an address in memory": r"\b0x[0-9a-fA-F]{6,16}\b",
}
"""Passages of texts that are looked for, each as a pattern of the policy."""


@dataclass
class _Seen:
    """Pairs of equal calls of one tool whose results differ."""

    pairs: int = 0
    alike: int = 0  # that differ in nothing but what can be left out
    used: Counter[str] = field(default_factory=Counter)  # keys or names of patterns
    runs: set[int] = field(default_factory=set)
    shown: list[tuple[int, int, str]] = field(default_factory=list)


def results(context: Context) -> Iterator[Candidate]:
    """Per tool, what can be left out of its results."""
    for row in context.ask("suggest_moving_answers", least=_LEAST, most=_TOOLS):
        tool = context.tools[row["tool"]]
        if context.policy.is_exempt(tool):
            continue
        in_json, in_text = _look(context, tool, row["runs"][:_RUNS])
        for seen, key in ((in_json, "ignored_result_keys"), (in_text, "ignored_result_patterns")):
            if seen.alike >= _PAIRS:
                yield _candidate(context, row["tool"], tool, seen, key)


def _look(context: Context, tool: str, runs: list[int]) -> tuple[_Seen, _Seen]:
    params: dict[str, Any] = {
        "tool": tool,
        "runs": [context.run_ids[run] for run in runs],
        "most": _CALLS,
        "limit": LIMIT,
        "results": True,
    }
    # Where keys and passages are left out already, the tool's owner knows what more could be.
    policies = _views() if context.policy.rules_for(tool).view is None else {}
    in_json, in_text = _Seen(), _Seen()
    before: dict[int, str] = {}
    left_to_read = BUDGET
    for row in rows(context.con, sql_text("suggest_texts"), params):
        text, call = row["text"], row["scope_key"]
        left_to_read -= len(text or "")
        if left_to_read < 0:
            break
        if call is None:
            continue
        if text is None:
            before.pop(call, None)
            continue
        last, before[call] = before.get(call), text
        if last is None or context.policy.result_hash(tool, last) == context.policy.result_hash(tool, text):
            continue
        run = context.run_numbers[row["run_id"]]
        old, new = leaves_of(last), leaves_of(text)
        if old is None or new is None:
            _note(in_text, run, row["seq"], tool, _passages(policies, tool, last, text))
            continue
        varied = differing(old, new)
        left = (names_of(old) | names_of(new)) - varied
        noise = {
            name
            for name in varied
            if is_noise(name)
            or (
                not is_address(name)
                and all(
                    looks_like_noise(value)
                    for leaves in (old, new)
                    for path, value in leaves.items()
                    if name_of_leaf(path) == name
                )
            )
        }
        # A result that is nothing but the time is a clock's, and the time its answer.
        _note(in_json, run, row["seq"], tool, sorted(varied) if varied == noise and left else [])
    return in_json, in_text


def _note(seen: _Seen, run: int, seq: int, tool: str, names: list[str]) -> None:
    seen.pairs += 1
    if names:
        seen.alike += 1
        seen.used.update(names)
        seen.runs.add(run)
        seen.shown.append(
            (run, seq, f"{quoted(tool)}: only {listed(names, 'and')} differs from the result before")
        )


@cache
def _views() -> dict[str, GuardPolicy]:
    """Policies that leave one passage out of results, and "" for one that leaves all of them out."""
    base = GuardPolicy()
    views = {name: replace(base, ignored_result_patterns=(pattern,)) for name, pattern in PATTERNS.items()}
    return {**views, "": replace(base, ignored_result_patterns=tuple(PATTERNS.values()))}


def _passages(policies: dict[str, GuardPolicy], tool: str, a: str, b: str) -> list[str]:
    """Names of the passages without which two texts are equal; none where they are not."""
    if len(a) > LIMIT or len(b) > LIMIT or not policies:
        return []
    if policies[""].result_hash(tool, a) != policies[""].result_hash(tool, b):
        return []
    plain = GuardPolicy()
    found = [
        name
        for name, policy in policies.items()
        if name and any(policy.result_hash(tool, text) != plain.result_hash(tool, text) for text in (a, b))
    ]
    alone = next(
        (
            name
            for name in found
            if policies[name].result_hash(tool, a) == policies[name].result_hash(tool, b)
        ),
        None,
    )
    return [alone] if alone is not None else found


def _candidate(context: Context, number: int, tool: str, seen: _Seen, key: str) -> Candidate:
    names = sorted(seen.used)
    patterns = key == "ignored_result_patterns"
    what = listed(names, "and")
    evidence = (
        Fact(
            f"of {plural(seen.pairs, 'time')} that an equal call of {quoted(tool)} gave another result, "
            f"it differed in nothing but {what} {plural(seen.alike, 'time')}",
            seen.alike,
            seen.pairs,
            len(seen.runs),
            context.examples(seen.shown),
        ),
    )
    values = [PATTERNS[name] for name in names] if patterns else names
    return Candidate(
        SuggestionKind.RESULTS,
        f"Leave {what} out of the results of {quoted(tool)}",
        {"tools": {tool: {key: values}}},
        evidence,
        len(seen.runs),
        affected=[row["run"] for row in context.ask("suggest_tool_runs", tool=number)],
        texts_of=tool,
    )
