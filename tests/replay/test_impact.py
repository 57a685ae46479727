"""What a policy would have changed equals a plain computation over the guard's fold."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import impact_oracle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from impact_oracle import effects, replayed
from replay_rows import SECOND, START, call, database, number, request
from test_replay_engine import PARENTS, RUNS, TOOLS, judge, policies, recordings

from loopscope.collector import LlmRequest, Store, ToolCall, import_paths
from loopscope.guard import GuardPolicy
from loopscope.replay import Effect, Filters, ImpactPart, compare_policies, impact, totals
from loopscope.sample_traces import files

many = settings(
    max_examples=int(os.environ.get("LOOPSCOPE_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def looping(draw: st.DrawFn) -> list[ToolCall]:
    """Calls of which many repeat, so that much comes after blocks."""
    pick = {
        "run": st.sampled_from(("root", "root", "child")),
        "args": st.sampled_from(('{"q": 1}', '{"q": 1}', '{"q": 2}', '{"q": 3}')),
        "result": st.sampled_from(("a", "a", "b")),
        "outcome": st.sampled_from(("success", "success", "success", "schema_error", "general_tool_error")),
        # Of what comes after a block only that is exact which a guard at work had blocked at the same call.
        "recorded_verdict": st.sampled_from(draw(st.sampled_from(((None,), (None, "block"), ("block",))))),
        "tool": st.sampled_from(TOOLS[:2]),
    }
    made = []
    for drawn in draw(st.lists(st.fixed_dictionaries(pick), min_size=10, max_size=20)):
        made.append(call(**drawn, agent="a", parent_run_id=PARENTS.get(drawn["run"])))
    return number(made)


@st.composite
def stores(
    draw: st.DrawFn, recorded: st.SearchStrategy[list[ToolCall]], scope: str
) -> tuple[list[ToolCall], list[LlmRequest]]:
    """Calls, with the requests that asked for them, and some that asked for nothing."""
    calls = draw(recorded)
    requests: list[LlmRequest] = []

    def ask(run: str, turn: int | None, start: int, end: int) -> None:
        tokens = draw(st.sampled_from(((None, None), (100, 10), (7, None), (1_000, 1))))
        made = request(
            run,
            span_id=f"llm-{run}-{len(requests)}",
            turn=turn,
            start_ns=start,
            end_ns=end,
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            cost=draw(st.sampled_from((None, 0.5, 0.25, 2.0))),
            model=draw(st.sampled_from(("m1", "m2", None))),
            agent_name=draw(st.sampled_from(("a", "only asks", None))),
            trace_id=draw(st.sampled_from(("trace 1", "trace 2"))),
            session_id=draw(st.sampled_from(("session 1", None))),
            status="error" if turn is None else "ok",
        )
        requests.append(made)

    turns: Counter[str] = Counter()
    begun: dict[str, int] = {}
    for place, one in enumerate(calls):
        # Where the run is the unit, ends need not follow one another.
        took = draw(st.sampled_from((0, SECOND // 4, SECOND, 3 * SECOND))) if scope == "run" else SECOND // 2
        start = one.start_ns
        if draw(st.integers(0, 3)) or not turns[one.run_id]:
            asked = start - draw(st.sampled_from((0, SECOND // 2, SECOND, 4 * SECOND)))
            if one.run_id in PARENTS:
                # A nested run starts with its first call or request; the fold looks at calls alone.
                asked = max(asked, begun.get(one.run_id, start))
            turns[one.run_id] += 1
            if draw(st.integers(0, 5)):
                ask(one.run_id, turns[one.run_id], asked, start)
        begun.setdefault(one.run_id, start)
        turn = turns[one.run_id] if draw(st.integers(0, 3)) else None
        calls[place] = replace(one, end_ns=start + took, turn=turn)
    end = START + len(calls) * SECOND
    for run in (*begun, "quiet"):
        for _ in range(draw(st.integers(0, 2))):
            turn = draw(st.sampled_from((None, turns[run] + 1)))
            turns[run] += 1
            start = end + draw(st.integers(0 if run in PARENTS else -8, 4)) * SECOND
            ask(run, turn, start, start + draw(st.integers(1, 4)) * SECOND)
    return calls, requests


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[ToolCall], list[LlmRequest], GuardPolicy]:
    if draw(st.booleans()):
        policy = GuardPolicy(nudge_threshold=draw(st.sampled_from((None, 1))), block_threshold=2)
        return *draw(stores(looping(), "run")), policy
    policy = draw(policies())
    return *draw(stores(recordings(), policy.scope)), policy


def by_name(parts: tuple[ImpactPart, ...]) -> dict[object, tuple[Effect, Effect]]:
    assert len({one.name for one in parts}) == len(parts)
    return {one.name: (one.effect, one.exact) for one in parts}


@many
@given(case=cases(), data=st.data())
def test_every_figure_equals_a_plain_computation(
    case: tuple[list[ToolCall], list[LlmRequest], GuardPolicy], data: st.DataObject
) -> None:
    calls, requests, policy = case
    con = database(calls, requests)
    tools = tuple(sorted(data.draw(st.sets(st.sampled_from(TOOLS), max_size=2))))
    since = START + data.draw(st.sampled_from((0, 0, 5))) * SECOND
    filters = Filters(tools=tools, since=since)
    made, sent = replayed(calls, requests, policy)
    for one in sent:
        one.asked = [call for call in one.asked if call.judged.action == "after_block"]
    mine = [one for one in made if one.made.start_ns >= since and one.made.tool_name in (tools or TOOLS)]
    ids = {id(one) for one in mine}
    asking = [
        one
        for one in sent
        if one.sent.start_ns >= since and (not tools or any(id(call) in ids for call in one.asked))
    ]
    found = impact(con, policy, filters, examples=0)
    parts = dict.fromkeys(("by_tool", "by_agent", "by_model", "by_outcome", "by_error_kind"), ())
    assert impact(con, policy, filters, examples=0, parts=False) == replace(found, **parts)
    assert (found.totals, found.exact_totals) == totals(con, policy, filters)
    whole = effects(mine, asking, lambda _: None, lambda _: None)
    assert (found.effect, found.exact) == whole.get(None, (Effect(), Effect()))
    assert by_name(found.by_tool) == effects(mine, asking, lambda one: one.made.tool_name, None)
    assert by_name(found.by_agent) == effects(
        mine, asking, lambda one: one.made.agent_name, lambda one: one.sent.agent_name
    )
    assert by_name(found.by_model) == effects(
        mine,
        asking,
        lambda one: None if one.request is None else one.request.sent.model,
        lambda one: one.sent.model,
    )
    outcomes = {row["span_id"]: row for row in recorded(con, policy)}
    assert by_name(found.by_outcome) == effects(
        mine, asking, lambda one: outcomes[one.made.span_id]["outcome"], None
    )
    kinds = effects(mine, asking, lambda one: outcomes[one.made.span_id]["kind"], None)
    kinds.pop(None, None)
    assert by_name(found.by_error_kind) == kinds
    positions = divergences(calls, policy, {one.made.run_id for one in mine})
    assert found.divergence.runs == len(positions)
    assert Counter({(one.first, one.last): one.runs for one in found.divergence.positions}) == Counter(
        (place, place) if place <= 10 else (11, 20) if place <= 20 else (21, 50) for place, _ in positions
    )
    assert sum(one.runs for one in found.divergence.shares) == len(positions)
    for one in found.divergence.shares:
        inside = [1 for place, size in positions if one.first * size < place * 100 <= one.last * size]
        assert one.runs == len(inside) + (one.first == 0) * sum(place == 0 for place, _ in positions)
    ordered = sorted(place for place, _ in positions)
    assert found.divergence.median_position == (ordered[(len(ordered) - 1) // 2] if ordered else None)


def recorded(con, policy: GuardPolicy) -> list[dict[str, object]]:
    """Outcome and kind of every call, as the tests' policies leave them."""
    assert not policy.outcome_rules
    rows = con.execute(
        "SELECT span_id, coalesce(outcome, 'unknown'), CASE WHEN outcome <> 'success' THEN error_kind END "
        "FROM tool_call_rows"
    ).fetchall()
    return [dict(zip(("span_id", "outcome", "kind"), row, strict=True)) for row in rows]


