"""What holds of every rule on whatever calls."""

from __future__ import annotations

import json
import random
from dataclasses import fields, replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_rows import call, database, number

from loopscope.collector import ToolCall
from loopscope.guard import (
    FINGERPRINT_VERSION,
    Action,
    DuplicateCallGuard,
    GuardPolicy,
    Outcome,
    ReasonedOverrideGuard,
    ToolPolicy,
)
from loopscope.replay import totals
from loopscope.replay._facts import facts_of
from loopscope.replay.rules import RULES, CallRecord, compare_rules, run_rule
from loopscope.replay.rules import _stream as stream
from loopscope.replay.rules._rule import fold

TOOLS = ("read_file", "search", "run_shell_command", "process", "job_poll", "update_plan", "browser_action")
ARGUMENTS = (
    '{"q": 1, "p": {"x": 1, "y": 2}}',
    '{"p": {"y": 2, "x": 1}, "q": 1}',
    '{"q":  1, "p": {"x": 1, "y": 2}}',
    '{"q": 1, "_nonce": 3}',
    '{"q": 1}',
    '{"command": "git status"}',
    '{"action": "poll"}',
    '{"action": "scroll_up"}',
    '{"plan": [{"step": "a", "status": "open"}]}',
    '{"plan": [{"step": "b", "status": "open"}]}',
    '{"q": 1, "_duplicate_reasoning": "again"}',
    "plain  text",
    "",
    "[" * 40,
    None,
)
RESULTS = ("a", "b", "", "unknown tool: x", '{"messageId": 1}', None)
OUTCOMES = ("success", "success", "success", "general_tool_error", "schema_error", None)
# Smaller knobs fire on short sequences.
SMALL: dict[str, dict[str, Any]] = {
    "roo-code": {"limit": 1},
    "cline": {"soft": 2, "hard": 3},
    "qwen-code": {"in_row": 3, "git_overviews": 2, "cap": 8},
    "qwen-code-opt-in": {"repeats": 3, "same_name": 4, "reads": 2, "alternating_laps": 2, "cap": 8},
    "gemini-cli": {"repeats": 2},
    "goose-rep-001": {"max_repetitions": 1},
    "goose-rep-002": {"limit": 2},
    "openhands": {"action_observation": 2, "action_error": 2, "alternating_pattern": 4},
    "hermes-0.19": {"exact_failure_block": 2, "same_tool_failure_halt": 3, "no_progress_block": 2},
    "hermes-cycles": {"notice_laps": 2, "halt_laps": 3},
    "crush": {"window": 4, "max_repeats": 1},
    "openclaw": {"warning": 4, "critical": 5, "unknown_tool": 2, "breaker": 9, "history": 12},
    "openlit": {"threshold": 2},
    "opencode": {"threshold": 2},
    "crewai": {},
    "reasoned-override": {},
}

records = st.builds(
    CallRecord,
    tool=st.sampled_from(TOOLS),
    arguments=st.one_of(
        st.sampled_from(ARGUMENTS), st.dictionaries(st.text(max_size=3), st.floats(), max_size=2)
    ),
    result=st.one_of(st.sampled_from(RESULTS), st.lists(st.integers(), max_size=2)),
    outcome=st.sampled_from(OUTCOMES),
    turn=st.one_of(st.none(), st.integers(0, 3)),
    agent=st.sampled_from((None, "one", "two")),
    read_only=st.sampled_from((None, True, False)),
)


def random_calls(seed: int, runs: int, agents: tuple[str | None, ...]) -> list[ToolCall]:
    """Runs of up to 16 calls; each draws from few calls and results, so that much repeats."""
    chance = random.Random(seed)
    made: list[ToolCall] = []
    for place in range(runs):
        tools = chance.sample(TOOLS, chance.choice((1, 1, 2, 3)))
        texts = chance.sample(ARGUMENTS, chance.choice((1, 2, 2, 4)))
        results = chance.sample(RESULTS, chance.choice((1, 1, 2, 4)))
        turn = 0
        for _ in range(chance.randrange(1, 17)):
            turn += chance.randrange(2)
            made.append(
                call(
                    chance.choice(tools),
                    chance.choice(texts),
                    chance.choice(results),
                    chance.choice(OUTCOMES),
                    run=f"run-{place:04d}",
                    agent=chance.choice(agents),
                    turn=chance.choice((None, turn, turn, turn)),
                )
            )
    return made


