"""Overview, errors, requests, coverage, the document of `replay`, and what is kept in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from replay_rows import SECOND, START, call, database, request

from loopscope.collector._schema import create_schema
from loopscope.guard import GuardPolicy, ToolPolicy
from loopscope.replay import (
    Filters,
    Totals,
    _facts,
    call_verdicts,
    coverage,
    error_breakdown,
    failed_requests,
    filter_options,
    find_incidents,
    overview,
    replay,
    sweep,
    totals,
    verdict_changes,
)

EMPTY = Totals()


def test_an_empty_store_is_an_answer_to_every_question() -> None:
    con = database()
    policy = GuardPolicy()
    assert replay(con, policy).totals == EMPTY
    assert call_verdicts(con, policy).num_rows == 0
    assert verdict_changes(con, policy, GuardPolicy(2, 4)).total == 0
    assert [row.totals for row in sweep(con, policy, [2], [3])] == [EMPTY]
    assert find_incidents(con, policy=policy) == []
    assert overview(con, policy).sentence == "No tool calls here yet."
    assert error_breakdown(con).failed == 0
    assert failed_requests(con).requests == 0
    assert coverage(con).calls == 0
    assert filter_options(con).first_ns is None


# The document of replay


def test_the_json_of_a_replay() -> None:
    con = database([call() for _ in range(8)] + [call("read", run="run-2", outcome="general_tool_error")])
    value = json.loads(json.dumps(replay(con, GuardPolicy()).to_json()))
    names = "schema_version policy coverage totals by_tool by_outcome by_error_kind incidents"
    assert list(value) == names.split()
    assert value["schema_version"] == 1
    counted = {
        "runs": 2, "calls": 9, "runs_nudged": 1, "runs_blocked": 1, "calls_nudged": 2, "calls_blocked": 1,
        "calls_after_block": 3, "calls_avoidable": 3, "calls_lost": 0, "calls_unjudged": 0,
    }  # fmt: skip
    exact = {**dict.fromkeys(counted, 0), "runs": 2, "calls": 4, "runs_nudged": 1, "calls_nudged": 1}
    assert value["totals"] == {**counted, "exact": exact}
    assert set(value["by_tool"]) == {"search_docs", "read"}
    assert value["by_error_kind"]["timeout"]["calls"] == 1
    assert value["coverage"]["dialects"][0]["dialect"] == "otel_genai"
    assert value["policy"]["nudge_threshold"] == 3
    (incident,) = value["incidents"]
    assert incident["kind"] == "loop"
    assert incident["tools"] == ["search_docs"]


def test_totals_alone_are_those_of_the_replay() -> None:
    con = database([call() for _ in range(8)], [request("run-3")])
    whole = replay(con, GuardPolicy())
    assert totals(con, GuardPolicy()) == (whole.totals, whole.exact)
    assert whole.totals.runs == 2


def test_runs_that_only_asked_a_model_are_runs_unless_a_tool_is_asked_for() -> None:
    con = database([call()], [request("run-1"), request("run-2"), request("run-3", model="other")])
    policy = GuardPolicy()
    assert replay(con, policy).totals.runs == 3
    assert replay(con, policy, Filters(tools=("search_docs",))).totals.runs == 1
    assert replay(con, policy, Filters(models=("other",))).totals.runs == 1
    assert [row.totals.runs for row in sweep(con, policy, [3], [5])] == [3]


def test_calls_that_never_ended_are_covered_and_not_counted() -> None:
    con = database([call(), call(), replace(call(), end_ns=None), call()])
    result = replay(con, GuardPolicy())
    assert (result.totals.calls, result.coverage.calls_not_ended) == (3, 1)
    assert result.totals.calls_nudged == 1


def test_a_sweep_leaves_out_what_is_no_policy() -> None:
    con = database([call()] * 6)
    cells = [(row.nudge, row.block) for row in sweep(con, GuardPolicy(), range(2, 5), range(3, 5))]
    assert cells == [(2, 3), (2, 4), (3, 4)]
    own = GuardPolicy(2, 9, tools={"search_docs": ToolPolicy(block_threshold=3)})
    assert [(row.nudge, row.block) for row in sweep(con, own, [2, 3], [5])] == [(2, 5)]
    assert sweep(con, GuardPolicy(), [5], [3]) == []
    (row,) = sweep(con, GuardPolicy(), [2], [None])
    assert row.to_json() == {"nudge": 2, "block": None, **row.totals.to_json()}


def test_changed_verdicts() -> None:
    con = database([call()] * 6)
    changes = verdict_changes(con, GuardPolicy(3, 5), GuardPolicy(2, 5))
    (row,) = changes.calls.to_pylist()
    assert (changes.total, changes.runs) == (1, 1)
    assert (row["seq"], row["action_before"], row["action"]) == (2, "allow", "nudge")
    assert verdict_changes(con, GuardPolicy(3, 5), GuardPolicy(2, 4), limit=1).calls.num_rows == 1
    assert verdict_changes(con, GuardPolicy(3, 5), GuardPolicy(2, 4)).total == 3


# Coverage


def test_coverage_counts_per_dialect_and_names_the_setting() -> None:
    con = database(
        [
            call(args=None),
            call(result=None, outcome=None),
            replace(call(), content_state="truncated"),
            call(recorded_verdict="nudge"),
            call(dialect="openinference"),
        ]
    )
    found = coverage(con)
    assert (found.calls, found.calls_without_arguments, found.calls_without_result) == (5, 1, 1)
    assert (found.calls_truncated, found.calls_without_outcome, found.runs_guarded) == (1, 1, 1)
    assert not found.whole
    hints = {one.dialect: one.hint for one in found.dialects}
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in (hints["otel_genai"] or "")
    assert hints["openinference"] is None
    assert coverage(con, Filters(dialects=("openinference",))).whole


# Overview


def test_overview_says_that_the_worst_is_one_of_several_equal_ones() -> None:
    con = database([*[call(at=n) for n in range(4)], *[call(run="run-2", at=n) for n in range(4)]], [])
    assert "2 of 2 runs went in circles; one of the 2 worst is " in overview(con, GuardPolicy()).sentence


def test_overview_says_what_is_worst() -> None:
    con = database(
        [*[call(at=n) for n in range(14)], call("read", run="run-2", at=99)], [request(status="error")]
    )
    seen = overview(con, GuardPolicy())
    assert seen.sentence == (
        "1 of 2 runs went in circles; the worst is support-bot / search_docs: 14 equal answers in 13.5 s."
    )
    assert (seen.figures.repeated_calls, seen.figures.runs_looping, seen.figures.failed_requests) == (
        13,
        1,
        1,
    )
    assert seen.figures.preventable_requests == 0  # its refusal says nothing
    assert seen.previous is None
    sums = [
        sum(getattr(one, name) for one in seen.buckets) for name in ("allow", "nudge", "block", "after_block")
    ]
    assert sums == [3, 2, 1, 9]
    assert (seen.tools[0].name, seen.tools[0].repeated_calls, seen.tools[0].calls_nudged) == (
        "search_docs",
        13,
        2,
    )
    assert (seen.incidents_total, seen.incidents[0].nudge_at) == (1, 3)


def test_overview_compares_with_the_period_before() -> None:
    con = database([*[call(at=n) for n in range(4)], *[call(at=10 + n, run="run-2") for n in range(8)]])
    seen = overview(con, GuardPolicy(), Filters(since=START + 10 * SECOND, until=START + 20 * SECOND))
    assert seen.previous is not None
    assert (seen.figures.calls, seen.previous.calls) == (8, 4)
    assert (seen.figures.runs_looping, seen.previous.runs_looping) == (1, 1)


@pytest.mark.parametrize(
    ("calls", "start"),
    [
        ([call(args=None), call(args=None)], "None of 2 calls could be judged"),
        ([call(args=None), call()], "None of 1 run went in circles (1 of 2 calls had content to judge)"),
        ([replace(call(), end_ns=None)], "No call has finished yet; 1 call without a recorded end."),
        ([call("\x1b[31mred", agent="x" * 200)] * 3, "1 of 1 run went in circles; the worst is xxx"),
    ],
)
def test_overview_says_what_it_cannot_see(calls: list, start: str) -> None:
    sentence = overview(database(calls), GuardPolicy()).sentence
    assert sentence.startswith(start)
    assert "\x1b" not in sentence
    assert len(sentence) < 300


# Errors


def test_error_breakdown() -> None:
    con = database(
        [
            call("book", '{"n": 1}', "no seat 17", "schema_error"),
            call("book", '{"n": 2}', "no seat 18", "schema_error"),
            call("book", '{"n": 3}', "HTTP 503", "general_tool_error"),
            call("book", '{"n": 4}', None, "general_tool_error"),
            call("poll", '{"n": 5}', "fine", run="run-2"),
            call("poll", None, "fine"),
            call("poll", '{"n": 7}', None, "success"),
            call("poll", '{"n": 8}', "x", None),
        ]
    )
    seen = error_breakdown(con)
    assert (seen.calls, seen.failed, seen.counted) == (8, 4, 2)
    assert {(one.tool_name, one.error_kind, one.outcome, one.calls, one.counted) for one in seen.by_tool} == {
        ("book", "validation", "schema_error", 2, 2),
        ("book", "timeout", "general_tool_error", 2, 0),
    }
    assert sum(one.calls for one in seen.buckets) == 4
    first = seen.groups[0]
    assert (first.text, first.calls, first.runs, first.counted) == ("no seat <n>", 2, 1, 2)
    assert first.samples == ("no seat 17", "no seat 18")
    assert {(one.text, one.calls) for one in seen.groups[1:]} == {("HTTP 503", 1), (None, 1)}
    assert (seen.groups_total, seen.calls_grouped) == (3, 4)
    assert {one.reason: one.calls for one in seen.not_counted} == {
        "general_tool_error": 2, "no_arguments": 1, "no_result": 1, "no_outcome": 1,
    }  # fmt: skip
    assert error_breakdown(con, groups=1).groups == (first,)


def test_errors_under_a_policy_that_counts_or_exempts_them() -> None:
    con = database([call(outcome="general_tool_error", result="503")] * 3)
    counting = GuardPolicy(counted_outcomes=("general_tool_error",))
    assert error_breakdown(con, policy=counting).counted == 3
    assert error_breakdown(con, policy=counting).not_counted == ()
    exempt = GuardPolicy(tools={"search_docs": ToolPolicy(exempt=True)})
    assert [(one.reason, one.calls) for one in error_breakdown(con, policy=exempt).not_counted] == [
        ("exempt", 3)
    ]


@pytest.mark.parametrize(
    ("filters", "failed"),
    [
        (Filters(tools=("book",)), 2),
        (Filters(agents=("helper",)), 1),
        (Filters(services=("none",)), 0),
        (Filters(run_ids=("run-2",)), 1),
        (Filters(since=START), 3),
    ],
)
def test_errors_under_every_filter(filters: Filters, failed: int) -> None:
    con = database(
        [
            call("book", result="no seat 17", outcome="schema_error"),
            call("book", result="no seat 18", outcome="schema_error"),
            call("read", result="503", outcome="general_tool_error", run="run-2", agent="helper"),
        ]
    )
    seen = error_breakdown(con, filters)
    assert (seen.failed, seen.calls_grouped) == (failed, failed)


# Requests


def test_failed_requests_are_listed_newest_first_and_bounded() -> None:
    bad = request(at=1, status="error", http_status=400, error_text="x" * 20_000, input_messages=["{}", "{}"])
    worse = request(at=2, status="error", http_status=None, error_text=None, model="other")
    con = database([], [request(at=0), bad, worse])
    seen = failed_requests(con)
    assert (seen.requests, seen.failed, seen.without_messages) == (3, 2, 1)
    assert seen.by_status == {"400": 1, "none": 1}
    assert [one.http_status for one in seen.rows] == [None, 400]
    assert [one.messages for one in seen.rows] == [None, 2]
    assert len(seen.rows[1].error_text or "") == 10_000
    assert [one.verdict for one in seen.rows] == [None, None]
    assert len(failed_requests(con, limit=1, offset=1).rows) == 1
    assert failed_requests(con, Filters(models=("other",))).failed == 1


def test_filter_options() -> None:
    con = database([call(), call("read", agent=None), call()], [request(model="m")])
    options = filter_options(con)
    assert options.tools == ("search_docs", "read")
    assert options.models == ("m",)
    assert options.agents == ("support-bot",)
    assert options.first_ns == START


# What is kept


def store(path: Path) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(str(path))
    create_schema(con)
    return con


def bump(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS VARCHAR) WHERE key = 'version'")


def test_what_is_kept_is_dropped_when_the_store_changes(tmp_path: Path) -> None:
    con = database([call()] * 4, con=store(tmp_path / "a.duckdb"))
    policy = GuardPolicy()
    before = _facts.facts_of(con)
    assert _facts.facts_of(con.cursor()) is before
    assert totals(con, policy)[0].calls_nudged == 2
    con.execute("DELETE FROM tool_call_rows WHERE seq = 4")
    bump(con)
    assert _facts.facts_of(con) is not before
    assert totals(con, policy)[0].calls_nudged == 1


def test_a_new_file_under_an_old_name_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    con = database([call()] * 4, con=store(path))
    assert totals(con, GuardPolicy())[0].calls == 4
    con.close()
    path.unlink()
    con = database([call()] * 5, con=store(path))
    assert totals(con, GuardPolicy())[0].calls == 5
    con.close()


def test_two_stores_are_told_apart(tmp_path: Path) -> None:
    one = database([call()] * 4, con=store(tmp_path / "a.duckdb"))
    other = database([call(run="x")] * 4, con=store(tmp_path / "b.duckdb"))
    assert find_incidents(one)[0].run_id == "run-1"
    assert find_incidents(other)[0].run_id == "x"
    assert find_incidents(one)[0].run_id == "run-1"


def test_many_counting_rules_do_not_pile_up(tmp_path: Path) -> None:
    con = database(
        [call(args=f'{{"q": 1, "k{n}": {n}}}') for n in range(6)], con=store(tmp_path / "a.duckdb")
    )
    for n in range(6):
        ignoring = GuardPolicy(2, 5, metadata_keys=[f"k{m}" for m in range(n + 1)])
        assert totals(con, ignoring)[0].calls_nudged == min(n, 3)
    tables = (
        _facts.facts_of(con)
        .cursor()
        .execute(
            "SELECT count(*) FROM duckdb_tables() "
            "WHERE table_name LIKE 'calls_%' AND table_name NOT LIKE '%_units'"
        )
    )
    assert tables.fetchall()[0][0] <= 3
