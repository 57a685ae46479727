"""Argument names that vary from call to call while nothing else does, the result included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...guard import DEFAULT_METADATA_KEYS
from .._sql import rows, sql_text
from .._text import plural
from ._context import Candidate, Context
from ._leaves import BUDGET, LIMIT, Leaves, leaves_of, looks_like_noise, name_of_leaf
from ._names import changes_things, is_address, is_noise, tells_why, words_of
from ._types import Fact, SuggestionKind
from ._words import listed, quoted

__all__ = ["arguments"]

_TOOLS = 6  # that are looked at
_RUNS = 400  # of each
_CALLS = 4_000
_PAIRS = 3  # pairs of calls that a suggestion rests on
_EQUAL = 0.9  # of them with equal results


@dataclass(frozen=True, slots=True)
class _Call:
    run: int
    seq: int
    agent: str | None
    result: int
    leaves: Leaves


def arguments(context: Context) -> Iterator[Candidate]:
    """Per tool, the argument names that say nothing to it."""
    for row in context.ask("suggest_same_answers", most=_TOOLS):
        tool = context.tools[row["tool"]]
        if context.policy.is_exempt(tool):
            continue
        calls = _calls(context, tool, row["runs"][:_RUNS])
        names = _noise_names(context, tool, calls)
        candidate = _candidate(context, row["tool"], tool, calls, names) if names else None
        if candidate is not None:
            yield candidate


def _calls(context: Context, tool: str, runs: list[int]) -> list[_Call]:
    params: dict[str, Any] = {
        "tool": tool,
        "runs": [context.run_ids[run] for run in runs],
        "most": _CALLS,
        "limit": LIMIT,
        "results": False,
    }
    found: list[_Call] = []
    left = BUDGET
    for row in rows(context.con, sql_text("suggest_texts"), params):
        left -= len(row["text"] or "")
        if left < 0:
            break
        leaves = leaves_of(row["text"])
        if leaves is not None and row["result_hash"] is not None:
            found.append(
                _Call(
                    context.run_numbers[row["run_id"]],
                    row["seq"],
                    row["agent_name"],
                    row["result_hash"],
                    leaves,
                )
            )
    return found


def _noise_names(context: Context, tool: str, calls: list[_Call]) -> set[str]:
    """Names that could be left out: by what they say, or by values that are new each time."""
    known = context.policy.rules_for(tool).metadata_keys | DEFAULT_METADATA_KEYS
    values: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        for path, value in call.leaves.items():
            values[name_of_leaf(path)].append(value)
    found: set[str] = set()
    for name, seen in values.items():
        if name in known or not name or is_address(name):
            continue
        new_each_time = (
            len(seen) >= 2 * _PAIRS
            and len(set(seen)) == len(seen)
            and "id" not in words_of(name)
            and all(looks_like_noise(value) for value in seen)
        )
        # What a tool writes down may well be called a note or a description.
        if is_noise(name) or new_each_time or (tells_why(name) and not changes_things(tool)):
            found.add(name)
    return found


def _candidate(
    context: Context, number: int, tool: str, calls: list[_Call], names: set[str]
) -> Candidate | None:
    groups: dict[tuple[int, str | None, frozenset[Any]], list[_Call]] = defaultdict(list)
    for call in calls:
        rest = frozenset(
            (path, value) for path, value in call.leaves.items() if name_of_leaf(path) not in names
        )
        groups[call.run, call.agent, rest].append(call)
    pairs = equal = 0
    used: set[str] = set()
    shown: list[tuple[int, int, str]] = []
    runs: set[int] = set()
    longest = 1
    for group in groups.values():
        row = 1
        for before, call in pairwise(group):
            varied = {
                name_of_leaf(path)
                for path in {*before.leaves, *call.leaves}
                if before.leaves.get(path) != call.leaves.get(path)
            }
            row = row + 1 if call.result == before.result else 1
            longest = max(longest, row)
            if not varied:
                continue
            pairs += 1
            if call.result == before.result:
                equal += 1
                used |= varied
                runs.add(call.run)
                shown.append((call.run, call.seq, f"{quoted(tool)} again, only {_values(before, call)}"))
    # With one answer to everything it cannot be seen what the answer depends on.
    answers = {call.result for call in calls}
    of_rest = {rest for _, _, rest in groups}
    if equal < _PAIRS or equal < _EQUAL * pairs or not used:
        return None
    if not all(is_noise(name) for name in used) and (len(answers) < 2 or len(of_rest) < 2):
        return None
    ordered = sorted(used)
    what = listed(ordered, "and")
    evidence = (
        Fact(
            f"{pairs:,} times {quoted(tool)} was called again in a run with nothing but {what} changed; "
            f"the result was equal {plural(equal, 'time')}",
            equal,
            pairs,
            len(runs),
            context.examples(shown),
        ),
        Fact(
            f"without {what} the longest row of equal results is {longest} calls, in {len(of_rest):,} "
            f"different calls with {len(answers):,} different results",
            longest,
        ),
    )
    affected = [row["run"] for row in context.ask("suggest_tool_runs", tool=number)]
    return Candidate(
        SuggestionKind.ARGUMENTS,
        f"Leave the argument{'s' if len(ordered) > 1 else ''} {what} of {quoted(tool)} out of the comparison",
        {"tools": {tool: {"metadata_keys": ordered}}},
        evidence,
        len(runs),
        affected=affected,
        texts_of=tool,
    )


def _values(before: _Call, call: _Call) -> str:
    """What varied, bounded: "nonce: "a" → "b"" """
    parts: list[str] = []
    for path in sorted({*before.leaves, *call.leaves}, key=str):
        old, new = before.leaves.get(path), call.leaves.get(path)
        if old != new:
            parts.append(f"{quoted(name_of_leaf(path))}: {_short(old)} → {_short(new)}")
    return "; ".join(parts[:3])


def _short(value: str | None) -> str:
    return "absent" if value is None else quoted(value)
