"""Suggestions as a whole: what they rest on, what they replay, how they go together."""

from __future__ import annotations

import json

import pytest
from replay_rows import START, call, database
from suggestion_rows import coding, polling, quiet, stuck

from loopscope.guard import GuardPolicy, Outcome, PolicyError, ToolPolicy
from loopscope.replay import Filters, find_incidents, sweep, totals
from loopscope.replay._engine import Judging
from loopscope.replay._facts import facts_of
from loopscope.replay.suggestions import (
    Effect,
    HarmLimit,
    Suggestion,
    SuggestionKind,
    _preview,
    _resets,
    accept,
    changed,
    suggest,
    suggestion_report,
)

DEFAULT = GuardPolicy()


def of_kind(found, kind):
    return [one for one in found if one.kind == kind]


def test_an_edit_between_equal_results_is_suggested_as_a_reset():
    con = database([*coding("run-1"), *coding("run-2"), *coding("run-3"), *stuck("run-4", 6)])
    (one,) = of_kind(suggest(con, DEFAULT), SuggestionKind.RESETS)
    assert one.change == {"tools": {"edit_file": {"resets": True}}}
    assert one.title == "Let a success of edit_file set the counts of other tools back"
    assert one.warning is None
    assert one.policy.rules_for("edit_file").resets
    # Four equal results of the build in each coding run: two nudges. The stuck run keeps its own.
    assert (one.before.calls_nudged, one.after.calls_nudged) == (3 * 2 + 2, 2)
    assert (one.before.runs_blocked, one.after.runs_blocked) == (1, 1)
    assert (one.effect.nudges_gone, one.effect.nudges_stay, one.effect.nudges_new) == (6, 2, 0)
    assert (one.effect.blocks_gone, one.effect.blocks_stay) == (0, 1)
    assert (one.effect.moved_before, one.effect.moved_after) == (6, 0)
    first, second = one.evidence[:2]
    assert (first.n, first.of, first.runs) == (3, 4, 3)
    assert (second.n, second.of) == (3, 3)
    keys = {incident.run_id: incident.key for incident in find_incidents(con)}
    assert {(example.run_id, example.incident) for example in first.examples} == {
        (run, keys[run]) for run in ("run-1", "run-2", "run-3")
    }
    assert {example.tool_name for example in first.examples} == {"run_build"}
    assert {example.run_id for example in one.effect.gone} <= {"run-1", "run-2", "run-3"}


def test_a_change_that_never_helped_is_no_reset():
    """A pod that is restarted once in a loop that never ends."""
    pod = [call("get_pod", "{}", "Pending", run="run-1")] * 3
    rows = [*pod, call("restart_pod", "{}", "ok", run="run-1"), *pod]
    assert of_kind(suggest(database(rows), DEFAULT), SuggestionKind.RESETS) == []


def test_a_tool_without_a_telling_name_resets_where_answers_change_behind_it():
    def run(name):
        # The answer changes right behind `frobnicate`, every time but for two.
        answers = ["a", "a", "a", "b", "c", "d"]
        rows = [call("run_checks", "{}", answers[0], run=name)]
        for number, answer in enumerate(answers[1:]):
            rows.append(call("frobnicate", f'{{"n": {number}}}', f"done {number}", run=name))
            rows.append(call("run_checks", "{}", answer, run=name))
        return rows

    rows = [*run("run-1"), *run("run-2")]
    (one,) = of_kind(suggest(database(rows), DEFAULT), SuggestionKind.RESETS)
    assert one.change == {"tools": {"frobnicate": {"resets": True}}}
    assert "Seen in 2 runs only" in (one.warning or "")
    effect = next(fact for fact in one.evidence if "only frobnicate lay between" in fact.text)
    assert (effect.n, effect.of, effect.runs) == (6, 10, 2)
    # Where it changed nothing it is a tool like any other.
    still = [call(row.tool_name, row.arguments, "a", run=row.run_id) for row in rows]
    assert of_kind(suggest(database(still), DEFAULT), SuggestionKind.RESETS) == []


