"""What is kept in memory and brought up to date after a fold equals what is read anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import duckdb
import pytest

from loopscope.collector import Spool, Store, fold, prune, traces_json_to_protobuf
from loopscope.guard import GuardPolicy, Outcome, OutcomeRule, ToolPolicy
from loopscope.replay import (
    Filters,
    _facts,
    call_verdicts,
    compare_policies,
    coverage,
    find_incidents,
    impact,
    one_state,
    replay,
    suggestion_report,
    sweep,
    totals,
    verdict_changes,
)
from loopscope.replay._incidents import all_incidents

SEED = int(os.environ.get("LOOPSCOPE_SEED", "1"))
START = 1_760_000_000_000_000_000
SECOND = 1_000_000_000

POLICIES = (
    GuardPolicy(2, 4),
    GuardPolicy(1, 3, tools={"edit": ToolPolicy(resets=True), "read": ToolPolicy(exempt=True)}),
    GuardPolicy(2, 3, scope="trace"),
    GuardPolicy(2, 3, scope="session", error_nudge_threshold=2),
    GuardPolicy(2, 3, metadata_keys=("page",), ignored_result_patterns=(r"\d+ ms",)),
    GuardPolicy(
        2, 3, outcome_rules=[OutcomeRule(outcome=Outcome.SCHEMA_ERROR, text_pattern="took", on_success=True)]
    ),
)


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def trace(random: Random, number: int) -> list[dict[str, Any]]:
    """Spans of one trace, as they end: an agent, one that it calls, requests and tool calls."""
    agents = [f"{number:08x}{depth:08x}" for depth in range(1, random.randint(1, 3))]
    outer = [None, *agents]
    sessions = [None, f"chat {number % 3}"]
    session = random.choice(sessions)
    spans = []
    at = START + random.randrange(20) * SECOND
    begun = at

    def span(
        name: str, span_id: str, parent: str | None, attributes: dict[str, str], start: int, end: int
    ) -> None:
        if session is not None:
            attributes["gen_ai.conversation.id"] = session
        spans.append(
            {
                "traceId": f"{number:032x}",
                "spanId": span_id,
                **({} if parent is None else {"parentSpanId": parent}),
                "name": name,
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(end),
                "attributes": [attribute(key, value) for key, value in attributes.items()],
                **({"status": {"code": 2}} if attributes.get("error.type") else {}),
            }
        )

    for index in range(random.randint(1, 14)):
        at += random.randint(1, 3) * SECOND
        span_id = f"{number:08x}{index + 100:08x}"
        parent = random.choice(outer)
        if random.random() < 0.2:
            span(
                "chat",
                span_id,
                parent,
                {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
                at,
                at + 5,
            )
            continue
        tool = random.choice(("read", "read", "edit", "find"))
        values = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.arguments": json.dumps({"q": 1, "page": random.randint(1, 2)}),
            "gen_ai.tool.call.result": random.choice(("same", "same", f"took {random.randint(1, 9)} ms")),
        }
        if random.random() < 0.15:
            values["error.type"] = "Timeout"
        span(f"execute_tool {tool}", span_id, parent, values, at, at + SECOND)
    for depth, agent in enumerate(agents):
        values = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"agent {depth}"}
        span(
            "invoke_agent",
            agent,
            agents[depth - 1] if depth else None,
            values,
            begun - 10 + depth,
            at + 2 * SECOND,
        )
    return spans


def portions(random: Random) -> list[list[dict[str, Any]]]:
    """Some traces, cut into parts that arrive one after the other, some of them in no order."""
    spans = [one for number in range(1, 9) for one in trace(random, number)]
    random.shuffle(spans) if random.random() < 0.5 else spans.sort(key=lambda one: one["endTimeUnixNano"])
    cuts = sorted(random.sample(range(1, len(spans)), min(3, len(spans) - 1)))
    return [spans[first:last] for first, last in zip([0, *cuts], [*cuts, len(spans)], strict=True)]


def arrive(path: Path, spans: list[dict[str, Any]]) -> None:
    service = {"attributes": [attribute("service.name", "shop")]}
    payload = traces_json_to_protobuf(
        {"resourceSpans": [{"resource": service, "scopeSpans": [{"spans": spans}]}]}
    )
    Spool(path).write([("traces", payload)])
    fold(Store(path))


def answers(
    con: duckdb.DuckDBPyConnection, policies: Collection[int] = range(len(POLICIES))
) -> dict[str, Any]:
    """All that replay says of a store."""
    found: dict[str, Any] = {
        "coverage": coverage(con),
        "replay": replay(con, POLICIES[0]).to_json(),
        "filtered": totals(con, POLICIES[0], Filters(tools=("read",), sessions=("chat 1",))),
        "sweep": [row.to_json() for row in sweep(con, POLICIES[0], [1, 2, None], [3, 4])],
    }
    for number in policies:
        policy = POLICIES[number]
        if number:  # the first one's are in `replay`, and so are the incidents
            found[f"totals {number}"] = totals(con, policy)
        found[f"verdicts {number}"] = call_verdicts(con, policy).to_pylist()
    return found


def anew(question: Callable[[], Any]) -> Any:
    """The answer with nothing kept from before; what is kept stays."""
    kept = dict(_facts._cache)
    _facts.forget()
    try:
        return question()
    finally:
        _facts.forget()
        _facts._cache.update(kept)


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    _facts.forget()


@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
def test_after_each_fold_all_answers_are_those_of_a_fresh_look(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "t.duckdb"
    memory = None
    generations = 0
    # Three counting rules are kept: with more of them, each would be counted anew and none brought up.
    others = len(POLICIES) - 1
    asked = (0, 1 + 2 * seed % others, 1 + (2 * seed + 1) % others)
    for spans in portions(Random(seed)):
        arrive(path, spans)
        with Store(path).lease() as con:
            facts = _facts.facts_of(con)
            if memory is None:
                memory = facts.memory
            assert facts.memory is memory, "the store was read anew"
            assert facts.generation == generations
            generations += 1
            assert answers(con, asked) == anew(lambda con=con: answers(con, asked))
    assert generations > 2
    assert memory is not None
    for number in asked:
        assert len(memory.rules[POLICIES[number].rule_id].seen) > 1, "counted anew"


def loops(path: Path, traces: range, calls: range, result: str = "same") -> None:
    """In each trace one agent that asks the same again and again."""
    spans = []
    for number in traces:
        for index in calls:
            at = START + (100 * number + index) * SECOND
            spans.append(
                {
                    "traceId": f"{number:032x}",
                    "spanId": f"{number:08x}{index + 1:08x}",
                    "name": "execute_tool read",
                    "startTimeUnixNano": str(at),
                    "endTimeUnixNano": str(at + SECOND // 2),
                    "attributes": [
                        attribute("gen_ai.operation.name", "execute_tool"),
                        attribute("gen_ai.tool.name", "read"),
                        attribute("gen_ai.tool.call.arguments", "{}"),
                        attribute("gen_ai.tool.call.result", result),
                    ],
                }
            )
    arrive(path, spans)


def said(facts: _facts.Facts, table: str) -> list[tuple[int, ...]]:
    """How many calls, the largest count and the largest top."""
    return facts.cursor().execute(f"SELECT count(*), max(count), max(top) FROM {table}").fetchall()


def test_a_reader_of_an_older_state_sees_that_state(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    loops(path, range(1, 4), range(2))
    with Store(path).lease() as con:
        older = _facts.facts_of(con)
        counted = older.counted(con, POLICIES[0])
        assert said(older, counted) == [(6, 2, 2)]
    loops(path, range(2, 5), range(2, 4))
    with Store(path).lease() as con:
        newer = _facts.facts_of(con)
        assert newer is not older
        assert newer.memory is older.memory
        assert said(newer, newer.counted(con, POLICIES[0])) == [(12, 4, 4)]
        assert said(older, counted) == [(6, 2, 2)]
        assert older.cursor().execute("SELECT count(*) FROM facts").fetchall() == [(6,)]
        # Counted for the first time after the store went on.
        assert said(older, older.counted(con, GuardPolicy(counted_outcomes=(Outcome.SUCCESS,)))) == [
            (6, 2, 2)
        ]


def test_questions_of_one_state_agree_whatever_comes_in_between(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"

    def seen(con: duckdb.DuckDBPyConnection) -> tuple[int, list[int]]:
        return totals(con, POLICIES[0])[0].calls, [one.calls for one in find_incidents(con)]

    loops(path, range(1, 3), range(3))
    with one_state():
        with Store(path).lease() as con:
            assert seen(con) == (6, [3, 3])
        loops(path, range(2, 4), range(3, 6))
        with Store(path).lease() as con:
            assert seen(con) == (6, [3, 3])
            thread = Thread(target=lambda: others.append(seen(con.cursor())))  # somebody else's question
            others: list[Any] = []
            thread.start()
            thread.join()
            assert others == [(12, [6, 3, 3])]
            assert seen(con) == (6, [3, 3])
    with Store(path).lease() as con:
        assert seen(con) == (12, [6, 3, 3])
        assert find_incidents(con) == anew(lambda: find_incidents(con))


def test_incidents_of_an_older_state_are_those_of_that_state(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    loops(path, range(1, 4), range(3))
    with Store(path).lease() as con:
        before = find_incidents(con)
        older = _facts.facts_of(con)
    loops(path, range(2, 5), range(3, 6))
    with Store(path).lease() as con:
        assert [one.calls for one in find_incidents(con)] == [6, 6, 3, 3]
        older.found = None  # as where nobody had asked in time
        again = [one.incident for one in all_incidents(older, con)]
    assert [one.key for one in again] == [one.key for one in before]
    assert [one.calls for one in again] == [3, 3, 3]


def test_what_was_removed_in_between_is_gone_within_one_state_too(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    loops(path, range(1, 3), range(3))
    with one_state(), Store(path).lease() as con:
        assert totals(con, POLICIES[0])[0].calls == 6
        con.execute("DELETE FROM tool_call_rows WHERE trace_id = ?", ["0" * 31 + "1"])
        con.execute(
            "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS VARCHAR) WHERE key = 'removals'"
        )
        assert totals(con, POLICIES[0])[0].calls == 3


def test_only_what_differs_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    loops(path, range(1, 4), range(3))
    with Store(path).lease() as con:
        _facts.facts_of(con)
    loops(path, range(1, 4), range(3, 5))
    with Store(path).lease() as con:
        memory = _facts.facts_of(con).memory
        assert memory.generation == 1
        assert memory.dead == 0
        rows = memory.con.execute(
            "SELECT born, count(*) FROM fact_rows GROUP BY born ORDER BY born"
        ).fetchall()
    assert rows == [(0, 9), (1, 6)]


def test_what_was_removed_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    loops(path, range(1, 4), range(4))
    with Store(path).lease() as con:
        before = _facts.facts_of(con)
        assert totals(con, POLICIES[0])[0].runs == 3
    prune(Store(path), START + 250 * SECOND, compacting=False)
    loops(path, range(3, 5), range(4, 6))
    with Store(path).lease() as con:
        assert _facts.facts_of(con).memory is not before.memory
        assert totals(con, POLICIES[0])[0].runs == 2
        assert answers(con) == anew(lambda: answers(con))


def test_labels_do_not_make_it_read_again(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    loops(path, range(1, 3), range(4))
    with Store(path).lease() as con:
        before = _facts.facts_of(con)
        incidents = [one.key for one in find_incidents(con)]
    with Store(path).write() as con:
        con.execute("INSERT INTO labels VALUES ('x', 'polling', NULL, now()::TIMESTAMP)")
    with Store(path).lease() as con:
        after = _facts.facts_of(con)
        assert after is not before
        assert after.memory is before.memory
        assert after.generation == before.generation
        assert [one.key for one in find_incidents(con)] == incidents


def in_order(con: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Answers that show some calls or runs of many."""
    before, after = GuardPolicy(2, 4), GuardPolicy(3, 5)
    return {
        "verdicts": call_verdicts(con, before, limit=9, offset=3).to_pylist(),
        "changes": verdict_changes(con, before, after, limit=4).calls.to_pylist(),
        "compared": compare_policies(con, before, after, examples=2),
        "impact": impact(con, before, examples=3),
        "suggestions": suggestion_report(con, before),
    }


def test_order_does_not_depend_on_when_a_run_came_in(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    loops(path, range(7, 13), range(6))
    loops(path, range(7, 13), range(6, 7), "done")
    with Store(path).lease() as con:
        memory = _facts.facts_of(con).memory
        in_order(con)
    loops(path, range(1, 7), range(6))  # they started before those that are known
    loops(path, range(1, 7), range(6, 7), "done")
    with Store(path).lease() as con:
        found = in_order(con)
        assert _facts.facts_of(con).memory is memory
        assert found == anew(lambda: in_order(con))
        starts = [row["start_ns"] for row in call_verdicts(con, POLICIES[0]).to_pylist()]
    assert starts == sorted(starts)
    shown = [fact.examples for one in found["suggestions"].suggestions for fact in one.evidence]
    assert any(len(examples) == 5 for examples in shown), "fewer than there are to choose from"
