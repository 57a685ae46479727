"""Waiting tools, names and keys that are noise, outcomes: what speaks for them, and what does not."""

from __future__ import annotations

import json

import pytest
from replay_rows import call, database
from suggestion_rows import coding, polling, quiet, stuck

from loopscope.guard import GuardPolicy, ToolPolicy
from loopscope.replay import call_verdicts
from loopscope.replay.suggestions import HarmLimit, SuggestionKind, suggest, suggestion_report
from loopscope.replay.suggestions._names import changes_things, is_noise, tells_why
from loopscope.replay.suggestions._results import PATTERNS

DEFAULT = GuardPolicy()


def found(rows, kind, policy=DEFAULT, **more):
    return [one for one in suggest(database(rows), policy, **more) if one.kind == kind]


# Waiting


def test_a_tool_that_waits_gets_thresholds_above_every_wait():
    rows = [row for number, equal in enumerate([3, 4, 6, 2]) for row in polling(f"run-{number}", equal)]
    (one,) = found(rows, SuggestionKind.WAITING)
    assert one.change == {"tools": {"get_job": {"nudge_threshold": 7, "block_threshold": 9}}}
    assert one.runs == 3
    assert one.warning is None
    first, lengths = one.evidence[:2]
    assert (first.n, first.of) == (3, 3)
    assert "2 × 1, 3 × 1, 4 × 1, 6 × 1 (length × how often)" in lengths.text
    # Six in a row were blocked at the fifth: the sixth was known, the answer was lost.
    assert (one.before.calls_lost, one.before.calls_avoidable) == (1, 1)
    assert (one.after.calls_nudged, one.after.runs_blocked, one.after.calls_lost) == (0, 0, 0)
    assert "an exemption, would lose 0 calls" in one.evidence[-1].text


def test_a_tool_is_exempt_where_its_own_thresholds_would_lose_more():
    rows = [row for number in range(3) for row in polling(f"run-{number}", 4)]
    # A job that never ended, in a run that went on to other work all the same.
    rows += [*stuck("run-9", 12, tool="get_job"), *quiet("run-9")]
    (one,) = found(rows, SuggestionKind.WAITING)
    assert one.change == {"tools": {"get_job": {"exempt": True}}}
    assert one.after.calls_lost == 0
    assert "thresholds of its own, would lose 4 calls" in one.evidence[-1].text


def test_a_tool_that_is_stuck_more_often_than_it_waits_is_no_waiting_tool():
    rows = [*polling("run-1", 4), *stuck("run-2", 9, tool="get_job"), *stuck("run-3", 9, tool="get_job")]
    assert found(rows, SuggestionKind.WAITING) == []


def test_what_an_edit_explains_is_no_waiting():
    rows = [row for number in range(3) for row in coding(f"run-{number}")]
    assert found(rows, SuggestionKind.WAITING) == []
    assert found(rows, SuggestionKind.RESETS)


def test_a_tool_that_waits_within_the_thresholds_is_left_alone():
    rows = [row for number in range(3) for row in polling(f"run-{number}", 4)]
    policy = GuardPolicy(tools={"get_job": ToolPolicy(nudge_threshold=5, block_threshold=8)})
    assert found(rows, SuggestionKind.WAITING, policy) == []
    assert found(rows, SuggestionKind.WAITING, GuardPolicy(tools={"get_job": ToolPolicy(exempt=True)})) == []
    (one,) = found(rows, SuggestionKind.WAITING, GuardPolicy(nudge_threshold=None, block_threshold=4))
    assert one.change == {"tools": {"get_job": {"block_threshold": 5}}}


# Arguments


def noisy(run, key, values, *, result="one file", tool="shell"):
    rows = [call(tool, json.dumps({"command": "ls", key: value}), result, run=run) for value in values]
    other = json.dumps({"command": "pwd", key: "other"})
    return [*rows, call(tool, other, "/home", run=run)]


@pytest.mark.parametrize("key", ["nonce", "description", "requestId", "timestamp"])
def test_an_argument_that_varies_alone_is_left_out(key):
    rows = [row for run in ("run-1", "run-2", "run-3") for row in noisy(run, key, ["a", "b", "c", "d"])]
    (one,) = found(rows, SuggestionKind.ARGUMENTS)
    assert one.change == {"tools": {"shell": {"metadata_keys": [key]}}}
    first, longest = one.evidence
    assert (first.n, first.of, first.runs) == (9, 9, 3)
    assert longest.n == 4
    assert f'{key}: "a" → "b"' in first.examples[0].text
    assert (one.before.calls_nudged, one.after.calls_nudged) == (0, 6)
    con = database(rows)
    counts = call_verdicts(con, one.policy, "run-1").column("count").to_pylist()
    assert counts == [1, 2, 3, 4, 1]


