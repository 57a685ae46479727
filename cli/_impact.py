"""What a policy would have saved and cost, in words and rows that commands share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._output import console, one_line, plural, print_table

if TYPE_CHECKING:
    from ..replay import Impact, SoftFailures, Spent

__all__ = ["PARTS", "money", "print_impact", "seconds", "spent_rows", "tokens"]

PARTS = {
    "avoidable": "avoidable: their result was known already",
    "lost": "lost: they brought something new",
    "unjudged": "unjudged: failed, or content not recorded",
    "rest": "other requests after the block",
}


def seconds(ns: int) -> str:
    """A duration for people."""
    from ..replay._text import duration

    return duration(ns)


def tokens(spent: Spent) -> str:
    """ "12,000 in, 300 out", with what it covers where that is not all."""
    if not spent.requests:
        return "none"
    if spent.input_tokens is None and spent.output_tokens is None:
        return "not recorded"
    text = f"{spent.input_tokens or 0:,} in, {spent.output_tokens or 0:,} out"
    return text if spent.usage_whole else f"at least {text}"


def money(spent: Spent) -> str:
    """ "$1.20"; "at least" where the cost of a request is not known; never 0 for that."""
    if not spent.requests:
        return "$0"
    if spent.cost is None:
        return "not known"
    digits = 2 if spent.cost >= 1 else 4
    return f"{'' if spent.cost_whole else 'at least '}${spent.cost:,.{digits}f}"


def spent_rows(impact: Impact) -> Iterator[dict[str, Any]]:
    """What came after blocks, a row for each part that there is."""
    for name, says in PARTS.items():
        spent: Spent = getattr(impact.effect.after, name)
        if spent.calls or spent.requests:
            yield {
                "what": says,
                "calls": spent.calls,
                "time": seconds(spent.wall_ns),
                "requests": spent.requests,
                # That no request is recorded does not say that the calls cost nothing.
                "tokens": tokens(spent) if spent.requests else None,
                "cost": money(spent) if spent.requests else None,
            }


COLUMNS: Mapping[str, str] = {
    "what": "after a block",
    "calls": "calls",
    "time": "time",
    "requests": "requests",
    "tokens": "tokens",
    "cost": "cost",
}


def print_impact(impact: Impact) -> None:
    """What came after blocks and what it took, where runs leave the recording, and soft failures."""
    out = console()
    rows = list(spent_rows(impact))
    if rows:
        out.print()
        print_table(COLUMNS, rows)
    leave = impact.divergence
    if leave.runs and leave.median_share is not None:
        out.print(
            f"\n{leave.runs:,} of {impact.totals.runs:,} runs leave what was recorded, half of them by call "
            f"{leave.median_position:,} ({leave.median_share:.0%} of the run); what comes later is projected."
        )
    _print_soft(impact.soft_failures)


def _print_soft(soft: SoftFailures) -> None:
    if not soft.runs:
        return
    out = console()
    out.print(
        f"\n{plural(soft.runs, 'run')} went in circles and ended without an error: "
        f"{soft.unresolved:,} in the circle (this policy ends {soft.unresolved_blocked:,}), "
        f"{soft.resolved:,} got out of it (ends {soft.resolved_blocked:,})."
    )
    for one in soft.shown:
        if not one.resolved and one.answer is not None:
            out.print(f"  the first one's final answer: {one_line(one.answer, 160)}", style="dim")
            break
