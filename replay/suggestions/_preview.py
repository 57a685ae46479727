"""What a change would have done to the recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import duckdb

from ...guard import PolicyError
from .._engine import Judging
from .._facts import Facts, facts_of
from .._filters import Filters, fact_filter, runs_with
from .._sql import rows, sql_text
from .._text import plural
from .._totals import totals_of
from .._types import Totals
from ._change import changed, key_of
from ._context import EXAMPLES, Candidate, Context, run_ids_of
from ._excerpt import excerpt
from ._types import Effect, Example, Suggestion, SuggestionKind
from ._words import quoted, thin

if TYPE_CHECKING:
    import pyarrow as pa

    from ...guard import GuardPolicy

__all__ = ["Previews"]

_MOST_CALLS = 100_000  # that are judged again for one change
_MOST_TEXTS = 10_000  # ... where texts have to be read
_BLOCK = 2


@dataclass(frozen=True)
class _Answer:
    """What one policy says of some runs."""

    totals: Totals
    exact: Totals
    hits: pa.Table  # every nudge and block (sql/suggest_interventions.sql)
    runs_lost: int  # blocked runs that went on to something new; 0 where the limit does not ask


class Previews:
    """Replays changes over the store, or over the runs that they can change."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._whole: _Answer | None = None

    @property
    def whole(self) -> _Answer:
        """The present policy over everything."""
        if self._whole is None:
            context = self.context
            self._whole = self._answer(
                context.con, context.facts, context.policy, context.filters, context.before
            )
        return self._whole

    def runs_lost(self, policy: GuardPolicy) -> int:
        """Blocked runs that went on to something new, under a policy over everything."""
        context = self.context
        return _runs_lost(context.con, context.facts, policy, context.filters)

    def __call__(self, candidate: Candidate) -> Suggestion | None:
        """The suggestion with what it would have done; None, with a note, where it would do no good."""
        context = self.context
        try:
            policy = changed(context.policy, candidate.change)
        except PolicyError as error:
            context.notes.append(f"{candidate.title}: does not go together with the policy ({error}).")
            return None
        covers = None
        if candidate.affected is None or policy.scope != "run":
            before, facts = self.whole, context.facts
            after = self._answer(context.con, facts, policy, context.filters)
        else:
            before, after, facts, covers = self._on_excerpt(candidate, policy)
        effect = _effect(before, after, facts)
        if covers is None and before is not self.whole:
            effect = _beside(effect, self.whole.hits, before.hits)
        why_not = _useless(candidate, effect, before, after, context)
        if why_not is not None:
            if why_not:
                context.notes.append(f"Not suggested: {candidate.title}. {why_not}")
            return None
        return Suggestion(
            kind=SuggestionKind(candidate.kind),
            key=key_of(candidate.kind, candidate.change),
            title=candidate.title,
            evidence=candidate.evidence,
            change=candidate.change,
            policy=policy,
            before=before.totals,
            before_exact=before.exact,
            after=after.totals,
            after_exact=after.exact,
            effect=effect,
            runs=candidate.runs,
            warning=candidate.warning or thin(candidate.runs),
            covers=covers,
        )

    def _on_excerpt(
        self, candidate: Candidate, policy: GuardPolicy
    ) -> tuple[_Answer, _Answer, Facts, str | None]:
        """Before, after, whose numbers their hits have, and what they cover where it is not everything."""
        context = self.context
        affected = self._reported(candidate.affected or ())
        reads = candidate.texts_of is not None
        runs = self._bounded(affected, _MOST_TEXTS if reads else _MOST_CALLS)
        ids = [context.run_ids[run] for run in runs]
        small = excerpt(context.con, ids, texts=reads, tool=candidate.texts_of)
        facts = facts_of(small)
        # Services, agents and the like hold here too; which runs there are is settled.
        filters = replace(context.filters, run_ids=tuple(ids) or ("",), models=(), sessions=())
        before = self._answer(small, facts, context.policy, filters)
        after = self._answer(small, facts, policy, filters)
        if len(runs) < len(affected):
            return (
                before,
                after,
                facts,
                f"replayed on {len(runs):,} of the {len(affected):,} runs that it can change",
            )
        whole = self.whole
        merged = (
            replace(whole, hits=before.hits),
            _Answer(
                _moved_by(whole.totals, before.totals, after.totals),
                _moved_by(whole.exact, before.exact, after.exact),
                after.hits,
                whole.runs_lost - before.runs_lost + after.runs_lost,
            ),
        )
        return *merged, facts, None

    def _answer(
        self,
        con: duckdb.DuckDBPyConnection,
        facts: Facts,
        policy: GuardPolicy,
        filters: Filters,
        known: tuple[Totals, Totals] | None = None,
    ) -> _Answer:
        everything, exact = totals_of(facts, con, policy, filters) if known is None else known
        where, params = fact_filter(filters, facts, con, "v")
        hits = Judging(facts, con, policy).arrow("suggest_interventions", params, where)
        lost = 0
        if self.context.limit.runs is not None and everything.calls_lost:
            lost = _runs_lost(con, facts, policy, filters)
        return _Answer(everything, exact, hits, lost)

    def _reported(self, runs: Sequence[int]) -> list[int]:
        """Of these runs, those under the filter."""
        context, filters = self.context, self.context.filters
        if filters.run_ids or filters.sessions or filters.models:
            under = {context.run_places[run] for run in runs_with(filters, context.facts, context.con)}
            return sorted(under.intersection(runs))
        return sorted(runs)

    def _bounded(self, runs: Sequence[int], most: int) -> list[int]:
        """As many of the runs as have at most so many calls."""
        counted = self.context.judged.execute(
            "SELECT run, count(*) FROM judged WHERE run IN (SELECT unnest($runs)) GROUP BY run ORDER BY run",
            {"runs": list(runs)},
        )
        kept: list[int] = []
        for run, calls in counted.fetchall():
            most -= calls
            if most < 0 and kept:
                break
            kept.append(run)
        return kept


