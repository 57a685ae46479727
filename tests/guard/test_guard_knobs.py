"""Every knob of the policy, as the fold honours it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from plain_guard import PlainGuard
from policy_values import busy_policies, call_rows

from loopscope.guard import (
    Action,
    DuplicateCallGuard,
    GuardPolicy,
    Outcome,
    RecordedCall,
    ToolPolicy,
    Verdict,
    fingerprint,
    result_hash,
)

A, N, B, X, AFTER = Action.ALLOW, Action.NUDGE, Action.BLOCK, Action.NOT_COUNTED, Action.AFTER_BLOCK
OK, SCHEMA, GENERAL = Outcome.SUCCESS, Outcome.SCHEMA_ERROR, Outcome.GENERAL_TOOL_ERROR


def call(
    guard: DuplicateCallGuard, output: Any = "same", tool: str = "read", arguments: Any = None, **more: Any
) -> Verdict:
    given_arguments = {"path": "a"} if arguments is None else arguments
    return guard.observe(
        tool_name=tool, arguments=given_arguments, output=output, outcome=more.pop("outcome", OK), **more
    )


def said(verdicts: list[Verdict]) -> list[tuple[Action, int]]:
    return [(verdict.action, verdict.count) for verdict in verdicts]


# General errors with a count of their own


def errors(**knobs: Any) -> DuplicateCallGuard:
    return DuplicateCallGuard(GuardPolicy(error_nudge_threshold=3, error_block_threshold=5, **knobs))


def test_equal_general_errors_have_their_own_ladder():
    guard = errors()
    verdicts = [call(guard, "no such file", outcome=GENERAL) for _ in range(6)]
    assert said(verdicts) == [(A, 1), (A, 2), (N, 3), (N, 4), (B, 5), (AFTER, 5)]
    assert guard.escalated
    assert isinstance(verdicts[2].output, str)
    assert verdicts[2].output.startswith("no such file\n\n[DUPLICATE_CALL_GUIDANCE]\n")


def test_another_error_text_starts_again_and_a_success_ends_it():
    guard = errors()
    assert said([call(guard, text, outcome=GENERAL) for text in ("a", "a", "b", "b")]) == [
        (A, 1),
        (A, 2),
        (A, 1),
        (A, 2),
    ]
    call(guard, "fine")
    assert call(guard, "b", outcome=GENERAL).count == 1


def test_neither_count_touches_the_other():
    guard = errors(nudge_threshold=2, block_threshold=None)
    sequence = [
        call(guard, "same", outcome=SCHEMA),
        call(guard, "down", outcome=GENERAL),
        call(guard, "same", outcome=SCHEMA),  # a schema error is no success: the errors go on
        call(guard, "down", outcome=GENERAL),
        call(guard, "down", outcome=GENERAL),
        call(guard, "same", outcome=SCHEMA),
    ]
    assert said(sequence) == [(A, 1), (A, 1), (N, 2), (A, 2), (N, 3), (N, 3)]


def test_errors_of_other_calls_and_agents_are_apart():
    guard = errors()
    for _ in range(2):
        call(guard, "down", outcome=GENERAL)
    assert call(guard, "down", arguments={"path": "b"}, outcome=GENERAL).count == 1
    assert call(guard, "down", agent="x", outcome=GENERAL).count == 1
    call(guard, "fine", arguments={"path": "b"})  # a success, but not of this call
    assert call(guard, "down", outcome=GENERAL).action is N


def test_errors_without_text_or_arguments_are_not_counted():
    guard = errors()
    call(guard, "down", outcome=GENERAL)
    assert said([call(guard, None, outcome=GENERAL)]) == [(X, 1)]
    nothing = guard.observe(tool_name="read", arguments=None, output="down", outcome=GENERAL)
    assert said([nothing]) == [(X, 0)]
    assert call(guard, "down", outcome=GENERAL).count == 2


def test_own_error_thresholds_win_over_counted_outcomes():
    everything = GuardPolicy(counted_outcomes=list(Outcome), nudge_threshold=2, block_threshold=3)
    assert [call(g, "x", outcome=GENERAL).action for g in [DuplicateCallGuard(everything)] * 3] == [A, N, B]
    guard = errors(counted_outcomes=list(Outcome), nudge_threshold=2, block_threshold=3)
    assert said([call(guard, "x", outcome=GENERAL) for _ in range(3)]) == [(A, 1), (A, 2), (N, 3)]
    assert said([call(guard, "x")]) == [(A, 1)]


def test_a_tool_may_have_error_thresholds_of_its_own():
    guard = errors(
        tools={
            "flaky": ToolPolicy(error_nudge_threshold=None, error_block_threshold=None),
            "eager": ToolPolicy(error_nudge_threshold=1, error_block_threshold=2),
        }
    )
    assert said([call(guard, "x", "flaky", outcome=GENERAL) for _ in range(9)]) == [(X, 0)] * 9
    assert said([call(guard, "x", "eager", outcome=GENERAL) for _ in range(2)]) == [(N, 1), (B, 2)]


# Tools that reset the others


def resetting(**more: Any) -> DuplicateCallGuard:
    tools = {"edit": ToolPolicy(resets=True), "write": ToolPolicy(resets=True)}
    return DuplicateCallGuard(GuardPolicy(tools=tools, **more))


def test_a_test_run_again_after_each_edit_is_no_loop():
    guard = resetting()
    for round_ in range(8):
        assert said([call(guard, "1 failed", "run_tests")]) == [(A, 1)]
        assert call(guard, "ok", "edit", {"line": round_}).action is A
    assert said([call(guard, "1 failed", "run_tests") for _ in range(3)]) == [(A, 1), (A, 2), (N, 3)]


def test_a_reset_reaches_every_call_and_agent_of_the_run_and_their_errors():
    guard = resetting(error_nudge_threshold=2)
    for _ in range(2):
        call(guard, agent="a")
        call(guard, "down", agent="b", outcome=GENERAL)
    call(guard, "ok", "edit", agent="c")
    assert [call(guard, agent="a").count, call(guard, "down", agent="b", outcome=GENERAL).count] == [1, 1]


def test_an_edit_that_failed_or_is_unknown_resets_nothing():
    guard = resetting()
    call(guard)
    for outcome in (GENERAL, SCHEMA, None):
        call(guard, "no", "edit", outcome=outcome)
    assert call(guard).count == 2
    guard.observe(tool_name="edit", arguments=None, output=None, outcome=OK)  # but it did succeed
    assert call(guard).count == 1


def test_the_same_edit_again_and_again_is_a_loop_also_with_another_in_between():
    guard = resetting()
    verdicts = [call(guard, "ok", ("edit", "write")[index % 2]) for index in range(9)]
    assert [verdict.count for verdict in verdicts] == [1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert verdicts[-1].action is B


def test_an_exempt_tool_may_reset_and_nothing_resets_after_a_block():
    guard = DuplicateCallGuard(GuardPolicy(tools={"edit": ToolPolicy(exempt=True, resets=True)}))
    call(guard)
    assert said([call(guard, "ok", "edit")]) == [(A, 0)]
    assert [call(guard).action for _ in range(5)] == [A, A, N, N, B]
    assert said([call(guard, "ok", "edit"), call(guard)]) == [(AFTER, 0), (AFTER, 5)]


# What is left out of arguments and results


def test_argument_names_are_left_out_for_all_tools_or_for_one():
    policy = GuardPolicy(
        nudge_threshold=2,
        metadata_keys=["description"],
        tools={"poll": ToolPolicy(metadata_keys=["i"])},
    )
    guard = DuplicateCallGuard(policy)
    call(guard, tool="poll", arguments={"i": 1, "description": "first"})
    assert call(guard, tool="poll", arguments={"i": 2, "description": "again"}).action is N
    call(guard, arguments={"i": 1, "description": "first"})
    assert call(guard, arguments={"i": 2, "description": "again"}).count == 1
    assert call(guard, arguments={"i": 2, "deep": 1}).count == 1


def test_result_keys_are_left_out_of_json_at_every_depth():
    policy = GuardPolicy(ignored_result_keys=["ms"], tools={"run": ToolPolicy(ignored_result_keys=["pid"])})
    guard = DuplicateCallGuard(policy)
    same = [
        '{"rows": [{"ms": 1, "n": 2}], "ms": 3}',
        '{"ms":4,"rows":[{"n":2}]}',
        '"{\\"rows\\":[{\\"n\\":2}]}"',
    ]
    assert [call(guard, output).count for output in same] == [1, 2, 3]
    assert call(guard, {"rows": [{"n": 2, "ms": 0}]}).count == 4  # an object with the same contents
    assert call(guard, '{"rows": [{"n": 2.0}]}').count == 1
    assert call(guard, '{"rows": [{"n": 2}], "pid": 1}').count == 1
    run = ['{"n": 1, "pid": 1, "ms": 9}', '{"n": 1, "pid": 2}']
    assert [call(guard, output, "run").count for output in run] == [1, 2]


@pytest.mark.parametrize("output", ["ms: 3", '"ms"', "3", '{"ms": 3', "", "[not json", "<ms>3</ms>"])
def test_results_without_keys_compare_as_they_are(output):
    guard = DuplicateCallGuard(GuardPolicy(ignored_result_keys=["ms"]))
    call(guard, output)
    assert call(guard, output + " ").count == 1
    assert call(guard, output + " ").count == 2


def test_result_patterns_are_left_out_of_text():
    policy = GuardPolicy(
        ignored_result_patterns=[r"\(\d+ of \d+ lines shown.*\)$", r"[0-9a-f]{8}-[0-9a-f]{4}"],
        tools={"clock": ToolPolicy(ignored_result_patterns=[r"\d\d:\d\d"])},
    )
    guard = DuplicateCallGuard(policy)
    reads = [f"text\n(5 of 9 lines shown · read {times}x)\nid 0123abcd-000{times}" for times in range(4)]
    verdicts = [call(guard, text) for text in reads]
    assert said(verdicts) == [(A, 1), (A, 2), (N, 3), (N, 4)]
    assert isinstance(verdicts[2].output, str)
    assert verdicts[2].output.startswith(reads[2])  # what the model sees is whole
    assert call(guard, "text2\n(5 of 9 lines shown)\nid 0123abcd-0000").count == 1
    assert [call(guard, time).count for time in ("12:00", "12:01")] == [1, 1]
    assert [call(guard, time, "clock").count for time in ("12:00", "12:01")] == [1, 2]


def test_patterns_come_after_keys_and_meet_objects_too():
    guard = DuplicateCallGuard(
        GuardPolicy(ignored_result_keys=["ms"], ignored_result_patterns=[r'"id":\d+,', "req-[a-z0-9]+"])
    )
    outputs = ['{"ms": 1, "id": 7, "x": "req-1"}', '{"x": "req-2b", "id": 8}', {"id": 9, "x": "req-z"}]
    assert [call(guard, output).count for output in outputs] == [1, 2, 3]
    assert verdict_output_is_the_object(guard, outputs[2])


def verdict_output_is_the_object(guard: DuplicateCallGuard, output: Any) -> bool:
    return call(guard, output).output is output


def test_patterns_meet_error_texts():
    guard = errors(ignored_result_patterns=[r"request \w+"])
    counts = [call(guard, f"503 for request r{index}", outcome=GENERAL).count for index in range(3)]
    assert counts == [1, 2, 3]


# Scope


def test_one_guard_spans_what_the_host_gives_it():
    guard = DuplicateCallGuard(GuardPolicy(scope="session"))
    first_run = [call(guard).action for _ in range(2)]
    assert (first_run, call(guard).action) == ([A, A], N)
    assert guard.policy.scope == "session"


# Shadow mode


def test_in_shadow_mode_the_guard_decides_and_changes_nothing():
    guard = DuplicateCallGuard(GuardPolicy(shadow=True))
    output = {"rows": []}
    verdicts = [call(guard, output) for _ in range(6)]
    assert said(verdicts) == [(A, 1), (A, 2), (N, 3), (N, 4), (B, 5), (AFTER, 5)]
    assert {verdict.guidance for verdict in verdicts} == {None}
    assert all(verdict.output is output for verdict in verdicts)
    assert call(guard, "text").output == "text"
    assert not guard.escalated
    assert guard.escalation is None
    assert guard.after_block


def test_in_shadow_mode_a_nested_run_is_judged_as_if_the_outer_one_had_ended():
    guard = DuplicateCallGuard(GuardPolicy(shadow=True))
    early = guard.nested()
    for _ in range(5):
        call(guard)
    late = guard.nested()
    assert (call(early).action, call(late).action) == (A, AFTER)
    assert not late.escalated


# Everything together


def row(tool: str, output: str | None, outcome: Outcome | None = OK, arguments: str | None = "{}") -> dict:
    return {"tool_name": tool, "arguments": arguments, "output": output, "outcome": outcome, "agent": None}


BUSY = GuardPolicy(
    nudge_threshold=2,
    block_threshold=4,
    error_nudge_threshold=2,
    error_block_threshold=3,
    tools={"edit": ToolPolicy(resets=True)},
)


@given(busy_policies(), call_rows)
@example(BUSY, [row("read", "x", GENERAL), row("edit", "ok"), row("read", "x", GENERAL)])
@example(BUSY, [row("read", "x", GENERAL)] * 2 + [row("read", "y")] + [row("read", "x", GENERAL)] * 4)
@example(BUSY, [row("edit", "ok")] * 5 + [row("read", "x", GENERAL)])
@settings(deadline=None, max_examples=500)
def test_the_guard_does_what_the_plain_rules_say(policy, rows):
    guard = DuplicateCallGuard(policy)
    verdicts = [guard.observe(**one) for one in rows]
    assert said(verdicts) == PlainGuard(policy).judge(rows)
    for verdict, one in zip(verdicts, rows, strict=True):
        if policy.shadow or not isinstance(one["output"], str):
            assert verdict.output is one["output"]
            assert verdict.guidance is None
        else:
            assert isinstance(verdict.output, str)
            assert verdict.output.startswith(one["output"])
            assert (verdict.guidance is not None) == (verdict.action in (N, B))
    assert guard.escalated == (not policy.shadow and guard.after_block)


@given(busy_policies(), call_rows)
@settings(deadline=None, max_examples=200)
def test_shadow_mode_gives_the_verdicts_of_a_guard_at_work(policy, rows):
    from dataclasses import replace

    live = DuplicateCallGuard(replace(policy, shadow=False))
    shadow = DuplicateCallGuard(replace(policy, shadow=True))
    assert said([live.observe(**one) for one in rows]) == said([shadow.observe(**one) for one in rows])


@given(busy_policies(), call_rows)
@settings(deadline=None, max_examples=300)
def test_recorded_calls_get_the_live_verdicts(policy, rows):
    live, whole, stored = (DuplicateCallGuard(policy) for _ in range(3))
    for one in rows:
        tool, arguments, output = one["tool_name"], one["arguments"], one["output"]
        verdict = live.observe(**one)
        recorded = RecordedCall(tool, arguments, output, one["outcome"], one["agent"])
        assert whole.observe_recorded(recorded) == (verdict.action, verdict.count)
        hashed = recorded._replace(
            fingerprint=fingerprint(tool, arguments),
            result_hash=result_hash(output),
            arguments=arguments if policy.changes_fingerprints(tool) else None,
            result=output if policy.changes_results(tool) else None,
        )
        assert stored.observe_recorded(hashed) == (verdict.action, verdict.count)
        if policy.set_based:
            assert not policy.changes_results(tool)


def test_recorded_notes_are_off_unless_the_policy_keeps_them():
    rows = [RecordedCall("read", "{}", "x", OK, recorded_verdict=mark) for mark in (None, "nudge", "nudge")]
    strip, keep = (DuplicateCallGuard(GuardPolicy(strip_annotations=flag)) for flag in (True, False))
    assert [strip.observe_recorded(one) for one in rows] == [(A, 1), (A, 2), (N, 3)]
    assert [keep.observe_recorded(one) for one in rows] == [(A, 1)] * 3
    assert keep.observe_recorded(RecordedCall("read", "{}", None, OK, recorded_verdict="nudge")) == (X, 1)
