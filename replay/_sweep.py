"""Totals for many pairs of thresholds at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..guard import INHERIT, GuardPolicy, PolicyError
from ._engine import Judging
from ._facts import facts_of
from ._filters import ALL, Filters, fact_filter
from ._totals import calls_and_runs
from ._types import Totals

if TYPE_CHECKING:
    import duckdb

__all__ = ["SweepRow", "is_policy", "off_last", "sweep"]


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One cell of a sweep."""

    nudge: int | None
    block: int | None
    totals: Totals

    def to_json(self) -> dict[str, int | None]:
        """`{"nudge": …, "block": …, …totals}`."""
        return {"nudge": self.nudge, "block": self.block, **self.totals.to_json()}


def sweep(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    nudges: Iterable[int | None],
    blocks: Iterable[int | None],
    filters: Filters = ALL,
) -> list[SweepRow]:
    """Totals for every pair of default thresholds, by nudge, then block.

    Per-tool thresholds and exemptions of `policy` stay as they are. Pairs that are no policy are
    left out: nudge ≥ block, also after merging a tool's own threshold.
    """
    wanted = [
        (nudge, block)
        for nudge in sorted(set(nudges), key=off_last)
        for block in sorted(set(blocks), key=off_last)
        if is_policy(policy, nudge, block)
    ]
    if not wanted:
        return []
    facts = facts_of(con)
    judging = Judging(facts, con, policy)
    where, params = fact_filter(filters, facts, con, "c")
    own = [policy.tools.get(name) for name in facts.tools]
    levels = [nudge for nudge, _ in wanted if nudge is not None]
    shared: dict[str, Any] = {
        **params,
        "own_nudge": [tool is not None and tool.nudge_threshold is not INHERIT for tool in own],
        "own_block": [tool is not None and tool.block_threshold is not INHERIT for tool in own],
        "cells": sorted({block or 0 for _, block in wanted}),
    }
    base = calls_and_runs(con, facts, judging, filters)
    lowest = min([judging.lowest, *(one for pair in wanted for one in pair if one is not None)])
    blocks_at_once = 1 in (*judging.thresholds["blocks"], *(block for _, block in wanted))
    quiet = judging.counted.quiet if lowest <= 1 and not blocks_at_once else None
    judging.look_at(judging.counted.busy(lowest if quiet is None else 0), quiet)
    stopped = {
        row.pop("cell"): row
        for row in judging.arrow("sweep_blocks", shared, where, base="sweep_base").to_pylist()
    }
    cap = max(levels, default=0)
    bounds = {**shared, "cap": cap, "lowest": min(levels, default=0)}
    nudged_calls: defaultdict[tuple[int | None, int], int] = defaultdict(int)
    nudged_runs: defaultdict[tuple[int | None, int], int] = defaultdict(int)
    histograms = judging.arrow("sweep_nudges", bounds, where, base="sweep_base").to_pylist()
    if quiet:
        histograms += judging.arrow("sweep_quiet", bounds, where, base=None).to_pylist()
    for row in histograms:
        for level in range(1, row["level"] + 1):
            nudged_calls[row["cell"], level] += row["calls"]
            nudged_runs[row["cell"], level] += row["runs"]
    found: list[SweepRow] = []
    for nudge, block in wanted:
        level = cap + 1 if nudge is None else nudge
        cell = block or 0
        after = stopped.get(cell, _NOTHING)
        totals = Totals(
            runs=base.runs,
            calls=base.calls,
            runs_nudged=nudged_runs[None, level] + nudged_runs[cell, level],
            calls_nudged=nudged_calls[None, level] + nudged_calls[cell, level],
            calls_after_block=after["calls_avoidable"] + after["calls_lost"] + after["calls_unjudged"],
            **after,
        )
        found.append(SweepRow(nudge, block, totals))
    return found


_NOTHING = dict.fromkeys(
    ("runs_blocked", "calls_blocked", "calls_avoidable", "calls_lost", "calls_unjudged"), 0
)


def off_last(threshold: int | None) -> tuple[bool, int]:
    """By which thresholds are sorted."""
    return threshold is None, threshold or 0


def is_policy(policy: GuardPolicy, nudge: int | None, block: int | None) -> bool:
    """May these take the place of the policy's default thresholds?"""
    try:
        replace(policy, nudge_threshold=nudge, block_threshold=block)
    except PolicyError:
        return False
    return True
