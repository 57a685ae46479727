"""What a policy would have changed, on small runs that can be followed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from replay_rows import SECOND, START, call, database, request
from shared_corpus import corpus

from loopscope.collector import LlmRequest, Store, ToolCall, import_paths
from loopscope.guard import GuardPolicy
from loopscope.replay import (
    Filters,
    Impact,
    PositionBin,
    Spent,
    calls_after_block,
    compare_policies,
    impact,
    overview,
)

RUN = "t/agent"
ENDED = ("t", "agent", START, START + 100 * SECOND, 1)  # an agent span that ended without an error


def turns(
    *calls: ToolCall, cost: float | None = 0.01, answer: bool = True
) -> tuple[list[ToolCall], list[LlmRequest]]:
    """Each call asked for by a request of its own: a request of 1 s, the call of 2 s, 3 s a turn."""
    made, requests = [], []
    for number, one in enumerate(calls):
        at = 3 * number
        requests.append(request(one.run_id, at=at, took=1, turn=number + 1, cost=cost))
        start = START + (at + 1) * SECOND
        made.append(replace(one, turn=number + 1, start_ns=start, end_ns=start + 2 * SECOND))
    if answer:
        at = 3 * len(calls)
        requests.append(request(calls[0].run_id, at=at, took=1, turn=len(calls) + 1, cost=cost))
    return made, requests


def looping(*after: ToolCall, **more: Any) -> Impact:
    """Five equal calls, the last of which is blocked, and what came after it."""
    calls, requests = turns(*[call() for _ in range(5)], *after, **more)
    return impact(database(calls, requests), GuardPolicy())


def test_what_came_after_a_block_is_told_apart() -> None:
    found = looping(call(), call(args='{"q": "other"}'), call(outcome="general_tool_error", result="503"))
    after = found.effect.after
    one = Spent(1, 2 * SECOND, 3 * SECOND, 1, 1, 100, 10, 1, 0.01)
    assert after.avoidable == one
    assert after.lost == one
    assert after.unjudged == one
    # The final answer asked for no call.
    assert after.rest == Spent(0, 0, SECOND, 1, 1, 100, 10, 1, 0.01)
    total = after.total
    assert (total.calls, total.wall_ns, total.requests) == (3, 10 * SECOND, 4)
    assert found.exact.after.total == Spent()  # the agent had not seen the nudge
    assert found.totals.calls_after_block == 3


def test_a_request_that_was_on_its_way_is_paid_for() -> None:
    """Both calls of the last turn were asked for by one request, which was answered before the block."""
    calls, requests = turns(*[call() for _ in range(5)], answer=False)
    end = calls[-1].end_ns or 0
    twin = replace(call("read"), turn=5, start_ns=calls[-1].start_ns, end_ns=end + SECOND)
    other = replace(requests[-1], span_id="branch", turn=None, start_ns=end - 1, end_ns=end + SECOND)
    found = impact(database([*calls, twin], [*requests, other]), GuardPolicy())
    assert found.effect.after.lost == Spent(calls=1, tool_ns=3 * SECOND, wall_ns=SECOND)
    assert found.effect.after.rest == Spent()


def test_where_no_turn_is_known_time_tells_which_request_asked() -> None:
    calls, requests = turns(*[call() for _ in range(6)], call("read"))
    named = impact(database(calls, requests), GuardPolicy())
    unnamed = impact(database([replace(one, turn=None) for one in calls], requests), GuardPolicy())
    assert named.effect.after.lost.requests == 1
    assert unnamed.effect == named.effect
    assert unnamed.by_model == named.by_model


def test_a_request_for_several_calls_counts_once_and_as_lost_if_one_is() -> None:
    calls, requests = turns(*[call() for _ in range(6)], answer=False)
    times = {"turn": 6, "start_ns": calls[-1].start_ns, "end_ns": calls[-1].end_ns}
    beside = [replace(call("read"), **times), replace(call("list"), **times)]
    found = impact(database([*calls, *beside], requests), GuardPolicy())
    assert found.effect.after.avoidable == Spent(calls=1, tool_ns=2 * SECOND, wall_ns=3 * SECOND)
    assert (found.effect.after.lost.calls, found.effect.after.lost.requests) == (2, 1)
    # In the parts by tool it counts once in each.
    assert {part.name: part.effect.after.total.requests for part in found.by_tool} == {
        "search_docs": 1,
        "read": 1,
        "list": 1,
    }


@pytest.mark.parametrize(
    ("costs", "cost", "whole"),
    [((0.5, 0.5), 1.0, True), ((0.5, None), 0.5, False), ((None, None), None, False)],
)
def test_unknown_cost_stays_unknown(costs: tuple[float | None, ...], cost: float | None, whole: bool) -> None:
    calls, requests = turns(*[call() for _ in range(7)], answer=False)
    requests[-2:] = [replace(one, cost=given) for one, given in zip(requests[-2:], costs, strict=True)]
    spent = impact(database(calls, requests), GuardPolicy()).effect.after.avoidable
    assert (spent.requests, spent.cost, spent.cost_whole) == (2, cost, whole)


def test_tokens_say_what_they_cover() -> None:
    calls, requests = turns(*[call() for _ in range(7)], answer=False)
    requests[-1] = replace(requests[-1], input_tokens=None, output_tokens=None)
    spent = impact(database(calls, requests), GuardPolicy()).effect.after.avoidable
    assert (spent.requests, spent.requests_with_usage, spent.input_tokens) == (2, 1, 100)
    assert not spent.usage_whole


def test_time_in_a_nested_run_is_counted_in_the_run_around_it_alone() -> None:
    outer, requests = turns(*[call(run="t/outer") for _ in range(5)], answer=False)
    end = outer[-1].end_ns or 0
    delegate = call("delegate", run="t/outer")
    delegate = replace(delegate, start_ns=end, end_ns=end + 10 * SECOND, turn=None)
    inner = [
        replace(
            call("inner", run="t/inner", parent_run_id="t/outer", args=f'{{"n": {n}}}'),
            start_ns=end + (2 * n + 1) * SECOND,
            end_ns=end + (2 * n + 2) * SECOND,
        )
        for n in range(3)
    ]
    asked = request("t/inner", start_ns=end + SECOND, end_ns=end + SECOND, turn=None)
    found = impact(database([*outer, delegate, *inner], [*requests, asked]), GuardPolicy())
    assert found.effect.after.lost.calls == 4
    assert found.effect.after.lost.wall_ns == 10 * SECOND
    assert found.effect.after.lost.tool_ns == 13 * SECOND
    assert found.effect.after.rest.requests == 1
    shown = {one.run_id: one for one in found.lost.calls}
    assert shown["t/outer"].blocked_call == 5
    assert shown["t/inner"].blocked_call is None
    # The inner run left what was recorded before its first call.
    assert PositionBin(0, 0, 1) in found.divergence.positions


# -- runs under a live guard, without content, with general errors ------------------------------------


def test_what_a_live_guard_did_is_exact_and_ends_nothing() -> None:
    seen = [call(), call(), *[call(recorded_verdict="nudge")] * 2, call(recorded_verdict="block"), call()]
    calls, requests = turns(*seen)
    found = impact(database(calls, requests), GuardPolicy())
    assert found.coverage.runs_guarded == 1
    assert found.divergence.runs == 0
    assert found.exact == found.effect
    assert found.exact.after.avoidable.requests == 1
    # Another policy speaks up where this guard kept silent: from there on all is projected.
    earlier = impact(database(calls, requests), GuardPolicy(2, 5))
    assert earlier.exact.after.avoidable.calls == 0
    assert earlier.effect.after.avoidable.calls == 1
    assert earlier.divergence.positions == (PositionBin(2, 2, 1),)


def test_without_content_nothing_is_judged_and_the_coverage_says_so() -> None:
    blind = [call(args=None), call(result=None, outcome=None)] * 4
    found = impact(database(*turns(*blind)), GuardPolicy(1, 2))
    assert found.effect.after.total == Spent()
    assert (found.totals.calls, found.coverage.calls_without_arguments) == (8, 4)
    # After a block such calls are neither avoidable nor lost.
    after = looping(call(args=None), call(result=None, outcome=None)).effect.after
    assert (after.avoidable.calls, after.lost.calls, after.unjudged.calls) == (0, 0, 2)
    assert after.unjudged.requests == 2


def test_general_errors_cause_no_block_and_are_no_gain() -> None:
    failing = [call(outcome="general_tool_error", result="503")] * 6
    assert impact(database(*turns(*failing)), GuardPolicy()).totals.calls_blocked == 0
    after = looping(*failing).effect.after
    assert (after.avoidable.calls, after.unjudged.calls) == (0, 6)


# -- divergence ------------------------------------------------------------------------------------


def test_where_runs_leave_what_was_recorded() -> None:
    calls = [call(run=run) for run in ("a", "b") for _ in range(4)]
    calls += [call(run="c", args=f'{{"q": {n % 26}}}') for n in range(28)]
    found = impact(database(calls), GuardPolicy(2, None)).divergence
    assert found.runs == 3
    assert found.positions == (PositionBin(2, 2, 2), PositionBin(21, 50, 1))
    assert [(one.first, one.last, one.runs) for one in found.shares if one.runs] == [
        (40, 50, 2),
        (90, 100, 1),
    ]
    assert (found.median_position, found.median_share) == (2, 0.5)


# -- examples ----------------------------------------------------------------------------------------


def test_lost_calls_are_shown_with_what_they_returned_and_their_place() -> None:
    long = "x" * 5_000
    calls = []
    for run, lost in (("one", 1), ("many", 4)):
        calls += [call(run=run) for _ in range(6)]
        calls += [call(run=run, args=f'{{"n": {n}}}', result=long) for n in range(lost)]
    con = database(calls)
    found = impact(con, GuardPolicy(), examples=3)
    assert found.lost.total == 5
    assert [(one.run_id, one.call, one.calls) for one in found.lost.calls] == [
        ("many", 7, 10),  # first what each run lost first; the run that lost most leads
        ("one", 7, 7),
        ("many", 8, 10),
    ]
    first = found.lost.calls[0]
    assert (first.blocked_call, first.judged, first.exact) == (5, "lost", False)
    assert first.arguments == '{"n": 0}'
    assert (len(first.result or ""), first.result_length) == (2_000, 5_000)
    assert impact(con, GuardPolicy(), examples=0).lost.calls == ()
    assert impact(con, GuardPolicy(), examples=0).lost.total == 5


def test_all_calls_after_blocks_one_by_one() -> None:
    calls = [call() for _ in range(6)] + [call("read"), call(outcome="general_tool_error", result="x")]
    con = database(calls)
    found = calls_after_block(con, GuardPolicy())
    assert [(one.call, one.judged) for one in found.calls] == [(6, "avoidable"), (7, "lost"), (8, "unjudged")]
    page = calls_after_block(con, GuardPolicy(), judged="lost", limit=5)
    assert (page.total, [one.tool_name for one in page.calls]) == (1, ["read"])
    assert [one.call for one in calls_after_block(con, GuardPolicy(), limit=1, offset=1).calls] == [7]
    assert calls_after_block(con, GuardPolicy(), Filters(tools=("read",))).total == 1


# -- soft failures -----------------------------------------------------------------------------------


def said(text: str) -> str:
    return json.dumps({"role": "assistant", "parts": [{"type": "text", "content": text}]})


def test_a_run_that_ended_in_its_loop_and_was_booked_as_done() -> None:
    calls, requests = turns(*[call(run=RUN) for _ in range(6)])
    requests[-1] = replace(requests[-1], output_messages=[said("All done!")], content_state="full")
    found = impact(database(calls, requests, [ENDED]), GuardPolicy()).soft_failures
    assert (found.runs, found.unresolved, found.unresolved_blocked) == (1, 1, 1)
    shown = found.shown[0]
    assert (shown.run_id, shown.resolved, shown.calls, shown.blocked) == (RUN, False, 6, True)
    assert (shown.answer, shown.answer_from) == ("All done!", "request")


def test_a_loop_that_was_left_is_told_apart() -> None:
    calls, requests = turns(*[call(run=RUN) for _ in range(4)], call("read", run=RUN))
    found = impact(database(calls, requests, [ENDED]), GuardPolicy()).soft_failures
    assert (found.runs, found.unresolved, found.resolved) == (1, 0, 1)
    assert found.shown[0].resolved
    assert not found.shown[0].blocked
    assert found.shown[0].nudged


def test_the_overview_counts_runs_that_ended_in_a_loop_and_were_booked_as_done() -> None:
    left, _ = turns(*[call(run="t/left") for _ in range(4)], call("read", run="t/left"))
    failed = [call(run="t/failed") for _ in range(4)]
    ended = [call(run=RUN) for _ in range(4)]
    spans = [ENDED, ("t", "left", START, START + 1, 0), ("t", "failed", START, START + 1, 2)]
    figures = overview(database([*left, *failed, *ended], spans=spans), GuardPolicy()).figures
    assert (figures.runs_looping, figures.soft_failures) == (3, 1)


@pytest.mark.parametrize("status", [2, None])
def test_a_run_that_failed_or_goes_on_is_no_soft_failure(status: int | None) -> None:
    span = (*ENDED[:3], None, 0) if status is None else (*ENDED[:4], status)
    calls, requests = turns(*[call(run=RUN) for _ in range(6)])
    assert impact(database(calls, requests, [span]), GuardPolicy()).soft_failures.runs == 0


@pytest.mark.parametrize(
    ("attributes", "answer"),
    [
        (
            {"gen_ai.output.messages": json.dumps([json.loads(said("a step")), json.loads(said("the end"))])},
            "the end",
        ),
        ({"traceloop.entity.output": json.dumps("quoted")}, "quoted"),
        ({"output.value": "plain"}, "plain"),
        ({"output.value": json.dumps({"content": {"role": "model", "parts": [{"text": "inner"}]}})}, "inner"),
        ({"output.value": "[" * 5_000}, "[" * 2_000),
        ({"output.value": json.dumps({"tool_calls": []})}, None),
        ({"unknown": "text"}, None),
    ],
)
def test_the_final_answer_may_stand_on_the_agents_span(
    attributes: dict[str, str], answer: str | None
) -> None:
    calls, requests = turns(*[call(run=RUN) for _ in range(6)])
    con = database(calls, requests, [ENDED])
    con.execute("UPDATE span_rows SET attributes = ?", [json.dumps(attributes)])
    shown = impact(con, GuardPolicy()).soft_failures.shown[0]
    assert (shown.answer, shown.answer_from) == (answer, None if answer is None else "agent_span")


def test_an_answer_that_only_asks_for_calls_says_nothing() -> None:
    asks = json.dumps(
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {}}]}
    )
    calls, requests = turns(*[call(run=RUN) for _ in range(6)])
    requests[-1] = replace(requests[-1], output_messages=[asks], content_state="full")
    shown = impact(database(calls, requests, [ENDED]), GuardPolicy()).soft_failures.shown[0]
    assert shown.answer is None


# -- two policies ------------------------------------------------------------------------------------


def test_two_policies_are_compared_call_by_call() -> None:
    calls = [call() for _ in range(6)] + [call("read"), call("read", args="{}")]
    found = compare_policies(database(calls), GuardPolicy(), GuardPolicy(2, 4))
    assert {(one.before, one.after): one.calls for one in found.changes} == {
        ("allow", "nudge"): 1,  # call 2
        ("nudge", "block"): 1,  # call 4
        ("block", "after_block"): 1,  # call 5
    }
    assert (found.calls_changed, found.calls_changed_exact, found.runs_changed) == (3, 1, 1)
    assert (found.newly_avoided, found.newly_lost) == (1, 0)  # call 5 itself ran before
    assert (found.runs_newly_blocked, found.runs_spared) == (0, 0)
    looser = compare_policies(database(calls), GuardPolicy(), GuardPolicy(3, None))
    assert (looser.no_longer_avoided, looser.no_longer_lost, looser.runs_spared) == (1, 2, 1)
    assert looser.spared == ("run-1",)
    json.dumps(looser.to_json())


def test_a_policy_against_itself_changes_nothing() -> None:
    found = compare_policies(database([call() for _ in range(6)]), GuardPolicy(), GuardPolicy())
    assert (found.calls_changed, found.changes, found.examples) == (0, (), ())


def test_the_json_holds_every_figure() -> None:
    value = json.loads(json.dumps(looping(call(), call("read")).to_json()))
    assert value["after_block"]["avoidable"]["calls"] == value["totals"]["calls_avoidable"] == 1
    assert value["after_block"]["exact"]["lost"]["calls"] == 0
    assert value["lost"]["total"] == 1
    assert value["by_tool"][0]["after_block"]["avoidable"]["cost_whole"] is True


def test_the_example_in_the_docs_is_measured(tmp_path: Path, samples: Path) -> None:
    text = (samples.parent / "docs" / "impact.md").read_text(encoding="utf-8")
    told = json.loads(text.partition("```json")[2].partition("```")[0])
    store = tmp_path / "samples.duckdb"
    import_paths(store, [samples])
    with Store(store).lease() as con:
        found = impact(con, GuardPolicy()).effect_json()
    for part in (told["after_block"]["avoidable"], found["after_block"]["avoidable"]):
        for name in ("cost", "requests_with_cost", "cost_whole"):  # they depend on the table of prices
            part.pop(name)
    assert found["after_block"]["avoidable"] == told["after_block"]["avoidable"]
    for name in ("divergence", "lost", "soft_failures"):
        for key, value in told[name].items():
            assert found[name][key] == pytest.approx(value, abs=1e-4), (name, key)


def test_the_calls_after_a_block_of_a_public_recording_are_told_one_by_one(tmp_path: Path) -> None:
    store = tmp_path / "x.duckdb"
    import_paths(store, [corpus("real", "tau2-bench")])
    with Store(store).lease() as con:
        policy = GuardPolicy()
        found = impact(con, policy)
        shown = calls_after_block(con, policy, limit=1_000)
    assert shown.total == found.totals.calls_after_block
    parts = {
        part: sum(one.judged == part for one in shown.calls) for part in ("avoidable", "lost", "unjudged")
    }
    assert parts == {"avoidable": 4, "lost": 9, "unjudged": 0}  # thirteen in all
    assert parts == {
        "avoidable": found.totals.calls_avoidable,
        "lost": found.totals.calls_lost,
        "unjudged": found.totals.calls_unjudged,
    }