def test_what_was_seen_in_one_run_is_said_to_be():
    con = database(coding("run-1"))
    (one,) = of_kind(suggest(con, DEFAULT), SuggestionKind.RESETS)
    assert one.runs == 1
    assert "one run only" in (one.warning or "")


def test_a_store_without_loops_gives_nothing_and_says_why():
    report = suggestion_report(database([*quiet("run-1"), *quiet("run-2")]), DEFAULT)
    assert report.suggestions == ()
    assert report.notes[0] == "No repeat in 2 runs: no call gave an equal result twice in a row."
    twice = [call("a", "{}", "x", run=f"run-{number}") for number in (1, 1, 2, 2)]
    report = suggestion_report(database(twice), DEFAULT)
    assert report.suggestions == ()
    assert report.notes[0].startswith("No loop in 2 runs: at most 2 equal results in a row")
    report = suggestion_report(database(), DEFAULT)
    assert report.suggestions == ()
    assert report.notes == ("Nothing to go by: no finished tool call is recorded.",)


def test_missing_content_is_said():
    rows = [call("a", "{}", None, run="run-1"), call("a", None, "x", run="run-1"), *quiet("run-1")]
    notes = suggestion_report(database(rows), DEFAULT).notes
    assert any("of 6 calls have no recorded arguments or no recorded result" in note for note in notes)


def test_runs_of_a_live_guard_are_left_out_and_counted():
    noted = [
        call("a", "{}", "x", run="guarded", recorded_verdict="nudge" if n >= 3 else None) for n in range(6)
    ]
    con = database([*noted, *coding("run-1"), *coding("run-2")])
    report = suggestion_report(con, DEFAULT)
    assert (report.runs, report.runs_guarded) == (2, 1)
    assert "1 run recorded under a live guard left out" in report.notes[0]
    assert all(one.before.runs == 2 for one in report.suggestions)
    assert all(
        example.run_id != "guarded"
        for one in report.suggestions
        for fact in one.evidence
        for example in fact.examples
    )
    everything = suggestion_report(con, DEFAULT, guarded=True)
    assert (everything.runs, everything.runs_guarded) == (3, 0)
    only = suggestion_report(database(noted), DEFAULT)
    assert (only.runs, only.runs_guarded, only.suggestions) == (0, 1, ())


def mixed():
    """Every kind of run, one nested in another, with two agents and two services."""
    rows = [*coding("run-1"), *coding("run-2", service_name="b"), *polling("run-3", 4), *polling("run-4", 5)]
    rows += [*stuck("run-5", 9), *stuck("run-6", 7, agent="other"), *quiet("run-7", service_name="b")]
    inner = "t/0123456789abcdef"
    rows += [call("get_job", "{}", "running", run=inner, parent_run_id="run-5")] * 4
    for number in range(6):
        answer = json.dumps({"state": "cold", "elapsed_ms": number})
        rows.append(call("probe", "{}", answer, run=f"run-{8 + number % 2}"))
    return rows


FILTERS = [
    Filters(),
    Filters(services=("b",)),
    Filters(run_ids=("run-1", "run-3")),
    Filters(until=START + 40 * 10**9),
]


@pytest.mark.parametrize("filters", FILTERS, ids=["all", "service", "runs", "time"])
def test_what_is_previewed_is_what_replay_says(filters):
    con = database(mixed())
    found = suggest(con, DEFAULT, filters, harm_limit=HarmLimit(share=0.2))
    assert found
    for one in found:
        assert (one.before, one.before_exact) == totals(con, DEFAULT, filters)
        assert (one.after, one.after_exact) == totals(con, one.policy, filters), one.title
        assert one.policy == changed(DEFAULT, one.change)
        effect = one.effect
        assert effect.nudges_gone + effect.nudges_stay == one.before.calls_nudged
        assert effect.nudges_new + effect.nudges_stay == one.after.calls_nudged
        assert effect.blocks_gone + effect.blocks_stay == one.before.calls_blocked
        assert effect.blocks_new + effect.blocks_stay == one.after.calls_blocked


