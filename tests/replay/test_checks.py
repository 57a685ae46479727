"""A check over rows: which runs come first, what is left out and said so, what JUnit holds."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from replay_rows import call, database

from loopscope.guard import GuardPolicy, PolicyError
from loopscope.replay import replay
from loopscope.replay.checks import (
    CheckStatus,
    Limits,
    _judge,
    check,
    check_junit,
    check_sentence,
    check_summary,
)


def repeats(run: str, times: int, **more) -> list:
    return [call(run=run, **more) for _ in range(times)]


def mixed() -> list:
    """By time: clean, blind, an incident of errors alone, nudged, blocked."""
    return [
        call(run="clean"),
        call(run="blind", args=None, result=None),
        *repeats("errors", 3, outcome="general_tool_error"),
        *repeats("nudged", 3),
        *repeats("blocked", 6),
    ]


def test_runs_with_a_finding_come_first():
    result = check(database(mixed()), GuardPolicy())
    verdicts = [(run.run_id, run.verdict) for run in result.runs]
    assert verdicts == [
        ("blocked", "blocked"),
        ("nudged", "nudged"),
        ("errors", "incident"),
        ("blind", "not_judged"),
        ("clean", "clean"),
    ]
    assert result.findings_total == 3
    assert (result.runs_total, result.runs_judged, result.runs_without_arguments) == (5, 4, 1)
    assert check_sentence(result) == (
        "1 blocked, 2 nudged, 3 incidents in 4 judged runs; "
        "1 run had no recorded arguments and could not be judged"
    )


def test_counts_are_those_of_replay():
    con = database(mixed())
    result = check(con, GuardPolicy())
    replayed = replay(con, GuardPolicy())
    assert (result.totals, result.exact) == (replayed.totals, replayed.exact)
    assert result.coverage == replayed.coverage
    assert sum(run.calls for run in result.runs) == replayed.totals.calls
    assert sum(run.calls_avoidable for run in result.runs) == replayed.totals.calls_avoidable == 1
    (first, *_) = result.runs
    assert first.decisive is not None
    assert (first.decisive.seq, first.decisive.count, first.decisive.exact) == (5, 5, False)


def test_what_is_left_out_of_the_runs_is_counted(monkeypatch):
    monkeypatch.setattr(_judge, "_RUNS", 2)
    con = database(mixed())
    result = check(con, GuardPolicy())
    assert [run.run_id for run in result.runs] == ["blocked", "nudged"]
    assert (result.runs_total, result.runs_judged, result.findings_total) == (5, 4, 3)
    assert result.to_json()["findings_left_out"] == 1
    assert "1 more run left out" in check_summary(result)
    runs = next(suite for suite in ET.fromstring(check_junit(result)) if suite.get("name") == "runs")
    assert runs.findtext("system-out") == "3 more runs left out"
    assert runs.get("tests") == "2"


@pytest.mark.parametrize("room", [3_000, 6_000, 50_000])
def test_a_summary_is_cut_with_a_count(room):
    calls = [one for number in range(60) for one in repeats(f"run-{number}", 5, args='{"q": "ü|`"}')]
    result = check(database(calls), GuardPolicy())
    whole = check_summary(result)
    text = check_summary(result, room)
    assert len(text.encode()) <= room
    shown = text.count("blocked at call 5")
    left_out = re.search(r"(\d+) more runs? left out", text)
    assert shown + (int(left_out[1]) if left_out else 0) == 60
    assert (text == whole) is (len(whole.encode()) <= room)
    assert shown > 0


def test_a_summary_without_room_is_empty():
    result = check(database(mixed()), GuardPolicy())
    short = check_summary(result, 300)
    assert short.startswith("## Loopscope check: over the limit\n\n1 blocked")
    assert short.endswith("Everything else is left out: no room.\n")
    assert check_summary(result, 20) == ""


def test_a_store_without_calls_is_not_clean():
    result = check(database(), GuardPolicy())
    assert result.status is CheckStatus.NOTHING_JUDGED
    assert check_sentence(result) == "nothing could be judged; no tool call is recorded"


def test_a_run_recorded_under_a_live_guard_is_marked():
    seen = ["", "", "nudge", "nudge", "block"]
    calls = [call(run="live", recorded_verdict=verdict or None) for verdict in seen]
    result = check(database([*calls, call(run="plain")]), GuardPolicy())
    assert result.runs_guarded == 1
    assert [(run.run_id, run.guarded) for run in result.runs] == [("live", True), ("plain", False)]
    assert result.runs[0].decisive is not None
    assert result.runs[0].decisive.exact  # the agent had seen every note before
    assert "recorded while a live guard was at work" in check_junit(result)


def test_a_limit_that_cannot_be_exceeded_is_refused():
    con = database(mixed())
    off = GuardPolicy(nudge_threshold=None, block_threshold=None)
    with pytest.raises(PolicyError, match="no limit can be exceeded"):
        check(con, off)
    assert check(con, off, Limits(incidents=0)).status is CheckStatus.OVER_THE_LIMIT
    errors = GuardPolicy(nudge_threshold=None, block_threshold=None, error_block_threshold=3)
    assert check(con, errors).status is CheckStatus.OVER_THE_LIMIT


def test_each_failing_case_of_junit_is_over_a_limit():
    result = check(database(mixed()), GuardPolicy(), Limits(blocked=None, nudged=1, incidents=9))
    root = ET.fromstring(check_junit(result))
    failed = {case.get("name") for case in root.iter("testcase") if case.find("failure") is not None}
    assert failed == {"at most 1 nudged run", "nudged", "blocked"}
    assert root.get("failures") == "3"
    noted = {case.get("name") for case in root.iter("testcase") if case.find("system-out") is not None}
    assert noted == {"errors"}
