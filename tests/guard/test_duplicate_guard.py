"""The fold: what counts, what it leads to, and what it must never do."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_corpus import corpus

from loopscope.guard import (
    ABORT_MARKER,
    GUIDANCE_MARKER,
    Action,
    DuplicateCallGuard,
    GuardPolicy,
    Guidance,
    Outcome,
    OutcomeFacts,
    ToolPolicy,
    Verdict,
    classify_outcome,
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


def actions(verdicts: list[Verdict]) -> list[tuple[Action, int]]:
    return [(verdict.action, verdict.count) for verdict in verdicts]


# One call, again and again


def test_the_ladder_from_allow_to_after_block():
    guard = DuplicateCallGuard()
    verdicts = []
    for _ in range(15):
        verdicts.append(call(guard))
        assert guard.escalated == (len(verdicts) >= 5)
    assert actions(verdicts) == [(A, 1), (A, 2), (N, 3), (N, 4), (B, 5), *[(AFTER, 5)] * 10]
    for verdict in verdicts:
        assert verdict.output.startswith("same")
        assert verdict.certainty == "certain"
        if verdict.action is N:
            assert verdict.guidance is not None
            assert verdict.output == f"same\n\n{verdict.guidance}"
            assert verdict.guidance.startswith(f"{GUIDANCE_MARKER}\n")
            assert ABORT_MARKER not in verdict.output
            assert f"{verdict.count} times" in verdict.guidance
            assert "read" in verdict.guidance
        elif verdict.action is B:
            assert verdict.guidance is not None
            assert verdict.output == f"same\n\n{verdict.guidance}"
            assert verdict.guidance.startswith(f"{ABORT_MARKER}\n")
            assert GUIDANCE_MARKER not in verdict.output
        else:
            assert verdict.output == "same"
            assert verdict.guidance is None
    assert guard.escalation is not None
    assert (guard.escalation.tool_name, guard.escalation.agent, guard.escalation.count) == ("read", None, 5)


def test_after_a_block_every_call_of_the_run_is_let_through_in_silence():
    guard = DuplicateCallGuard(GuardPolicy(tools={"free": ToolPolicy(exempt=True)}))
    call(guard, tool="other")
    for _ in range(5):
        call(guard, agent="one")
    later = [call(guard, tool="search", arguments={"q": "x"}, agent="two") for _ in range(4)]
    assert actions(later) == [(AFTER, 0)] * 4
    assert [verdict.output for verdict in later] == ["same"] * 4
    assert actions(
        [
            call(guard, tool="other"),
            call(guard, agent="one"),
            call(guard, tool="free"),
            call(guard, "boom", agent="one", outcome=GENERAL),
            call(guard, None, agent="one"),
            call(guard, "new", agent="one"),
            call(guard, agent="one"),
        ]
    ) == [(AFTER, 1), (AFTER, 5), (AFTER, 0), (AFTER, 5), (AFTER, 5), (AFTER, 5), (AFTER, 5)]
    assert guard.escalation is not None
    assert guard.escalation.agent == "one"


def test_a_new_run_starts_fresh_and_a_nested_one_is_silent_if_it_starts_after_the_block():
    guard = DuplicateCallGuard()
    early = guard.nested()
    for _ in range(5):
        call(guard)
    late = guard.nested()
    assert call(early).action is A
    assert call(late).action is AFTER
    assert late.escalated
    assert late.escalation is None
    assert call(DuplicateCallGuard()).count == 1


# What is counted


def test_another_output_starts_again_at_one():
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=2))
    assert actions([call(guard, clock) for clock in ("12:00", "12:01", "12:01")]) == [(A, 1), (A, 1), (N, 2)]


def test_outputs_in_turn_are_never_noted():
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=2, block_threshold=3))
    assert {call(guard, "xy"[index % 2]).action for index in range(40)} == {A}


def test_waiting_for_a_job_that_moves_is_not_a_loop():
    guard = DuplicateCallGuard()
    outputs = [f"running {percent}%" for percent in range(0, 60, 10)] + ["done"]
    assert actions([call(guard, output, tool="status") for output in outputs]) == [(A, 1)] * 7


def test_two_calls_in_turn_are_both_counted():
    guard = DuplicateCallGuard()
    verdicts = [call(guard, arguments={"path": "ab"[index % 2]}) for index in range(6)]
    assert actions(verdicts) == [(A, 1), (A, 1), (A, 2), (A, 2), (N, 3), (N, 3)]
    assert not guard.escalated


@pytest.mark.parametrize(
    "other",
    [
        {"path": "b"},
        {"path": "a "},
        {"path": ["a"]},
        {"path": "a", "limit": None},
        {},
    ],
)
def test_other_arguments_are_another_call(other):
    guard = DuplicateCallGuard()
    call(guard)
    assert call(guard, arguments=other).count == 1
    assert call(guard).count == 2


def test_other_tools_and_other_agents_are_counted_apart():
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=2))
    call(guard)
    assert call(guard, tool="write").count == 1
    assert call(guard, agent="helper").count == 1
    assert call(guard, agent="helper").action is N
    assert call(guard, agent="").count == 1


def test_spelling_and_metadata_do_not_make_a_call_new():
    guard = DuplicateCallGuard(
        GuardPolicy(nudge_threshold=None, block_threshold=None, metadata_keys=["trace"])
    )
    spellings = [
        '{"path": "foo", "limit": 10}',
        '{"path":"foo","limit":10}',
        '{"limit":10,"path":"foo"}',
        '{"path":"foo",\n "limit":10}',
        {"limit": 10, "path": "foo", "_aura_reasoning": "once more"},
        {"limit": 10, "path": "foo", "trace": "t1"},
        json.dumps('{"path":"foo","limit":10}'),
    ]
    assert [call(guard, arguments=spelling).count for spelling in spellings] == [1, 2, 3, 4, 5, 6, 7]


def test_an_empty_output_is_an_output():
    guard = DuplicateCallGuard()
    verdicts = [call(guard, "") for _ in range(3)]
    assert actions(verdicts) == [(A, 1), (A, 2), (N, 3)]
    assert verdicts[-1].output == f"\n\n{verdicts[-1].guidance}"


# Errors and gaps


def test_general_errors_neither_count_nor_reset():
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=2))
    call(guard)
    for _ in range(5):
        verdict = call(guard, outcome=GENERAL)
        assert (verdict.action, verdict.count, verdict.output) == (X, 1, "same")
    assert call(guard).action is N


def test_a_transient_failure_that_passes_is_never_noted():
    guard = DuplicateCallGuard()
    verdicts = [call(guard, "503 Service Unavailable", outcome=GENERAL) for _ in range(6)]
    verdicts.append(call(guard, "12 rows"))
    assert actions(verdicts) == [(X, 0)] * 6 + [(A, 1)]


def test_schema_errors_count():
    guard = DuplicateCallGuard()
    text = "MCP error -32602: Input validation error"
    verdicts = [call(guard, text, outcome="schema_error") for _ in range(7)]
    assert actions(verdicts) == [(A, 1), (A, 2), (N, 3), (N, 4), (B, 5), (AFTER, 5), (AFTER, 5)]


def test_general_errors_count_where_the_policy_says_so():
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=2, counted_outcomes=list(Outcome)))
    verdicts = [
        call(guard, "boom", outcome=GENERAL),
        call(guard, "boom", outcome=GENERAL),
        call(guard, "fine"),
    ]
    assert actions(verdicts) == [(A, 1), (N, 2), (A, 1)]


def test_what_is_missing_is_not_counted_and_changes_nothing():
    guard = DuplicateCallGuard()
    call(guard)
    gaps = [
        call(guard, None),
        guard.observe(tool_name="read", arguments=None, output="same", outcome=OK),
        call(guard, outcome=None),
    ]
    assert actions(gaps) == [(X, 1), (X, 0), (X, 1)]
    assert [gap.certainty for gap in gaps] == ["missing", "missing", "certain"]
    assert gaps[0].output is None
    assert call(guard).count == 2


def test_truncated_values_are_compared_as_recorded_and_the_verdict_says_so():
    guard = DuplicateCallGuard()
    cut = '{"path":"a.txt","text":"aaaaaaaa'
    verdicts = [call(guard, "ok", arguments=cut, truncated=True) for _ in range(3)]
    assert actions(verdicts) == [(A, 1), (A, 2), (N, 3)]
    assert {verdict.certainty for verdict in verdicts} == {"truncated"}


def test_an_outcome_that_is_none_is_refused():
    with pytest.raises(ValueError, match="sucess"):
        call(DuplicateCallGuard(), outcome="sucess")


# Outputs that are not text


def test_objects_are_compared_by_content_and_come_back_untouched():
    guard = DuplicateCallGuard()
    outputs = [{"rows": [1, 2], "next": None}, {"next": None, "rows": [1, 2]}, {"rows": [1, 2], "next": None}]
    verdicts = [call(guard, output) for output in outputs]
    assert actions(verdicts) == [(A, 1), (A, 2), (N, 3)]
    for verdict, output in zip(verdicts, outputs, strict=True):
        assert verdict.output is output
    assert outputs[2] == {"rows": [1, 2], "next": None}
    assert verdicts[2].guidance is not None
    assert verdicts[2].guidance.startswith(GUIDANCE_MARKER)
    assert call(guard, {"rows": [1, 2.0], "next": None}).count == 1


# Thresholds


@pytest.mark.parametrize(
    ("nudge", "block", "expected"),
    [
        (None, None, [A, A, A, A]),
        (1, None, [N, N, N, N]),
        (None, 1, [B, AFTER, AFTER, AFTER]),
        (1, 2, [N, B, AFTER, AFTER]),
        (2, 4, [A, N, N, B]),
        (None, 3, [A, A, B, AFTER]),
    ],
)
def test_thresholds(nudge, block, expected):
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=nudge, block_threshold=block))
    assert [call(guard).action for _ in range(4)] == expected


def test_a_tool_may_have_its_own_thresholds_or_none():
    policy = GuardPolicy(
        tools={
            "poll": ToolPolicy(nudge_threshold=4, block_threshold=None),
            "free": ToolPolicy(exempt=True),
        }
    )
    guard = DuplicateCallGuard(policy)
    assert actions([call(guard, tool="free") for _ in range(9)]) == [(A, 0)] * 9
    polls = [call(guard, tool="poll") for _ in range(9)]
    assert actions(polls) == [(A, 1), (A, 2), (A, 3), *[(N, count) for count in range(4, 10)]]
    assert [call(guard).action for _ in range(5)] == [A, A, N, N, B]


# Several at once


class YieldingKey:
    """A key that lets other threads run whenever it is looked up, so in the middle of each count."""

    def __hash__(self) -> int:
        time.sleep(0)
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, YieldingKey)


def test_threads_count_each_call_once():
    threads, calls_each = 8, 50
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=None, block_threshold=threads * calls_each))
    said: list[tuple[Action, int]] = []
    start = threading.Barrier(threads)

    def work() -> None:
        start.wait()
        for _ in range(calls_each):
            said.append(guard.observe_hashed("read", YieldingKey(), 7, OK))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(count for _, count in said) == list(range(1, threads * calls_each + 1))
    assert Counter(action for action, _ in said) == {A: threads * calls_each - 1, B: 1}


def test_threads_block_a_run_once():
    guard = DuplicateCallGuard()
    start = threading.Barrier(16)
    seen: list[Action] = []

    def work() -> None:
        start.wait()
        seen.append(call(guard).action)

    workers = [threading.Thread(target=work) for _ in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert Counter(seen) == {A: 2, N: 2, B: 1, AFTER: 11}


def test_parallel_calls_of_a_turn_count_in_the_order_they_finish():
    guard = DuplicateCallGuard()
    finished: list[tuple[str, int]] = []

    async def tool(name: str, before: asyncio.Event | None, done: asyncio.Event) -> None:
        if before is not None:
            await before.wait()
        finished.append((name, call(guard).count))
        done.set()

    async def turn() -> None:
        first, second, third = asyncio.Event(), asyncio.Event(), asyncio.Event()
        await asyncio.gather(tool("c", second, third), tool("b", first, second), tool("a", None, first))

    asyncio.run(turn())
    assert finished == [("a", 1), ("b", 2), ("c", 3)]


# The replay entry


def test_recorded_keys_give_the_same_verdicts():
    live, replayed = DuplicateCallGuard(), DuplicateCallGuard()
    for output, outcome in [
        ("x", OK),
        ("x", GENERAL),
        ("x", OK),
        (None, OK),
        ("x", SCHEMA),
        ("x", None),
        *[("x", OK)] * 4,
    ]:
        verdict = call(live, output, outcome=outcome)
        key = fingerprint("read", {"path": "a"})
        assert replayed.observe_hashed("read", key, result_hash(output), outcome) == (
            verdict.action,
            verdict.count,
        )
    assert replayed.escalated


# Properties


argument_sets = st.sampled_from([{"q": 1}, {"q": 2}, '{"q": 1}', "text", None])
outputs = st.sampled_from(["a", "b", "", None, {"a": 1}, [1]])
outcomes = st.sampled_from([*Outcome, None])
calls = st.lists(
    st.tuples(st.sampled_from("fg"), argument_sets, outputs, outcomes, st.sampled_from([None, "x"])),
    max_size=30,
)
thresholds = st.sampled_from([(None, None), (1, 2), (2, 4), (3, 5), (None, 3), (2, None)])


def plain_model(rows: list, nudge: int | None, block: int | None) -> list[tuple[Action, int]]:
    """The rule once more, in the plainest words: whole values, no hashes."""
    state: dict[str, tuple[Any, int]] = {}
    blocked = False
    said = []
    for tool, arguments, output, outcome, agent in rows:
        spelled = json.loads(arguments) if arguments == '{"q": 1}' else arguments
        key = repr((tool, agent, spelled))
        last, count = state.get(key, (None, 0)) if arguments is not None else (None, 0)
        if blocked:
            said.append((AFTER, count))
        elif arguments is None or output is None or outcome not in (OK, SCHEMA):
            said.append((X, count))
        else:
            count = count + 1 if last == output else 1
            state[key] = (output, count)
            blocked = block is not None and count >= block
            said.append((B if blocked else N if nudge is not None and count >= nudge else A, count))
    return said


@given(calls, thresholds)
@settings(deadline=None, max_examples=300)
def test_the_guard_does_what_the_plain_rule_says(rows, pair):
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=pair[0], block_threshold=pair[1]))
    verdicts = []
    for tool, arguments, output, outcome, agent in rows:
        verdict = guard.observe(
            tool_name=tool, arguments=arguments, output=output, outcome=outcome, agent=agent
        )
        verdicts.append(verdict)
        if isinstance(output, str):
            assert isinstance(verdict.output, str)
            assert verdict.output.startswith(output)
            assert (verdict.output == output) == (verdict.guidance is None)
        else:
            assert verdict.output is output
        assert (verdict.guidance is not None) == (verdict.action in (N, B))
    assert actions(verdicts) == plain_model(rows, *pair)
    assert guard.escalated == any(verdict.action is B for verdict in verdicts)


@given(calls)
@settings(deadline=None, max_examples=200)
def test_other_calls_never_change_a_count(rows):
    policy = GuardPolicy(nudge_threshold=2, block_threshold=None)
    together = DuplicateCallGuard(policy)
    alone: dict[str, DuplicateCallGuard] = {}
    for tool, arguments, output, outcome, agent in rows:
        row = {
            "tool_name": tool,
            "arguments": arguments,
            "output": output,
            "outcome": outcome,
            "agent": agent,
        }
        key = repr((tool, fingerprint(tool, arguments), agent))
        separate = alone.setdefault(key, DuplicateCallGuard(policy))
        assert together.observe(**row) == separate.observe(**row)


@given(st.text(), st.text(max_size=20), st.integers(1, 6))
@settings(deadline=None)
def test_the_output_is_always_a_prefix(output, tool, repeats):
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=1, block_threshold=4))
    for _ in range(repeats):
        verdict = call(guard, output, tool=tool)
        assert verdict.output.startswith(output)


# A user's own words


def test_guidance_in_a_users_own_words():
    guard = DuplicateCallGuard(guidance=Guidance(nudge="{tool_name}: {count}!", block="stop at {count}"))
    outputs = [call(guard, tool="f{count}").output for _ in range(5)]
    assert outputs[2] == f"same\n\n{GUIDANCE_MARKER}\nf{{count}}: 3!"
    assert outputs[4] == f"same\n\n{ABORT_MARKER}\nstop at 5"


# The shared cases


HINTS = {"transient_error": GENERAL, "tool_error": GENERAL}


def test_the_shared_cases_of_calls():
    cases = [json.loads(path.read_text()) for path in sorted(corpus("cases").glob("*.json"))]
    cases = [case for case in cases if case["kind"] in ("loop", "guard")]
    assert len(cases) >= 5
    for case in cases:
        expected = case["expected"]["guard"]
        guard = DuplicateCallGuard(GuardPolicy(**case.get("params", {})))
        said = []
        for row in case["input"]["calls"]:
            outcome = classify_outcome(OutcomeFacts(failed=row["is_error"], result=row["result"])).outcome
            assert outcome == HINTS.get(row["outcome_hint"], row["outcome_hint"]), case["id"]
            more = {"tool": row["tool"], "arguments": row["arguments"], "agent": row.get("agent")}
            said.append(call(guard, row["result"], outcome=outcome, **more))
        nudged = [index for index, verdict in enumerate(said) if verdict.action is N]
        assert nudged == expected["nudged_at"], case["id"]
        assert sum(verdict.action is AFTER for verdict in said) == expected["calls_after_block"], case["id"]
        for row in expected["per_call"]:
            assert said[row["i"]].action == row["action"], case["id"]
            assert row.get("count", said[row["i"]].count) == said[row["i"]].count, case["id"]


def test_the_shared_case_of_an_error_recorded_as_ok():
    case = json.loads(corpus("cases", "065-mcp-error-recorded-as-ok.json").read_text())
    attributes = {
        item["key"]: item["value"]["stringValue"] for item in case["input"]["spans"][1]["attributes"]
    }
    result = attributes["gen_ai.tool.call.result"]
    outcome = classify_outcome(OutcomeFacts(failed=False, result=result)).outcome
    assert outcome is GENERAL
    assert call(DuplicateCallGuard(), result, outcome=outcome).action is X
