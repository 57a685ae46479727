"""The case table of the two guards that this package re-creates, row by row.

Rows 1–26 are about the reasoned override, 27–54 about the duplicate-call guard. Where an original
was wrong, the row holds the better behaviour (docs/guard.md, "Differences from the originals").
Rows that speak of the originals' hosts get the nearest behaviour of ours; their functions say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from loopscope.guard import (
    ABORT_MARKER,
    GUIDANCE_MARKER,
    Action,
    Classification,
    DuplicateCallGuard,
    ErrorKind,
    GuardPolicy,
    Outcome,
    OutcomeFacts,
    OverrideAction,
    PolicyError,
    ReasonedOverrideGuard,
    Verdict,
    classify_outcome,
)

REASON = "_duplicate_reasoning"
RUN, NO_REASON, USED = None, "no_reason", "used_reason"
A, N, B, X, AFTER = Action.ALLOW, Action.NUDGE, Action.BLOCK, Action.NOT_COUNTED, Action.AFTER_BLOCK
OK, SCHEMA, GENERAL = Outcome.SUCCESS, Outcome.SCHEMA_ERROR, Outcome.GENERAL_TOOL_ERROR

ROWS: dict[int, Callable[[], None]] = {}


def row(number: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def keep(check: Callable[[], None]) -> Callable[[], None]:
        ROWS[number] = check
        return check

    return keep


# Rows 1-26: the reasoned override


def refusals(*calls: Any, tools: str = "") -> list[str | None]:
    """Of calls in one run: None where it ran, else why it was refused. `tools` gives one letter each."""
    guard = ReasonedOverrideGuard()
    return [
        guard.before(tool, call).refusal for call, tool in zip(calls, tools or "t" * len(calls), strict=True)
    ]


OVERRIDE = {
    1: (['{"q":"cats"}'], [RUN]),
    3: (['{"a":1,"b":2}', '{"b":2,"a":1}'], [RUN, NO_REASON]),
    4: (['{"q":"x"}', '{ "q" : "x" }'], [RUN, NO_REASON]),
    5: (['{"q":"x"}', '{"q":"X"}'], [RUN, RUN]),
    9: ([{}, {REASON: "   "}], [RUN, NO_REASON]),
    10: ([{}, {"_nonce": 9}], [RUN, NO_REASON]),
    11: ([{REASON: "r"}, {REASON: "r"}], [RUN, USED]),
    14: (["<q>x</q>", "<q> x </q>"], [RUN, NO_REASON]),
    15: (['{"q":"1"}', "<q>1</q>"], [RUN, NO_REASON]),
    16: (['{"q":1}', "<q>1</q>"], [RUN, RUN]),
    17: (["alpha", "beta", "alpha"], [RUN, RUN, NO_REASON]),  # plain text is itself the key
    18: (["", "   "], [RUN, NO_REASON]),
    19: (['{"q":null}', "{}"], [RUN, RUN]),
    20: (['{"n":1}', '{"n":true}'], [RUN, RUN]),  # types are told apart
    21: ([{}, {REASON: 7}, {REASON: ["r"]}], [RUN, NO_REASON, NO_REASON]),  # and nothing is raised
}
for _number, (_calls, _expected) in OVERRIDE.items():

    @row(_number)
    def _check(calls: list[Any] = _calls, expected: list[str | None] = _expected) -> None:
        assert refusals(*calls) == expected


@row(2)
def repeat_is_refused_raises_stress_and_is_not_recorded() -> None:
    guard = ReasonedOverrideGuard()
    guard.before("find", '{"q":"cats"}')
    decision = guard.before("find", '{"q":"cats"}')
    assert (decision.action, decision.refusal, decision.stress) == (OverrideAction.REFUSE, NO_REASON, 0.1)
    assert decision.message is not None
    assert REASON in decision.message
    guard.before("find", {"q": "cats", REASON: "   "})
    # Had the refused ones been recorded with a reason, this one would be used.
    assert guard.before("find", {"q": "cats", REASON: "stale"}).refusal is RUN


@row(6)
def calls_in_between_do_not_matter() -> None:
    assert refusals("1", "2", "1", tools="aba") == [RUN, RUN, NO_REASON]


@row(7)
def new_reason_runs_and_is_recorded() -> None:
    because = {"q": 1, REASON: "because stale"}
    assert refusals({"q": 1}, because, because) == [RUN, RUN, USED]


@row(8)
def used_reason_is_refused_and_raises_stress() -> None:
    guard = ReasonedOverrideGuard()
    for arguments in ({}, {REASON: "because stale"}):
        assert guard.before("t", arguments).stress == 0.0
    decision = guard.before("t", {REASON: "because stale"})
    assert (decision.refusal, decision.stress) == (USED, 0.1)
    assert decision.message is not None
    assert "because stale" in decision.message


@row(12)
def reasons_are_unique_over_all_tools() -> None:
    assert refusals({REASON: "r"}, {}, {REASON: "r"}, tools="abb") == [RUN, RUN, USED]


@row(13)
def blanks_do_not_make_a_reason_new() -> None:
    assert refusals({REASON: "r"}, {REASON: "r "}) == [RUN, USED]


@row(22)
def stress_ends_at_one_and_a_half() -> None:
    guard = ReasonedOverrideGuard()
    levels = [guard.before("t", {}).stress for _ in range(21)]
    assert levels[15:] == [1.5] * 6


@row(23)
def metadata_does_not_reach_the_tool() -> None:
    guard = ReasonedOverrideGuard()
    guard.before("t", '{"q":"x"}')
    assert guard.before("t", f'{{"q":"x","{REASON}":"stale","_nonce":3}}').arguments == '{"q":"x"}'


@row(24)
def any_kind_of_run_can_have_the_guard() -> None:
    """The original's learning runs had no guard and failed; here the guard is an object of its own."""
    kinds_of_run = {"act": ReasonedOverrideGuard(), "learn": ReasonedOverrideGuard()}
    for guard in kinds_of_run.values():
        assert [guard.before("t", {}).refusal for _ in range(2)] == [RUN, NO_REASON]