def store(calls: list[ToolCall]) -> duckdb.DuckDBPyConnection:
    """As `database`, all rows at once."""
    con = database()
    columns = [field.name for field in fields(ToolCall)]
    rows = number(calls)
    table = pa.table({name: [getattr(one, name) for one in rows] for name in columns})
    table = table.append_column("fingerprint_version", pa.array([FINGERPRINT_VERSION] * len(rows)))
    con.register("offered", table)
    con.execute("INSERT INTO tool_call_rows BY NAME SELECT * FROM offered")
    con.unregister("offered")
    return con


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None, max_examples=40)
@given(calls=st.lists(records, max_size=40))
def test_rules_never_raise_and_say_the_same_twice(rule: str, calls: list[CallRecord]) -> None:
    found = run_rule(rule, calls)
    assert run_rule(rule, calls) == found
    assert found.stop_at is None or 1 <= found.stop_at <= len(calls)
    assert found.notice_at is None or found.stop_at is None or found.notice_at < found.stop_at
    assert list(found.refused) == sorted(set(found.refused))
    assert not found.refused or found.refused[0] == found.stop_at
    if RULES[rule].does != "refuses":
        assert found.refused == ()
    if RULES[rule].does == "marks":
        assert found.stop_at is None


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None, max_examples=40)
@given(calls=st.lists(records, min_size=1, max_size=30), cut=st.integers(1, 30))
def test_rules_do_not_know_what_comes(rule: str, calls: list[CallRecord], cut: int) -> None:
    calls = [replace(one, turn=place) for place, one in enumerate(calls)]  # whose turn ends is not foreseen
    whole, start = run_rule(rule, calls), run_rule(rule, calls[:cut])
    if start.stop_at is not None:
        assert whole.stop_at == start.stop_at
    if whole.stop_at is not None and whole.stop_at <= cut:
        assert start.stop_at == whole.stop_at
    if start.notice_at is not None:
        assert whole.notice_at == start.notice_at


@settings(deadline=None, max_examples=150)
@given(calls=st.lists(records, max_size=40), nudge=st.integers(1, 3), more=st.integers(1, 3))
def test_our_rule_is_the_guard(calls: list[CallRecord], nudge: int, more: int) -> None:
    for policy in (
        GuardPolicy(nudge, nudge + more),
        GuardPolicy(nudge, nudge + more, tools={"search": ToolPolicy(resets=True)}, error_block_threshold=3),
    ):
        guard = DuplicateCallGuard(policy)
        said = [
            guard.observe(
                tool_name=one.tool,
                arguments=one.arguments,
                output=one.result,
                outcome=one.outcome,
                agent=one.agent,
            ).action
            for one in calls
        ]
        found = run_rule("ours", calls, policy=policy)
        block = said.index(Action.BLOCK) + 1 if Action.BLOCK in said else None
        assert found.stop_at == block
        assert found.notice_at == (said.index(Action.NUDGE) + 1 if Action.NUDGE in said else None)