def test_every_scope_is_previewed_as_replay_says():
    rows = [call(row.tool_name, row.arguments, row.result, run=row.run_id, session_id="s") for row in mixed()]
    con = database(rows)
    policy = GuardPolicy(scope="session")
    found = suggest(con, policy, harm_limit=HarmLimit(share=1.0))
    assert found
    for one in found:
        assert (one.after, one.after_exact) == totals(con, one.policy), one.title


@pytest.mark.parametrize("scope", ["run", "trace"])
def test_a_run_over_two_traces_has_each_nudge_and_block_once(scope):
    rows = [
        call(result=result, trace_id=trace)
        for trace, last in (("first", "one hit"), ("second", "two hits"))
        for result in (*["no hits"] * 4, last)
    ]
    con = database(rows)
    policy = GuardPolicy(nudge_threshold=2, block_threshold=None, scope=scope)
    hits = Judging(facts_of(con), con, policy).arrow("suggest_interventions", {}).to_pylist()
    assert len(hits) == totals(con, policy)[0].calls_nudged > 0
    assert len({(hit["run"], hit["seq"]) for hit in hits}) == len(hits)
    # All but the last result were followed by another one.
    assert [hit["seq"] for hit in hits if not hit["moved"]] == []


def test_suggestions_go_together():
    con = database(mixed())
    found = suggest(con, DEFAULT, harm_limit=HarmLimit(share=0.2))
    assert len({one.key for one in found}) == len(found) >= 3
    both = accept(DEFAULT, found)
    for one in found:
        assert changed(both, one.change) == both  # each is in it
    again = suggest(con, both, harm_limit=HarmLimit(share=0.2))
    assert not {one.key for one in again} & {one.key for one in found}
    assert GuardPolicy.from_toml(both.to_toml()) == both


def test_a_change_adds_to_lists_and_tables():
    policy = GuardPolicy(
        nudge_threshold=2, tools={"a": ToolPolicy(metadata_keys=("x",)), "b": ToolPolicy(exempt=True)}
    )
    rule = {"tool": "a", "text_pattern": "no", "outcome": "success"}
    change = {"tools": {"a": {"metadata_keys": ["y"], "resets": True}}, "outcome_rules": [rule]}
    after = changed(policy, change)
    assert after.nudge_threshold == 2
    assert after.tools["a"] == ToolPolicy(metadata_keys=frozenset({"x", "y"}), resets=True)
    assert after.tools["b"] == ToolPolicy(exempt=True)
    assert after.outcome_rules[0].outcome is Outcome.SUCCESS
    assert changed(after, change) == after
    assert changed(policy, {"block_threshold": "off"}).block_threshold is None


def test_changes_that_exclude_each_other_are_refused():
    con = database(mixed())
    (one, *_) = of_kind(suggest(con, DEFAULT, harm_limit=HarmLimit(share=0.2)), SuggestionKind.WAITING)
    with pytest.raises(PolicyError, match=one.key):
        accept(
            GuardPolicy(tools={"get_job": ToolPolicy(nudge_threshold=None)}, block_threshold=4), [odd(one)]
        )


def odd(one: Suggestion) -> Suggestion:
    """The suggestion with a change that no policy can hold."""
    from dataclasses import replace

    return replace(one, change={"nudge_threshold": 4, "block_threshold": 4})


def test_a_key_names_the_change_alone():
    def keys(rows):
        return {json.dumps(one.change, sort_keys=True): one.key for one in suggest(database(rows), DEFAULT)}

    few, more = keys(coding("run-1")), keys([*coding("run-1"), *coding("run-2"), *quiet("run-3")])
    assert few.items() <= more.items()


def test_where_not_all_can_be_replayed_it_is_said(monkeypatch):
    con = database([*coding("run-1"), *coding("run-2"), *coding("run-3")])
    monkeypatch.setattr(_preview, "_MOST_CALLS", 20)
    (one,) = of_kind(suggest(con, DEFAULT), SuggestionKind.RESETS)
    assert one.covers == "replayed on 2 of the 3 runs that it can change"
    two = Filters(run_ids=("run-1", "run-2"))
    assert one.before == totals(con, DEFAULT, two)[0]
    assert one.after == totals(con, one.policy, two)[0]


