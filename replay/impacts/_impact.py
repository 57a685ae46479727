"""What a policy would have changed: spared, lost, spent, and how sure that is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .._counting import OUTCOMES
from .._coverage import covered, runs_without_calls
from .._engine import Judging
from .._facts import Facts, facts_of
from .._filters import ALL, Filters, fact_filter
from .._types import Totals
from .._verdict_changes import keep_actions
from ._endings import soft_failures_of
from ._examples import shown_after_block
from ._spending import Interference, interference
from ._types import AfterBlock, CallsAfterBlock, Divergence, Effect, Impact, PositionBin, SoftFailures

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ...guard import GuardPolicy

__all__ = ["Measured", "impact", "measure"]

_NOTHING = Effect(), Effect()
_LOST = 1
_KEPT = 3  # measured policies: a page compares the saved one with a draft
_KEPT_CALLS = 300_000  # of one of them; about 120 bytes each


def impact(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    filters: Filters = ALL,
    *,
    examples: int = 20,
    soft_failures: bool | None = None,
    parts: bool = True,
) -> Impact:
    """What `policy` would have changed in the recorded runs (docs/impact.md defines every figure).

    `examples` bounds the lost calls and the soft failures that are shown. With 0 no text is read: the figures
    alone, for a slider. `soft_failures`: are they counted? None: where there are to be examples. Without
    `parts`, `by_tool` and its like are empty.
    """
    facts = facts_of(con)
    measured = measure(facts, con, policy, filters, parts=parts)
    found = measured.impact
    if examples:
        lost = shown_after_block(facts, con, measured.noted, _LOST, examples, by_run=False)
        found = replace(found, lost=lost)
    if soft_failures or (examples and soft_failures is None):
        counted = soft_failures_of(facts, con, measured.noted, filters, examples)
        found = replace(found, soft_failures=counted)
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """An impact without examples, and the calls that it rests on (sql/impact_calls.sql)."""

    impact: Impact
    noted: pa.Table


def measure(
    facts: Facts,
    store: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    filters: Filters,
    *,
    touched: bool = True,
    parts: bool = True,
) -> Measured:
    """The figures, from memory where these were asked for a moment ago.

    `touched`: the calls need only be those of runs in which something happens. `parts`: as of `impact`.
    """
    kept: OrderedDict[tuple[str, Filters, bool, bool], Measured] = facts.remember("impacts", OrderedDict)
    key = policy.policy_hash, filters, touched, parts
    with facts.lock:
        if key in kept:
            kept.move_to_end(key)
            return kept[key]
    made = _measure(facts, store, policy, filters, touched, parts)
    if made.noted.num_rows <= _KEPT_CALLS:
        with facts.lock:
            kept[key] = made
            while len(kept) > _KEPT:
                kept.popitem(last=False)
    return made


def _measure(
    facts: Facts,
    store: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    filters: Filters,
    touched: bool,
    parts: bool,
) -> Measured:
    judging = Judging(facts, store, policy)
    where, params = fact_filter(filters, facts, store)
    found = Interference(facts, store, policy, judging, filters, touched=touched, parts=parts)
    # Calls of several runs counted together are all there in any case.
    keep_actions(facts, policy, filters, touched and policy.scope == "run", found.noted)
    base = facts.remember(
        ("impact base", filters), lambda: _Base(judging.arrow("impact_base", params, where, None))
    )
    runs = found.runs(base.table)
    effects: dict[str, dict[Any, tuple[Effect, Effect]]] = {}
    if parts:
        effects = found.effects({"tool": facts.tools, "outcome": list(OUTCOMES), "kind": facts.names["kind"]})
        effects.get("kind", {}).pop(None, None)  # calls that did not fail
    whole, exact = effects.get("all", {}).get(None, _NOTHING) if parts else found.effect()
    quiet = runs_without_calls(store, facts, filters)
    projected = [sum(row[name] for row in runs) for name in ("projected_runs", "projected_calls")]
    made = Impact(
        policy=policy,
        filters=filters,
        coverage=covered(facts, store, filters),
        totals=_totals(base.runs + quiet, base.calls, whole),
        exact_totals=_totals(base.runs + quiet - projected[0], base.calls - projected[1], exact),
        effect=whole,
        exact=exact,
        by_tool=interference(effects.get("tool", {})),
        by_agent=interference(effects.get("agent", {})),
        by_model=interference(effects.get("model", {})),
        by_outcome=interference(effects.get("outcome", {})),
        by_error_kind=interference(effects.get("kind", {})),
        divergence=_divergence(runs),
        lost=CallsAfterBlock((), whole.after.lost.calls),
        soft_failures=SoftFailures(),
    )
    return Measured(made, found.noted)


class _Base:
    """Runs and calls under a filter, whatever a policy says of them. `table`: sql/impact_base.sql."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        chosen = table.column("chosen").to_numpy()
        self.runs = int((chosen > 0).sum())
        self.calls = int(chosen.sum())


def _totals(runs: int, calls: int, effect: Effect) -> Totals:
    after: AfterBlock = effect.after
    parts = (after.avoidable.calls, after.lost.calls, after.unjudged.calls)
    return Totals(
        runs=runs,
        calls=calls,
        runs_nudged=effect.runs_nudged,
        runs_blocked=effect.runs_blocked,
        calls_nudged=effect.calls_nudged,
        calls_blocked=effect.calls_blocked,
        calls_after_block=sum(parts),
        calls_avoidable=parts[0],
        calls_lost=parts[1],
        calls_unjudged=parts[2],
    )


# Call numbers one by one where most runs leave, then ever wider.
_STEPS = (*range(11), 20, 50, 100, 200, 500, 1_000, 10_000)
_SHARES = 10


def _divergence(rows: Sequence[dict[str, Any]]) -> Divergence:
    """`rows`: position, calls, runs, by position."""
    runs = sum(row["runs"] for row in rows)
    if not runs:
        return Divergence()
    by_step = dict.fromkeys((*_STEPS, None), 0)
    shares = [0] * _SHARES
    for row in rows:
        step = next((step for step in _STEPS if row["position"] <= step), None)
        by_step[step] += row["runs"]
        # The last call of a run is at 100 %; the bin n holds (10 n, 10 n + 10], the first one 0, too.
        place = max(0, -(-row["position"] * _SHARES // row["calls"]) - 1)
        shares[place] += row["runs"]
    positions, before = [], -1
    for step in _STEPS:
        if by_step[step]:
            positions.append(PositionBin(before + 1, step, by_step[step]))
        before = step
    if by_step[None]:
        positions.append(PositionBin(before + 1, max(row["position"] for row in rows), by_step[None]))
    width = 100 // _SHARES
    return Divergence(
        runs=runs,
        positions=tuple(positions),
        shares=tuple(PositionBin(n * width, (n + 1) * width, count) for n, count in enumerate(shares)),
        median_position=_median([(row["position"], row["runs"]) for row in rows]),
        median_share=_median(sorted((row["position"] / row["calls"], row["runs"]) for row in rows)),
    )


def _median(weighted: Sequence[tuple[Any, int]]) -> Any:
    """The value that half of the runs reach (the lower one of two in the middle)."""
    half = (sum(runs for _, runs in weighted) + 1) // 2
    for value, runs in weighted:
        half -= runs
        if half <= 0:
            return value
    return None
