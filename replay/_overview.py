"""Is anything looping, and what does it cost?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ._coverage import covered, runs_without_calls
from ._engine import Judging
from ._facts import Facts, facts_of
from ._filters import ALL, Filters, fact_filter
from ._incidents import Found, mark, touching
from ._text import duration, name_of, plural
from ._time import TIMED_FROM, bucket_width, untimed
from ._types import Coverage, Figures, Incident, IncidentKind, NamedCount, Overview, TimeBucket
from .requests import analyse_requests

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy

__all__ = ["overview"]

_SHOWN = 20


def overview(
    con: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters = ALL, *, buckets: int = 48
) -> Overview:
    """One sentence, figures, calls over time by verdict, tools and agents, newest incidents.

    With `filters.since` the period of equal length before it is given too; without `filters.until` the
    period ends with the newest call.
    """
    facts = facts_of(con)
    judging = Judging(facts, con, policy)
    where, params = fact_filter(filters, facts, con)
    incidents = touching(facts, con, filters)
    calls, over_time, width, names = _calls(facts, judging, where, params, buckets)
    figures = _figures(con, facts, policy, filters, incidents, calls)
    previous = None
    if filters.since is not None:
        end = filters.until or (calls["last_ns"] or filters.since) + 1
        before = replace(filters, since=2 * filters.since - end, until=filters.since)
        where, params = fact_filter(before, facts, con)
        earlier = judging.arrow("figures", params, where).to_pylist()[0]
        previous = _figures(con, facts, policy, before, touching(facts, con, before), earlier)
    seen = covered(facts, con, filters)
    newest = sorted(incidents, key=lambda one: (-one.incident.last_ns, one.incident.key))[:_SHOWN]
    return Overview(
        sentence=_sentence(figures, incidents, seen),
        figures=figures,
        previous=previous,
        bucket_ns=width,
        buckets=_begun(over_time, [one.incident.first_ns for one in incidents], width),
        tools=names["tool"],
        agents=names["agent"],
        incidents=tuple(mark(facts, con, newest, policy)),
        incidents_total=len(incidents),
        coverage=seen,
        calls_untimed=calls["untimed"],
    )


def _calls(
    facts: Facts, judging: Judging, where: str, params: dict[str, Any], buckets: int
) -> tuple[dict[str, Any], list[TimeBucket], int, dict[str, tuple[NamedCount, ...]]]:
    """(runs, calls, repeated_calls, last_ns and untimed; calls over time; the width of a bucket; by tool and
    by agent).
    """
    asked = {**params, "timed_from": TIMED_FROM}
    calls: dict[str, Any] = judging.arrow("period", asked, where, None).to_pylist()[0]
    first, last, start = calls["first_ns"], calls["last_ns"], -(2**63)
    calls["untimed"] = 0
    if untimed(first):  # a made-up time would stretch the axis over decades
        first, last, start = calls["first_timed_ns"], calls["last_timed_ns"], TIMED_FROM
        calls["untimed"] = calls["early"]
    origin = width = 0
    if first is not None and last is not None:
        origin, width = bucket_width(first, last, buckets)
    given = {**params, "from": start, "origin": origin, "width": width or 1}
    found: dict[str, list[dict[str, Any]]] = {"bucket": [], "tool": [], "agent": []}
    for row in judging.arrow("overview_counts", given, where).to_pylist():
        found[row["part"]].append(row)
    calls["repeated_calls"] = sum(row["repeated_calls"] for row in found["tool"])
    over_time = [
        TimeBucket(origin + row["bucket"] * width, **{name: row[name] for name in _VERDICTS})
        for row in found["bucket"]
        if width and row["bucket"] is not None
    ]

    def named(by: str) -> tuple[NamedCount, ...]:
        counts = [
            NamedCount(
                facts.names[by][row[by]], row["calls"], row["repeated_calls"], row["nudge"], row["block"]
            )
            for row in found[by]
        ]
        counts.sort(key=lambda one: (-one.repeated_calls, -one.calls, one.name or ""))
        return tuple(counts[:_SHOWN])

    return calls, over_time, width, {by: named(by) for by in ("tool", "agent")}


_VERDICTS = ("allow", "nudge", "block", "not_counted", "after_block")


def _begun(buckets: list[TimeBucket], begins: list[int], width: int) -> tuple[TimeBucket, ...]:
    """The same with the number of incidents that began in each."""
    if not buckets:
        return ()
    numbers: dict[int, int] = {}
    origin = buckets[0].start_ns
    for first_ns in begins:
        start = origin + (first_ns - origin) // width * width
        numbers[start] = numbers.get(start, 0) + 1
    return tuple(replace(one, incidents=numbers.get(one.start_ns, 0)) for one in buckets)


def _figures(
    con: duckdb.DuckDBPyConnection,
    facts: Facts,
    policy: GuardPolicy,
    filters: Filters,
    incidents: list[Found],
    calls: dict[str, Any],
) -> Figures:
    judged = analyse_requests(con, policy, filters, passed=False, limit=0).totals
    looping = {one.run_id for one in _loops(incidents)}
    return Figures(
        runs=calls["runs"] + runs_without_calls(con, facts, filters),
        calls=calls["calls"],
        runs_looping=len(looping),
        soft_failures=len({one.run_id for one in _loops(incidents) if one.soft_failure and one.unresolved}),
        runs_with_twins_only=len({one.incident.run_id for one in incidents} - looping),
        repeated_calls=calls["repeated_calls"],
        requests=judged.requests,
        failed_requests=judged.failed,
        cancelled_requests=judged.cancelled,
        preventable_requests=judged.prevented + judged.prevented_by_guard,
    )


def _loops(incidents: list[Found]) -> list[Incident]:
    return [one.incident for one in incidents if one.incident.kind is not IncidentKind.TWINS]


def _sentence(figures: Figures, incidents: list[Found], seen: Coverage) -> str:
    if not figures.calls:
        if seen.calls_not_ended:
            return f"No call has finished yet; {plural(seen.calls_not_ended, 'call')} without a recorded end."
        return "No tool calls here yet."
    blind = max(seen.calls_without_arguments, seen.calls_without_result)
    if blind == seen.calls:
        return f"None of {plural(figures.calls, 'call')} could be judged: the recordings hold no content."
    loops = _loops(incidents)
    part = f" ({seen.calls - blind:,} of {plural(seen.calls, 'call')} had content to judge)" if blind else ""
    if not loops:
        return f"None of {plural(figures.runs, 'run')} went in circles{part}."
    worst = loops[0]
    equal = sum(one.repeated_calls == worst.repeated_calls for one in loops)
    which = "the worst" if equal == 1 else f"one of the {equal:,} worst"
    agent, tool = name_of(worst.agent_name, "unnamed agent"), name_of(worst.tool_name, "?")
    what = {
        IncidentKind.LOOP: "equal answers",
        IncidentKind.CYCLE: "calls in a cycle",
        IncidentKind.RETRY_STORM: "equal errors",
        IncidentKind.SAME_ERROR: "calls with one error",
    }[worst.kind]
    return (
        f"{figures.runs_looping:,} of {plural(figures.runs, 'run')} went in circles{part}; {which} is "
        f"{agent} / {tool}: {worst.calls:,} {what} in {duration(worst.duration_ns)}."
    )
