"""What all kinds of suggestions look at: the recorded runs as the present policy judges them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._engine import Judging
from .._facts import Facts, facts_of
from .._filters import Filters, fact_filter
from .._sql import rows, sql_text
from .._totals import totals
from ._names import changes_things
from ._types import Example, Fact, HarmLimit

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ...guard import GuardPolicy
    from .._types import Totals

__all__ = ["EXAMPLES", "Candidate", "Context", "run_ids_of"]

EXAMPLES = 5  # examples of one fact
_APART = 5  # calls between two calls alike of which it is asked what they did
_SOLE_CHANGES = 3  # answers that changed behind one other tool alone, to say that it changes things


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that the evidence speaks for; whether it does any good is seen by replaying."""

    kind: str
    title: str
    change: Mapping[str, Any]
    evidence: tuple[Fact, ...]
    runs: int  # in which the evidence was seen
    affected: Sequence[int] | None = None  # numbers of all runs that it can change; None: any
    texts_of: str | None = None  # the tool of which texts are read again
    warning: str | None = None


@dataclass
class Context:
    """One store, the present policy, and what was found out on the way."""

    con: duckdb.DuckDBPyConnection
    policy: GuardPolicy
    filters: Filters
    limit: HarmLimit
    notes: list[str] = field(default_factory=list)

    @cached_property
    def facts(self) -> Facts:
        """The store's facts."""
        return facts_of(self.con)

    @cached_property
    def before(self) -> tuple[Totals, Totals]:
        """Totals under the present policy, and their exact part."""
        return totals(self.con, self.policy, self.filters)

    @cached_property
    def reported(self) -> tuple[str, dict[str, Any]]:
        """The condition on verdicts that the filter makes, and its parameters."""
        return fact_filter(self.filters, self.facts, self.con)

    def judging(self, policy: GuardPolicy) -> Judging:
        """Verdicts of the store under a policy."""
        return Judging(self.facts, self.con, policy)

    @cached_property
    def judged(self) -> duckdb.DuckDBPyConnection:
        """A cursor with the tables `judged` and `streaks` (sql/suggest_judged.sql, suggest_streaks.sql).

        Runs and tools have the numbers of `run_ids` and `tools`, not those of the facts.
        """
        where, params = self.reported
        judging = self.judging(self.policy)
        con = judging.con
        con.register("run_places", _pairs("run", self.run_places))
        places = {name: place for place, name in enumerate(self.tools)}
        tools = {number: places[name] for number, name in enumerate(self.facts.tools)}
        con.register("tool_places", _pairs("tool", tools))
        con.register("judged_rows", judging.arrow("suggest_judged", params, where))
        con.execute("CREATE TEMP TABLE judged AS SELECT * FROM judged_rows")
        con.unregister("judged_rows")
        con.execute(
            "CREATE TEMP TABLE streaks AS " + sql_text("suggest_streaks"), {"changers": self.changers(con)}
        )
        return con

    def ask(self, statement: str, **params: Any) -> list[dict[str, Any]]:
        """The rows of `sql/<statement>.sql` over `judged` and `streaks`."""
        return rows(self.judged, sql_text(statement), params)

    def changers(self, con: duckdb.DuckDBPyConnection) -> list[int]:
        """Numbers of the tools that change things, by their name or by what was seen."""
        if self._changers is None:
            by_name = {number for number, name in enumerate(self.tools) if changes_things(name)}
            for row in rows(con, sql_text("suggest_effects"), {"apart": _APART}):
                self.effects[row["tool"]] = row["pairs"], row["changed"], row["runs"]
            seen = {tool for tool, effect in self.effects.items() if _tells(*effect)}
            self.named = by_name
            self._changers = sorted(by_name | seen)
        return self._changers

    effects: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # tool: pairs, changed, runs
    named: set[int] = field(default_factory=set)
    _changers: list[int] | None = None

    @cached_property
    def tools(self) -> list[str]:
        """Tool names by number, in their order."""
        return sorted(set(self.facts.tools))

    @cached_property
    def run_places(self) -> dict[int, int]:
        """Numbers of runs, first started first, by those of the facts, which number them as they come in."""
        runs = self.facts.runs.sort_by([("started", "ascending"), ("run_id", "ascending")])
        return {run: place for place, run in enumerate(runs.column("run").to_pylist(), 1)}

    @cached_property
    def run_ids(self) -> dict[int, str]:
        """Run ids by number."""
        return {self.run_places[run]: run_id for run, run_id in run_ids_of(self.facts).items()}

    @cached_property
    def run_numbers(self) -> dict[str, int]:
        """Numbers of runs by id."""
        return {run_id: run for run, run_id in self.run_ids.items()}

    def examples(self, found: Iterable[tuple[int, int, str]]) -> tuple[Example, ...]:
        """Examples of (run, seq, text), the first few, of different runs first."""
        first: list[tuple[int, int, str]] = []
        more: list[tuple[int, int, str]] = []
        seen: set[int] = set()
        for one in found:
            if one[0] not in seen:
                seen.add(one[0])
                first.append(one)
                if len(first) >= EXAMPLES:
                    break
            elif len(more) < EXAMPLES:
                more.append(one)
        return tuple(
            Example(self.run_ids[run], seq, "", text) for run, seq, text in [*first, *more][:EXAMPLES]
        )


def run_ids_of(facts: Facts) -> dict[int, str]:
    """Run ids by the numbers of the facts."""
    runs = facts.runs
    return dict(zip(runs.column("run").to_pylist(), runs.column("run_id").to_pylist(), strict=True))


def _pairs(name: str, places: Mapping[int, int]) -> pa.Table:
    import pyarrow as pa

    columns = pa.array(places.keys(), pa.int32()), pa.array(places.values(), pa.int32())
    return pa.Table.from_arrays(columns, [name, "place"])


def _tells(pairs: int, changed: int, runs: int) -> bool:
    """Did the answer change so often behind this tool alone that it must be the tool?"""
    return changed >= _SOLE_CHANGES and runs >= 2 and changed * 2 >= pairs
