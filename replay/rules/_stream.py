"""The recorded calls, run by run, as rules see them; and which rules have to see which run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...guard import fingerprint
from .._counting import OUTCOMES
from .._sql import arrow, sql_text
from ._calls import RuleCall, identity, turn_ends
from ._rule import LoopRule, RunShape

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from .._facts import Facts

__all__ = ["RecordedRun", "recorded_runs", "runs_to_see"]

_BATCH_ROWS = 100_000
_FAILED = (None, False, True, True)  # by number of the outcome


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The finished calls of a run in the order of counting."""

    run: int
    seqs: list[int]
    calls: list[RuleCall]

    def by_agent(self) -> list[tuple[list[int], list[RuleCall]]]:
        """Number and call, for every agent apart."""
        agents = {call.agent for call in self.calls}
        if len(agents) < 2:
            return [(self.seqs, self.calls)]
        parts: dict[str | None, tuple[list[int], list[RuleCall]]] = {}
        for seq, call in zip(self.seqs, self.calls, strict=True):
            seqs, calls = parts.setdefault(call.agent, ([], []))
            seqs.append(seq)
            calls.append(call)
        # Two responses that were under way at once had cut each other's calls apart.
        ends = {
            agent: [
                call._replace(ends_turn=end)
                for call, end in zip(part, turn_ends([one.turn for one in part]), strict=True)
            ]
            for agent, (_, part) in parts.items()
        }
        return [(seqs, ends[agent]) for agent, (seqs, _) in parts.items()]


def runs_to_see(facts: Facts, rules: Sequence[LoopRule]) -> dict[int, list[int]]:
    """By number of the run, the rules (by place) that may fire on it. Other runs need not be read.

    Most runs repeat little. Whether a rule can fire is asked of a few counts per run (`RunShape`), each
    of which is at least what the rule itself could count: rules are fed the calls of one agent, whose
    identities are never coarser than the fingerprint (equal text, equal JSON and equal sorted JSON are
    all equal fingerprints); calls without arguments equal nothing. A rule that looks at some tools more
    closely sees every run with such a call.
    """
    con = facts.cursor()
    table = arrow(con, sql_text("rules_shapes"))
    columns = [table.column(name).to_pylist() for name in table.column_names]
    runs = columns[0]
    shapes = list(map(RunShape._make, zip(*columns[1:], [False] * len(runs), strict=True)))
    special = _special_runs(facts, con, rules)
    found: dict[int, list[int]] = {}
    for place, (rule, closely) in enumerate(zip(rules, special, strict=True)):
        may_fire = rule.may_fire
        for run, shape in zip(runs, shapes, strict=True):
            if may_fire(shape._replace(special=True) if run in closely else shape):
                found.setdefault(run, []).append(place)
    return found


def _special_runs(facts: Facts, con: duckdb.DuckDBPyConnection, rules: Sequence[LoopRule]) -> list[set[int]]:
    tools = [set(facts.ids("tool", rule.special_tools(facts.tools))) for rule in rules]
    wanted = sorted(set().union(*tools))
    if not wanted:
        return [set() for _ in rules]
    rows = con.execute(sql_text("rules_special"), {"tools": wanted}).fetchall()
    return [{run for run, tool in rows if tool in mine} for mine in tools]


def recorded_runs(
    facts: Facts, store: duckdb.DuckDBPyConnection, rules: Sequence[LoopRule], seen_by: dict[int, list[int]]
) -> Iterator[RecordedRun]:
    """The runs that some rule has to see, one after the other; a batch of rows in memory at a time."""
    if not seen_by:
        return
    con = facts.cursor()
    _offer(con, "rule_runs", _wanted(rules, seen_by))
    _offer(con, "rule_texts", _texts(facts, store, con, rules))
    made = _maker(facts)
    rest: list[Any] = []
    reader = con.sql(sql_text("rules_calls")).to_arrow_reader(_BATCH_ROWS)
    for batch in reader:
        columns = [column.to_pylist() for column in batch.columns]
        if rest:
            columns = [[*old, *new] for old, new in zip(rest, columns, strict=True)]
        runs = columns[0]
        start = 0
        # The last run of a batch may go on in the next one.
        for end in (place for place in range(1, len(runs)) if runs[place] != runs[place - 1]):
            yield made([column[start:end] for column in columns])
            start = end
        rest = [column[start:] for column in columns]
    if rest and rest[0]:
        yield made(rest)


def _wanted(rules: Sequence[LoopRule], seen_by: dict[int, list[int]]) -> pa.Table:
    import pyarrow as pa

    read_errors = {place for place, rule in enumerate(rules) if rule.reads_errors}
    errors = [not read_errors.isdisjoint(places) for places in seen_by.values()]
    return pa.table({"run": pa.array(seen_by, pa.int32()), "errors": pa.array(errors, pa.bool_())})


def _texts(
    facts: Facts, store: duckdb.DuckDBPyConnection, con: duckdb.DuckDBPyConnection, rules: Sequence[LoopRule]
) -> pa.Table:
    """What rules read of single calls (sql/rules_texts.sql)."""
    con.register("run_names", facts.runs)
    named = arrow(
        con, "SELECT n.run_id, r.run, r.errors FROM rule_runs AS r JOIN run_names AS n ON n.run = r.run"
    )
    con.unregister("run_names")
    offered = ["rule_runs"]
    store.register("rule_runs", named)
    try:
        store.register("mixed_keys", arrow(store, sql_text("rules_mixed")))
        offered.append("mixed_keys")
        wanted = {
            "read": sorted(set().union(*(rule.reads_arguments_of for rule in rules))),
            "results": sorted(set().union(*(rule.reads_results_of for rule in rules))),
        }
        return arrow(store, sql_text("rules_texts"), wanted)
    finally:
        for name in offered:
            store.unregister(name)


def _offer(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    con.register("offered", table)
    con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM offered")  # noqa: S608 - fixed names
    con.unregister("offered")


def _maker(facts: Facts) -> Callable[[list[list[Any]]], RecordedRun]:
    tools, agents = facts.tools, facts.names["agent"]
    outcomes = (None, *OUTCOMES[1:])
    nothing = {fingerprint(tool, "") for tool in tools}

    def made(columns: list[list[Any]]) -> RecordedRun:
        run, seqs, agent, tool, turns, outcome, prints, results, mixed, errors, arguments, outputs = columns
        blanks = prints if nothing.isdisjoint(prints) else [None if one in nothing else one for one in prints]
        calls = list(
            map(
                RuleCall._make,
                zip(
                    [tools[one] for one in tool],
                    *[prints] * 5,
                    blanks,
                    results,
                    [_FAILED[one] for one in outcome],
                    errors,
                    turns,
                    turn_ends(turns),
                    [outcomes[one] for one in outcome],
                    [agents[one] for one in agent],
                    [None] * len(seqs),
                    arguments,
                    outputs,
                    strict=True,
                ),
            )
        )
        if True in mixed:
            # All calls of this fingerprint are mixed, so these identities meet only their like.
            for place, call in enumerate(calls):
                if mixed[place] and call.arguments is not None:
                    apart = identity(call.tool, call.arguments)._replace(ours=call.ours)
                    calls[place] = RuleCall(call.tool, *apart, *call[7:])
        return RecordedRun(run[0], seqs, calls)

    return made
