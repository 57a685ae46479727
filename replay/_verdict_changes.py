"""Calls that two policies judge differently."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._engine import Judging, few, with_columns
from ._facts import Facts, facts_of
from ._filters import ALL, Filters, fact_filter
from ._sql import arrow, sql_text

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..guard import GuardPolicy

__all__ = ["VerdictChanges", "keep_actions", "verdict_changes"]

_KEPT = 3  # policies whose actions are kept: a page compares the saved one with a draft
_KEPT_ROWS = 3_000_000  # of 16 bytes
_COLUMNS = ("run", "seq", "tool", "counted", "action", "judged", "exact")


@dataclass(frozen=True, slots=True)
class VerdictChanges:
    """Calls that two policies judge differently.

    `calls` has the columns of `call_verdicts` under the second policy, and what the first one says:
    `action_before`, `judged_before`, `exact_before`; the first `limit` of `total` calls, which lie in
    `runs` runs.
    """

    calls: pa.Table
    total: int
    runs: int


def verdict_changes(
    con: duckdb.DuckDBPyConnection,
    before: GuardPolicy,
    after: GuardPolicy,
    filters: Filters = ALL,
    *,
    limit: int = 1_000,
) -> VerdictChanges:
    """Calls whose action differs between two policies, in the order of `call_verdicts`."""
    facts = facts_of(con)
    memory = facts.cursor()
    # By one rule, what is said of a call in a run in which nothing happens follows from the exemptions.
    touched = before.scope == "run" and before.rule_id == after.rule_id
    for name, policy in (("actions_before", before), ("actions_after", after)):
        memory.register(name, _actions(facts, con, policy, filters, touched))
    memory.register("exemptions", _exemptions(facts, before, after))
    memory.register("idle_calls", _idle_calls(facts, con, before, after, filters, touched))
    changed = arrow(memory, sql_text("verdict_changes"), {"touched": touched})
    shown = changed.slice(0, limit)
    runs = shown.column("run").unique().to_pylist()
    judging = Judging(facts, con, after, runs)
    verdicts = judging.arrow("call_verdicts", {"shown": runs}, "run IN (SELECT unnest($shown))")
    memory.register("shown_calls", shown)
    memory.register("verdicts_after", verdicts)
    verdicts = arrow(memory, sql_text("shown_changes"))
    return VerdictChanges(
        calls=with_columns(facts, con, verdicts, sql_text("changed_columns")),
        total=changed.num_rows,
        runs=len(changed.column("run").unique()),
    )


def keep_actions(facts: Facts, policy: GuardPolicy, filters: Filters, touched: bool, noted: pa.Table) -> None:
    """Remember what sql/impact_calls.sql says for a comparison that may follow."""
    import pyarrow.compute as pc

    chosen = noted.select(_COLUMNS) if filters == ALL else noted.filter(pc.field("chosen")).select(_COLUMNS)
    _keep(facts, policy, filters, touched, chosen)


def _keep(facts: Facts, policy: GuardPolicy, filters: Filters, touched: bool, made: pa.Table) -> None:
    kept: OrderedDict[tuple[str, Filters, bool], pa.Table] = facts.remember("actions", OrderedDict)
    with facts.lock:
        kept[policy.policy_hash, filters, touched] = made
        kept.move_to_end((policy.policy_hash, filters, touched))
        while len(kept) > _KEPT or sum(one.num_rows for one in kept.values()) > _KEPT_ROWS:
            kept.popitem(last=False)


def _actions(
    facts: Facts, store: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters, touched: bool
) -> pa.Table:
    """sql/actions.sql, from memory where it is known."""
    kept: OrderedDict[tuple[str, Filters, bool], pa.Table] = facts.remember("actions", OrderedDict)
    key = policy.policy_hash, filters, touched
    with facts.lock:
        if key in kept:
            kept.move_to_end(key)
            return kept[key]
    where, params = fact_filter(filters, facts, store)
    judging = Judging(facts, store, policy, few(params.get("f_runs")))
    made = judging.arrow("actions", params, where, touched=touched)
    _keep(facts, policy, filters, touched, made)
    return made


def _exemptions(facts: Facts, before: GuardPolicy, after: GuardPolicy) -> pa.Table:
    """tool, before, after: does each policy leave the tool alone?"""
    import pyarrow as pa

    columns = (
        pa.array(range(len(facts.tools)), pa.int32()),
        *(
            pa.array([policy.rules_for(tool).exempt for tool in facts.tools], pa.bool_())
            for policy in (before, after)
        ),
    )
    return pa.Table.from_arrays(columns, ["tool", "before", "after"])


def _idle_calls(
    facts: Facts,
    store: duckdb.DuckDBPyConnection,
    before: GuardPolicy,
    after: GuardPolicy,
    filters: Filters,
    touched: bool,
) -> pa.Table:
    """run, seq, tool of the calls that no policy counts, of tools that only one of the two leaves alone."""
    import pyarrow as pa

    tools = [
        number
        for number, tool in enumerate(facts.tools)
        if touched and before.rules_for(tool).exempt != after.rules_for(tool).exempt
    ]
    if not tools:
        return pa.table({name: pa.array([], pa.int32()) for name in ("run", "seq", "tool")})
    where, params = fact_filter(filters, facts, store)
    judging = Judging(facts, store, after, few(params.get("f_runs")))
    return judging.arrow("idle_calls", {**params, "idle_tools": tools}, where, base=None)