@row(25)
def new_run_starts_empty() -> None:
    old = ReasonedOverrideGuard()
    old.before("t", {REASON: "r"})
    old.before("t", {})
    new = ReasonedOverrideGuard()
    assert (new.before("t", {REASON: "r"}).refusal, new.stress) == (RUN, 0.0)


@row(26)
def failed_call_is_a_call() -> None:
    guard = ReasonedOverrideGuard()
    guard.before("t", {})
    guard.after(GENERAL)
    assert guard.before("t", {}).refusal == NO_REASON


# Rows 27-54: the duplicate-call guard


def said(*outputs: Any, policy: GuardPolicy | None = None, **more: Any) -> list[Verdict]:
    """Verdicts on outputs of one call in one run. An output may be (output, outcome)."""
    guard = more.pop("guard", None) or DuplicateCallGuard(policy)
    pairs = [output if isinstance(output, tuple) else (output, OK) for output in outputs]
    return [
        guard.observe(
            tool_name=more.get("tool", "t"),
            arguments=more.get("arguments", {"a": 1}),
            output=output,
            outcome=outcome,
        )
        for output, outcome in pairs
    ]


def actions(*outputs: Any, **more: Any) -> list[Action]:
    return [verdict.action for verdict in said(*outputs, **more)]


def counts(*arguments: Any, output: Any = "same") -> list[int]:
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=None, block_threshold=None))
    return [said(output, guard=guard, arguments=one)[0].count for one in arguments]


NUDGE_2 = GuardPolicy(nudge_threshold=2)


@row(27)
def twice_is_no_loop() -> None:
    guard = DuplicateCallGuard()
    assert [verdict.output for verdict in said("x", "x", guard=guard)] == ["x", "x"]
    assert not guard.escalated


def ladder() -> tuple[DuplicateCallGuard, list[Verdict]]:
    guard = DuplicateCallGuard()
    return guard, said(*["x"] * 5, guard=guard)


@row(28)
def third_is_nudged() -> None:
    guard = DuplicateCallGuard()
    output = said(*["x"] * 3, guard=guard)[2].output
    assert isinstance(output, str)
    assert output.startswith(f"x\n\n{GUIDANCE_MARKER}\n")
    assert not guard.escalated


