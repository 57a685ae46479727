"""However calls are run, the order in which they finish decides; and what a guard keeps in memory."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from policy_values import busy_policies, call_rows

from loopscope.guard import DuplicateCallGuard, GuardPolicy, Outcome, Verdict


def in_a_loop(guard: DuplicateCallGuard, rows: list[dict[str, Any]]) -> list[Verdict]:
    return [guard.observe(**row) for row in rows]


def in_threads(guard: DuplicateCallGuard, rows: list[dict[str, Any]]) -> list[Verdict]:
    """Each call in a thread of its own, all started at once; each lets the next one finish."""
    verdicts: list[Verdict] = []
    turns = [threading.Event() for _ in range(len(rows) + 1)]

    def call(index: int) -> None:
        turns[index].wait(60)
        verdicts.append(guard.observe(**rows[index]))
        turns[index + 1].set()

    threads = [threading.Thread(target=call, args=(index,)) for index in reversed(range(len(rows)))]
    for thread in threads:
        thread.start()
    turns[0].set()
    for thread in threads:
        thread.join()
    return verdicts


def in_tasks(guard: DuplicateCallGuard, rows: list[dict[str, Any]]) -> list[Verdict]:
    """Each call in an asyncio task of its own, every other one through a worker thread."""
    verdicts: list[Verdict] = []

    async def main() -> None:
        turns = [asyncio.Event() for _ in range(len(rows) + 1)]

        async def call(index: int) -> None:
            await turns[index].wait()
            if index % 2:
                verdicts.append(await asyncio.to_thread(guard.observe, **rows[index]))
            else:
                verdicts.append(guard.observe(**rows[index]))
            turns[index + 1].set()

        turns[0].set()
        await asyncio.gather(*(call(index) for index in reversed(range(len(rows)))))

    asyncio.run(main())
    return verdicts


@given(busy_policies(), call_rows)
@settings(deadline=None, max_examples=40)
def test_any_sequence_gets_the_same_verdicts_from_threads_tasks_and_a_loop(policy, rows):
    expected = in_a_loop(DuplicateCallGuard(policy), rows)
    assert in_threads(DuplicateCallGuard(policy), rows) == expected
    assert in_tasks(DuplicateCallGuard(policy), rows) == expected


@pytest.mark.parametrize(
    ("policy", "outcomes", "limit"),
    [
        (GuardPolicy(), [Outcome.SUCCESS], 400),
        (GuardPolicy(error_nudge_threshold=3), [Outcome.SCHEMA_ERROR, Outcome.GENERAL_TOOL_ERROR], 800),
    ],
)
def test_memory_is_bounded_per_different_call_whatever_its_size(policy, outcomes, limit):
    guard = DuplicateCallGuard(policy)
    calls = 5_000

    def observe(index: int) -> None:
        for outcome in outcomes:
            arguments, output = {"path": f"{index}{'x' * 2_000}"}, f"{index}{'y' * 4_000}"
            guard.observe(tool_name="read", arguments=arguments, output=output, outcome=outcome)

    observe(-1)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for index in range(calls):
            observe(index)
        grown = tracemalloc.get_traced_memory()[0] - before
        for _ in range(3):
            for index in range(0, calls, 10):
                observe(index)
        repeated = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown / calls < limit
    assert repeated - grown < calls  # a call that was seen before takes no room