def test_two_arguments_that_vary_together_are_one_suggestion():
    rows = [
        call("shell", json.dumps({"command": "ls", "nonce": n, "trace_id": 10 - n}), "one", run=f"run-{run}")
        for run in range(3)
        for n in range(4)
    ]
    (one,) = found(rows, SuggestionKind.ARGUMENTS)
    assert one.change == {"tools": {"shell": {"metadata_keys": ["nonce", "trace_id"]}}}


def test_values_that_are_new_each_time_tell_without_a_name():
    rows = []
    for run in range(3):
        for n in range(4):
            value = f"1234567{run}-0000-4000-8000-00000000000{n}"
            rows.append(call("shell", json.dumps({"command": "ls", "xr": value}), "one", run=f"run-{run}"))
        rows.append(
            call(
                "shell",
                json.dumps({"command": "pwd", "xr": f"1234567{run}-0000-4000-8000-00000000000a"}),
                "/home",
                run=f"run-{run}",
            )
        )
    (one,) = found(rows, SuggestionKind.ARGUMENTS)
    assert one.change == {"tools": {"shell": {"metadata_keys": ["xr"]}}}


@pytest.mark.parametrize(
    ("key", "results"),
    [
        ("page_token", ["x"] * 4),  # says where to go on
        ("query", ["x"] * 4),  # what is asked: nothing found is an answer to each
        ("description", ["a", "b", "c", "d"]),  # the answer depends on it
        ("request_id", ["a", "b", "c", "d"]),
        ("q", ["x"] * 4),
    ],
)
def test_an_argument_that_says_something_stays(key, results):
    rows = []
    for run in ("run-1", "run-2", "run-3"):
        made = noisy(run, key, ["a", "b", "c", "d"])
        rows += [
            call("shell", one.arguments, answer, run=run)
            for one, answer in zip(made, [*results, "/home"], strict=True)
        ]
    assert found(rows, SuggestionKind.ARGUMENTS) == []


def test_what_a_tool_writes_down_is_no_noise():
    rows = [row for run in ("run-1", "run-2") for row in noisy(run, "note", "abcd", tool="add_ticket")]
    assert found(rows, SuggestionKind.ARGUMENTS) == []
    # With one answer to everything nothing shows what the answer depends on.
    rows = [
        call("shell", json.dumps({"command": "ls", "description": n}), "ok", run=f"run-{run}")
        for run in range(2)
        for n in "abcd"
    ]
    assert found(rows, SuggestionKind.ARGUMENTS) == []


def test_an_argument_that_would_only_disturb_work_stays():
    """A job that is asked for ten times before it moves: once the calls count, a block cuts that off."""
    rows = []
    for run in range(3):
        answers = ["a"] * 10 + ["b"] * 10
        rows += [
            call("watch_job", json.dumps({"id": 7, "nonce": n}), answer, run=f"run-{run}")
            for n, answer in enumerate(answers)
        ]
    report = suggestion_report(database(rows), DEFAULT)
    assert [one for one in report.suggestions if one.kind == SuggestionKind.ARGUMENTS] == []
    assert any(
        note.startswith("Not suggested: Leave the argument nonce of watch_job") for note in report.notes
    )


# Results


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("elapsed_ms", [5, 7, 6, 9]),
        ("request_id", ["a1", "b2", "c3", "d4"]),
        ("at", [f"2026-01-02T03:04:0{n}Z" for n in range(4)]),
    ],
)
def test_a_key_of_results_that_varies_alone_is_left_out(key, values):
    rows = [
        call("probe", "{}", json.dumps({"state": "cold", key: value}), run=f"run-{run}")
        for run in range(3)
        for value in values
    ]
    (one,) = found(rows, SuggestionKind.RESULTS)
    assert one.change == {"tools": {"probe": {"ignored_result_keys": [key]}}}
    assert (one.evidence[0].n, one.evidence[0].of, one.evidence[0].runs) == (9, 9, 3)
    assert (one.before.calls_nudged, one.after.calls_nudged) == (0, 6)


@pytest.mark.parametrize(
    ("results"),
    [
        [{"state": "busy", "percent": n} for n in range(4)],  # progress
        [{"state": "busy", "updated_at": f"2026-01-02T03:04:0{n}Z"} for n in range(4)],  # says that it moved
        [{"time": f"2026-01-02T03:04:0{n}Z"} for n in range(4)],  # a clock
        [{"state": n, "elapsed_ms": n} for n in range(4)],  # something else moves too
        [{"rows": n, "next_cursor": n} for n in range(4)],
    ],
)
def test_a_result_that_says_something_stays(results):
    rows = [call("probe", "{}", json.dumps(one), run=f"run-{run}") for run in range(3) for one in results]
    assert found(rows, SuggestionKind.RESULTS) == []