@row(29)
def fourth_is_nudged_with_its_count() -> None:
    verdict = said(*["x"] * 4)[3]
    assert (verdict.action, verdict.count) == (N, 4)
    assert verdict.guidance is not None
    assert "4 times" in verdict.guidance


@row(30)
def fifth_is_blocked() -> None:
    guard, verdicts = ladder()
    output = verdicts[4].output
    assert isinstance(output, str)
    assert output.startswith(f"x\n\n{ABORT_MARKER}\n")
    assert GUIDANCE_MARKER not in output
    assert guard.escalated


@row(31)
def sixth_is_plain() -> None:
    guard, _ = ladder()
    assert said("x", guard=guard)[0].output == "x"
    assert guard.escalated


@row(32)
def another_loop_after_the_abort_is_let_be() -> None:
    guard, _ = ladder()
    later = said(*["y"] * 3, guard=guard, tool="other", arguments={"b": 2})
    assert [(verdict.action, verdict.output) for verdict in later] == [(AFTER, "y")] * 3


@row(33)
def key_order_does_not_matter() -> None:
    assert counts('{"a":1,"b":2}', '{"b":2,"a":1}') == [1, 2]


@row(34)
def reasoning_for_the_guard_does_not_matter_at_any_depth() -> None:
    assert counts({"a": {"b": 1}}, {"a": {"b": 1, "_aura_reasoning": "x"}, "_aura_reasoning": "y"}) == [1, 2]


@row(35)
def order_in_arrays_matters() -> None:
    assert counts({"a": [1, 2]}, {"a": [2, 1]}) == [1, 1]


@row(36)
def types_absence_and_blanks_matter() -> None:
    assert counts('{"n":1}', '{"n":1.0}', '{"n":null}', "{}", '{"n":"a"}', '{"n":"a "}') == [1] * 6


@row(37)
def clock_is_noted_when_it_stands_still() -> None:
    assert actions("12:00", "12:01", "12:01", policy=NUDGE_2) == [A, A, N]


@row(38)
def two_calls_in_turn_are_both_seen() -> None:
    guard = DuplicateCallGuard()
    seen = [said("x", guard=guard, arguments={"q": "ab"[index % 2]})[0].action for index in range(6)]
    assert seen == [A, A, A, A, N, N]
    assert not guard.escalated


@row(39)
def tools_are_counted_apart() -> None:
    guard = DuplicateCallGuard(NUDGE_2)
    assert actions("x", "x", guard=guard, tool="a") == [A, N]
    assert actions("x", guard=guard, tool="b") == [A]


@row(40)
def general_errors_do_not_count() -> None:
    guard = DuplicateCallGuard(NUDGE_2)
    assert actions("x", *[("x", GENERAL)] * 5, guard=guard) == [A, *[X] * 5]
    assert not guard.escalated


@row(41)
def general_error_in_between_does_not_reset() -> None:
    assert actions("x", ("boom", GENERAL), "x", policy=NUDGE_2) == [A, X, N]


@row(42)
def schema_errors_count() -> None:
    assert actions(("bad q", SCHEMA), ("bad q", SCHEMA), policy=NUDGE_2) == [A, N]


@row(43)
def outputs_in_turn_are_never_noted() -> None:
    assert set(actions(*"xy" * 30)) == {A}


@row(44)
def empty_output_is_an_output() -> None:
    assert actions("", "", "") == [A, A, N]


@row(45)
def zero_is_refused_and_none_is_off() -> None:
    with pytest.raises(PolicyError, match=r"nudge_threshold must be at least 1, not 0; None .* turns it off"):
        GuardPolicy(nudge_threshold=0)
    assert actions(*["x"] * 4, policy=GuardPolicy(nudge_threshold=None)) == [A] * 4


@row(46)
def nudge_that_could_never_be_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"nudge_threshold \(3\) must be below block_threshold \(2\)"):
        GuardPolicy(nudge_threshold=3, block_threshold=2)


