"""What a policy could be changed to, from what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .._coverage import covered
from .._facts import facts_of
from .._filters import ALL, Filters
from .._incidents import all_incidents
from .._text import plural
from ._arguments import arguments
from ._context import Candidate, Context, run_ids_of
from ._excerpt import excerpt
from ._outcomes import outcomes
from ._preview import Previews
from ._resets import resets
from ._results import results
from ._thresholds import thresholds
from ._types import Effect, Example, Fact, HarmLimit, Suggestion, SuggestionReport
from ._waiting import less_harm, waiting

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy
    from .._sweep import SweepRow

__all__ = ["suggest", "suggestion_report"]

_MOST = 12  # suggestions of one report
_EXAMPLE_CALLS = 20_000  # of the runs in which examples lie


def suggest(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    filters: Filters = ALL,
    *,
    harm_limit: HarmLimit | None = None,
    guarded: bool = False,
) -> tuple[Suggestion, ...]:
    """The suggestions of `suggestion_report` alone."""
    return suggestion_report(con, policy, filters, harm_limit=harm_limit, guarded=guarded).suggestions


def suggestion_report(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    filters: Filters = ALL,
    *,
    harm_limit: HarmLimit | None = None,
    guarded: bool = False,
) -> SuggestionReport:
    """Changes to `policy` that the recorded runs speak for, each with evidence and what it would have done.

    At most 12. Each is seen against the present policy alone; `accept` puts several on one policy.
    `harm_limit` (1% of the calls lost) bounds what thresholds and stricter comparisons may cost. Runs
    recorded under a live guard are left out unless `guarded`: what an agent did after a note is not what it
    would have done without.
    """
    limit = harm_limit or HarmLimit()
    facts = facts_of(con)
    left_out = 0 if guarded else covered(facts, con, filters).runs_guarded
    if left_out:
        filters = _unguarded(con, filters)
    context = Context(con, policy, filters, limit)
    totals = context.before[0]
    found: list[Suggestion] = []
    if totals.calls:
        found = list(_found(context))[:_MOST]
        found = _with_incidents(con, found)
    return SuggestionReport(
        policy=policy,
        harm_limit=limit,
        runs=totals.runs,
        calls=totals.calls,
        runs_guarded=left_out,
        suggestions=tuple(found),
        notes=tuple(_notes(context, left_out, bool(found))),
    )


def _found(context: Context) -> Iterator[Suggestion]:
    repeats = context.judged.execute("SELECT count(*) FROM streaks").fetchall()[0][0]
    preview = Previews(context)

    def replayed(candidates: Iterator[Candidate] | Sequence[Candidate]) -> Iterator[Suggestion]:
        for candidate in candidates:
            made = preview(candidate)
            if made is not None:
                yield made

    if repeats:
        yield from replayed(resets(context))
        for own, exempt in waiting(context):
            chosen = less_harm(preview(own), preview(exempt))
            if chosen is not None:
                yield chosen

        def runs_lost(row: SweepRow) -> int:
            pair = {"nudge_threshold": row.nudge, "block_threshold": row.block}
            return preview.runs_lost(replace(context.policy, **pair))

        pair = thresholds(context, runs_lost)
        if pair is not None:
            yield from replayed([pair])
    yield from replayed(arguments(context))
    yield from replayed(results(context))
    yield from replayed(outcomes(context))


def _notes(context: Context, left_out: int, any_found: bool) -> Iterator[str]:
    """Why there is no more, in the order in which a reader asks."""
    totals = context.before[0]
    if left_out:
        yield (
            f"{plural(left_out, 'run')} recorded under a live guard left out: what an agent did after a "
            "note is not what it would have done without."
        )
    coverage = covered(context.facts, context.con, context.filters)
    if totals.calls == 0:
        yield "Nothing to go by: no finished tool call is recorded."
        return
    missing = max(coverage.calls_without_arguments, coverage.calls_without_result)
    if missing:
        yield (
            f"{missing:,} of {totals.calls:,} calls have no recorded arguments or no recorded result: "
            "what they repeat cannot be seen."
        )
    longest = context.judged.execute("SELECT coalesce(max(length), 1) FROM streaks").fetchall()[0][0]
    if longest == 1:
        yield f"No repeat in {plural(totals.runs, 'run')}: no call gave an equal result twice in a row."
    elif not totals.calls_nudged and not totals.calls_blocked:
        yield (
            f"No loop in {plural(totals.runs, 'run')}: at most {longest} equal results in a row, and the "
            "policy does nothing yet."
        )
    yield from context.notes
    if not any_found and longest > 1 and (totals.calls_nudged or totals.calls_blocked):
        yield (
            f"Nothing to suggest: the policy nudges {plural(totals.calls_nudged, 'call')} and blocks "
            f"{plural(totals.runs_blocked, 'run')} of {totals.runs:,}, and nothing recorded speaks for a "
            "change."
        )


def _unguarded(con: duckdb.DuckDBPyConnection, filters: Filters) -> Filters:
    """The filter without runs in which a live guard's note was recorded."""
    found = con.execute(
        "SELECT run_id FROM (SELECT DISTINCT run_id FROM tool_call_rows UNION SELECT DISTINCT run_id FROM "
        "llm_request_rows) AS runs WHERE run_id NOT IN "
        "(SELECT run_id FROM tool_call_rows WHERE recorded_verdict IS NOT NULL)"
    ).fetchall()
    wanted = {run_id for (run_id,) in found}
    if filters.run_ids:
        wanted &= set(filters.run_ids)
    return replace(filters, run_ids=tuple(sorted(wanted)) or ("",))


