"""`loopscope requests` on the samples: refused histories that hold real doubles, and one history shown."""

from __future__ import annotations

import json

import pytest

from loopscope.cli._requests import _sentence


@pytest.fixture
def result(run, samples_db):
    done = run("requests", "--db", samples_db, "--format", "json")
    assert done.code == 0
    return json.loads(done.out)


def test_json_has_the_documented_fields(result):
    assert result["schema_version"] == 1
    assert {"coverage", "totals", "by_class", "by_repair", "requests", "causes"} <= set(result)
    totals = result["totals"]
    judged = ("prevented", "prevented_by_guard", "not_prevented", "undetermined")
    assert totals["tool_related"] == sum(totals[key] for key in judged) > 0
    assert totals["prevented_by_dedup"] == sum(row["prevented_by_dedup"] for row in result["requests"]) > 0
    assert totals["failed"] == len(result["requests"])
    assert totals["broken"] == 0


def test_the_table_says_what_it_covers(run, samples_db, result):
    out = run("requests", "--db", samples_db).out
    totals = result["totals"]
    assert out.startswith(f"{totals['failed']} of {totals['requests']} requests failed, ")
    assert "requests that succeeded" in out
    coverage = result["coverage"]
    assert f"Not checked: {coverage['passed_not_recorded']} recorded without messages" in out
    assert "requests that succeeded" not in run("requests", "--db", samples_db, "--failed-only").out


def test_csv_has_one_line_for_each_failed_request(run, samples_db, result):
    lines = run("requests", "--db", samples_db, "--format", "csv").out.splitlines()
    assert len(lines) == 1 + result["totals"]["failed"]


def test_one_history_before_and_after(run, samples_db, result):
    row = next(row for row in result["requests"] if row["prevented_by_dedup"])
    done = run("requests", "--db", samples_db, "--show", row["span_id"])
    assert done.code == 0
    # The rules that the recording breaks stand apart from the repaired messages.
    headings = ["As recorded", "Repaired", "What is refused of the recorded history", "Repairs"]
    assert [line for line in done.out.splitlines() if line in headings] == headings
    assert run("requests", "--db", samples_db, "--show", row["span_id"][:8]).out == done.out
    shown = run(
        "requests", "--db", samples_db, "--show", f"{row['trace_id']}/{row['span_id']}", "--format", "json"
    )
    history = json.loads(shown.out)
    assert history["violations_before"]
    assert not history["violations_after"]
    assert {repair["kind"] for repair in history["repairs"]} == set(row["repairs"])


def test_another_provider_may_judge_it(run, samples_db, result):
    passed = result["by_provider"][0]
    where = f"{passed['sample_trace_id']}/{passed['sample_span_id']}"
    done = run("requests", "--db", samples_db, "--show", where, "--provider", passed["provider"])
    assert "Repairs" in done.out


def test_what_is_not_there_is_one_line(run, samples_db):
    done = run("requests", "--db", samples_db, "--show", "feedfacefeedface")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "no LLM request has this span id" in done.err


def test_a_provider_whose_rules_are_not_known_is_refused(run, samples_db):
    done = run("requests", "--db", samples_db, "--provider", "nosuch")
    assert (done.code, "no rules are known" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ((5, 0, 0, 0, 0), "All 5 recorded requests were answered."),
        ((5, 0, 2, 0, 0), "None of 5 requests failed, 2 were cancelled."),
        ((20, 2, 18, 0, 0), "2 of 20 requests failed, none of them over tool calls and results; 18 more"),
        ((9, 2, 0, 1, 1), "2 of 9 requests failed, 1 of them over tool calls and results (1 cause)."),
    ],
)
def test_the_sentence_of_the_command(figures: tuple[int, ...], said: str) -> None:
    keys = ("requests", "failed", "cancelled", "tool_related", "causes")
    assert _sentence(dict(zip(keys, figures, strict=True))).startswith(said)
