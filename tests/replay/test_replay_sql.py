"""Golden answers of the SQL, and figures of public recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from replay_rows import SECOND, START, call, database
from shared_corpus import corpus

from loopscope.collector import Store, ToolCall, import_paths
from loopscope.guard import GuardPolicy
from loopscope.replay import call_verdicts, find_incidents, replay, sweep, totals
from loopscope.replay._facts import facts_of

A, B, C = "allow", "nudge", "block"
NOT, AFTER = "not_counted", "after_block"


def counted(calls: list[ToolCall]) -> list[tuple[Any, ...]]:
    """(count, streak, judged) of every call under the default counting rule."""
    con = database(calls)
    facts = facts_of(con)
    table = facts.counted(con, GuardPolicy())
    found = facts.cursor().execute(f"SELECT count, streak, judged FROM {table} ORDER BY run, seq")
    return found.fetchall()


def test_counts_streaks_and_what_a_call_would_be_after_a_block() -> None:
    calls = [
        call(),  # first
        call("read"),  # another call does not reset
        call(),
        call(result="x"),  # another result: 1, and not known yet
        call(outcome="general_tool_error", result="503"),  # the count so far; unjudged
        call(result="x"),
        call(),  # the first result again: 1, but known
        call(args='{ "q":"refund" }', content_state="truncated"),  # counts; cannot be judged
        call(args=None),  # no arguments: no key, nothing to count
        call(result=None, outcome=None),  # the count so far
        call(agent="other"),  # another agent counts apart
    ]
    assert counted(calls) == [
        (1, 1, 1),
        (1, 2, 1),
        (2, 1, 0),
        (1, 4, 1),
        (1, 4, 2),
        (2, 4, 0),
        (1, 7, 0),
        (2, 7, 2),
        (0, None, 2),
        (2, 7, 2),
        (1, 11, 1),
    ]


@pytest.mark.parametrize(
    ("policy", "calls", "expected"),
    [
        ((3, 5), [call()] * 7, [(A, 1), (A, 2), (B, 3), (B, 4), (C, 5), (AFTER, 5), (AFTER, 5)]),
        # An answer that changes starts again: a clock is no loop.
        ((2, None), [call(result=f"12:0{n}") for n in (0, 1, 1)], [(A, 1), (A, 1), (B, 2)]),
        # Ping-pong does not evade.
        ((3, None), [call("a"), call("b")] * 3, [(A, 1), (A, 1), (A, 2), (A, 2), (B, 3), (B, 3)]),
        # A general error neither counts nor resets.
        (
            (2, None),
            [call(), call(outcome="general_tool_error", result="no hits"), call()],
            [(A, 1), (NOT, 1), (B, 2)],
        ),
        # A schema error counts.
        ((2, None), [call(outcome="schema_error", result="bad")] * 2, [(A, 1), (B, 2)]),
        # An empty result is a result.
        ((3, None), [call(result="")] * 3, [(A, 1), (A, 2), (B, 3)]),
        # A nudge from the first call on; off is off.
        ((1, None), [call(), call()], [(B, 1), (B, 2)]),
        ((None, None), [call()] * 3, [(A, 1), (A, 2), (A, 3)]),
        ((None, 2), [call(), call(), call("b")], [(A, 1), (C, 2), (AFTER, 0)]),
    ],
)
def test_golden_verdicts(
    policy: tuple[int | None, int | None], calls: list[ToolCall], expected: list[tuple[str, int]]
) -> None:
    rows = call_verdicts(database(calls), GuardPolicy(*policy)).to_pylist()
    assert [(row["action"], row["count"]) for row in rows] == expected


def nested(run: str, at: float, parent: str = "t/outer") -> ToolCall:
    return call("inner", run=run, parent_run_id=parent, at=at)


def test_a_sweep_knows_of_nested_runs() -> None:
    calls = [
        *[call(run="t/outer", at=n) for n in range(6)],
        *[nested("t/soon", 4 + n / 4) for n in range(3)],
        *[nested("t/late", 9 + n) for n in range(4)],
        *[nested("t/deep", 20 + n, "t/late") for n in range(2)],
    ]
    con = database(calls)
    rows = sweep(con, GuardPolicy(), [None, 2, 3], [4, 5, 6, None])
    assert len({row.totals for row in rows}) > 6
    for row in rows:
        assert row.totals == totals(con, GuardPolicy(row.nudge, row.block))[0], (row.nudge, row.block)


def test_a_metadata_key_is_found_however_it_is_written() -> None:
    calls = [
        call(args='{"q": 1}'),
        call(args='{"q": 1, "page": 2}'),
        call(args='{"q": 1, "\\u0070age": 3}'),
        call(args='"{\\"q\\": 1, \\"page\\": 4}"'),
        call(args='{"q": 1, "page": {"long": "' + "x" * 2_000 + '"}}'),
    ]
    con = database(calls)
    assert call_verdicts(con, GuardPolicy())["count"].to_pylist() == [1, 1, 1, 1, 1]
    assert call_verdicts(con, GuardPolicy(metadata_keys=["page"]))["count"].to_pylist() == [1, 2, 3, 4, 5]


def test_a_block_reaches_runs_nested_in_the_blocked_one_that_start_later() -> None:
    calls = [
        *[call(run="t/outer", at=n) for n in range(5)],  # blocked at 4.5 s
        nested("t/before", 1),
        nested("t/before", 9),
        nested("t/after", 5),
        nested("t/deep", 6, "t/after"),
        nested("t/slow", 7),  # its agent started before the block, its first call came later
        call("inner", run="t/else", at=8),
    ]
    spans = [("t", "slow", START + 2 * SECOND, None, 0), ("t", "after", START + 5 * SECOND, None, 0)]
    rows = call_verdicts(database(calls, spans=spans), GuardPolicy()).to_pylist()
    inner = {
        (row["run_id"], row["seq"]): (row["action"], row["exact"])
        for row in rows
        if row["tool_name"] == "inner"
    }
    assert inner == {
        ("t/before", 1): ("allow", True),
        ("t/before", 2): ("allow", True),
        ("t/after", 1): ("after_block", False),
        ("t/deep", 1): ("after_block", False),
        ("t/slow", 1): ("allow", True),
        ("t/else", 1): ("allow", True),
    }


def test_exact_lasts_as_long_as_the_recorded_agent_saw_the_same() -> None:
    saw = [None, None, "nudge", "nudge", "block", None, None]
    calls = [call(recorded_verdict=verdict) for verdict in saw]
    result = replay(database(calls), GuardPolicy(3, 5))
    assert result.exact == result.totals
    assert result.totals.calls_after_block == 2
    assert result.coverage.runs_guarded == 1
    later = replay(database(calls), GuardPolicy(4, 6))
    assert later.exact.calls == 5  # count 5 is nudged here, the agent was blocked there
    sooner = replay(database(calls), GuardPolicy(2, 5))
    assert (sooner.exact.calls, sooner.exact.calls_nudged) == (2, 1)


def test_a_nested_run_silenced_by_a_block_that_its_agent_saw_is_exact() -> None:
    saw = [None, None, "nudge", "nudge", "block"]
    calls = [call(run="t/outer", at=n, recorded_verdict=verdict) for n, verdict in enumerate(saw)]
    calls += [call(run="t/inner", parent_run_id="t/outer", at=10 + n) for n in range(6)]
    result = replay(database(calls), GuardPolicy(3, 5))
    assert (result.totals.runs_blocked, result.totals.calls_after_block) == (1, 6)
    assert result.exact == result.totals


def cases() -> list[dict[str, Any]]:
    """Public reports rebuilt as calls with the right verdicts; none where the corpus is absent."""
    try:
        folder = corpus("cases")
    except pytest.skip.Exception:
        return []
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [case for case in found if "calls" in case["input"] and "guard" in case["expected"]]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_cases_from_public_reports(case: dict[str, Any]) -> None:
    expected = case["expected"]["guard"]
    outcomes = {"transient_error": "general_tool_error", "tool_error": "general_tool_error"}
    calls = []
    for one in case["input"]["calls"]:
        arguments, result = one["arguments"], one["result"]
        calls.append(
            call(
                one["tool"],
                arguments if isinstance(arguments, str) else json.dumps(arguments),
                result if result is None or isinstance(result, str) else json.dumps(result),
                outcomes.get(one["outcome_hint"], one["outcome_hint"]),
                agent=one.get("agent"),
            )
        )
    numbers = expected.get("thresholds") or {}
    policy = GuardPolicy(numbers.get("nudge", 3), numbers.get("block", 5))
    rows = call_verdicts(database(calls), policy).to_pylist()
    assert len(rows) == len(expected["per_call"])
    for row, one in zip(rows, expected["per_call"], strict=True):
        assert (row["action"], row["count"]) == (one["action"], one.get("count", row["count"]))


def test_telecom_recordings(tmp_path: Path) -> None:
    path = corpus("real", "tau2-bench", "gpt4.1_telecom_default.json.gz")
    store = Store(tmp_path / "t.duckdb")
    import_paths(tmp_path / "t.duckdb", [path])
    with store.lease() as con:
        for nudge, block, figures in ((3, 5, (25, 39, 5, 13, 4, 9)), (2, 4, (33, 60, 13, 39, 10, 29))):
            result = replay(con, GuardPolicy(nudge, block))
            whole, exact = result.totals, result.exact
            assert (whole.runs, whole.calls) == (40, 689)
            assert (
                whole.runs_nudged,
                whole.calls_nudged,
                whole.runs_blocked,
                whole.calls_after_block,
                whole.calls_avoidable,
                whole.calls_lost,
            ) == figures
            # With nudge on, everything after a run's first nudge is projected.
            assert (exact.runs_nudged, exact.calls_nudged) == (whole.runs_nudged, whole.runs_nudged)
            assert (exact.runs_blocked, exact.calls_after_block) == (0, 0)
            assert exact.calls < whole.calls
            loops = [one for one in result.incidents if one.kind == "loop"]
            assert len(loops) + sum(one.folded_loops for one in result.incidents) == 26
        keys = [one.key for one in find_incidents(con)]
    import_paths(tmp_path / "t.duckdb", [path])
    with store.lease() as con:
        assert [one.key for one in find_incidents(con)] == keys
        assert replay(con, GuardPolicy()).totals.calls == 689
