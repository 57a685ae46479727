"""The pair of thresholds that avoids most repeats within a limit of harm."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .._sweep import SweepRow, sweep
from .._text import plural
from ._context import Candidate, Context
from ._types import Fact, SuggestionKind

__all__ = ["thresholds"]

_NUDGES = range(2, 12)
_BLOCKS = range(3, 13)
_DISTANCE = 2  # a note is to leave one more try before the block
_LEAST_RUNS = 2  # blocked runs that a pair has to rest on
_THIN_RUNS = 5
_SHOWN = 5  # runner-ups


def thresholds(context: Context, runs_lost: Callable[[SweepRow], int]) -> Candidate | None:
    """The best pair, if it is better than the present one. `runs_lost`: blocked runs of a pair that went
    on to something new."""
    policy, limit = context.policy, context.limit
    present = SweepRow(policy.nudge_threshold, policy.block_threshold, context.before[0])
    nudges = (None,) if policy.nudge_threshold is None else _NUDGES
    rows = sweep(context.con, policy, nudges, _BLOCKS, context.filters)
    by_block = _one_a_block(rows)
    if not by_block:
        return None
    lost = {row.block: runs_lost(row) if row.totals.calls_lost else 0 for row in by_block}
    lost_now = runs_lost(present) if present.totals.calls_lost else 0
    within = [row for row in by_block if limit.allows(row.totals, lost[row.block])]
    words = limit.words(present.totals.calls)
    if not within:
        context.notes.append(f"No block threshold up to {_BLOCKS[-1]} stays within {words}.")
        return None
    most = max(row.totals.calls_avoidable for row in within)
    best = [row for row in within if row.totals.calls_avoidable == most]
    least = min(row.totals.calls_lost for row in best)
    equal = [row for row in best if row.totals.calls_lost == least]
    chosen = _nearest(equal, present) if most == 0 else max(equal, key=_block)
    allowed_now = limit.allows(present.totals, lost_now)
    gain = chosen.totals.calls_avoidable - present.totals.calls_avoidable
    spared = present.totals.calls_lost - chosen.totals.calls_lost
    if allowed_now and (gain < 0 or (gain == 0 and spared <= 0)):
        context.notes.append(
            f"Thresholds stay at {_pair(present)}: no pair avoids more within {words}, or as much for less."
        )
        return None
    rests_on = chosen.totals.runs_blocked if allowed_now else present.totals.runs_blocked
    if rests_on < _LEAST_RUNS:
        context.notes.append(
            f"{_capital(_pair(chosen))} would {_does(chosen)}, but that rests on "
            f"{plural(rests_on, 'blocked run')}: too little to suggest it."
        )
        return None
    return Candidate(
        SuggestionKind.THRESHOLDS,
        _title(chosen, present),
        {"nudge_threshold": chosen.nudge or "off", "block_threshold": chosen.block or "off"},
        tuple(_evidence(context, chosen, present, equal, by_block, lost, lost_now, rests_on, words)),
        rests_on,
        warning=None if rests_on >= _THIN_RUNS else f"Rests on {plural(rests_on, 'blocked run')} only.",
    )


def _evidence(
    context: Context,
    chosen: SweepRow,
    present: SweepRow,
    equal: list[SweepRow],
    by_block: list[SweepRow],
    lost: dict[int | None, int],
    lost_now: int,
    rests_on: int,
    words: str,
) -> Iterable[Fact]:
    totals = chosen.totals
    yield Fact(
        f"{_pair(chosen)}: would {_does(chosen)}; {lost[chosen.block]:,} of "
        f"{plural(totals.runs_blocked, 'blocked run')} went on to something new. Limit: {words}",
        totals.calls_avoidable,
        totals.calls_after_block,
        totals.runs_blocked,
    )
    yield Fact(
        f"{_pair(present)}, as it is: {_does(present)}; {lost_now:,} of "
        f"{plural(present.totals.runs_blocked, 'blocked run')} went on to something new",
        present.totals.calls_avoidable,
        present.totals.calls_after_block,
        present.totals.runs_blocked,
    )
    if len(equal) > 1:
        blocks = ", ".join(str(row.block) for row in equal)
        why = (
            "none avoids anything here, so the one nearest to the present pair is taken"
            if totals.calls_avoidable == 0
            else "the gentlest is taken"
        )
        yield Fact(f"blocks at {blocks} do the same: {why}", len(equal))
    text = "nudges stay off"
    if chosen.nudge is not None:
        room = "another try" if _block(chosen) - chosen.nudge >= _DISTANCE else "a note"
        text = (
            f"the nudge does not change what a block avoids; {chosen.nudge} is the highest that leaves "
            f"the agent {room} before the block, so it disturbs least "
            f"({plural(totals.calls_nudged, 'nudge')})"
        )
    yield Fact(text, totals.calls_nudged, None, totals.runs_nudged)
    named = (chosen.block, present.block)
    others = [row for row in by_block if row.block not in named and row.totals.runs_blocked]
    others.sort(key=lambda row: (abs(_block(row) - _block(chosen)), _block(row)))
    for row in sorted(others[:_SHOWN], key=_block):
        over = "" if context.limit.allows(row.totals, lost[row.block]) else " (over the limit)"
        yield Fact(
            f"instead {_pair(row)}: would {_does(row)}; {lost[row.block]:,} of "
            f"{plural(row.totals.runs_blocked, 'blocked run')} went on to something new{over}",
            row.totals.calls_avoidable,
            row.totals.calls_after_block,
            row.totals.runs_blocked,
        )


def _one_a_block(rows: list[SweepRow]) -> list[SweepRow]:
    """Per block threshold the pair whose nudge disturbs least and still leaves a try before the block."""
    found: dict[int, SweepRow] = {}
    for row in rows:
        nudge, block = row.nudge or 0, row.block or 0
        old = found.get(block)
        if old is None or (block - nudge >= _DISTANCE and nudge > (old.nudge or 0)):
            found[block] = row
    return [found[block] for block in sorted(found)]


def _nearest(rows: list[SweepRow], present: SweepRow) -> SweepRow:
    return min(rows, key=lambda row: (abs(_block(row) - _block(present)), _block(row)))


def _block(row: SweepRow) -> int:
    return row.block if row.block is not None else 10**9


def _pair(row: SweepRow) -> str:
    nudge, block = ("off" if value is None else value for value in (row.nudge, row.block))
    return f"nudge {nudge}, block {block}"


def _does(row: SweepRow) -> str:
    avoided, lost = row.totals.calls_avoidable, row.totals.calls_lost
    return f"avoid {plural(avoided, 'repeated call')} and lose {plural(lost, 'call')}"


def _title(chosen: SweepRow, present: SweepRow) -> str:
    if _block(chosen) == _block(present):
        return f"Nudge at {chosen.nudge} instead of {present.nudge}"
    return f"{'Wait longer' if _block(chosen) > _block(present) else 'Act sooner'}: {_pair(chosen)}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