def test_reading_leaves_the_store_as_it_was():
    con = database(mixed())

    def there():
        tables = con.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
        return tables + con.execute("SELECT view_name FROM duckdb_views() ORDER BY 1").fetchall()

    before = there()
    assert suggest(con, DEFAULT)
    assert there() == before


def test_names_from_traces_stay_on_one_line():
    bad = "edit\n\x1b[31m" + "x" * 300
    rows = [
        call(
            bad if row.tool_name == "edit_file" else row.tool_name, row.arguments, row.result, run=row.run_id
        )
        for row in [*coding("run-1"), *coding("run-2")]
    ]
    (one,) = of_kind(suggest(database(rows), DEFAULT), SuggestionKind.RESETS)
    texts = [one.title, *(fact.text for fact in one.evidence)]
    texts += [example.text for fact in one.evidence for example in fact.examples]
    assert all("\n" not in text and "\x1b" not in text and len(text) < 600 for text in texts)
    assert one.policy.rules_for(bad).resets


def test_json_holds_all_of_it():
    report = suggestion_report(database(mixed()), DEFAULT, harm_limit=HarmLimit(share=0.2))
    data = json.loads(json.dumps(report.to_json()))
    assert data["schema_version"] == 1
    assert (data["runs"], data["calls"]) == (report.runs, report.calls)
    for row, one in zip(data["suggestions"], report.suggestions, strict=True):
        assert row["kind"] in set(SuggestionKind)
        assert row["key"] == one.key
        assert row["after"]["exact"]["calls_nudged"] == one.after_exact.calls_nudged
        assert (
            GuardPolicy.from_dict({k: v for k, v in row["policy"].items() if k != "policy_hash"})
            == one.policy
        )
        assert set(row["effect"]) == set(Effect.__dataclass_fields__)


# Thresholds


def test_thresholds_wait_longer_where_blocks_cost_work():
    """Runs that would have gone on to new work after five equal results."""
    rows = [row for number in range(6) for row in [*stuck(f"run-{number}", 6), *quiet(f"run-{number}")]]
    con = database(rows)
    report = suggestion_report(con, DEFAULT, harm_limit=HarmLimit(calls=0, share=None))
    (one,) = of_kind(report.suggestions, SuggestionKind.THRESHOLDS)
    assert one.before.calls_lost == 6 * 4
    assert one.after.calls_lost == 0
    # Nothing above 6 does anything; the nearest of these is the least change.
    assert one.change == {"nudge_threshold": 5, "block_threshold": 7}
    assert "6 of 6 blocked runs went on to something new" in one.evidence[1].text
    assert "the one nearest to the present pair" in one.evidence[2].text


def test_thresholds_act_sooner_where_loops_never_end():
    rows = [row for number in range(6) for row in stuck(f"run-{number}", 8)]
    con = database(rows)
    (one,) = of_kind(
        suggest(con, DEFAULT, harm_limit=HarmLimit(calls=0, share=None)), SuggestionKind.THRESHOLDS
    )
    assert one.change == {"nudge_threshold": 2, "block_threshold": 3}
    assert (one.before.calls_avoidable, one.after.calls_avoidable) == (6 * 3, 6 * 5)
    cells = {(row.nudge, row.block): row.totals for row in sweep(con, DEFAULT, range(2, 9), range(3, 13))}
    assert max(cell.calls_avoidable for cell in cells.values() if cell.calls_lost == 0) == 6 * 5
    instead = [fact for fact in one.evidence if fact.text.startswith("instead ")]
    assert [fact.text.split(":")[0] for fact in instead] == [
        f"instead nudge {block - 2}, block {block}" for block in (4, 6, 7, 8)
    ]
    assert [fact.n for fact in instead] == [6 * 4, 6 * 2, 6 * 1, 0]


