"""Ten thousand random traces and policies: the SQL engine says of every call what the guard says."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from replay_rows import call, database, number

from loopscope.collector import ToolCall
from loopscope.collector._schema import create_schema
from loopscope.guard import (
    DuplicateCallGuard,
    ErrorKind,
    GuardPolicy,
    Outcome,
    OutcomeRule,
    PolicyError,
    RecordedCall,
    ToolPolicy,
)
from loopscope.replay import call_verdicts
from loopscope.replay._engine import Judging
from loopscope.replay._facts import facts_of

RUNS, RULES, THRESHOLDS = 110, 31, 3  # a file of runs is judged by each rule with each of these thresholds
SEED = int(os.environ.get("LOOPSCOPE_SEED", "1"))

TOOLS = ("search", "read", "edit")
ARGUMENTS = (
    '{"q": 1}',
    '{ "q":1 }',
    '{"page": 2, "q": 1}',
    '{"q": 1, "\\u0070age": 3}',
    '{"q": {"deep": true, "_nonce": "x"}}',
    "plain text",
    None,
)
RESULTS = (
    "a",
    "b",
    "",
    None,
    '{"at": 1, "v": 0}',
    '{"v": 0, "at": 2}',
    "Error: took 1 s",
    "Error: took 2 s",
    "x" * 1_500,
)
OUTCOMES = ("success", "success", "schema_error", "general_tool_error", None)


def trace(random: Random, run: str, parent: str | None) -> list[ToolCall]:
    """Calls of one run; few of everything, so that repeats are common."""
    tools = random.choices(TOOLS, k=random.randint(1, 3))
    arguments = random.choices(ARGUMENTS, k=random.randint(1, 2))
    results = random.choices(RESULTS, k=random.randint(1, 3))
    outcomes = random.choices(OUTCOMES, k=random.randint(1, 3))
    calls = []
    for _ in range(random.randint(1, 14)):
        made = call(
            random.choice(tools),
            random.choice(arguments),
            random.choice(results),
            random.choice(outcomes),
            run=run,
            agent=random.choice(("a", "a", "b", None)),
            parent_run_id=parent,
            recorded_verdict=random.choice((None, None, None, None, "nudge", "block")),
            trace_id=f"trace {random.choice((run, run, 'x', 'y'))}",
            session_id=random.choice((f"session {run}", "session x", None)),
            error_type=random.choice((None, "app.Timeout")),
            error_message=random.choice((None, "slow" + " " * 2_000)),
            http_status=random.choice((None, 503)),
        )
        if made.content_state == "full" and random.random() < 0.1:
            made.content_state = "truncated"
        calls.append(made)
    return calls


def recordings(random: Random) -> tuple[list[ToolCall], dict[str, str]]:
    """Runs that go on at the same time, some of them nested, and the run around each of those."""
    parents: dict[str, str] = {}
    waiting = []
    for index in range(RUNS):
        run = f"run-{index:03d}"
        if index and random.random() < 0.4:
            parents[run] = f"run-{random.randrange(index):03d}"
        waiting.append(trace(random, run, parents.get(run)))
    calls = []
    while waiting:
        # A few are at work at a time, so that nested runs start before and after blocks around them.
        mine = random.choice(waiting[:6])
        calls.append(mine.pop(0))
        if not mine:
            waiting.remove(mine)
    return number(calls), parents


def some(random: Random, knobs: dict[str, Any], most: int) -> dict[str, Any]:
    names = random.sample(sorted(knobs), random.randint(0, most))
    return {name: knobs[name]() for name in names}


def rule(random: Random) -> dict[str, Any]:
    """Any policy but for its thresholds: what decides how calls are counted."""
    views = {
        "metadata_keys": lambda: ("page",),
        "ignored_result_keys": lambda: ("at",),
        "ignored_result_patterns": lambda: (r"\d+ s",),
    }
    rules = (
        OutcomeRule(outcome=Outcome.GENERAL_TOOL_ERROR, text_pattern="Error", on_success=True),
        OutcomeRule(outcome=Outcome.SCHEMA_ERROR, error_type="Timeout"),
        OutcomeRule(outcome=Outcome.SUCCESS, http_status=503, tool="search"),
        OutcomeRule(outcome=Outcome.GENERAL_TOOL_ERROR, kind=ErrorKind.NETWORK, text_pattern="slow"),
    )
    of_policy = {
        **views,
        "counted_outcomes": lambda: random.sample(list(Outcome), random.randint(0, 3)),
        "scope": lambda: random.choice(("run", "trace", "session")),
        "strip_annotations": lambda: random.random() < 0.5,
        "shadow": lambda: True,
        "outcome_rules": lambda: random.sample(rules, random.randint(1, 2)),
        "errors apart": lambda: True,
    }
    of_tool = {**views, "exempt": lambda: True, "resets": lambda: True, "errors apart": lambda: True}
    tools = {name: some(random, of_tool, 2) for name in random.sample(TOOLS, random.randint(0, 2))}
    return {**some(random, of_policy, 3), "tools": tools}


def policy(random: Random, values: dict[str, Any]) -> GuardPolicy:
    """The rule with random thresholds, also for single tools and for errors."""

    def threshold() -> int | None:
        return random.choice((None, 1, 2, 2, 3, 3, 4, 5, 6))

    def filled(knobs: dict[str, Any]) -> dict[str, Any]:
        made = dict(knobs)
        if made.pop("errors apart", False):
            made |= {"error_nudge_threshold": threshold(), "error_block_threshold": threshold()}
        if random.random() < 0.7:
            made |= {"nudge_threshold": threshold(), "block_threshold": threshold()}
        return made

    while True:
        try:
            tools = {name: ToolPolicy(**filled(knobs)) for name, knobs in values["tools"].items()}
            return GuardPolicy(**{**filled(values), "tools": tools})
        except PolicyError:
            continue  # a nudge that is not below the block


Judged = tuple[str, int, bool, str | None]


def units(calls: list[ToolCall], scope: str) -> dict[str, list[ToolCall]]:
    """The calls that one guard watches."""
    found: defaultdict[str, list[ToolCall]] = defaultdict(list)
    for one in calls:
        name = {"run": one.run_id, "trace": one.trace_id}.get(scope) or one.session_id or f"run {one.run_id}"
        found[name].append(one)
    return found


def recorded(one: ToolCall) -> RecordedCall:
    return RecordedCall(
        one.tool_name,
        one.arguments,
        one.result,
        one.outcome,
        one.agent_name,
        one.fingerprint,
        one.result_hash,
        one.recorded_verdict,
        one.error_type,
        one.error_message,
        one.http_status,
        one.error_kind,
    )


def after_block(calls: list[ToolCall], policy: GuardPolicy) -> dict[str, str]:
    """What each call would be if it came after a block: asked of its own run, whatever the scope."""
    known: set[tuple[object, ...]] = set()
    found: dict[str, str] = {}
    for one in calls:
        outcome = policy.classify_recorded(recorded(one))[0]
        key = (
            one.run_id,
            one.agent_name,
            policy.fingerprint(one.tool_name, one.arguments),
            policy.result_hash(one.tool_name, one.result),
        )
        if outcome in (Outcome.SUCCESS, Outcome.SCHEMA_ERROR) and one.content_state == "full":
            found[one.span_id] = "avoidable" if key in known else "lost"
            known.add(key)
        else:
            found[one.span_id] = "unjudged"
    return found


def judge(calls: list[ToolCall], parents: dict[str, str], policy: GuardPolicy) -> dict[str, Judged]:
    """The definition: one guard for each unit, fed in the order in which calls end; outer runs first."""
    blocked_at: dict[str, int] = {}
    departed_at: dict[str, int] = {}
    what_it_would_be = after_block(calls, policy)
    judged: dict[str, Judged] = {}
    found = units(calls, policy.scope)
    for name in sorted(found):  # a run's number is higher than that of the run around it
        mine = found[name]
        around: list[str] = []
        outer = parents.get(name)
        while outer is not None:
            around.append(outer)
            outer = parents.get(outer)
        start = min(one.start_ns for one in mine)
        guard = DuplicateCallGuard(
            policy, blocked=any(start > blocked_at[outer] for outer in around if outer in blocked_at)
        )
        exact = not any(start > departed_at[outer] for outer in around if outer in departed_at)
        for one in mine:
            action, count = guard.observe_recorded(recorded(one))
            after = what_it_would_be[one.span_id] if action == "after_block" else None
            judged[one.span_id] = action.value, count, exact, after
            assert one.end_ns is not None
            if action == "block":
                blocked_at[name] = one.end_ns
            if action in ("nudge", "block") and one.recorded_verdict != action and exact:
                exact = False
                departed_at[name] = one.end_ns
    return judged


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Any, list[ToolCall], dict[str, str]]]:
    path: Path = tmp_path_factory.mktemp("many") / "many.duckdb"
    with duckdb.connect(str(path)) as con:  # a file: what is loaded of it is kept
        create_schema(con)
        calls, parents = recordings(Random(SEED))
        yield database(calls, con=con), calls, parents


def test_ten_thousand_traces_and_policies(store: tuple[Any, list[ToolCall], dict[str, str]]) -> None:
    con, calls, parents = store
    random = Random(SEED + 1)
    cases = 0
    seen: defaultdict[str, int] = defaultdict(int)
    for _ in range(RULES):
        values = rule(random)
        for _ in range(THRESHOLDS):
            one = policy(random, values)
            expected = judge(calls, parents, one)
            rows = call_verdicts(con, one).to_pylist()
            found = {
                row["span_id"]: (row["action"], row["count"], row["exact"], row["judged"]) for row in rows
            }
            assert found == expected, one
            cases += RUNS
            for action, _, _, after in expected.values():
                seen[action] += 1
                seen[after or ""] += 1
            assert_units(con, calls, one)
    assert cases >= 10_000
    # A comparison in which nothing happens would hold whatever the engine does.
    actions = ("allow", "nudge", "block", "not_counted", "after_block")
    assert all(seen[name] > 100 for name in (*actions, "avoidable", "lost", "unjudged")), seen


def assert_units(con: duckdb.DuckDBPyConnection, calls: list[ToolCall], policy: GuardPolicy) -> None:
    """Calls are put together as the scope says."""
    facts = facts_of(con)
    judging = Judging(facts, con, policy)
    found = judging.con.execute(
        "SELECT r.run_id, c.seq, c.unit FROM calls AS c JOIN runs AS r ON r.run = c.run"
    ).fetchall()
    number_of = {(run, seq): unit for run, seq, unit in found}
    assert len(number_of) == len(found) == len(calls)
    names = {
        frozenset(number_of[one.run_id, one.seq or 0] for one in mine)
        for mine in units(calls, policy.scope).values()
    }
    assert all(len(numbers) == 1 for numbers in names)
    assert len(names) == len(units(calls, policy.scope)), "two units have one number"