@settings(deadline=None, max_examples=150)
@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from(("a", "b", "reset")),
            st.fixed_dictionaries(
                {"x": st.integers(0, 1)},
                optional={
                    "_duplicate_reasoning": st.sampled_from(("one", " ONE", "two", "", 3, "ß", "ss", None))
                },
            ),
            st.sampled_from(Outcome),
        ),
        max_size=30,
    )
)
def test_our_override_is_the_guard(calls: list[tuple[str, dict[str, Any], Outcome]]) -> None:
    policy = GuardPolicy(tools={"reset": ToolPolicy(resets=True), "free": ToolPolicy(exempt=True)})
    guard = ReasonedOverrideGuard(policy)
    refused = []
    for place, (tool, arguments, outcome) in enumerate(calls, 1):
        if guard.before(tool, arguments).refusal is not None:
            refused.append(place)
        else:
            guard.after(outcome, tool_name=tool)
    given_calls = [
        CallRecord(tool, json.dumps(arguments), "r", outcome) for tool, arguments, outcome in calls
    ]
    assert run_rule("reasoned-override", given_calls, policy=policy).refused == tuple(refused)


SEEDS = range(2)
NAMES = [name for name in RULES if name != "ours"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("options", [{}, SMALL], ids=["theirs", "small"])
def test_leaving_runs_out_changes_nothing(seed: int, options: dict[str, dict[str, Any]]) -> None:
    con = store(random_calls(seed, 300, ("one", "one", "two", None)))
    skipped = [one.to_json() for one in compare_rules(con, GuardPolicy(), NAMES, options=options)]
    left_out: list[int] = []

    def all_of_them(facts: Any, rules: Any) -> dict[int, list[int]]:
        everything = {run: list(range(len(rules))) for run in facts.runs.column("run").to_pylist()}
        seen = stream.runs_to_see(facts, rules)
        left_out.append(sum(map(len, everything.values())) - sum(map(len, seen.values())))
        return everything

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loopscope.replay.rules._compare.runs_to_see", all_of_them)
        assert [one.to_json() for one in compare_rules(con, GuardPolicy(), NAMES, options=options)] == skipped
    assert left_out[0] > 300  # else nothing was shown
    if options:  # and with small knobs every rule has something to say
        assert [one["rule"] for one in skipped if not one["runs_stopped"] and not one["runs_noticed"]] == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("options", [{}, SMALL], ids=["theirs", "small"])
def test_a_store_says_what_the_plain_calls_say(seed: int, options: dict[str, dict[str, Any]]) -> None:
    """Of one agent: the store's identities are those worked out call by call."""
    calls = random_calls(seed + 100, 150, ("one",))
    found = {one.rule: one for one in compare_rules(store(calls), GuardPolicy(), NAMES, options=options)}
    runs: dict[str, list[CallRecord]] = {}
    for one in calls:
        plain = CallRecord(one.tool_name, one.arguments, one.result, one.outcome, one.turn, "one")
        runs.setdefault(one.run_id, []).append(plain)
    for name in NAMES:
        said = [run_rule(name, mine, **options.get(name, {})) for mine in runs.values()]
        assert found[name].runs_stopped == sum(one.stop_at is not None for one in said), name
        assert found[name].runs_noticed == sum(one.notice_at is not None for one in said), name
        assert (found[name].calls_refused or 0) == sum(len(one.refused) for one in said), name


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("thresholds", [(1, 2), (2, 3), (None, 2), (3, 5)])
def test_our_rule_over_a_store_is_the_engine(seed: int, thresholds: tuple[int | None, int]) -> None:
    con = store(random_calls(seed + 200, 100, ("one", "two")))
    policy = GuardPolicy(*thresholds)
    facts = facts_of(con)
    everything = {run: [0] for run in facts.runs.column("run").to_pylist()}
    rule = RULES["ours"].rule
    found = [
        fold(rule(policy=policy), run.calls) for run in stream.recorded_runs(facts, con, [rule()], everything)
    ]
    (mine,) = compare_rules(con, policy, ["ours"])
    counted, exact = totals(con, policy)
    assert mine.runs_stopped == counted.runs_blocked == sum(one.stop_at is not None for one in found)
    assert mine.runs_noticed == counted.runs_nudged == sum(one.notice_at is not None for one in found)
    assert mine.runs_stopped_exact == exact.runs_blocked
    assert mine.calls_after_stop == counted.calls_after_block
    assert mine.runs_stopped > 0