def _runs_lost(con: duckdb.DuckDBPyConnection, facts: Facts, policy: GuardPolicy, filters: Filters) -> int:
    where, params = fact_filter(filters, facts, con)
    found = Judging(facts, con, policy).arrow("suggest_runs_lost", params, where)
    return found.column("runs").to_pylist()[0]


def _moved_by(whole: Totals, before: Totals, after: Totals) -> Totals:
    """The totals of everything, once those of some runs went from `before` to `after`."""
    parts = {one.name: getattr(whole, one.name) for one in fields(Totals)}
    return Totals(
        **{name: value - getattr(before, name) + getattr(after, name) for name, value in parts.items()}
    )


def _effect(before: _Answer, after: _Answer, facts: Facts) -> Effect:
    """What becomes of the nudges and blocks; `facts` are those that the numbers of runs and tools are of."""
    con = duckdb.connect(":memory:")
    con.register("hits_before", before.hits)
    con.register("hits_after", after.hits)
    con.register("runs", facts.runs)
    counts = {f"{what}_{fate}": 0 for what in ("nudges", "blocks") for fate in ("gone", "stay", "new")}
    shown: dict[str, list[Example]] = {"gone": [], "stay": [], "new": []}
    run_ids = run_ids_of(facts)
    for row in rows(con, sql_text("suggest_fates"), {"examples": EXAMPLES}):
        what = "block" if row["action"] == _BLOCK else "nudge"
        counts[f"{what}s_{row['fate']}"] = row["calls"]
        if len(shown[row["fate"]]) < EXAMPLES:
            tool = facts.tools[row["tool"]]
            later = "; later another result" if row["moved"] else ""
            text = f"{what} at equal result number {row['count']:,} of {quoted(tool)}{later}"
            shown[row["fate"]].append(Example(run_ids[row["run"]], row["seq"], tool, text))
    moved = [
        con.execute(f"SELECT count(*) FROM {side} WHERE moved").fetchall()[0][0]  # noqa: S608 - our own names
        for side in ("hits_before", "hits_after")
    ]
    con.close()
    return Effect(
        **counts,
        moved_before=moved[0],
        moved_after=moved[1],
        gone=tuple(shown["gone"]),
        stay=tuple(shown["stay"]),
        new=tuple(shown["new"]),
    )


def _beside(effect: Effect, whole: pa.Table, seen: pa.Table) -> Effect:
    """The effect on some runs as that on all: what the others have stays."""
    rest = _tally(whole), _tally(seen)
    nudges, blocks, moved = (of_all - of_some for of_all, of_some in zip(*rest, strict=True))
    return replace(
        effect,
        nudges_stay=effect.nudges_stay + nudges,
        blocks_stay=effect.blocks_stay + blocks,
        moved_before=effect.moved_before + moved,
        moved_after=effect.moved_after + moved,
    )


def _tally(hits: pa.Table) -> tuple[int, int, int]:
    """Nudges, blocks, and how many of both are on calls that later gave another result."""
    import pyarrow.compute as pc

    blocks = pc.sum(pc.equal(hits.column("action"), _BLOCK)).as_py() or 0  # type: ignore[attr-defined]
    moved = pc.sum(hits.column("moved")).as_py() or 0  # type: ignore[attr-defined]
    return hits.num_rows - blocks, blocks, moved


_STRICTER = {SuggestionKind.ARGUMENTS, SuggestionKind.RESULTS}


def _useless(
    candidate: Candidate, effect: Effect, before: _Answer, after: _Answer, context: Context
) -> str | None:
    """Why the change is not suggested; "" where it simply changes nothing, None where it is."""
    if candidate.kind == SuggestionKind.THRESHOLDS:
        return None
    if not effect.changes:
        return ""
    new = effect.nudges_new + effect.blocks_new
    gone = effect.nudges_gone + effect.blocks_gone
    stricter = candidate.kind in _STRICTER or (candidate.kind == SuggestionKind.OUTCOMES and new > gone)
    if stricter:
        disturbed = effect.moved_after - effect.moved_before
        if new == 0:
            return ""
        if disturbed * 2 > new:
            return (
                f"Of the {new:,} nudges and blocks that it would add, {disturbed:,} are on calls that "
                "later gave another result."
            )
    elif gone == 0:
        return ""
    lost = after.totals.calls_lost - before.totals.calls_lost
    avoided = after.totals.calls_avoidable - before.totals.calls_avoidable
    if lost > max(avoided, 0):
        return f"It would lose {plural(lost, 'more call', 'more calls')} and avoid {max(avoided, 0):,} more."
    if lost > 0 and not context.limit.allows(after.totals, after.runs_lost):
        limit = context.limit.words(after.totals.calls)
        return f"It would lose {plural(lost, 'more call', 'more calls')}, beyond the limit of {limit}."
    return None
