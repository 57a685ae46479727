"""Every knob of a policy means in replay what it means to the live guard."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay_rows import call, database, number

from loopscope.collector import ToolCall
from loopscope.guard import (
    DuplicateCallGuard,
    ErrorKind,
    GuardPolicy,
    Outcome,
    OutcomeRule,
    PolicyError,
    RecordedCall,
    ToolPolicy,
)
from loopscope.replay import (
    IncidentKind,
    call_verdicts,
    error_breakdown,
    find_incidents,
    incident_detail,
    overview,
    replay,
    report,
    sweep,
    totals,
    verdict_changes,
)

A, B, C = "allow", "nudge", "block"
NOT, AFTER = "not_counted", "after_block"
ERROR, SCHEMA = "general_tool_error", "schema_error"

# One policy per knob that the fingerprints and result hashes of a store alone do not answer, calls on
# which it matters, and their verdicts.
KNOBS: dict[str, tuple[GuardPolicy, list[ToolCall], list[tuple[str, int]]]] = {
    "error thresholds": (
        GuardPolicy(error_nudge_threshold=2, error_block_threshold=3),
        [
            call(outcome=ERROR, result="503"),
            call(outcome=ERROR, result="503"),
            call(),
            *[call(outcome=ERROR, result="503")] * 4,
        ],
        [(A, 1), (B, 2), (A, 1), (A, 1), (B, 2), (C, 3), (AFTER, 3)],
    ),
    "a tool's error thresholds": (
        GuardPolicy(tools={"fetch": ToolPolicy(error_nudge_threshold=2)}),
        [call(tool, outcome=ERROR, result="503") for tool in ("fetch", "read") * 2],
        [(A, 1), (NOT, 0), (B, 2), (NOT, 0)],
    ),
    "ignored result keys": (
        GuardPolicy(2, None, ignored_result_keys=["at"]),
        [call(result=f'{{"at": {n}, "hits": 0}}') for n in range(3)],
        [(A, 1), (B, 2), (B, 3)],
    ),
    "ignored result patterns": (
        GuardPolicy(2, None, tools={"clock": ToolPolicy(ignored_result_patterns=[r"\d+ ms"])}),
        [
            call(tool, result=f"none in {n} ms" + " " * 2_000)
            for tool in ("clock", "search")
            for n in range(2)
        ],
        [(A, 1), (B, 2), (A, 1), (A, 1)],
    ),
    "a tool's metadata keys": (
        GuardPolicy(2, None, tools={"read": ToolPolicy(metadata_keys=["page"])}),
        [call(tool, f'{{"page": {n}}}') for tool in ("read", "search") for n in range(2)],
        [(A, 1), (B, 2), (A, 1), (A, 1)],
    ),
    "resets": (
        GuardPolicy(3, 4, tools={"edit": ToolPolicy(resets=True)}),
        [*[call()] * 2, call("edit", outcome=ERROR), call(), call("edit"), call(), *[call("edit")] * 2],
        [(A, 1), (A, 2), (NOT, 0), (B, 3), (A, 1), (A, 1), (A, 2), (B, 3)],
    ),
    "scope trace": (
        GuardPolicy(2, 3, scope="trace"),
        [
            call(run=run, trace_id=trace, at=n)
            for n, (run, trace) in enumerate(["at", "bt", "au", "at", "bt"])
        ],
        [(A, 1), (B, 2), (A, 1), (C, 3), (AFTER, 3)],
    ),
    "scope session": (
        GuardPolicy(2, None, scope="session"),
        [
            call(run=run, session_id=session, at=n)
            for n, (run, session) in enumerate(
                [("a", "s"), ("b", "s"), ("c", None), ("d", None), ("c", None)]
            )
        ],
        [(A, 1), (B, 2), (A, 1), (A, 1), (B, 2)],
    ),
    "outcome rules": (
        GuardPolicy(
            2,
            None,
            outcome_rules=[
                OutcomeRule(outcome=Outcome.GENERAL_TOOL_ERROR, text_pattern="Error", on_success=True),
                OutcomeRule(outcome=Outcome.SCHEMA_ERROR, error_type="BadArguments"),
            ],
        ),
        [
            *[call(result="Error: try later")] * 2,
            *[call("book", outcome=ERROR, result="no such field", error_type="app.BadArguments")] * 2,
            call("book", outcome=ERROR, result="no such field", error_type="OSError"),
        ],
        [(NOT, 0), (NOT, 0), (A, 1), (B, 2), (NOT, 2)],
    ),
    "shadow": (
        GuardPolicy(2, 3, shadow=True, error_nudge_threshold=2),
        [call()] * 4,
        [(A, 1), (B, 2), (C, 3), (AFTER, 3)],
    ),
}


def live(calls: list[ToolCall], policy: GuardPolicy) -> list[tuple[str, int]]:
    """The live guard on the same texts: one for each run, trace or session, fed as calls finish."""
    guards: dict[tuple[str, str], DuplicateCallGuard] = {}
    verdicts = []
    for one in calls:
        unit = {
            "run": ("run", one.run_id),
            "trace": ("trace", one.trace_id),
            "session": ("session", one.session_id) if one.session_id else ("run", one.run_id),
        }[policy.scope]
        verdict = guards.setdefault(unit, DuplicateCallGuard(policy)).observe(
            tool_name=one.tool_name,
            arguments=one.arguments,
            output=one.result,
            outcome=came_to(one, policy)[0],
            agent=one.agent_name,
        )
        verdicts.append((verdict.action.value, verdict.count))
    return verdicts


def came_to(one: ToolCall, policy: GuardPolicy) -> tuple[Outcome | None, ErrorKind | None]:
    return policy.classify_recorded(
        RecordedCall(
            one.tool_name,
            one.arguments,
            one.result,
            one.outcome,
            error_type=one.error_type,
            error_message=one.error_message,
            http_status=one.http_status,
            error_kind=one.error_kind,
        )
    )


def replayed(con: Any, policy: GuardPolicy) -> list[tuple[str, int]]:
    """(action, count) in the order in which the calls were made."""
    rows = call_verdicts(con, policy).to_pylist()
    return [(row["action"], row["count"]) for row in sorted(rows, key=lambda row: row["span_id"])]


@pytest.mark.parametrize("knob", KNOBS)
def test_a_knob_gives_its_verdicts(knob: str) -> None:
    policy, calls, expected = KNOBS[knob]
    assert live(calls, policy) == expected
    assert replayed(database(calls), policy) == expected
    plain = GuardPolicy(policy.nudge_threshold, policy.block_threshold)
    if knob != "shadow":
        assert not policy.set_based
        assert live(calls, plain) != expected


@pytest.mark.parametrize("knob", KNOBS)
def test_every_question_is_answered_by_the_same_verdicts(knob: str) -> None:
    policy, calls, verdicts = KNOBS[knob]
    con = database(calls)
    actions = [action for action, _ in verdicts]
    result = replay(con, policy)
    whole = result.totals
    assert (whole.calls, whole.calls_nudged, whole.calls_blocked, whole.calls_after_block) == (
        len(calls),
        actions.count(B),
        actions.count(C),
        actions.count(AFTER),
    )
    for parts in (result.by_tool, result.by_outcome):
        assert sum(part.calls_nudged for part in parts.values()) == actions.count(B)
    cells = [(None, None), (2, None), (2, 3), (3, 4), (policy.nudge_threshold, policy.block_threshold)]
    for nudge, block in cells:
        cell = replace(policy, nudge_threshold=nudge, block_threshold=block)
        assert [row.totals for row in sweep(con, policy, [nudge], [block])] == [totals(con, cell)[0]]
    buckets = overview(con, policy).buckets
    shown = [(one.allow, one.nudge, one.block, one.not_counted, one.after_block) for one in buckets]
    assert tuple(map(sum, zip(*shown, strict=True))) == tuple(
        actions.count(one) for one in (A, B, C, NOT, AFTER)
    )
    changes = verdict_changes(con, GuardPolicy(None, None), policy)
    assert {row["action"] for row in changes.calls.to_pylist()} >= {B}
    by_span = {f"span-{number:04d}": verdict for number, verdict in enumerate(verdicts)}
    for incident in find_incidents(con, policy=policy):
        members = [one for one in incident_detail(con, incident.key, policy).calls if one.member]
        for one in members:
            assert (one.action, one.count) == by_span[one.call.span_id]
        at = [number for number, one in enumerate(members, 1) if one.action == B]
        assert incident.nudge_at == (at[0] if at else None)
        assert incident.block_at == next((n for n, one in enumerate(members, 1) if one.action == C), None)
    assert policy.policy_hash in report(con, None, policy, "json")


def test_incidents_say_where_counted_errors_would_be_nudged() -> None:
    policy, calls, _ = KNOBS["error thresholds"]
    storm = next(
        one for one in find_incidents(database(calls), policy=policy) if one.kind is IncidentKind.RETRY_STORM
    )
    assert (storm.nudge_at, storm.block_at, storm.after_block) == (2, 3, 1)


def test_errors_are_those_that_the_rules_of_the_policy_see() -> None:
    policy, calls, _ = KNOBS["outcome rules"]
    con = database(calls)
    found = error_breakdown(con, policy=policy)
    assert {
        (one.tool_name, one.error_kind, one.outcome, one.calls, one.counted) for one in found.by_tool
    } == {
        ("search_docs", "tool_failure", ERROR, 2, 0),
        ("book", "validation", SCHEMA, 2, 2),
        ("book", "timeout", ERROR, 1, 0),
    }
    assert (error_breakdown(con).failed, error_breakdown(con).counted) == (3, 0)
    result = replay(con, policy)
    assert {name: part.calls for name, part in result.by_outcome.items()} == {ERROR: 3, SCHEMA: 2}
    assert {name: part.calls for name, part in result.by_error_kind.items()} == {
        "tool_failure": 2,
        "validation": 2,
        "timeout": 1,
    }
    assert {name: part.calls for name, part in replay(con, GuardPolicy()).by_outcome.items()} == {
        "success": 2,
        ERROR: 3,
    }


def test_a_rule_can_turn_a_failure_into_a_success() -> None:
    rule = OutcomeRule(outcome=Outcome.SUCCESS, tool="find", http_status=404)
    policy = GuardPolicy(2, None, outcome_rules=[rule])
    calls = [call("find", outcome=ERROR, result="x" * 2_000, http_status=404)] * 2
    con = database(calls)
    assert replayed(con, policy) == [(A, 1), (B, 2)]
    assert error_breakdown(con, policy=policy).failed == 0
    assert set(replay(con, policy).by_outcome) == {"success"}
    assert replay(con, policy).by_error_kind == {}


def test_a_run_whose_nudges_were_all_recorded_counts_as_nudged() -> None:
    result = replay(database([call(), call(recorded_verdict="nudge")]), GuardPolicy(2, 4))
    assert (result.totals.runs_nudged, result.totals.calls_nudged) == (1, 1)
    assert result.exact == result.totals


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@st.composite
def recordings(draw: st.DrawFn) -> list[ToolCall]:
    calls = []
    for _ in range(draw(st.integers(0, 20))):
        calls.append(
            call(
                draw(one_of("search", "search", "edit")),
                draw(one_of('{"q": 1}', '{"page": 2, "q": 1}', '{"q": 1, "page": 3}', None)),
                draw(one_of("Error: 1 ms", "Error: 2 ms", '{"at": 1}', '{"at": 2}', "", None)),
                draw(one_of("success", "success", ERROR, SCHEMA, None)),
                run=draw(one_of("a", "b")),
                agent=draw(one_of("x", "x", None)),
                trace_id=draw(one_of("t", "t", "u")),
                session_id=draw(one_of("s", "s", None)),
                error_type=draw(one_of(None, "app.Timeout")),
                error_message=draw(one_of(None, "slow" + " " * 2_000)),
                http_status=draw(one_of(None, 503)),
            )
        )
    return number(calls)


count: st.SearchStrategy[int | None] = st.one_of(st.none(), st.integers(1, 4))
THRESHOLDS: dict[str, Any] = dict.fromkeys(("nudge_threshold", "block_threshold"), count)
THRESHOLDS |= {f"error_{name}": count for name in [*THRESHOLDS]}
VIEWS: dict[str, Any] = {
    "metadata_keys": one_of(["page"]),
    "ignored_result_keys": one_of(["at"]),
    "ignored_result_patterns": one_of([r"\d+ ms"]),
}
rules = st.lists(
    one_of(
        OutcomeRule(outcome=Outcome.GENERAL_TOOL_ERROR, text_pattern="Error", on_success=True),
        OutcomeRule(outcome=Outcome.SCHEMA_ERROR, error_type="Timeout"),
        OutcomeRule(outcome=Outcome.SUCCESS, http_status=503, tool="search"),
        OutcomeRule(outcome=Outcome.GENERAL_TOOL_ERROR, kind=ErrorKind.NETWORK, text_pattern="slow"),
    ),
    max_size=2,
)


@st.composite
def policies(draw: st.DrawFn) -> GuardPolicy:
    def some(knobs: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
        return {name: draw(knobs[name]) for name in sorted(draw(st.sets(st.sampled_from(sorted(knobs)))))}

    of_tool: dict[str, Any] = {**THRESHOLDS, **VIEWS, "exempt": st.booleans(), "resets": st.booleans()}
    of_policy: dict[str, Any] = {
        **THRESHOLDS,
        **VIEWS,
        "counted_outcomes": st.sets(st.sampled_from(list(Outcome))),
        "scope": one_of("trace", "session"),
        "shadow": st.booleans(),
        "outcome_rules": rules,
    }
    try:
        return GuardPolicy(tools={"edit": ToolPolicy(**some(of_tool))}, **some(of_policy))
    except PolicyError:
        return GuardPolicy(2, 3, tools={"edit": ToolPolicy(resets=True)}, outcome_rules=draw(rules))


@settings(
    max_examples=int(os.environ.get("LOOPSCOPE_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(calls=recordings(), policy=policies())
def test_replay_equals_the_live_guard_whatever_the_policy(calls: list[ToolCall], policy: GuardPolicy) -> None:
    con = database(calls)
    assert replayed(con, policy) == live(calls, policy)
    breakdown = error_breakdown(con, policy=policy)
    outcomes = [came_to(one, policy)[0] for one in calls]
    assert breakdown.failed == sum(outcome in (ERROR, SCHEMA) for outcome in outcomes)
    result = replay(con, policy)
    assert {name: part.calls for name, part in result.by_outcome.items()} == {
        name: outcomes.count(None if name == "unknown" else Outcome(name))
        for name in {outcome or "unknown" for outcome in outcomes}
    }
    for row in sweep(con, policy, [2], [3, None]):
        cell = replace(policy, nudge_threshold=row.nudge, block_threshold=row.block)
        assert row.totals == totals(con, cell)[0], (row.nudge, row.block)
