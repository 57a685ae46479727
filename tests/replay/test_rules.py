"""Rules one by one: thresholds, what is equal to what, what sets a count back."""

from __future__ import annotations

from typing import Any

import pytest

from loopscope.guard import (
    GuardPolicy,
    LoopscopeError,
    NotFoundError,
    Outcome,
    ReasonedOverrideGuard,
    ToolPolicy,
)
from loopscope.replay.rules import RULES, CallRecord, RuleVerdicts, rule_info, run_rule

ERROR = Outcome.GENERAL_TOOL_ERROR


def a(**more: Any) -> CallRecord:
    return CallRecord(**{"tool": "a", "arguments": {"x": 1, "y": 2}, "result": "same", **more})


def b(**more: Any) -> CallRecord:
    return a(tool="b", **more)


def failed(error: str = "boom", **more: Any) -> CallRecord:
    return a(result=error, outcome=ERROR, **more)


def stop(rule: str, calls: list[CallRecord], **options: Any) -> int | None:
    return run_rule(rule, calls, **options).stop_at


def notice(rule: str, calls: list[CallRecord], **options: Any) -> int | None:
    return run_rule(rule, calls, **options).notice_at


REORDERED = [a(arguments='{"x": 1, "y": 2}'), a(arguments='{"y": 2, "x": 1}')]
NESTED = [a(arguments='{"x": {"p": 1, "q": 2}}'), a(arguments='{"x": {"q": 2, "p": 1}}')]


@pytest.mark.parametrize(
    ("rule", "first", "outermost", "nested"),
    [
        ("ours", 5, True, True),
        ("cline", 5, True, True),
        ("qwen-code", 5, True, True),
        ("openhands", 4, True, True),
        ("crewai", 2, True, True),
        ("roo-code", 4, True, False),
        ("gemini-cli", 5, False, False),
        ("crush", 10, False, False),
    ],
)
def test_whether_the_order_of_keys_matters(rule: str, first: int, outermost: bool, nested: bool) -> None:
    assert (stop(rule, REORDERED * 5) == first) is outermost
    assert (stop(rule, NESTED * 5) == first) is nested
    assert stop(rule, [REORDERED[0]] * 10) == first


@pytest.mark.parametrize(
    "rule",
    [name for name in RULES if name not in ("goose-rep-001", "goose-rep-002", "hermes-0.19", "opencode")],
)
def test_calls_without_arguments_equal_nothing(rule: str) -> None:
    found = run_rule(rule, [a(arguments=None)] * 7)
    assert found == RuleVerdicts()


def test_metadata_counts_for_others_and_not_for_ours() -> None:
    calls = [a(arguments={"x": 1, "_nonce": number}) for number in range(6)]
    assert stop("ours", calls) == 5
    assert stop("cline", calls) is None


def test_another_call_in_between_breaks_a_row() -> None:
    calls = [a(), a(), a(), b(), a(), a(), a()]
    assert stop("roo-code", calls) is None
    assert stop("cline", calls) is None
    assert notice("cline", calls) == 3
    assert stop("crewai", [a(), b(), a(), a()]) == 4
    assert stop("ours", [a(), b()] * 5) == 9


def test_roo_code_starts_anew_after_asking_and_lets_scrolling_be() -> None:
    assert run_rule("roo-code", [a()] * 12).refused == (4, 8, 12)
    assert stop("roo-code", [a()] * 12, limit=1) == 2
    assert stop("roo-code", [a()] * 12, limit=None) is None
    scroll = CallRecord("browser_action", {"action": "scroll_down"}, "ok")
    assert stop("roo-code", [scroll] * 20) is None
    assert stop("roo-code", [a(), scroll] * 4) == 7  # scrolling is not seen at all
    assert stop("roo-code", [CallRecord("browser_action", {"action": "click"}, "ok")] * 4) == 4


def test_cline_notes_once_and_halts_before_the_call() -> None:
    assert run_rule("cline", [a()] * 9) == RuleVerdicts(3, 5, False)
    assert run_rule("cline", [a()] * 9, soft=2, hard=3) == RuleVerdicts(2, 3, False)


def test_crewai_refuses_what_returned_just_before() -> None:
    assert run_rule("crewai", [a()] * 4).refused == (2, 3, 4)
    assert stop("crewai", [failed()] * 4) is None
    assert stop("crewai", [failed()] * 4, failed_calls_count=True) == 2
    assert stop("crewai", [a(), failed(tool="b"), a()]) == 3  # what raised is not remembered
    assert stop("crewai", [a(), a(arguments={"x": 2}), a()]) is None


