"""Incidents: which stretches are one, what they cost, how they ended, what names them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_rows import SECOND, START, call, database, number, request

from loopscope.collector import ToolCall
from loopscope.guard import GuardPolicy, NotFoundError, ToolPolicy
from loopscope.replay import Filters, Incident, find_incidents, incident_detail, overview
from loopscope.replay._stretches import cycles_in
from loopscope.replay._words import ended_in_short
from loopscope.replay.traces import list_runs


def found(calls: list[ToolCall], **more: object) -> list[Incident]:
    return find_incidents(database(calls, **more))  # type: ignore[arg-type]


def kinds(incidents: list[Incident]) -> list[tuple[str, int]]:
    return sorted((one.kind.value, one.calls) for one in incidents)


def other(n: int) -> ToolCall:
    return call("read", f'{{"page": {n}}}', f"page {n}")


# Loops


def test_three_equal_answers_are_a_loop_and_two_are_none() -> None:
    assert kinds(found([call()] * 3)) == [("loop", 3)]
    assert found([call()] * 2) == []


def test_a_loop_ends_where_another_answer_comes() -> None:
    incidents = found([call()] * 3 + [call(result="a hit")] + [call()] * 4)
    assert kinds(incidents) == [("loop", 3), ("loop", 4)]
    first = next(one for one in incidents if one.calls == 3)
    assert (first.resolved, first.ending) == (True, "another_result")


def test_other_calls_in_between_do_not_end_a_loop() -> None:
    (loop,) = found([call(), other(1), call(), other(2), call()])
    assert (loop.calls, loop.interleaved, loop.repeated_calls) == (3, True, 2)
    (straight,) = found([call()] * 3)
    assert not straight.interleaved


def test_a_general_error_neither_ends_a_loop_nor_is_in_it() -> None:
    (loop,) = found([call(), call(outcome="general_tool_error", result="503"), call(), call()])
    assert loop.calls == 3


def test_agents_runs_and_arguments_are_told_apart() -> None:
    assert found([call(agent="a"), call(agent="b"), call(agent="a")]) == []
    assert found([call(run="1"), call(run="2"), call(run="3")]) == []
    assert found([call(args='{"q": 1}'), call(args='{"q": 1.0}'), call(args='{"q": "1"}')]) == []


def test_calls_without_content_are_no_incident() -> None:
    assert found([call(args=None)] * 5) == []
    assert found([call(result=None, outcome="success")] * 5) == []
    assert found([call(result=None, outcome=None)] * 5) == []


def test_a_run_that_ends_in_its_loop_is_unresolved() -> None:
    (loop,) = found([other(1), *[call()] * 3])
    assert (loop.resolved, loop.ending) == (False, "run_ended")
    (left,) = found([*[call()] * 3, other(1)])
    assert (left.resolved, left.ending) == (True, "other_work")
    # A further try that failed is neither another answer nor other work.
    (failed,) = found([*[call()] * 3, call(outcome="general_tool_error", result="503")])
    assert failed.ending == "run_ended"


def guarded(*seen: str | None, after: list[ToolCall] | None = None) -> Incident:
    calls = [call(run="t/s", recorded_verdict=one) for one in seen]
    (loop,) = found([*calls, *(after or [])])
    return loop


def test_a_loop_that_a_live_guard_stopped_is_no_silent_failure() -> None:
    seen = (None, None, "nudge", "nudge", "block")
    for after in ([], [replace(other(1), run_id="t/s")]):
        one = guarded(*seen, after=after)
        assert (one.ending, one.stopped_at) == ("stopped_by_guard", 5)
        assert (one.resolved, one.unresolved, one.soft_failure) == (False, False, False)
        assert ended_in_short(one) == "stopped by the guard at call 5"
    # What was blocked together with it did not go on.
    assert guarded(*seen, "block").stopped_at == 5


def test_a_nudge_and_a_block_that_was_not_heeded_stop_nothing() -> None:
    for seen in ((None, None, "nudge", "nudge"), (None, None, "block", None)):
        one = guarded(*seen)
        assert (one.ending, one.stopped_at, one.unresolved) == ("run_ended", None, True)


def test_the_sentence_says_that_the_live_guard_stopped_it() -> None:
    con = database([call(recorded_verdict=one) for one in (None, None, "nudge", "nudge", "block")])
    (one,) = find_incidents(con)
    said = incident_detail(con, one.key, GuardPolicy()).summary
    assert said.endswith("; a live guard stopped it at call 5.")
    assert "would have" not in said
    other_policy = incident_detail(con, one.key, GuardPolicy(2, 4)).summary
    assert (
        "stopped it at call 5. A guard at 2/4 would have nudged at call 2 and blocked at call 4"
        in other_policy
    )


def test_runs_that_a_guard_stopped_are_listed_as_stopped() -> None:
    def stopped(*seen: str | None) -> bool:
        (run,) = list_runs(database([call(recorded_verdict=one) for one in seen]), GuardPolicy()).rows
        return run.stopped

    assert stopped(None, None, "nudge", "block")
    assert stopped("block")
    assert not stopped(None, None, "nudge")
    assert not stopped(None, "block", None)


def test_runs_whose_incidents_are_all_twins_are_counted_apart() -> None:
    twins = [call(run="twins", at=0, turn=1) for _ in range(2)]
    both = overview(database([*[call(run="loop")] * 3, *twins]), GuardPolicy()).figures
    assert (both.runs_looping, both.runs_with_twins_only) == (1, 1)


# Cycles


def test_a_cycle_takes_in_the_loops_of_its_members() -> None:
    lap = [call("read"), call("test", result="failed")]
    (cycle,) = found([*lap * 3, other(1)])
    assert (cycle.kind, cycle.calls, cycle.laps, cycle.different_calls) == ("cycle", 6, 3, 2)
    assert (cycle.folded_loops, cycle.repeated_calls) == (2, 4)
    assert cycle.tools == ("read", "test")


def test_two_laps_are_no_cycle() -> None:
    assert found([call("read"), call("test")] * 2) == []


def test_a_lap_with_another_answer_is_no_lap() -> None:
    calls = []
    for answer in "xyz":
        calls += [call("read"), call("test", result=answer)]
    assert kinds(found(calls)) == [("loop", 3)]


def test_a_loop_that_is_one_without_the_cycle_stays() -> None:
    calls = [call("read")] * 3 + [call("test"), call("read")] * 3
    assert kinds(found(calls)) == [("cycle", 7)]
    many = [call("read")] * 4 + [call("test"), call("read")] * 3
    assert kinds(found(many)) == [("cycle", 7), ("loop", 7)]


def test_a_cycle_is_one_agents() -> None:
    calls = []
    for _ in range(3):
        calls += [
            call("read", agent="a"),
            call("note", f'{{"n": {len(calls)}}}', agent="b"),
            call("test", agent="a"),
        ]
    (cycle,) = [one for one in found(calls) if one.kind == "cycle"]
    assert (cycle.calls, cycle.interleaved, cycle.agent_name) == (6, True, "a")


@pytest.mark.parametrize(
    ("symbols", "cycles"),
    [
        ("ababab", [(0, 5, 2)]),
        ("xababab", [(1, 6, 2)]),
        ("abababa", [(0, 6, 2)]),
        ("abab", []),
        ("aaaaaa", []),
        ("abcabcabc", [(0, 8, 3)]),
        ("aabaabaab", [(0, 8, 3)]),
        ("abcdeabcdeabcde", [(0, 14, 5)]),
        ("abcdefabcdefabcdef", []),
        ("abababxcdcdcd", [(0, 5, 2), (7, 12, 2)]),
        ("ababababcabcabc", [(0, 7, 2)]),
        ("", []),
    ],
)
def test_cycles_in(symbols: str, cycles: list[tuple[int, int, int]]) -> None:
    assert cycles_in(symbols) == cycles


@given(st.text("ab", max_size=30) | st.text("abc", max_size=30))
def test_what_cycles_in_finds_repeats_and_cannot_be_longer(symbols: str) -> None:
    last_end = -1
    for first, last, period in cycles_in(symbols):
        assert first > last_end
        last_end = last
        assert 2 <= period <= 5
        assert last - first + 1 >= 3 * period
        assert len(set(symbols[first : first + period])) > 1
        assert all(symbols[at] == symbols[at - period] for at in range(first + period, last + 1))


# Retry storms


def test_equal_general_errors_in_a_row_are_a_retry_storm() -> None:
    failed = call(outcome="general_tool_error", result="HTTP 503")
    (storm,) = found([failed, other(1), failed, failed, call()])
    assert (storm.kind, storm.calls, storm.interleaved) == ("retry_storm", 3, True)
    assert (storm.error_kind, storm.error_text) == ("timeout", "HTTP 503")
    assert (storm.resolved, storm.ending) == (True, "another_result")


def test_a_success_or_another_error_ends_a_storm() -> None:
    failed = call(outcome="general_tool_error", result="HTTP 503")
    assert found([failed, failed, call(), failed, failed]) == []
    assert found([failed, failed, replace(failed, result_hash=1), failed, failed]) == []
    assert kinds(found([failed] * 3 + [call()] + [failed] * 4)) == [("retry_storm", 3), ("retry_storm", 4)]


def test_errors_without_a_text_are_equal_if_their_kinds_are() -> None:
    silent = call(outcome="general_tool_error", result=None, error_kind="unknown")
    assert kinds(found([silent] * 3)) == [("retry_storm", 3)]
    assert found([silent, replace(silent, error_kind="timeout"), silent]) == []


# Twins


def test_equal_calls_of_one_response_are_twins() -> None:
    (twins,) = found([call(turn=1), call(turn=1), call(turn=2)])[:1]
    assert (twins.kind, twins.calls) == ("loop", 3)
    incidents = found([call(turn=1), call(turn=1), other(1)])
    assert kinds(incidents) == [("twins", 2)]
    assert found([call(turn=1), call(turn=2)]) == []
    assert found([call(turn=None), call(turn=None)]) == []


def test_the_same_answer_once_more_is_no_other_answer() -> None:
    (twins,) = [one for one in found([call(turn=1), call(turn=1), call(turn=2)]) if one.kind == "twins"]
    assert (twins.calls, twins.ending) == (2, "run_ended")
    (changed,) = found([call(turn=1), call(turn=1), call(turn=2, result="x")])
    assert changed.ending == "another_result"


# Same error


def failing(n: int, text: str | None, outcome: str = "schema_error") -> ToolCall:
    return call("book", f'{{"flight": "LH{n}00{n}"}}', text, outcome)


def test_one_error_for_different_arguments() -> None:
    (same,) = found([failing(n, f"no seat on LH{n}00{n}, try again after {n} s") for n in range(1, 5)])
    assert (same.kind, same.calls, same.different_calls) == ("same_error", 4, 4)


def test_another_error_or_a_success_ends_it() -> None:
    same = [failing(n, "no seat") for n in range(4)]
    assert found([same[0], same[1], failing(7, "no such flight"), same[2], same[3]]) == []
    assert found([same[0], same[1], failing(7, "booked", "success"), same[2], same[3]]) == []
    # Other tools in between do not.
    assert kinds(found([same[0], other(1), same[1], other(2), same[2]])) == [("same_error", 3)]


def test_equal_arguments_are_a_loop_or_storm_and_not_told_twice() -> None:
    assert kinds(found([failing(1, "no seat")] * 4)) == [("loop", 4)]
    assert kinds(found([failing(1, "no seat")] * 4 + [failing(2, "no seat")])) == [("loop", 4)]
    assert kinds(found([failing(1, "x"), failing(2, "x"), failing(1, "x")])) == [("same_error", 3)]


def test_errors_whose_text_is_missing_are_not_the_same() -> None:
    assert found([failing(n, None, "general_tool_error") for n in range(4)]) == []


# What an incident says


def test_costs() -> None:
    calls = [call(at=0), call(at=10), call(at=20)]
    requests = [
        request(at=-2),  # asked for the first call: not a repeat's cost
        request(at=5, input_tokens=7, output_tokens=None),
        request(at=15, input_tokens=None, output_tokens=None, cost=0.25),
        request(at=30),
        request("run-2", at=5),
    ]
    (loop,) = found(calls, requests=requests)
    assert (loop.requests, loop.input_tokens, loop.output_tokens, loop.cost) == (2, 7, None, 0.25)
    assert (loop.tool_ns, loop.first_ns, loop.duration_ns) == (
        3 * SECOND // 2,
        START,
        20 * SECOND + SECOND // 2,
    )


def test_figures_of_a_hostile_trace_are_no_trouble() -> None:
    calls = [call(at=n, end_ns=2**63 - 1) for n in range(3)]
    calls[2].start_ns = 0
    huge = {"input_tokens": 2**63 - 1, "cost": float("nan")}
    (loop,) = found(calls, requests=[request(at=n, **huge) for n in (1.5, 2.5)])
    assert (loop.tool_ns, loop.input_tokens, loop.cost) == (0, None, None)  # beyond what can be
    (back,) = found([call(at=n, end_ns=START - SECOND) for n in range(3)])
    assert back.tool_ns == 0


def test_costs_that_nobody_recorded_are_unknown_and_not_zero() -> None:
    (loop,) = found([call()] * 3)
    assert (loop.requests, loop.input_tokens, loop.output_tokens, loop.cost) == (0, None, None, None)


@pytest.mark.parametrize(
    ("end", "status", "soft"), [(START, 1, True), (START, 0, True), (START, 2, False), (None, 1, False)]
)
def test_soft_failure(end: int | None, status: int, soft: bool) -> None:
    calls = [call(run="t1/s1", run_source="agent_span")] * 3
    (loop,) = found(calls, spans=[("t1", "s1", START, end, status), ("t1", "s2", START, END, 1)])
    assert loop.soft_failure is soft


END = START + 60 * SECOND


def test_twins_are_no_soft_failure() -> None:
    calls = [call(run="t1/s1", run_source="agent_span", turn=1)] * 2
    (twins,) = found(calls, spans=[("t1", "s1", START, END, 1)])
    assert not twins.soft_failure


def test_groups_join_one_fault_across_runs() -> None:
    calls = []
    for n in range(3):
        calls += [call(args=f'{{"order": {n}17}}', result=f"order {n}17 is locked", run=f"run-{n}")] * 3
    calls += [call("other_tool", run="run-9")] * 3
    groups = [one.group for one in found(calls)]
    assert sorted(groups.count(group) for group in set(groups)) == [1, 3]


def test_texts_of_an_incident_are_bounded() -> None:
    (loop,) = found([call(args=f'{{"q": "{"x" * 9_000}"}}', result="y" * 5_000)] * 3)
    assert len(loop.sample_arguments or "") == len(loop.sample_result or "") == 2_000


# Keys


def test_a_key_stays_when_the_stretch_grows_and_when_times_move() -> None:
    calls = number([other(1), *[call()] * 5])
    (short,) = found(calls[:4])
    (whole,) = found(calls)
    (moved,) = found([replace(one, start_ns=one.start_ns + 5, end_ns=(one.end_ns or 0) + 5) for one in calls])
    assert short.key == whole.key == moved.key
    assert (short.calls, whole.calls) == (3, 5)


def test_keys_differ_for_kinds_runs_and_first_calls() -> None:
    keys = [one.key for one in found([*[call(turn=1)] * 3, call(result="x"), *[call()] * 3])]
    keys += [one.key for one in found([call(run="run-2")] * 3)]
    assert len(set(keys)) == len(keys) == 4


# Filters and policies


def test_filters_leave_incidents_that_they_touch() -> None:
    con = database(
        [
            *[call(at=n) for n in range(3)],
            *[call("poll", run="run-2", agent="b", at=100 + n) for n in range(3)],
        ],
        [request("run-2", model="small")],
    )

    def tools(**fields: object) -> list[str]:
        return [one.tool_name for one in find_incidents(con, Filters(**fields))]  # type: ignore[arg-type]

    assert sorted(tools()) == ["poll", "search_docs"]
    assert tools(tools=("poll",)) == tools(run_ids=("run-2",)) == tools(agents=("b",)) == ["poll"]
    assert tools(models=("small",)) == ["poll"]
    assert tools(models=("unknown",)) == []
    assert tools(since=START + 2 * SECOND, until=START + 3 * SECOND) == ["search_docs"]
    assert tools(since=START + 50 * SECOND) == ["poll"]
    assert tools(until=START) == []
    assert len(find_incidents(con, limit=1)) == 1


def test_incidents_do_not_depend_on_the_policy_but_say_where_it_falls() -> None:
    con = database([call()] * 8)
    (plain,) = find_incidents(con)
    assert (plain.nudge_at, plain.block_at, plain.after_block, plain.exact) == (None, None, None, None)
    for policy, marks in [
        (GuardPolicy(), (3, 5, 3, 3, False)),
        (GuardPolicy(2, 8), (2, 8, 0, 0, False)),
        (GuardPolicy(9, None), (None, None, 0, 0, True)),
        (GuardPolicy(None, 8), (None, 8, 0, 0, True)),
        (GuardPolicy(tools={"search_docs": ToolPolicy(exempt=True)}), (None, None, 0, 0, True)),
    ]:
        (loop,) = find_incidents(con, policy=policy)
        assert (
            replace(
                loop, nudge_at=None, block_at=None, after_block=None, after_block_avoidable=None, exact=None
            )
            == plain
        )
        found_marks = (loop.nudge_at, loop.block_at, loop.after_block, loop.after_block_avoidable, loop.exact)
        assert found_marks == marks


def test_many_incidents_get_the_same_marks_as_one_by_one() -> None:
    con = database([call(run=f"run-{n:03d}") for n in range(205) for _ in range(3 + n % 4)])
    many = find_incidents(con, policy=GuardPolicy())
    assert len(many) == 205
    for one in many[::40]:
        (alone,) = find_incidents(con, Filters(run_ids=(one.run_id,)), GuardPolicy())
        assert alone == one


# Detail


def test_detail_holds_the_calls_in_order_with_those_in_between() -> None:
    con = database([other(1), call(), other(2), call(), call(), other(3), call(), call()])
    (loop,) = find_incidents(con)
    detail = incident_detail(con, loop.key, GuardPolicy())
    assert [one.number for one in detail.calls] == [1, None, 2, 3, None, 4, 5]
    assert [one.action for one in detail.calls] == [
        "allow", "allow", "allow", "nudge", "allow", "nudge", "block",
    ]  # fmt: skip
    assert [one.exact for one in detail.calls] == [True, True, True, True, False, False, False]
    assert [one.count for one in detail.calls if one.member] == [1, 2, 3, 4, 5]
    assert detail.calls[0].result_change is None
    assert all(one.result_change and one.result_change.same for one in detail.calls[2:] if one.member)
    assert detail.run.calls == 8
    assert detail.calls_left_out == 0
    assert detail.summary.startswith(
        "support-bot called search_docs 5 times with the same arguments and got the same answer each time "
        "(other calls lay between); a guard at 3/5 would have nudged at call 3 and blocked at call 5"
    )


def test_the_summary_counts_what_came_after() -> None:
    con = database([call()] * 8)
    detail = incident_detail(con, find_incidents(con)[0].key, GuardPolicy())
    assert detail.summary == (
        "support-bot called search_docs 8 times with the same arguments and got the same answer each time; "
        "a guard at 3/5 would have nudged at call 3 and blocked at call 5; 3 calls came after (3 avoidable). "
        "The run's recorded calls end there."
    )


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (GuardPolicy(), "a guard at 3/5 would not have counted them, because it does not count such errors"),
        (GuardPolicy(error_nudge_threshold=2), "a guard at 2/off would have nudged at call 2"),
        (GuardPolicy(error_block_threshold=9), "a guard at off/9 would have done nothing"),
        (GuardPolicy(counted_outcomes=["general_tool_error"]), "a guard at 3/5 would have nudged at call 3"),
    ],
)
def test_the_summary_of_errors_speaks_of_the_thresholds_for_errors(policy: GuardPolicy, words: str) -> None:
    con = database([call(outcome="general_tool_error", result="HTTP 503")] * 4)
    assert words in incident_detail(con, find_incidents(con)[0].key, policy).summary


def test_detail_takes_a_short_key_and_refuses_an_unknown_one() -> None:
    con = database([call()] * 3)
    (loop,) = find_incidents(con)
    assert incident_detail(con, loop.key[:6], GuardPolicy()).incident.key == loop.key
    for key in (loop.key[:5], "ffffffffffff", "", "x" * 500):
        with pytest.raises(NotFoundError) as error:
            incident_detail(con, key, GuardPolicy())
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 200


def test_detail_bounds_texts_and_calls_and_says_so() -> None:
    long = "z" * 5_000
    con = database([call(args=f'{{"q": "{long}"}}', result=long + "é")] * 6)
    (loop,) = find_incidents(con)
    detail = incident_detail(con, loop.key, GuardPolicy(), text_limit=100, call_limit=4)
    assert len(detail.calls) == 4
    assert detail.calls_left_out == 2
    first = detail.calls[0]
    assert (first.call.result, first.result_length) == (long[:100], 5_001)
    assert first.arguments_length == 5_009
    assert first.call.arguments == f'{{"q": "{long}"}}'[:100]


def test_repeats_in_a_cycle_are_compared_with_the_same_call_a_lap_ago() -> None:
    con = database([call("read"), call("test", '{"n": 1}', "failed")] * 3)
    detail = incident_detail(con, find_incidents(con)[0].key, GuardPolicy())
    changes = [one.result_change.summary if one.result_change else None for one in detail.calls]
    assert changes == [None, None, "same", "same", "same", "same"]


def test_detail_names_incidents_of_the_same_fault() -> None:
    con = database([call(run=run) for run in ("a", "b", "c") for _ in range(3)])
    first, *_ = find_incidents(con)
    detail = incident_detail(con, first.key, GuardPolicy())
    assert detail.related_runs == 3
    assert sorted([first.key, *detail.related]) == sorted(one.key for one in find_incidents(con))


def test_detail_of_a_truncated_text_does_not_claim_that_the_rest_is_equal() -> None:
    head = "same beginning " * 100
    calls = [call("book", f'{{"n": {n}}}', f"{head} 17", "schema_error") for n in range(3)]
    calls[1] = call("book", '{"n": 1}', f"{head} 18", "schema_error")
    con = database(calls)
    detail = incident_detail(con, find_incidents(con)[0].key, GuardPolicy(), text_limit=50)
    change = detail.calls[1].result_change
    assert change is not None
    assert not change.same


# The order does not matter to what is found


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(9)), st.integers(0, 3))
def test_loops_are_the_islands_of_a_plain_count(order: list[int], seed: int) -> None:
    choices = [call(result="a"), call(result="b"), call("read"), call("read", agent="b")]
    calls = number([choices[(index * 7 + seed) % 4 if index % 3 else seed] for index in order] * 2)
    expected: list[list[int]] = []
    open_: dict[object, tuple[object, list[int]]] = {}
    for one in calls:
        last, island = open_.get(one.scope_key, (None, []))
        if last != one.result_hash:
            island = []
            expected.append(island)
        island.append(one.seq or 0)
        open_[one.scope_key] = (one.result_hash, island)
    wanted = sorted(len(island) for island in expected if len(island) >= 3)
    incidents = found(calls)
    cycles = [one for one in incidents if one.kind == "cycle"]
    if not cycles:
        assert sorted(one.calls for one in incidents) == wanted
