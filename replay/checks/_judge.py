"""The runs of a store judged by a policy and held to limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...guard import PolicyError
from .._coverage import covered, runs_without_calls
from .._engine import ACTIONS, Judging
from .._facts import Facts, facts_of
from .._filters import ALL
from .._incidents import mark, touching
from .._stretches import call_texts
from .._totals import totals
from ._types import CheckedCall, CheckedRun, CheckResult, Limit, Limits

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy

__all__ = ["check"]

_RUNS = 10_000  # as many test cases as a CI system still shows in a list
_ARGUMENTS = 300  # characters


def check(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    *,
    sources: Mapping[str, str] | None = None,
    unread: Sequence[tuple[str, str]] = (),
) -> CheckResult:
    """What `policy` says of every run of the store, held to `limits`.

    Args:
        sources: file by trace id (hex), to name the file that a run came from.
        unread: (file, why) of input that could not be read; with any, the status is `bad_input`.

    Raises:
        PolicyError: no limit can be exceeded, because the policy never does what they limit.
    """
    _refuse_idle(policy, limits)
    facts = facts_of(con)
    found = touching(facts, con, ALL)
    params = {"with_incidents": sorted({one.stretch.run for one in found}), "limit": _RUNS}
    rows = Judging(facts, con, policy).arrow("check_runs", params).to_pylist()
    everything, exact = totals(con, policy)
    head = rows[0] if rows else defaultdict(int)
    total, judged, blind = head["all_runs"], head["all_judged"], head["all_blind"]
    keys: defaultdict[int, list[str]] = defaultdict(list)
    for one in found:
        keys[one.stretch.run].append(one.incident.key)
    return CheckResult(
        policy=policy,
        limits=(
            Limit("blocked", everything.runs_blocked, limits.blocked),
            Limit("nudged", everything.runs_nudged, limits.nudged),
            Limit("incidents", len(found), limits.incidents),
        ),
        runs=tuple(_runs(facts, con, rows, keys, sources or {})),
        runs_total=total,
        runs_judged=judged,
        runs_without_arguments=blind,
        runs_without_results=total - judged - blind,
        runs_without_calls=runs_without_calls(con, facts, ALL),
        runs_guarded=head["all_guarded"],
        findings_total=head["all_found"],
        totals=everything,
        exact=exact,
        coverage=covered(facts, con, ALL),
        incidents=tuple(mark(facts, con, found, policy)),
        unread=tuple(unread),
    )


def _refuse_idle(policy: GuardPolicy, limits: Limits) -> None:
    """A limit on what never happens would pass whatever was recorded."""
    pairs = [
        (policy.nudge_threshold, policy.block_threshold),
        (policy.error_nudge_threshold, policy.error_block_threshold),
    ]
    for name in policy.tools:
        rules = policy.rules_for(name)
        pairs += [pair for pair in (rules.thresholds, rules.error_thresholds) if pair and not rules.exempt]
    nudges = any(nudge is not None for nudge, _ in pairs)
    blocks = any(block is not None for _, block in pairs)
    if limits.incidents is None and not (
        (blocks and limits.blocked is not None) or (nudges and limits.nudged is not None)
    ):
        raise PolicyError(
            "no limit can be exceeded: "
            + (
                "all limits are off"
                if limits.blocked is limits.nudged
                else "the policy's thresholds for what they limit are off"
            )
            + "; set --max-blocked, --max-nudged or --max-incidents, or a threshold"
        )


def _runs(
    facts: Facts,
    con: duckdb.DuckDBPyConnection,
    rows: list[dict[str, Any]],
    keys: Mapping[int, list[str]],
    sources: Mapping[str, str],
) -> list[CheckedRun]:
    traces = _traces(facts, con, [row["run"] for row in rows])
    calls = {
        row["incident"]: row
        for row in call_texts(
            facts,
            con,
            (
                (row["run"], 0, row["run"], row["decisive_seq"])
                for row in rows
                if row["decisive_seq"] is not None
            ),
            _ARGUMENTS + 1,
        )
    }
    names = facts.names
    found: list[CheckedRun] = []
    for row in rows:
        run_id, trace_ids = traces[row["run"]]
        call = calls.get(row["run"])
        decisive = (
            None
            if call is None
            else CheckedCall(
                seq=row["decisive_seq"],
                action=ACTIONS[row["decisive_action"]],
                count=row["decisive_count"],
                exact=row["decisive_exact"],
                tool_name=call["tool_name"],
                arguments=_cut(call["arguments"]),
                trace_id=call["trace_id"],
                span_id=call["span_id"],
            )
        )
        found.append(
            CheckedRun(
                run_id=run_id,
                trace_id=trace_ids[0],
                service_name=names["service"][row["service"]],
                agent_name=None if row["agent"] is None else names["agent"][row["agent"]],
                source=next((sources[trace] for trace in trace_ids if trace in sources), None),
                first_ns=row["first_ns"],
                last_ns=row["last_ns"],
                calls=row["calls"],
                calls_judged=row["judged"],
                calls_without_arguments=row["without_arguments"],
                calls_nudged=row["nudged"],
                calls_blocked=row["blocked"],
                calls_avoidable=row["avoidable"],
                calls_lost=row["lost"],
                calls_unjudged=row["unjudged"],
                guarded=row["guarded"],
                decisive=decisive,
                incidents=tuple(keys.get(row["run"], ())),
            )
        )
    return found


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _ARGUMENTS else f"{text[:_ARGUMENTS]}…"


def _traces(
    facts: Facts, con: duckdb.DuckDBPyConnection, runs: list[int]
) -> dict[int, tuple[str, list[str]]]:
    """run: (run id, its trace ids), of the runs with these numbers."""
    con.register("run_names", facts.runs)
    try:
        found = con.execute(
            "SELECT r.run, r.run_id, list_sort(list(DISTINCT c.trace_id)) FROM run_names AS r "
            "JOIN tool_call_rows AS c ON c.run_id = r.run_id "
            "WHERE r.run IN (SELECT unnest($runs)) GROUP BY r.run, r.run_id",
            {"runs": runs},
        ).fetchall()
    finally:
        con.unregister("run_names")
    return {run: (run_id, traces) for run, run_id, traces in found}
