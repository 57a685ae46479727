"""Tools that are meant to be asked again: their answer changes, but not at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .._text import plural
from ._context import Candidate, Context
from ._types import Fact, Suggestion, SuggestionKind
from ._words import quoted

__all__ = ["less_harm", "waiting"]

_TOOLS = 4  # tools that are looked at, by how often their wait was cut into
_LENGTHS = 6  # different lengths that are named
_DISTANCE = 2  # between nudge and block where the policy has none


def waiting(context: Context) -> Iterator[tuple[Candidate, Candidate]]:
    """Per tool: thresholds above every wait that was seen, and an exemption."""
    by_tool: dict[int, list[dict[str, Any]]] = defaultdict(list)
    # Where something was changed meanwhile, it was not waiting that changed the answer.
    cursor = context.judged.execute(
        "SELECT run, tool, length, first_seq, last_seq, first_hit, nudges + blocks > 0 AS hit, moved, "
        "changes "
        "FROM streaks WHERE (moved AND changes = 0 OR nudges + blocks > 0) AND tool IN ("
        "SELECT tool FROM streaks WHERE nudges + blocks > 0 AND moved AND changes = 0) "
        "ORDER BY run, first_seq"
    )
    names = [column[0] for column in cursor.description or ()]
    while batch := cursor.fetchmany(10_000):
        for values in batch:
            row = dict(zip(names, values, strict=True))
            by_tool[row["tool"]].append(row)
    found: list[tuple[int, int, list[dict[str, Any]]]] = []
    for tool, streaks in by_tool.items():
        cut = [row for row in streaks if row["hit"] and row["moved"] and not row["changes"]]
        if cut and not context.policy.is_exempt(context.tools[tool]):
            found.append((len(cut), tool, streaks))
    found.sort(key=lambda one: (-one[0], one[1]))
    for _, tool, streaks in found[:_TOOLS]:
        pair = _candidates(context, tool, streaks)
        if pair is not None:
            yield pair


def _candidates(
    context: Context, tool: int, streaks: list[dict[str, Any]]
) -> tuple[Candidate, Candidate] | None:
    name = context.tools[tool]
    waits = [row for row in streaks if row["moved"] and not row["changes"]]
    cut = [row for row in waits if row["hit"]]
    stuck = [row for row in streaks if row["hit"] and not row["moved"]]
    cut_runs, stuck_runs = {row["run"] for row in cut}, {row["run"] for row in stuck}
    if len(cut_runs) < len(stuck_runs):
        return None  # where the policy acts, this tool is stuck more often than it waits
    shown = quoted(name)
    hit_runs = cut_runs | stuck_runs
    longest = max(row["length"] for row in waits)
    lengths = Counter(row["length"] for row in waits)
    least = min(row["length"] for row in cut)
    evidence = (
        Fact(
            f"{shown} gave another result after {least} or more equal ones, with no change by another "
            f"tool between, in {len(cut_runs):,} of the {plural(len(hit_runs), 'run')} in which the "
            "policy acts on it",
            len(cut_runs),
            len(hit_runs),
            len(cut_runs),
            context.examples(
                (row["run"], row["first_hit"], f"{row['length']} equal results of {shown}, then another")
                for row in cut
            ),
        ),
        Fact(
            f"equal results before the next one, in {plural(len(waits), 'wait')}: {_histogram(lengths)}",
            len(waits),
            None,
            len({row["run"] for row in waits}),
        ),
    )
    thresholds = context.policy.thresholds_for(name)
    change: dict[str, Any] = {}
    distance = _DISTANCE
    if thresholds.nudge is not None:
        change["nudge_threshold"] = longest + 1
        if thresholds.block is not None:
            distance = thresholds.block - thresholds.nudge
    if thresholds.block is not None:
        change["block_threshold"] = longest + (1 if thresholds.nudge is None else 1 + distance)
    words = [f"nudge {shown} from {change['nudge_threshold']}" if "nudge_threshold" in change else ""]
    words.append(f"block it from {change['block_threshold']}" if "block_threshold" in change else "")
    title = f"Let {shown} wait: " + ", ".join(word for word in words if word) + " equal results on"
    own = Candidate(
        SuggestionKind.WAITING,
        title,
        {"tools": {name: change}},
        evidence,
        len(cut_runs),
    )
    exempt = replace(
        own,
        title=f"Let {shown} wait: always allow it",
        change={"tools": {name: {"exempt": True}}},
    )
    return own, exempt


def _histogram(lengths: Counter[int]) -> str:
    """ "3 (twice), 4 (5 times), up to 12"."""
    ordered = sorted(lengths.items())
    shown = [f"{length} × {n:,}" for length, n in ordered[:_LENGTHS]]
    if len(ordered) > _LENGTHS:
        shown.append(f"… up to {ordered[-1][0]}")
    return ", ".join(shown) + " (length × how often)"


def less_harm(own: Suggestion | None, exempt: Suggestion | None) -> Suggestion | None:
    """The one that loses fewer calls; of equals the thresholds, which still catch an endless wait."""
    if own is None or exempt is None:
        return own or exempt
    worse = own.after.calls_lost > exempt.after.calls_lost
    chosen, other = (exempt, own) if worse else (own, exempt)
    how = "thresholds of its own" if worse else "an exemption"
    fact = Fact(
        f"the other way, {how}, would lose {plural(other.after.calls_lost, 'call')} (this: "
        f"{chosen.after.calls_lost:,}) and avoid {other.after.calls_avoidable:,} (this: "
        f"{chosen.after.calls_avoidable:,})",
        other.after.calls_lost,
    )
    return replace(chosen, evidence=(*chosen.evidence, fact))