def divergences(calls: list[ToolCall], policy: GuardPolicy, runs: set[str]) -> list[tuple[int, int]]:
    """(exact calls, all calls) of every run that leaves what was recorded."""
    judged = judge(calls, policy)
    found = []
    for run in RUNS:
        mine = [one for one in judged if one.call.run_id == run]
        leaves = any(
            not one.exact or (one.action in ("nudge", "block") and one.call.recorded_verdict != one.action)
            for one in mine
        )
        if leaves and run in runs:
            found.append((sum(one.exact for one in mine), len(mine)))
    return found


@settings(many, max_examples=max(1, many.max_examples * 2 // 5))
@given(case=cases(), other=policies(), data=st.data())
def test_a_comparison_equals_two_replays(
    case: tuple[list[ToolCall], list[LlmRequest], GuardPolicy], other: GuardPolicy, data: st.DataObject
) -> None:
    calls, requests, policy = case
    if policy.scope != other.scope:
        other = replace(other, scope=policy.scope)  # times do not follow one another over several runs
    con = database(calls, requests)
    tools = tuple(sorted(data.draw(st.sets(st.sampled_from(TOOLS), max_size=2))))
    filters = Filters(tools=tools)
    old, new = (
        [one for one in judge(calls, rules) if one.call.tool_name in (tools or TOOLS)]
        for rules in (policy, other)
    )
    changed = [(a, b) for a, b in zip(old, new, strict=True) if a.action != b.action]
    found = compare_policies(con, policy, other, filters, examples=2)
    assert found.before == impact(con, policy, filters, examples=0)
    assert found.after == impact(con, other, filters, examples=0)
    assert found.calls_changed == len(changed)
    assert found.calls_changed_exact == sum(a.exact and b.exact for a, b in changed)
    assert found.runs_changed == len({a.call.run_id for a, _ in changed})
    matrix = Counter((a.action, b.action) for a, b in changed)
    assert {(one.before, one.after): one.calls for one in found.changes} == matrix
    for one in found.changes:
        mine = [(a, b) for a, b in changed if (a.action, b.action) == (one.before, one.after)]
        assert one.runs == len({a.call.run_id for a, _ in mine})
        assert one.exact_calls == sum(a.exact and b.exact for a, b in mine)
        shown = [call for call in found.examples if (call.before, call.after) == (one.before, one.after)]
        assert len(shown) == min(2, len(mine))
        assert {call.span_id for call in shown} <= {a.call.span_id for a, _ in mine}
        assert len({call.run_id for call in shown}) == min(2, one.runs)

    def blocked(judged: list) -> set[str]:
        return {one.call.run_id for one in judged if one.action == "block"}

    assert set(found.newly_blocked) == blocked(new) - blocked(old)
    assert set(found.spared) == blocked(old) - blocked(new)
    assert (found.runs_newly_blocked, found.runs_spared) == (len(found.newly_blocked), len(found.spared))

    def only(here: list, there: list, part: str) -> int:
        return sum(a.after == part and b.after is None for a, b in zip(here, there, strict=True))

    assert (found.newly_avoided, found.no_longer_avoided) == (
        only(new, old, "avoidable"),
        only(old, new, "avoidable"),
    )
    assert (found.newly_lost, found.no_longer_lost) == (only(new, old, "lost"), only(old, new, "lost"))
    assert (found.newly_unjudged, found.no_longer_unjudged) == (
        only(new, old, "unjudged"),
        only(old, new, "unjudged"),
    )
    for tool in found.by_tool:
        assert tool.calls_changed == sum(a.call.tool_name == tool.name for a, _ in changed)
        assert tool.before == by_name(found.before.by_tool).get(tool.name, (Effect(),))[0]
        assert tool.after == by_name(found.after.by_tool).get(tool.name, (Effect(),))[0]
    assert {tool.name for tool in found.by_tool} >= {a.call.tool_name for a, _ in changed}


def test_the_plain_computation_finds_something() -> None:
    """The properties above say nothing if random stores hold nothing."""
    seen: Counter[str] = Counter()

    @settings(many, max_examples=200, database=None, derandomize=True)
    @given(case=cases())
    def look(case: tuple[list[ToolCall], list[LlmRequest], GuardPolicy]) -> None:
        made, sent = replayed(*case)
        after = impact_oracle.effect(made, sent).after
        for part in impact_oracle.PARTS:
            spent = getattr(after, part)
            seen[part] += spent.requests > 0 and spent.wall_ns > 0
        seen["exact"] += any(one.after and one.exact for one in sent)
        seen["nested"] += any(one.judged.action == "after_block" and one.unit in PARENTS for one in made)

    look()
    assert all(seen[name] >= 2 for name in (*impact_oracle.PARTS, "exact", "nested")), seen


def test_soft_failures_are_counted_without_examples_where_asked_for(tmp_path):
    import_paths(tmp_path / "samples.duckdb", files())
    with Store(tmp_path / "samples.duckdb").lease() as con:
        whole = impact(con, GuardPolicy(), examples=5)
        counted = impact(con, GuardPolicy(), examples=0, soft_failures=True)
        none = impact(con, GuardPolicy(), examples=0)
    assert whole.soft_failures.runs > 0
    assert replace(whole.soft_failures, shown=()) == counted.soft_failures
    assert none.soft_failures.runs == 0
    assert counted.lost.calls == ()
