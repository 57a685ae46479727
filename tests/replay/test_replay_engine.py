"""The SQL engine says of every call what the guard's fold says."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay_rows import START, call, database, number

from loopscope.collector import ToolCall
from loopscope.guard import (
    DuplicateCallGuard,
    GuardPolicy,
    Outcome,
    PolicyError,
    RecordedCall,
    ToolPolicy,
)
from loopscope.replay import Filters, Totals, call_verdicts, impact, replay, sweep, verdict_changes

TOOLS = ("search", "read", "write")
RUNS = ("root", "child", "grandchild", "other")
PARENTS = {"child": "root", "grandchild": "child"}
ARGUMENTS = (
    '{"q": 1}',
    '{ "q":1 }',
    '{"q": 1, "page": 2}',
    '{"q": 1, "\\u0070age": 3}',
    '{"q": {"deep": true, "_nonce": "x"}}',
    '{"q": {"deep": true, "page": 9}}',
    "plain text",
    None,
)
RESULTS = ("a", "b", "", None, '{"at": 1, "v": 0}', '{"v": 0, "at": 2}', "took 1 s", "took 2 s")
OUTCOMES = ("success", "success", "schema_error", "general_tool_error", None)


@dataclass(frozen=True)
class Judged:
    """What the fold says of one call."""

    call: ToolCall
    action: str
    count: int
    exact: bool
    after: str | None  # avoidable | lost | unjudged


def units(calls: list[ToolCall], scope: str) -> dict[str, list[ToolCall]]:
    """The calls that one guard watches, in the order in which units start; outer runs first."""
    found: dict[str, list[ToolCall]] = {}
    if scope == "run":
        found = {run: [one for one in calls if one.run_id == run] for run in RUNS}
    else:
        for one in calls:
            name = one.trace_id if scope == "trace" else one.session_id or f"run {one.run_id}"
            found.setdefault(name, []).append(one)
    return {name: mine for name, mine in found.items() if mine}


def judge(calls: list[ToolCall], policy: GuardPolicy) -> list[Judged]:
    """The definition: one guard for each unit, fed in the order of counting."""
    blocked_at: dict[str, int] = {}
    departed_at: dict[str, int] = {}
    judged: dict[int, Judged] = {}
    known: set[tuple[object, ...]] = set()
    found = units(calls, policy.scope)
    for name, mine in found.items():
        around: list[str] = []
        outer = PARENTS.get(name)
        while outer is not None and outer in found:  # nothing says what a run without calls lies in
            around.append(outer)
            outer = PARENTS.get(outer)
        start = min(one.start_ns for one in mine)
        silent = any(start > blocked_at[outer] for outer in around if outer in blocked_at)
        exact = not any(start > departed_at[outer] for outer in around if outer in departed_at)
        guard = DuplicateCallGuard(policy, blocked=silent)
        for one in mine:
            action, count = guard.observe_recorded(
                RecordedCall(
                    one.tool_name,
                    one.arguments,
                    one.result,
                    one.outcome,
                    one.agent_name,
                    one.fingerprint,
                    one.result_hash,
                    one.recorded_verdict,
                )
            )
            key = (
                one.run_id,
                one.agent_name,
                policy.fingerprint(one.tool_name, one.arguments),
                policy.result_hash(one.tool_name, one.result),
            )
            judgeable = one.outcome in ("success", "schema_error") and one.content_state == "full"
            after = None
            if action == "after_block":
                after = "unjudged" if not judgeable else "avoidable" if key in known else "lost"
            if judgeable:
                known.add(key)
            judged[id(one)] = Judged(one, action.value, count, exact, after)
            assert one.end_ns is not None
            if action == "block":
                blocked_at[name] = one.end_ns
            if action in ("nudge", "block") and one.recorded_verdict != action and exact:
                exact = False
                departed_at[name] = one.end_ns
    return [judged[id(one)] for one in calls]


def count(judged: list[Judged]) -> Totals:
    """Totals by plain counting."""
    actions = Counter(one.action for one in judged)
    after = Counter(one.after for one in judged)
    return Totals(
        runs=len({one.call.run_id for one in judged}),
        calls=len(judged),
        runs_nudged=len({one.call.run_id for one in judged if one.action == "nudge"}),
        runs_blocked=len({one.call.run_id for one in judged if one.action == "block"}),
        calls_nudged=actions["nudge"],
        calls_blocked=actions["block"],
        calls_after_block=actions["after_block"],
        calls_avoidable=after["avoidable"],
        calls_lost=after["lost"],
        calls_unjudged=after["unjudged"],
    )


@st.composite
def recordings(draw: st.DrawFn) -> list[ToolCall]:
    size = draw(st.integers(0, 24))
    # Few of everything, so that repeats are common.
    tools = TOOLS[: draw(st.integers(1, 3))]
    arguments = draw(st.lists(st.sampled_from(ARGUMENTS), min_size=1, max_size=3))
    results = draw(st.lists(st.sampled_from(RESULTS), min_size=1, max_size=3))
    outcomes = draw(st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=3))
    runs = draw(st.lists(st.sampled_from(RUNS), min_size=1, max_size=3))
    calls = []
    for _ in range(size):
        run = draw(st.sampled_from(runs))
        made = call(
            draw(st.sampled_from(tools)),
            draw(st.sampled_from(arguments)),
            draw(st.sampled_from(results)),
            draw(st.sampled_from(outcomes)),
            run=run,
            agent=draw(st.sampled_from(("a", "a", "b", None))),
            parent_run_id=PARENTS.get(run),
            recorded_verdict=draw(st.sampled_from((None, None, None, "nudge", "block"))),
            trace_id=draw(st.sampled_from(("trace 1", "trace 1", "trace 2"))),
            session_id=draw(st.sampled_from(("session 1", "session 1", None))),
        )
        if made.content_state == "full" and draw(st.integers(0, 9)) == 0:
            made.content_state = "truncated"
        calls.append(made)
    return number(calls)


thresholds = st.one_of(st.none(), st.integers(1, 6))
ignored = {
    "metadata_keys": st.sampled_from(((), (), ("page",), ("page", "deep"))),
    "ignored_result_keys": st.sampled_from(((), (), ("at",))),
    "ignored_result_patterns": st.sampled_from(((), (), (r"\d+ s",))),
}


@st.composite
def policies(draw: st.DrawFn) -> GuardPolicy:
    """Any policy. Few knobs at a time are off their defaults, so that all kinds are common."""
    tools = {}
    of_tool = {
        "nudge_threshold": thresholds,
        "block_threshold": thresholds,
        "exempt": st.booleans(),
        "error_nudge_threshold": thresholds,
        "error_block_threshold": thresholds,
        "resets": st.booleans(),
        **ignored,
    }
    for name in draw(st.lists(st.sampled_from(TOOLS), max_size=2, unique=True)):
        turned = draw(st.sets(st.sampled_from(sorted(of_tool)), min_size=1, max_size=4))
        tools[name] = ToolPolicy(**{knob: draw(of_tool[knob]) for knob in sorted(turned)})
    of_policy = {
        "nudge_threshold": thresholds,
        "block_threshold": thresholds,
        "counted_outcomes": st.sets(st.sampled_from(list(Outcome)), max_size=3),
        "scope": st.sampled_from(("run", "trace", "session")),
        "strip_annotations": st.booleans(),
        "error_nudge_threshold": thresholds,
        "error_block_threshold": thresholds,
        "shadow": st.booleans(),
        **ignored,
    }
    turned = draw(st.sets(st.sampled_from(sorted(of_policy)), max_size=5))
    try:
        return GuardPolicy(tools=tools, **{knob: draw(of_policy[knob]) for knob in sorted(turned)})
    except PolicyError:
        return GuardPolicy(2, 4)


many = settings(
    max_examples=int(os.environ.get("LOOPSCOPE_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@many
@given(calls=recordings(), policy=policies())
def test_every_verdict_equals_the_guards(calls: list[ToolCall], policy: GuardPolicy) -> None:
    expected = judge(calls, policy)
    con = database(calls)
    rows = call_verdicts(con, policy).to_pylist()
    found = {row["span_id"]: (row["action"], row["count"], row["exact"], row["judged"]) for row in rows}
    assert found == {one.call.span_id: (one.action, one.count, one.exact, one.after) for one in expected}
    result = replay(con, policy)
    assert result.totals == count(expected)
    assert result.exact == count([one for one in expected if one.exact])
    for name in {one.call.tool_name for one in expected}:
        assert result.by_tool[name] == count([one for one in expected if one.call.tool_name == name])
    for name in {one.call.outcome for one in expected}:
        part = [one for one in expected if one.call.outcome == name]
        assert result.by_outcome[name or "unknown"] == count(part)
    for name in {one.call.error_kind for one in expected if one.call.error_kind}:
        part = [one for one in expected if one.call.error_kind == name]
        assert result.by_error_kind[name] == count(part)


@many
@given(calls=recordings(), policy=policies(), tools=st.sets(st.sampled_from(TOOLS), max_size=2))
def test_every_cell_of_a_sweep_equals_a_replay(
    calls: list[ToolCall], policy: GuardPolicy, tools: set[str]
) -> None:
    con = database(calls)
    since = calls[len(calls) // 3].start_ns if calls else START
    filters = Filters(tools=tuple(sorted(tools)), since=since)
    rows = sweep(con, policy, [None, 1, 2, 4], [3, None, 2, 5], filters)
    cells = [(row.nudge, row.block) for row in rows]
    assert len(cells) == len(set(cells))
    for row in rows:
        cell = replace(policy, nudge_threshold=row.nudge, block_threshold=row.block)
        chosen = [
            one
            for one in judge(calls, cell)
            if one.call.start_ns >= since and (not tools or one.call.tool_name in tools)
        ]
        assert row.totals == count(chosen), (row.nudge, row.block)


@many
@given(calls=recordings(), policy=policies(), data=st.data())
def test_filters_choose_calls_and_change_no_verdict(
    calls: list[ToolCall], policy: GuardPolicy, data: st.DataObject
) -> None:
    con = database(calls)
    if not calls:
        return
    since, until = sorted(
        one.start_ns for one in data.draw(st.tuples(st.sampled_from(calls), st.sampled_from(calls)))
    )
    filters = Filters(
        since=since,
        until=until,
        tools=tuple(data.draw(st.sets(st.sampled_from((*TOOLS, "unknown tool")), max_size=2))),
        run_ids=tuple(data.draw(st.sets(st.sampled_from((*RUNS, "unknown run")), max_size=2))),
        agents=tuple(data.draw(st.sets(st.sampled_from(("a", "b")), max_size=1))),
    )

    def chosen(one: Judged) -> bool:
        made = one.call
        return (
            since <= made.start_ns < until
            and made.tool_name in (filters.tools or (made.tool_name,))
            and made.run_id in (filters.run_ids or (made.run_id,))
            and made.agent_name in (filters.agents or (made.agent_name,))
        )

    expected = [one for one in judge(calls, policy) if chosen(one)]
    assert replay(con, policy, filters).totals == count(expected)
    rows = call_verdicts(con, policy, filters=filters).to_pylist()
    assert {row["span_id"]: (row["action"], row["count"]) for row in rows} == {
        one.call.span_id: (one.action, one.count) for one in expected
    }


@st.composite
def close_policies(draw: st.DrawFn, policy: GuardPolicy) -> GuardPolicy:
    """Another policy; often one that counts by the same rule, and leaves other tools alone."""
    if draw(st.booleans()):
        return draw(policies())
    tools = dict(policy.tools)
    for name in draw(st.sets(st.sampled_from(TOOLS), max_size=2)):
        own = tools.get(name, ToolPolicy())
        tools[name] = replace(own, exempt=not own.exempt)
    nudge, block = draw(st.sampled_from(((None, None), (2, 3), (3, 4), (1, None), (None, 2))))
    try:
        return replace(policy, nudge_threshold=nudge, block_threshold=block, tools=tools)
    except PolicyError:
        return replace(policy, tools=tools)


@many
@given(calls=recordings(), before=policies(), data=st.data())
def test_changed_verdicts_are_those_that_differ(
    calls: list[ToolCall], before: GuardPolicy, data: st.DataObject
) -> None:
    con = database(calls)
    after = data.draw(close_policies(before))
    filters = Filters(tools=tuple(data.draw(st.sets(st.sampled_from(TOOLS), max_size=2))))
    for policy in data.draw(st.sets(st.sampled_from((before, after)))):  # what is known already is used
        impact(con, policy, filters, examples=0, parts=False)
    old = {row["span_id"]: row for row in call_verdicts(con, before, filters=filters).to_pylist()}
    expected = []
    for row in call_verdicts(con, after, filters=filters).to_pylist():
        was = old[row["span_id"]]
        if was["action"] != row["action"]:
            expected.append(
                row
                | {
                    "action_before": was["action"],
                    "judged_before": was["judged"],
                    "exact_before": was["exact"],
                }
            )
    found = verdict_changes(con, before, after, filters)
    assert found.calls.to_pylist() == expected
    assert (found.total, found.runs) == (len(expected), len({row["run_id"] for row in expected}))
    assert verdict_changes(con, before, after, filters, limit=2).calls.to_pylist() == expected[:2]
