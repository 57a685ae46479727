"""What changes when one policy takes the place of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._engine import ACTIONS, idles_alike
from .._facts import Facts, facts_of
from .._filters import ALL, Filters
from .._sql import arrow, rows, sql_text
from ._examples import with_texts
from ._impact import measure
from ._spending import offered
from ._types import PARTS, ChangedCall, Effect, ImpactPart, PolicyComparison, ToolComparison, VerdictChange

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy

__all__ = ["compare_policies"]

_RUNS = 100  # run ids that are named


def compare_policies(
    con: duckdb.DuckDBPyConnection,
    before: GuardPolicy,
    after: GuardPolicy,
    filters: Filters = ALL,
    *,
    examples: int = 5,
) -> PolicyComparison:
    """The figures of both policies and every verdict that changes (docs/impact.md).

    `examples` bounds the calls that are shown of each kind of change; with 0 no text is read.
    """
    facts = facts_of(con)
    touched = idles_alike(facts, before, after)
    old = measure(facts, con, before, filters, touched=touched)
    new = measure(facts, con, after, filters, touched=touched)
    memory = facts.cursor()
    with offered(memory, calls_before=old.noted, calls_after=new.noted):
        changed = arrow(memory, sql_text("impact_changes"), {"touched": touched})
    blocked = []
    for one in (old, new):
        with offered(memory, noted_calls=one.noted):
            spoken = rows(memory, sql_text("impact_spoken"))
        blocked.append({row["run"] for row in spoken if row["blocked"]})
    with offered(memory, changed_calls=changed):
        counts = rows(memory, sql_text("impact_change_counts"))
        sums = rows(memory, sql_text("impact_change_sums"))[0]
        by_tool = dict(memory.execute("SELECT tool, count(*) FROM changed_calls GROUP BY tool").fetchall())
        shown = arrow(memory, sql_text("impact_change_examples"), {"limit": examples})
    newly, spared = blocked[1] - blocked[0], blocked[0] - blocked[1]
    return PolicyComparison(
        before=old.impact,
        after=new.impact,
        calls_changed=changed.num_rows,
        calls_changed_exact=sums["exact_calls"],
        runs_changed=sums["runs"],
        changes=tuple(
            VerdictChange(ACTIONS[row.pop("before")], ACTIONS[row.pop("after")], **row) for row in counts
        ),
        examples=tuple(_example(row) for row in with_texts(facts, con, shown)) if shown.num_rows else (),
        runs_newly_blocked=len(newly),
        runs_spared=len(spared),
        newly_blocked=_named(facts, newly),
        spared=_named(facts, spared),
        newly_avoided=sums["newly_avoided"],
        no_longer_avoided=sums["no_longer_avoided"],
        newly_lost=sums["newly_lost"],
        no_longer_lost=sums["no_longer_lost"],
        newly_unjudged=sums["newly_unjudged"],
        no_longer_unjudged=sums["no_longer_unjudged"],
        by_tool=_by_tool(
            old.impact.by_tool,
            new.impact.by_tool,
            {facts.tools[tool]: calls for tool, calls in by_tool.items()},
        ),
    )


def _named(facts: Facts, runs: set[int]) -> tuple[str, ...]:
    """Run ids of the first runs."""
    found = facts.cursor().execute(
        "SELECT run_id FROM runs WHERE run IN (SELECT unnest($runs)) ORDER BY started, run_id LIMIT $most",
        {"runs": list(runs), "most": _RUNS},
    )
    return tuple(run_id for (run_id,) in found.fetchall())


def _example(row: dict[str, Any]) -> ChangedCall:
    return ChangedCall(
        before=ACTIONS[row["before"]],
        after=ACTIONS[row["after"]],
        exact=row["exact"],
        judged=None if row["judged"] is None else PARTS[row["judged"]],
        run_id=row["run_id"],
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        position=row["position"],
        agent_name=row["agent_name"],
        tool_name=row["tool_name"],
        call=row["seq"],
        arguments=row["arguments"],
        result=row["result"],
        start_ns=row["start_ns"],
    )


def _by_tool(
    before: tuple[ImpactPart, ...], after: tuple[ImpactPart, ...], changed: dict[str, int]
) -> tuple[ToolComparison, ...]:
    old = {part.name: part.effect for part in before}
    new = {part.name: part.effect for part in after}
    names = sorted({*old, *new, *changed}, key=lambda name: (-changed.get(name or "", 0), name or ""))
    return tuple(
        ToolComparison(name, old.get(name, Effect()), new.get(name, Effect()), changed.get(name or "", 0))
        for name in names
    )
