"""A stub in the place of a lost result is no outcome: no guard counts it."""

from __future__ import annotations

import pytest

from loopscope.guard import (
    Action,
    DuplicateCallGuard,
    GuardPolicy,
    Outcome,
    RecordedCall,
    ToolPolicy,
    is_stub_result,
    sanitize_messages,
)

OURS = "[no result recorded] The call was interrupted."
HERMES = "[Result unavailable — see context summary above]"


def _observe(guard: DuplicateCallGuard, output: object, outcome: Outcome | None = Outcome.SUCCESS):
    return guard.observe(tool_name="f", arguments={"a": 1}, output=output, outcome=outcome)


@pytest.mark.parametrize("stub", [OURS, HERMES, f"\n {OURS}"])
@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.SCHEMA_ERROR, Outcome.GENERAL_TOOL_ERROR, None])
def test_a_stub_neither_counts_nor_resets(stub: str, outcome: Outcome | None) -> None:
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=2, block_threshold=None))
    assert _observe(guard, "x").action is Action.ALLOW
    for _ in range(5):
        verdict = _observe(guard, stub, outcome)
        assert (verdict.action, verdict.count, verdict.output) == (Action.NOT_COUNTED, 1, stub)
        assert verdict.certainty == "missing"
    assert _observe(guard, "x").action is Action.NUDGE


def test_what_only_mentions_the_marker_counts() -> None:
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=2, block_threshold=None))
    text = f"The log says {OURS}"
    assert not is_stub_result(text)
    assert [_observe(guard, text).action for _ in range(2)] == [Action.ALLOW, Action.NUDGE]


def test_a_stub_of_an_edit_does_not_reset_other_counts() -> None:
    policy = GuardPolicy(nudge_threshold=2, block_threshold=None, tools={"edit": ToolPolicy(resets=True)})
    guard = DuplicateCallGuard(policy)
    _observe(guard, "x")
    guard.observe(tool_name="edit", arguments={}, output=OURS, outcome=Outcome.SUCCESS)
    assert _observe(guard, "x").action is Action.NUDGE


@pytest.mark.parametrize("result_hash", [None, 7])
def test_recorded_calls_too(result_hash: int | None) -> None:
    guard = DuplicateCallGuard()
    call = RecordedCall("f", "{}", OURS, Outcome.SUCCESS, result_hash=result_hash)
    assert [guard.observe_recorded(call) for _ in range(5)] == [(Action.NOT_COUNTED, 0)] * 5


def test_after_a_block_a_stub_is_after_the_block() -> None:
    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=None, block_threshold=1))
    _observe(guard, "x")
    assert _observe(guard, OURS).action is Action.AFTER_BLOCK


def test_the_sanitizers_stubs_are_known() -> None:
    call = {"id": "k", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    stub = sanitize_messages(history).messages[-1]
    assert stub["role"] == "tool"
    assert is_stub_result(stub["content"])