@row(47)
def parallel_calls_count_as_they_finish() -> None:
    guard = DuplicateCallGuard()
    finished: list[tuple[int, Action]] = []

    async def tool(number: int, turns_to_wait: int) -> None:
        for _ in range(turns_to_wait):
            await asyncio.sleep(0)
        finished.append((number, *actions("x", guard=guard)))

    async def turn() -> None:
        await asyncio.gather(tool(1, 4), tool(2, 0), tool(3, 2))

    asyncio.run(turn())
    assert finished == [(2, A), (3, A), (1, N)]


@row(48)
def new_attempt_starts_fresh() -> None:
    ladder()
    guard = DuplicateCallGuard()
    assert (actions("x", guard=guard), guard.escalated) == ([A], False)


@row(49)
def guard_is_found_through_layers_of_wrappers() -> None:
    """The original looks for its data in a list that wrappers around a tool call hand on.

    Nothing is handed on here: the guard is one object, and whatever layer calls it, it is the same run.
    """
    guard = DuplicateCallGuard()

    def tool() -> str:
        return str(said("x", guard=guard)[0].output)

    def logged(inner: Callable[[], str]) -> Callable[[], str]:
        def wrapper() -> str:
            return inner()

        return wrapper

    assert GUIDANCE_MARKER in [tool(), logged(tool)(), logged(logged(tool))()][2]


@row(50)
def answer_after_the_abort_is_kept() -> None:
    """The original fails the task before it reads the answer submitted after the abort text.

    Here the answer passes through whole, and what becomes of the task is the host's to say.
    """
    guard, _ = ladder()
    answer = {"answer": "42", "open": []}
    verdict = said(answer, guard=guard, tool="submit_result", arguments={"answer": "42"})[0]
    assert (verdict.action, verdict.output) == (AFTER, answer)
    assert guard.escalation is not None
    assert (guard.escalated, guard.escalation.tool_name) == (True, "t")


@row(51)
def prefix_of_a_failed_result_is_a_general_error() -> None:
    failed = classify_outcome(OutcomeFacts(failed=True, result="Tool returned an error: 503"))
    assert failed.outcome is GENERAL
    assert classify_outcome(OutcomeFacts(failed=False, result="normal")).outcome is OK
    refused = classify_outcome(
        OutcomeFacts(failed=True, result="Tool returned an error: MCP error -32602: q")
    )
    assert refused.outcome is SCHEMA
    # A word never makes a success an error: the caller has to know that it failed.
    quoted = OutcomeFacts(failed=False, result="Tool returned an error: 503")
    assert classify_outcome(quoted).outcome is OK


@row(52)
def codes_of_json_rpc() -> None:
    for code in (-32602, -32600, -32700):
        assert classify_outcome(OutcomeFacts(failed=True, jsonrpc_code=code)) == Classification(
            SCHEMA, ErrorKind.VALIDATION
        )
    for facts in (
        OutcomeFacts(failed=True, jsonrpc_code=-32603),
        OutcomeFacts(failed=False, result='{"content": [], "isError": true}'),
    ):
        assert classify_outcome(facts).outcome is GENERAL


@row(53)
def long_outputs_are_never_cut() -> None:
    """The original cuts errors to 8 KiB. Here no output is cut; what is added is bounded."""
    output = "é" * 18_000 + "tail"
    for outcome in (SCHEMA, OK):
        nudged = said(*[(output, outcome)] * 3)[2].output
        assert isinstance(nudged, str)
        assert nudged.startswith(output)
        assert len(nudged) - len(output) < 4_000


@row(54)
def footer_that_changes_can_be_left_out() -> None:
    outputs = [f"rows\n[artifact: call-{index}.txt]" for index in range(3)]
    assert actions(*outputs) == [A, A, A]
    policy = GuardPolicy(ignored_result_patterns=[r"\[artifact: .*\]$"])
    assert actions(*outputs, policy=policy) == [A, A, N]


def test_every_row_is_here():
    assert sorted(ROWS) == list(range(1, 55))


@pytest.mark.parametrize("number", range(1, 55), ids=[f"row{number:02}" for number in range(1, 55)])
def test_row(number):
    ROWS[number]()
