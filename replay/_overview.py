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
    figures, first, last = _figures(con, facts, judging, policy, filters, incidents)
    previous = None
    if filters.since is not None:
        end = filters.until or (last or filters.since) + 1
        before = replace(filters, since=2 * filters.since - end, until=filters.since)
        previous = _figures(con, facts, judging, policy, before, touching(facts, con, before))[0]
    width = calls_untimed = 0
    over_time: tuple[TimeBucket, ...] = ()
    timed, timed_params = where, params
    if untimed(first):  # a made-up time would stretch the axis over decades
        timed, timed_params = fact_filter(since_timed(filters), facts, con)
        dated: dict[str, Any] = judging.arrow("figures", timed_params, timed).to_pylist()[0]
        first, last, calls_untimed = dated["first_ns"], dated["last_ns"], figures.calls - dated["calls"]
    if first is not None and last is not None:
        origin, width = bucket_width(first, last, buckets)
        found = judging.arrow("time_buckets", {**timed_params, "origin": origin, "width": width}, timed)
        over_time = _begun(
            [TimeBucket(origin + row.pop("bucket") * width, **row) for row in found.to_pylist()],
            [one.incident.first_ns for one in incidents],
            width,
        )
    seen = covered(facts, con, filters)
    newest = sorted(incidents, key=lambda one: (-one.incident.last_ns, one.incident.key))[:_SHOWN]

    def named(by: str) -> tuple[NamedCount, ...]:
        found = judging.arrow("named_counts", {**params, "by": by}, where).to_pylist()
        counts = [NamedCount(facts.names[by][row.pop("name")], **row) for row in found]
        counts.sort(key=lambda one: (-one.repeated_calls, -one.calls, one.name or ""))
        return tuple(counts[:_SHOWN])

    return Overview(
        sentence=_sentence(figures, incidents, seen),
        figures=figures,
        previous=previous,
        bucket_ns=width,
        buckets=over_time,
        tools=named("tool"),
        agents=named("agent"),
        incidents=tuple(mark(facts, con, newest, policy)),
        incidents_total=len(incidents),
        coverage=seen,
        calls_untimed=calls_untimed,
    )


def _begun(buckets: list[TimeBucket], begins: list[int], width: int) -> tuple[TimeBucket, ...]:
    """The same with the number of incidents that began in each."""
    numbers: dict[int, int] = {}
    origin = buckets[0].start_ns if buckets else 0
    for first_ns in begins:
        start = origin + (first_ns - origin) // width * width
        numbers[start] = numbers.get(start, 0) + 1
    return tuple(replace(one, incidents=numbers.get(one.start_ns, 0)) for one in buckets)


def since_timed(filters: Filters) -> Filters:
    """The same without what has no recorded time."""
    return replace(filters, since=max(filters.since or 0, TIMED_FROM))


def _figures(
    con: duckdb.DuckDBPyConnection,
    facts: Facts,
    judging: Judging,
    policy: GuardPolicy,
    filters: Filters,
    incidents: list[Found],
) -> tuple[Figures, int | None, int | None]:
    """(figures, first and last start of a call)."""
    where, params = fact_filter(filters, facts, con)
    calls: dict[str, Any] = judging.arrow("figures", params, where).to_pylist()[0]
    judged = analyse_requests(con, policy, filters, passed=False, limit=0).totals
    looping = {one.run_id for one in _loops(incidents)}
    figures = Figures(
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
    return figures, calls["first_ns"], calls["last_ns"]


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
    agent, tool = name_of(worst.agent_name, "unnamed agent"), name_of(worst.tool_name, "?")
    what = {
        IncidentKind.LOOP: "equal answers",
        IncidentKind.CYCLE: "calls in a cycle",
        IncidentKind.RETRY_STORM: "equal errors",
        IncidentKind.SAME_ERROR: "calls with one error",
    }[worst.kind]
    return (
        f"{figures.runs_looping:,} of {plural(figures.runs, 'run')} went in circles{part}; the worst is "
        f"{agent} / {tool}: {worst.calls:,} {what} in {duration(worst.duration_ns)}."
    )