def _with_incidents(con: duckdb.DuckDBPyConnection, found: list[Suggestion]) -> list[Suggestion]:
    """The suggestions with the incidents of which their examples are part, and the names of tools."""
    examples = [
        example
        for one in found
        for shown in (
            *(fact.examples for fact in one.evidence),
            one.effect.gone,
            one.effect.stay,
            one.effect.new,
        )
        for example in shown
    ]
    run_ids = sorted({example.run_id for example in examples})
    if not run_ids:
        return found
    counts = con.execute(
        "SELECT run_id, count(*) FROM tool_call_rows WHERE run_id IN (SELECT unnest($runs)) GROUP BY run_id "
        "ORDER BY count(*), run_id",
        {"runs": run_ids},
    ).fetchall()
    left, few = _EXAMPLE_CALLS, []
    for run_id, calls in counts:
        left -= calls
        if left >= 0:
            few.append(run_id)
    small = excerpt(con, few, texts=True)
    facts = facts_of(small)
    keys: dict[tuple[str, int], str] = {}
    names = run_ids_of(facts)
    for one in all_incidents(facts, small):
        for seq in one.stretch.seqs:
            keys.setdefault((names[one.stretch.run], seq), one.incident.key)
    tools = {
        (run_id, seq): name
        for run_id, seq, name in con.execute(
            "SELECT run_id, seq, tool_name FROM tool_call_rows WHERE seq IS NOT NULL "
            "AND run_id IN (SELECT unnest($runs))",
            {"runs": run_ids},
        ).fetchall()
    }
    small.close()

    def full(examples: tuple[Example, ...]) -> tuple[Example, ...]:
        return tuple(
            replace(
                one,
                incident=keys.get((one.run_id, one.seq)),
                tool_name=tools.get((one.run_id, one.seq), one.tool_name),
            )
            for one in examples
        )

    def fact(one: Fact) -> Fact:
        return replace(one, examples=full(one.examples))

    def effect(one: Effect) -> Effect:
        return replace(one, gone=full(one.gone), stay=full(one.stay), new=full(one.new))

    return [replace(one, evidence=tuple(map(fact, one.evidence)), effect=effect(one.effect)) for one in found]
