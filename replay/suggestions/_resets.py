"""Tools whose success makes a repeat legitimate: an edit before the tests run again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from .._text import name_of, plural
from ._context import Candidate, Context
from ._types import Fact, SuggestionKind
from ._words import listed, quoted

__all__ = ["resets"]

_MOST = 20_000  # rows of equal results that are looked into
_MOST_IN_UNIT = 100  # ... of one run, which may be very long


def resets(context: Context) -> Iterator[Candidate]:
    """One change for all tools that by their name change things, one for those that were seen to."""
    con = context.judged
    policy, names = context.policy, context.tools
    changers = [tool for tool in context.changers(con) if not policy.rules_for(names[tool]).resets]
    found = context.ask("suggest_changes", changers=changers, most=_MOST, most_in_unit=_MOST_IN_UNIT)
    for wanted in (context.named, set(changers) - context.named):
        candidate = _candidate(context, found, wanted)
        if candidate is not None:
            yield candidate


def _candidate(context: Context, found: list[dict[str, Any]], wanted: set[int]) -> Candidate | None:
    names = context.tools
    helped: list[dict[str, Any]] = []
    by_tool: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        tools = [tool for tool in row["tools"] if tool in wanted]
        if tools:
            helped.append({**row, "tools": tools})
    ended = [row for row in helped if row["moved"] or row["went_on"]]
    if not ended or len(ended) * 2 < len(helped):
        return None  # most of them were never seen to come to anything
    for row in ended:
        for tool in row["tools"]:
            by_tool[tool].append(row)
    tools = sorted(by_tool, key=lambda tool: (-len(by_tool[tool]), names[tool]))
    helped = [row for row in helped if by_tool.keys() & set(row["tools"])]
    runs = len({row["run"] for row in ended})
    moved = [row for row in ended if row["moved"]]
    hits = context.judged.execute("SELECT count(*) FROM streaks WHERE nudges + blocks > 0")
    all_hit = hits.fetchall()[0][0]
    stretches = plural(all_hit, "stretch", "stretches")
    shown = listed([names[tool] for tool in tools], "or")
    least = "at least " if _is_cut(found) else ""
    evidence = [
        Fact(
            f"in {least}{len(helped):,} of {stretches} of equal results that the policy nudges or blocks, "
            f"{shown} succeeded between two of them",
            len(helped),
            all_hit,
            len({row["run"] for row in helped}),
            context.examples(_shown(context, helped)),
        ),
        Fact(
            f"{len(ended):,} of these came to something: {len(moved):,} to another result of the same "
            f"call, {len(ended) - len(moved):,} to new work of the run",
            len(ended),
            len(helped),
            runs,
            context.examples(_shown(context, moved or ended)),
        ),
    ]
    for tool in tools[:5]:
        pairs, changed, seen = context.effects.get(tool, (0, 0, 0))
        if pairs:
            evidence.append(
                Fact(
                    f"{plural(pairs, 'time')} only {quoted(names[tool])} lay between two equal calls of "
                    f"another tool; the result had changed {plural(changed, 'time')}",
                    changed,
                    pairs,
                    seen,
                )
            )
    change = {"tools": {names[tool]: {"resets": True} for tool in sorted(tools, key=names.__getitem__)}}
    return Candidate(
        SuggestionKind.RESETS,
        f"Let a success of {shown} set the counts of other tools back",
        change,
        tuple(evidence),
        runs,
        affected=_affected(context, helped, _is_cut(found)),
    )


def _is_cut(found: list[dict[str, Any]]) -> bool:
    """May there be more rows of equal results than were looked into?"""
    in_run = Counter(row["run"] for row in found)
    return len(found) >= _MOST or max(in_run.values(), default=0) >= _MOST_IN_UNIT


def _affected(context: Context, helped: list[dict[str, Any]], cut: bool) -> list[int]:
    """Runs in which the tools can take a nudge or block away: it must lie between results that are counted
    together. With a block go the silenced runs nested in its run."""
    condition = "action IN (1, 2, 4)"
    counts_errors = any(context.policy.rules_for(name).error_thresholds for name in context.tools)
    if not cut and not counts_errors:
        condition = "action = 4 AND run NOT IN (SELECT run FROM judged WHERE action = 2)"
    found = context.judged.execute(f"SELECT DISTINCT run FROM judged WHERE {condition}")  # noqa: S608
    return sorted({run for (run,) in found.fetchall()} | {row["run"] for row in helped})


def _shown(context: Context, found: list[dict[str, Any]]) -> Iterator[tuple[int, int, str]]:
    names = context.tools
    for row in found:
        between = listed([names[tool] for tool in row["tools"]], "and")
        asked = name_of(names[row["asked"]], "a tool", quoted)
        after = "; later another result" if row["moved"] else "; later other work" if row["went_on"] else ""
        yield row["run"], row["first_hit"], f"{asked} again, after {between}{after}"