def test_opencode_asks_within_one_message_only() -> None:
    def turns(*numbers: int | None) -> list[CallRecord]:
        return [a(turn=number) for number in numbers]

    assert stop("opencode", turns(1, 1, 1)) == 3
    assert stop("opencode", turns(1, 1, 2, 2)) is None
    assert stop("opencode", turns(1, 2, 3, 4)) is None
    assert stop("opencode", turns(None, None, None)) is None  # nobody knows
    assert stop("opencode", turns(None, None, None), one_message=True) == 3
    assert stop("opencode", [a(turn=1), b(turn=1), a(turn=1), a(turn=1)]) is None


def test_gemini_tells_first_and_halts_then() -> None:
    assert run_rule("gemini-cli", [a()] * 9) == RuleVerdicts(None, 5, False, (5, 6))
    abcde = [a(arguments={"x": number}) for number in range(5)]
    assert stop("gemini-cli", abcde * 5) == 25
    abcdef = [a(arguments={"x": number}) for number in range(6)]
    assert stop("gemini-cli", abcdef * 9) is None
    assert stop("gemini-cli", [*[a()] * 4, b(), *[a()] * 4]) is None
    assert stop("gemini-cli", [a(), b()] * 4, repeats=3) == 6


def test_qwen_knows_looks_at_the_repository() -> None:
    def shell(command: str) -> CallRecord:
        return CallRecord("run_shell_command", {"command": command}, "…")

    looks = [
        "git status",
        "git diff HEAD~1",
        "git -C /x --no-pager diff",
        "git ls-files | git status",
        "git diff a..b",
    ]
    looks = [shell(looks[number % 5]) for number in range(8)]
    assert stop("qwen-code", looks) == 8
    assert stop("qwen-code", [*looks[:7], shell("make"), *looks[:7]]) is None
    for work in (
        "git diff -- src/a.py",
        "git status && make",
        "git commit -m x",
        "git diff src/a.py",
        "cat x",
    ):
        assert stop("qwen-code", [*looks[:4], shell(work)] * 4) is None
    assert (
        stop("qwen-code", [CallRecord("run_shell_command", {"command": number}, "") for number in range(9)])
        is None
    )


def test_qwen_caps_a_turn() -> None:
    new = [a(arguments={"x": number}) for number in range(1_100)]
    assert stop("qwen-code", new) == 1_001
    assert stop("qwen-code", new, cap=20, cap_is_hard=True) == 21
    stuck = [one for number in range(60) for one in (a(arguments={"x": number}), b())]
    assert stop("qwen-code", stuck) == 101


def test_qwen_opt_in_counts_reads_only_after_other_work() -> None:
    reads = [CallRecord(f"read_{'xyz'[n % 3]}", {"n": n}, n) for n in range(20)]
    assert stop("qwen-code-opt-in", reads) is None
    assert stop("qwen-code-opt-in", [*reads, a()]) == 21
    assert stop("qwen-code-opt-in", [a(), *reads]) == 9
    assert stop("qwen-code", [a(), *reads]) is None
    assert stop("qwen-code-opt-in", [a(), b()] * 3) == 6
    assert stop("qwen-code-opt-in", [a(), a(), b(), a(), b(), a()]) is None


def test_goose_counts_equal_calls_only_where_a_limit_is_set() -> None:
    assert stop("goose-rep-001", [a()] * 50) is None
    assert run_rule("goose-rep-001", [a()] * 5, max_repetitions=3).refused == (4, 5)
    assert stop("goose-rep-001", [a(), a(), b(), a(), a()], max_repetitions=2) is None


def test_goose_denies_once_after_three_equal_errors() -> None:
    tries = [failed(arguments={"x": number}) for number in range(12)]
    assert run_rule("goose-rep-002", tries).refused == (4, 8, 12)
    assert (
        stop("goose-rep-002", [*tries[:3], b(), *tries[:2]]) is None
    )  # the count is gone with the next call
    assert stop("goose-rep-002", [failed(), failed(), a(), failed(), failed()]) is None
    assert stop("goose-rep-002", [failed(), failed(), failed("other"), failed()]) is None
    assert stop("goose-rep-002", [failed("e" * 100 + str(number)) for number in range(4)]) == 4
    assert stop("goose-rep-002", [a(result=None, outcome=ERROR)] * 8) is None
    together = [failed(turn=1)] * 5 + [failed(turn=2)] * 2 + [failed(turn=3)]
    assert run_rule("goose-rep-002", together).refused == (6, 7)


def test_openhands_looks_between_steps() -> None:
    assert run_rule("openhands", [a()] * 4) == RuleVerdicts(None, 4, True)
    assert stop("openhands", [a()] * 3) is None
    assert stop("openhands", [a(turn=1)] * 3 + [a(turn=2)] * 3) == 6
    assert notice("openhands", [failed("one"), failed("two"), failed("three")]) == 3
    assert stop("openhands", [failed(str(number)) for number in range(4)]) == 4
    assert stop("openhands", [failed("1"), failed("2"), a(), failed("3"), failed("4")]) is None
    assert stop("openhands", [a(), b()] * 3) == 6
    assert stop("openhands", [a(), b(), a(), b(), a(), b(result="new")]) is None
    assert (
        stop("openhands", [a()] * 40, action_observation=11, alternating_pattern=11) is None
    )  # not in its window