def test_of_pairs_that_do_the_same_the_gentler_is_taken():
    """Loops of nine, in runs that each lose one call once blocked before the sixth equal result."""
    rows = []
    for number in range(6):
        loop = stuck(f"run-{number}", 9)
        rows += [*loop[:5], call("other", "{}", "new", run=f"run-{number}"), *loop[5:]]
    con = database(rows)
    found = suggest(con, DEFAULT, harm_limit=HarmLimit(calls=0, share=None))
    (one,) = of_kind(found, SuggestionKind.THRESHOLDS)
    assert one.change == {"nudge_threshold": 4, "block_threshold": 6}
    allowed = suggest(con, DEFAULT, harm_limit=HarmLimit(calls=6, share=None))
    (one,) = of_kind(allowed, SuggestionKind.THRESHOLDS)
    assert one.change == {"nudge_threshold": 2, "block_threshold": 3}
    none_of_them = suggest(con, DEFAULT, harm_limit=HarmLimit(calls=6, share=None, runs=5))
    (one,) = of_kind(none_of_them, SuggestionKind.THRESHOLDS)
    assert one.change == {"nudge_threshold": 4, "block_threshold": 6}


def test_a_pair_that_rests_on_one_run_is_not_suggested():
    report = suggestion_report(database([*stuck("run-1", 8), *quiet("run-2")]), DEFAULT)
    assert of_kind(report.suggestions, SuggestionKind.THRESHOLDS) == []
    assert any("rests on 1 blocked run: too little" in note for note in report.notes)


def test_thresholds_stay_where_nothing_is_better():
    rows = [row for number in range(6) for row in stuck(f"run-{number}", 8)]
    best = GuardPolicy(nudge_threshold=2, block_threshold=3)
    report = suggestion_report(database(rows), best)
    assert of_kind(report.suggestions, SuggestionKind.THRESHOLDS) == []
    assert any("Thresholds stay at nudge 2, block 3" in note for note in report.notes)


def test_a_policy_without_nudges_keeps_none():
    rows = [row for number in range(6) for row in stuck(f"run-{number}", 8)]
    (one,) = of_kind(suggest(database(rows), GuardPolicy(nudge_threshold=None)), SuggestionKind.THRESHOLDS)
    assert one.change == {"nudge_threshold": "off", "block_threshold": 3}


def test_a_limit_says_what_it_allows():
    assert HarmLimit(share=0.01).words(1_310) == "13 calls lost (1% of 1,310)"
    assert (
        HarmLimit(calls=1, share=None, runs=2).words(5)
        == "1 call lost and 2 blocked runs that went on to something new"
    )
    assert HarmLimit(calls=3, share=0.5).lost(100) == 3
    assert HarmLimit(share=None).words(5) == "any number of calls lost"
    assert HarmLimit(calls=70, share=0.29).lost(100) == 29  # 0.29 * 100 is 28.999… as a float


def test_errors_that_an_edit_sets_back_are_previewed_too():
    """With error thresholds, a reset also takes nudges on errors away, in runs without any other."""
    errors = [
        row
        for number in range(4)
        for row in (
            call("edit_file", f'{{"n": {number}}}', f"edited {number}", run="errors"),
            call("run_build", "{}", "no space left", "general_tool_error", run="errors"),
        )
    ]
    con = database([*coding("run-1"), *coding("run-2"), *errors])
    policy = GuardPolicy(error_nudge_threshold=3)
    (one,) = of_kind(suggest(con, policy), SuggestionKind.RESETS)
    assert (one.after, one.after_exact) == totals(con, one.policy)
    assert (one.before.calls_nudged, one.after.calls_nudged) == (2 * 2 + 2, 0)


def test_a_run_with_more_loops_than_are_looked_into_is_previewed_whole(monkeypatch):
    rows = []
    for number in range(3):
        build = coding("run-1")
        rows += [
            call(
                one.tool_name,
                f'{{"of": {number}, "n": {place}}}'
                if one.tool_name == "edit_file"
                else f'{{"of": {number}}}',
                one.result,
            )
            for place, one in enumerate(build)
        ]
    con = database([*rows, *coding("run-2")])
    monkeypatch.setattr(_resets, "_MOST_IN_UNIT", 1)
    (one,) = of_kind(suggest(con, DEFAULT), SuggestionKind.RESETS)
    assert (one.evidence[0].n, one.evidence[0].of) == (2, 4)
    assert one.evidence[0].text.startswith("in at least 2 of 4 stretches")
    assert (one.after, one.after_exact) == totals(con, one.policy)
    assert one.effect.nudges_gone == 2 * 4
