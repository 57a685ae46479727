"""One incident with its calls in order."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from ..collector._records import ToolCall
from ..guard import NotFoundError
from ._changes import compare
from ._coverage import coverage
from ._engine import ACTIONS, Judging
from ._facts import Facts, facts_of
from ._filters import Filters
from ._incidents import Found, agent_spans, all_incidents, mark
from ._sql import rows, sql_text
from ._types import Incident, IncidentCall, IncidentDetail, IncidentKind, RunInfo, TextChange
from ._words import incident_summary

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy

__all__ = ["KEY_DIGITS", "choose_incident", "incident_detail"]

KEY_DIGITS = 6  # of a key cut short
_RELATED = 50
_CALL_FIELDS = tuple(field.name for field in fields(ToolCall))


def incident_detail(
    con: duckdb.DuckDBPyConnection,
    key: str,
    policy: GuardPolicy,
    *,
    text_limit: int = 100_000,
    call_limit: int = 1_000,
) -> IncidentDetail:
    """One incident with its calls, and those in between, in order of counting.

    Args:
        key: an incident's key, or its first 6 or more characters if no other has them.
        policy: whose verdicts the calls carry.
        text_limit: characters of arguments and results that are kept; lengths stay those of the whole.
        call_limit: calls that are kept, first ones first; the rest is counted in `calls_left_out`.

    Raises:
        NotFoundError: no incident has that key, or several begin with it.
    """
    facts = facts_of(con)
    found = all_incidents(facts, con)
    chosen = choose_incident(found, key)
    incident = mark(facts, con, [chosen], policy)[0]
    stretch = chosen.stretch
    calls = rows(
        con,
        sql_text("run_calls"),
        {
            "run_id": incident.run_id,
            "first_seq": stretch.seqs[0],
            "last_seq": stretch.seqs[-1],
            "limit": text_limit,
        },
    )
    verdicts = _verdicts(facts, con, policy, stretch.run)
    numbers = {seq: number for number, seq in enumerate(stretch.seqs, 1)}
    run = _run_info(con, incident)
    related = [one.incident for one in found if one.incident.group == incident.group]
    shown = [
        _call(row, numbers.get(row["seq"]), verdicts.get(row["seq"], (0, "not_counted", False)))
        for row in calls[:call_limit]
    ]
    made = tuple(_with_changes(incident, shown))
    return IncidentDetail(
        incident=incident,
        run=run,
        calls=made,
        calls_left_out=max(0, len(calls) - call_limit),
        summary=incident_summary(incident, run, policy),
        related=tuple(other.key for other in related if other.key != incident.key)[:_RELATED],
        related_runs=len({other.run_id for other in related}),
        coverage=coverage(con, Filters(run_ids=(incident.run_id,))),
    )


def choose_incident(found: list[Found], key: str) -> Found:
    """The incident of that key, or the only one whose key begins so. Raises NotFoundError."""
    exact = [one for one in found if one.incident.key == key]
    if exact:
        return exact[0]
    near = [one for one in found if len(key) >= KEY_DIGITS and one.incident.key.startswith(key)]
    if len(near) == 1:
        return near[0]
    shown = key if len(key) <= 40 else f"{key[:39]}…"
    if near:
        raise NotFoundError(f"{len(near)} incidents begin with {shown!r}; give more of the key.")
    raise NotFoundError(f"no incident {shown!r} in this database; `loopscope incidents` lists {len(found)}.")


def _verdicts(
    facts: Facts, con: duckdb.DuckDBPyConnection, policy: GuardPolicy, run: int
) -> dict[int, tuple[int, str, bool]]:
    judged = Judging(facts, con, policy, [run]).arrow("call_verdicts", {}, f"run = {int(run)}").to_pylist()
    return {row["seq"]: (row["count"], ACTIONS[row["action"]], row["exact"]) for row in judged}


def _call(row: dict[str, Any], number: int | None, verdict: tuple[int, str, bool]) -> IncidentCall:
    count, action, exact = verdict
    return IncidentCall(
        call=ToolCall(**{name: row[name] for name in _CALL_FIELDS}),
        number=number,
        arguments_length=row["arguments_length"],
        result_length=row["result_length"],
        count=count,
        action=action,
        exact=exact,
        arguments_change=None,
        result_change=None,
    )


def _with_changes(incident: Incident, calls: list[IncidentCall]) -> list[IncidentCall]:
    """Say of every repeat how it differs from the one before: in a cycle, from the same call a lap ago."""
    step = incident.different_calls if incident.kind is IncidentKind.CYCLE else 1
    before: list[IncidentCall] = []
    done: list[IncidentCall] = []
    for made in calls:
        one = made
        if one.member:
            if len(before) >= step:
                last = before[-step]
                one = replace(
                    one,
                    arguments_change=_compare(last, one, "arguments"),
                    result_change=_compare(last, one, "result"),
                )
            before.append(one)
        done.append(one)
    return done


def _compare(last: IncidentCall, now: IncidentCall, which: str) -> TextChange:
    before, after = getattr(last.call, which), getattr(now.call, which)
    change = compare(before, after)
    if (
        change.same
        and before is not None
        and which == "result"
        and last.call.result_hash != now.call.result_hash
    ):
        return TextChange(False, f"equal up to character {len(before):,}, then different")
    return change


def _run_info(con: duckdb.DuckDBPyConnection, incident: Incident) -> RunInfo:
    row = rows(con, sql_text("run_info"), {"run_id": incident.run_id})[0]
    return RunInfo(
        run_id=incident.run_id,
        parent_run_id=row["parent_run_id"],
        run_source=row["run_source"],
        trace_ids=tuple(row["trace_ids"]),
        session_id=row["session_id"],
        service_name=row["service_name"],
        agents=tuple(row["agents"]),
        models=tuple(row["models"]),
        dialects=tuple(row["dialects"]),
        calls=row["calls"],
        requests=row["requests"],
        failed_requests=row["failed_requests"],
        first_ns=row["first_ns"],
        last_ns=row["last_ns"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        cost=row["cost"],
        status=agent_spans(con, [incident.run_id]).get(incident.run_id),
        guarded=row["guarded"],
    )