@pytest.mark.parametrize(
    ("what", "texts"),
    [
        ("a duration", [f"Checked 10 files in {n + 17}ms. No fixes." for n in range(4)]),
        ("a date with a time", [f"as of 2026-01-02 03:04:0{n}: idle" for n in range(4)]),
        ("a time of day", [f"[03:04:0{n}] idle" for n in range(4)]),
        ("a UUID", [f"job 12345678-0000-4000-8000-00000000000{n} idle" for n in range(4)]),
        ("an address in memory", [f"<object at 0x7f00{n}a0b1c>" for n in range(4)]),
    ],
)
def test_a_passage_of_results_that_varies_alone_is_left_out(what, texts):
    rows = [call("check", "{}", text, run=f"run-{run}") for run in range(3) for text in texts]
    (one,) = found(rows, SuggestionKind.RESULTS)
    assert one.title == f"Leave {what} out of the results of check"
    assert one.change == {"tools": {"check": {"ignored_result_patterns": [PATTERNS[what]]}}}
    assert one.after.calls_nudged == 6


def test_passages_are_left_alone_where_more_differs():
    rows = [
        call("check", "{}", f"Checked {n} files in {n}ms", run=f"run-{run}")
        for run in range(3)
        for n in range(4)
    ]
    assert found(rows, SuggestionKind.RESULTS) == []


# Outcomes


def test_a_result_that_begins_with_error_and_works_when_tried_again():
    rows = []
    for run in ("run-1", "run-2", "run-3"):
        rows += [call("fetch", "{}", "Error: busy", run=run)] * 3 + [call("fetch", "{}", "page", run=run)]
        rows += [call("fetch", f'{{"n": {n}}}', f"page {n}", run=run) for n in range(3)]
    (one,) = found(rows, SuggestionKind.OUTCOMES)
    rule = {
        "tool": "fetch",
        "text_pattern": r"(?:Error)\b",
        "on_success": True,
        "outcome": "general_tool_error",
    }
    assert one.change == {"outcome_rules": [rule]}
    assert (one.evidence[0].n, one.evidence[0].of, one.evidence[0].runs) == (9, 9, 3)
    assert (one.before.calls_nudged, one.after.calls_nudged) == (3, 0)
    # Where they never worked they are loops like any other.
    stuck_ones = [row for row in rows if row.result != "page"]
    assert found(stuck_ones, SuggestionKind.OUTCOMES) == []


def test_an_error_that_always_comes_back_counts():
    text = 'relation "orders" does not exist'
    rows = [
        call(
            "run_sql",
            '{"q": 1}',
            text,
            "general_tool_error",
            run=run,
            error_message=text,
            error_kind="tool_failure",
        )
        for run in ("run-1", "run-2", "run-3")
        for _ in range(4)
    ]
    (one,) = found(rows, SuggestionKind.OUTCOMES)
    (rule,) = one.change["outcome_rules"]
    assert (rule["tool"], rule["outcome"]) == ("run_sql", "schema_error")
    assert one.evidence[0].n == 9
    assert (one.before.calls_nudged, one.after.calls_nudged) == (0, 6)
    # Seen in one run, or of a kind that passes, or gone when tried again: too little.
    assert found(rows[:4] * 2, SuggestionKind.OUTCOMES) == []
    passing = [
        call("run_sql", row.arguments, text, row.outcome, run=row.run_id, error_message=text) for row in rows
    ]
    assert passing[0].error_kind == "timeout"
    assert found(passing, SuggestionKind.OUTCOMES) == []
    worked = [*rows, *[call("run_sql", '{"q": 1}', "3 rows", run="run-1")]]
    assert found(worked, SuggestionKind.OUTCOMES) == []
    counted = GuardPolicy(error_nudge_threshold=3)
    assert found(rows, SuggestionKind.OUTCOMES, counted) == []


# Names


def test_names_tell_what_changes():
    changing = """
        edit edit_file Write multiEdit apply_patch find_and_replace mcp__fs__write_file
        toggle_data reboot_device
    """
    reading = """
        get_update_status check_payment_request search_and_edit can_send_mms read bash run_tests list_files
    """
    assert [name for name in changing.split() if not changes_things(name)] == []
    assert [name for name in reading.split() if changes_things(name)] == []


def test_names_tell_what_is_noise():
    noise = "nonce requestId elapsed_ms trace_id timestamp took_ms generated_at idempotency_key query_time_ms"
    data = "page_token cursor id order_id time updated_at start_time line query file_path version description"
    assert [name for name in noise.split() if not is_noise(name)] == []
    assert [name for name in data.split() if is_noise(name)] == []
    assert tells_why("description")
    assert not tells_why("description_url")


def test_stricter_suggestions_stay_within_the_limit():
    """Leaving the nonce out finds loops, and cuts off what came after them."""
    rows = []
    for run in range(3):
        rows += [
            call("shell", json.dumps({"c": "ls", "nonce": n}), "one", run=f"run-{run}") for n in range(9)
        ]
        rows += quiet(f"run-{run}")[:3]
    (one,) = found(rows, SuggestionKind.ARGUMENTS, harm_limit=HarmLimit(calls=9, share=None))
    assert (one.after.calls_avoidable, one.after.calls_lost) == (12, 9)
    assert found(rows, SuggestionKind.ARGUMENTS, harm_limit=HarmLimit(calls=8, share=None)) == []
