"""Weak labels: what a recording suggests, by which rule, and how often people agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from label_tools import by_run, say
from replay_rows import START, call, database
from shared_corpus import corpus

from loopscope.collector import Store, ToolCall, import_paths
from loopscope.replay import WEAK_RULES, Filters, LabelVerdict, find_incidents, weak_agreement, weak_labels
from loopscope.replay.labels._weak import _RULES, _SENTENCES

ERROR = "general_tool_error"


def work(*pages: int) -> list[ToolCall]:
    """Other calls, each with a result of its own."""
    return [call("read", f'{{"page": {page}}}', f"text of page {page}") for page in pages]


def failing(times: int, **more: object) -> list[ToolCall]:
    return [call("fetch", outcome=ERROR, result="503", **more)] * times  # type: ignore[arg-type]


SAME = [call()] * 3
CHANGED = call(result="a hit")
CASES: dict[str, tuple[list[ToolCall], str | None, str]] = {
    "a poll": (
        [*[call()] * 4, CHANGED, *work(1, 2)],
        "changed_later",
        "After 4 equal results the same call gave another one with the next call (500 ms); "
        "meanwhile other calls brought 0 new results.",
    ),
    "a poll with one thing done meanwhile": (
        [call(), call(), *work(1), call(), CHANGED],
        "changed_later",
        "After 3 equal results the same call gave another one with the next call (500 ms); "
        "meanwhile other calls brought 1 new result.",
    ),
    "a check that work changes": (
        [*SAME, *work(1, 2, 3), CHANGED],
        "changed_after_work",
        "After 3 equal results the same call gave another one 4 calls later (3.5 s); "
        "meanwhile other calls brought 3 new results.",
    ),
    "checks between pieces of work": (
        [call(), *work(1), call(), *work(2, 3), call(), CHANGED],
        "work_between",
        "Between its 3 equal results other calls brought 3 new results.",
    ),
    "the end of a run": (
        [*work(1), *[call()] * 6],
        "run_ended_in_it",
        "The run ended in it: after its third call the run made 3 more calls, none with a new result.",
    ),
    "the end of a run at once": (
        SAME,
        "run_ended_in_it",
        "The run ended in it: after its third call the run made no more calls.",
    ),
    "known pages after a loop": (
        [*work(1), *SAME, *work(1)],
        "nothing_new_after",
        "Nothing came of it: after its third call the run made 1 more call, none with a new result.",
    ),
    "much work after a loop": (
        [*[call()] * 4, *work(1, 2, 3, 4)],
        "stop_costs_more",
        "A stop would have cost more than it saved: after its third call the run made 5 more calls, "
        "4 with a new result and 1 with one that was known.",
    ),
    "a little work after a loop": ([*[call()] * 4, *work(1, 2, 3)], None, ""),
    "a retry": (
        [*failing(3), call("fetch", result="the page")],
        "succeeded_later",
        "It failed 3 times, then the same call succeeded with the next call.",
    ),
    "a retry after a while": (
        [*failing(3), *work(1), call("fetch", result="the page")],
        "succeeded_later",
        "It failed 3 times, then the same call succeeded 2 calls later.",
    ),
    "another attempt": (
        [
            *(call("open", f'{{"url": "{n}"}}', "HTTP 404", ERROR) for n in "abc"),
            call("open", "{}", "a page"),
        ],
        "succeeded_later",
        "It failed 3 times, then the tool succeeded with the next call.",
    ),
    "a retry in vain": (
        failing(5),
        "failed_to_the_end",
        "It failed 5 times and never succeeded; after its third call the run made 2 more calls, "
        "none with a new result.",
    ),
    "a schema error in vain": (
        [call(outcome="schema_error", result="no such field")] * 4,
        "failed_to_the_end",
        "It failed 4 times and never succeeded; after its third call the run made 1 more call, "
        "none with a new result.",
    ),
    "errors, then other work": ([*failing(3), *work(1, 2, 3, 4, 5, 6)], None, ""),
    "a cycle to the end": (
        [call(), call("read", "{}", "nothing")] * 4,
        "run_ended_in_it",
        "The run ended in it: after its third lap the run made 2 more calls, none with a new result.",
    ),
    "a cycle that polls": (
        [*[call(), call("sleep", "{}", "")] * 3, CHANGED],
        "changed_later",
        "After 3 equal laps the same call gave another one with the next call (500 ms); "
        "meanwhile other calls brought 0 new results.",
    ),
    "an end that was not recorded": ([*SAME, call("read", "{}", None)], None, ""),
    "an end that was cut": ([*SAME, call("read", "{}", "begin…", content_state="truncated")], None, ""),
    "twins": ([call(turn=1), call(turn=1)], None, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_recording_suggests_what_an_incident_was(case: str) -> None:
    calls, rule, evidence = CASES[case]
    con = database(calls)
    [incident] = find_incidents(con)
    found = [(one.key, one.verdict, one.rule, one.evidence) for one in weak_labels(con)]
    assert found == ([] if rule is None else [(incident.key, WEAK_RULES[rule][0], rule, evidence)])


def test_every_rule_is_shown_by_a_case_and_asked_in_the_order_told() -> None:
    assert {rule for _, rule, _ in CASES.values() if rule} == set(WEAK_RULES)
    assert [rule for rule, _ in _RULES] == list(WEAK_RULES)
    assert set(_SENTENCES) == set(WEAK_RULES)
    assert {verdict for verdict, _ in WEAK_RULES.values()} == set(LabelVerdict) - {LabelVerdict.UNSURE}


def test_of_a_run_that_goes_on_nothing_is_known_of_the_end() -> None:
    con = database(
        [call(run="ab/cd")] * 4 + [call(run="ef/01")] * 4,
        spans=[("ab", "cd", START, None, 0), ("ef", "01", START, START + 1, 0)],
    )
    incidents = by_run(con)
    assert [one.key for one in weak_labels(con)] == [incidents["ef/01"].key]


def test_of_what_comes_after_a_thousand_calls_nothing_is_said() -> None:
    pages = [call("read", '{"page": 1}', "text")]
    con = database([*pages, *SAME, *pages * 1_000])
    assert weak_labels(con, Filters(tools=("search_docs",))) == ()


def test_weak_labels_follow_the_filter_and_are_never_stored() -> None:
    con = database([call(run=run) for run in ("a", "b") for _ in range(3)])
    incidents = by_run(con)
    found = weak_labels(con, Filters(run_ids=("a",)))
    assert [one.key for one in found] == [incidents["a"].key]
    assert found[0].to_json()["verdict"] == "true_loop"
    assert con.execute("SELECT count(*) FROM labels").fetchall() == [(0,)]
    assert weak_labels(database()) == ()


def test_agreement_is_measured_where_people_labelled_as_well() -> None:
    con = database(
        [call(run=run, args=f'{{"q": "{run}"}}') for run in "abcde" for _ in range(3)]
        + [*failing(3, run="r"), call("fetch", result="the page", run="r")]
    )
    incidents = by_run(con)
    people = {"a": "true_loop", "b": "polling", "c": "unsure", "d": "true_loop", "r": "polling"}
    say(con, {incidents[run].key: verdict for run, verdict in people.items()})
    retries, ended = weak_agreement(con)
    assert (retries.rule, retries.offered, retries.unsure) == ("succeeded_later", 1, 0)
    assert (retries.agree.hits, retries.agree.n, retries.same_side.hits) == (0, 1, 1)
    assert (ended.rule, ended.verdict, ended.offered) == ("run_ended_in_it", LabelVerdict.TRUE_LOOP, 5)
    assert (ended.agree.hits, ended.agree.n, ended.same_side.hits, ended.unsure) == (2, 3, 2, 1)
    assert ended.to_json()["agree"]["value"] == pytest.approx(2 / 3)


def test_checks_after_edits_in_a_recorded_session_are_taken_for_legitimate(tmp_path: Path) -> None:
    session = corpus("real", "pi-mono", "before-compaction.jsonl.gz")
    store = Store(tmp_path / "t.duckdb")
    import_paths(store.path, [session])
    with store.lease() as con:
        found = weak_labels(con)
        kinds = {one.key: one.kind.value for one in find_incidents(con)}
    checks = [one for one in found if kinds[one.key] == "loop"]
    assert checks
    assert {(one.verdict.value, one.rule) for one in checks} == {("legitimate_repeat", "work_between")}