def test_hermes_refuses_the_sixth_failure_and_halts_at_eight_of_a_tool() -> None:
    assert run_rule("hermes-0.19", [failed()] * 7) == RuleVerdicts(2, 6, False)
    assert run_rule("hermes-0.19", [failed(arguments={"x": n}) for n in range(9)]) == RuleVerdicts(3, 8, True)
    assert stop("hermes-0.19", [failed()] * 30, hard_stop=False) is None
    assert stop("hermes-0.19", [*[failed()] * 4, a(), *[failed()] * 4]) is None  # a success clears
    read = CallRecord("read_file", {"path": "x"}, "text")
    assert run_rule("hermes-0.19", [read] * 7) == RuleVerdicts(2, 6, False)
    assert run_rule("hermes-0.19", [a()] * 30) == RuleVerdicts()
    assert stop("hermes-0.19", [a()] * 30, also_read_only=("a",)) == 6
    changing = [CallRecord("read_file", {"path": "x"}, str(number // 2)) for number in range(30)]
    assert run_rule("hermes-0.19", changing).stop_at is None
    mixed = [one for n in range(20) for one in (changing[n], failed(tool="read_file", arguments={"n": n}))]
    assert run_rule("hermes-0.19", mixed).stop_at is None  # the tool never fails twice in a row


def test_hermes_cycles_leave_pollers_and_single_calls_be() -> None:
    assert run_rule("hermes-cycles", [a(), b()] * 6) == RuleVerdicts(6, 10, True)
    assert run_rule("hermes-cycles", [a(), b()] * 6, hard_stop=False) == RuleVerdicts(6, None, False)
    assert run_rule("hermes-cycles", [a()] * 20) == RuleVerdicts()
    assert run_rule("hermes-cycles", [a()] * 20, streaks=True) == RuleVerdicts(3, 5, True)
    polls = [CallRecord("job_poll", {"id": n % 2}, "busy") for n in range(30)]
    assert run_rule("hermes-cycles", polls) == RuleVerdicts()
    assert notice("hermes-cycles", [a(), b(), a(), b(), a(), b(result="new"), a(), b()]) is None
    assert notice("hermes-cycles", [a(), b(), a(), b(result=None), a(), b(), a(), b()]) is None
    five = [a(arguments={"x": number}) for number in range(5)]
    assert run_rule("hermes-cycles", five * 8) == RuleVerdicts()


def test_crush_needs_ten_steps_and_equal_results() -> None:
    assert stop("crush", [a()] * 9) is None
    assert stop("crush", [a()] * 10) == 10
    assert stop("crush", [a(result=str(number)) for number in range(30)]) is None
    assert stop("crush", [a(), b()] * 20) is None  # five of ten is not more than five
    assert stop("crush", [a(turn=n // 2) if n % 2 else b(turn=n // 2) for n in range(40)]) == 20
    assert stop("crush", [a()] * 40, max_repeats=10) is None


def test_openclaw_refuses_and_stays_so() -> None:
    found = run_rule("openclaw", [a()] * 40)
    assert (found.notice_at, found.stop_at) == (11, 21)
    assert found.refused == tuple(range(21, 32))  # then too few of the last thirty have a result
    spread = [one for number in range(40) for one in (a(), a(arguments={"n": number}))]
    assert stop("openclaw", spread) is None
    gone = failed("Unknown tool: foo", arguments={"x": 1})
    assert stop("openclaw", [failed("tool 'foo' not found", arguments={"n": n}) for n in range(15)]) == 11
    assert stop("openclaw", [gone] * 9 + [b()] + [gone] * 9) is None
    poll = CallRecord("process", {"action": "poll", "id": 1}, "running")
    assert run_rule("openclaw", [poll] * 25).notice_at == 11
    moving = [CallRecord("process", {"action": "poll", "id": 1}, str(number)) for number in range(25)]
    assert run_rule("openclaw", moving) == RuleVerdicts()
    assert stop("openclaw", [a(), b()] * 5, warning=4, critical=6) == 6


def test_openclaw_sees_through_plans_and_message_ids() -> None:
    plans = [
        CallRecord("update_plan", {"plan": [{"step": f"wording {n}", "status": "open"}]}, "ok")
        for n in range(25)
    ]
    assert notice("openclaw", plans) == 11
    done = [CallRecord("update_plan", {"plan": [{"step": "x", "status": str(n)}]}, "ok") for n in range(25)]
    assert notice("openclaw", done) is None
    sent = [
        CallRecord("message", {"action": "send", "to": "x"}, {"messageId": n, "ok": True}) for n in range(25)
    ]
    assert stop("openclaw", sent) == 21
    read = [
        CallRecord("message", {"action": "read", "to": "x"}, {"messageId": n, "ok": True}) for n in range(25)
    ]
    assert stop("openclaw", read) is None


def test_openlit_marks_equal_texts_anywhere() -> None:
    calls = [a(arguments='{"x":  1}'), b(), a(arguments='{"x": 1}'), b(), a(arguments='{"x":\n1} ')]
    assert run_rule("openlit", calls) == RuleVerdicts(5)
    assert run_rule("openlit", [a(arguments=" ")] * 9) == RuleVerdicts()
    assert notice("openlit", [a(arguments="{}")] * 9) == 3


def test_ours_follows_the_policy() -> None:
    assert run_rule("ours", [a()] * 9) == RuleVerdicts(3, 5, True)
    assert run_rule("ours", [a()] * 9, policy=GuardPolicy(None, 2)) == RuleVerdicts(None, 2, True)
    exempt = GuardPolicy(tools={"a": ToolPolicy(exempt=True)})
    assert run_rule("ours", [a()] * 9, policy=exempt) == RuleVerdicts()
    clock = GuardPolicy(ignored_result_keys={"at"})
    assert stop("ours", [a(result={"at": number, "v": 1}) for number in range(9)], policy=clock) == 5
    errors = GuardPolicy(error_block_threshold=4)
    assert stop("ours", [failed()] * 9, policy=errors) == 4


def test_the_override_asks_for_new_reasons() -> None:
    def because(reason: object) -> CallRecord:
        return a(arguments={"x": 1, "y": 2, "_duplicate_reasoning": reason})

    calls = [a(), a(), because("It moved."), because(" it  MOVED. "), because(7), because("again"), b(), b()]
    assert run_rule("reasoned-override", calls).refused == (2, 4, 5, 8)
    exempt = GuardPolicy(tools={"a": ToolPolicy(exempt=True), "w": ToolPolicy(resets=True)})
    assert run_rule("reasoned-override", [a()] * 4, policy=exempt).refused == ()
    write = CallRecord("w", {}, "ok")
    assert run_rule("reasoned-override", [b(), write, b(), write, b()], policy=exempt).refused == (4, 5)


def test_rules_are_told_apart_and_described() -> None:
    for name, info in RULES.items():
        assert info.name == name
        assert info.does in ("halts", "refuses", "marks")
        assert set(info.needs) <= {"arguments", "result", "outcome", "turn"}
        assert info.says.rstrip(")").endswith(".")
        assert info.source
    with pytest.raises(NotFoundError, match="did you mean cline"):
        rule_info("clin")


@pytest.mark.parametrize(
    ("rule", "options", "said"),
    [
        ("cline", {"sofft": 2}, "no knob 'sofft'; it has soft, hard"),
        ("cline", {"soft": 0}, "cline.soft must be a whole number from 1, not 0"),
        ("cline", {"soft": True}, "cline.soft must be a whole number"),
        ("cline", {"soft": None}, "cline.soft must be a whole number"),
        ("openhands", {"window": "many"}, "openhands.window must be a whole number"),
        ("crewai", {"failed_calls_count": 1}, "must be true or false"),
        ("hermes-0.19", {"also_read_only": "a"}, "must be a list of tools"),
        ("ours", {"policy": 3}, "must be a policy"),
    ],
)
def test_a_wrong_knob_is_refused(rule: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(LoopscopeError, match=said):
        run_rule(rule, [a()], **options)


def test_reasons_compare_as_the_guard_compares_them() -> None:
    reasons = ["Because", "because ", "BECAUSE\u200b", "ﬁne", "fine", "", " ", "straße", "STRASSE", "other"]
    guard = ReasonedOverrideGuard()
    calls = [a()] + [a(arguments={"x": 1, "y": 2, "_duplicate_reasoning": reason}) for reason in reasons]
    refused = [n for n, one in enumerate(calls, 1) if guard.before(one.tool, one.arguments).refusal]
    assert run_rule("reasoned-override", calls).refused == tuple(refused)


def test_deep_and_odd_values_are_values() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(1_500):
        inner["a"] = {}
        inner = inner["a"]
    for value in (deep, "[" * 5_000, {1: "a", (2, 3): {4}}, b"\xff", float("nan"), "\ud800"):
        calls = [a(arguments=value, result=value)] * 6
        assert stop("gemini-cli", calls) == 5
        assert stop("ours", calls) == 5
        assert (
            run_rule("openclaw", [CallRecord("message", value, value), failed(arguments=value)] * 2)
            == RuleVerdicts()
        )
