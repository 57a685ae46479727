"""Suggestions from public recordings; rows of our own pin the same rules in test_suggestions.py."""

from __future__ import annotations

import pytest
from shared_corpus import corpus

from loopscope.collector import Store, import_paths
from loopscope.guard import GuardPolicy
from loopscope.replay import call_verdicts, verdict_changes
from loopscope.replay.suggestions import HarmLimit, SuggestionKind, accept, suggestion_report

DEFAULT = GuardPolicy()


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A store with one file of the corpus."""

    def make(*parts):
        db = tmp_path_factory.mktemp("corpus") / "traces.duckdb"
        assert import_paths(db, [corpus(*parts)]).ok
        return Store(db)

    return make


def test_checks_after_edits_are_nudged_and_a_suggestion_takes_that_away(imported):
    """One coding session, in which the same check is run again after edits, often with the same result."""
    with imported("real", "pi-mono", "before-compaction.jsonl.gz").lease() as con:
        verdicts = call_verdicts(con, DEFAULT).to_pylist()
        nudged = [row["seq"] for row in verdicts if row["action"] == "nudge"]
        assert nudged == [370, 383, 447]
        texts = dict(con.execute("SELECT seq, arguments FROM tool_calls WHERE seq IS NOT NULL").fetchall())
        assert all("npm run check 2>&1 | tail -10" in texts[seq] for seq in nudged)
        changes = [
            row["seq"]
            for row in verdicts
            if row["tool_name"] in ("edit", "write") and row["outcome"] == "success"
        ]
        same_check = [row["seq"] for row in verdicts if texts[row["seq"]] == texts[370]]
        for seq in nudged:  # since the check before, something was edited
            before = max(one for one in same_check if one < seq)
            assert any(before < change < seq for change in changes)

        report = suggestion_report(con, DEFAULT)
        (one,) = report.suggestions
        assert one.kind == SuggestionKind.RESETS
        assert one.change == {"tools": {"edit": {"resets": True}, "write": {"resets": True}}}
        assert "one run only" in (one.warning or "")
        assert (one.before.calls_nudged, one.after.calls_nudged) == (3, 0)
        assert [example.seq for example in one.effect.gone] == nudged
        assert all(example.incident for example in one.effect.gone)
        gone = verdict_changes(con, DEFAULT, accept(DEFAULT, [one]))
        assert [row["seq"] for row in gone.calls.to_pylist() if row["action_before"] == "nudge"] == nudged
        assert {row["action"] for row in gone.calls.to_pylist()} == {"allow"}
        # The check's duration makes its results differ. Without it the guard would stop the session.
        assert any(
            note.startswith("Not suggested: Leave a duration out of the results of bash")
            for note in report.notes
        )


# Every call after a block, by hand from the recordings: run (its end), place in the run, tool, and whether
# the run already had this result of this call of this agent.
AFTER_A_BLOCK = [
    ("faebc5a49cde965a", 27, "transfer_to_human_agents", "lost"),
    ("00c13203e0bcbfe8", 20, "get_details_by_id", "lost"),  # L1001
    ("00c13203e0bcbfe8", 21, "get_details_by_id", "lost"),  # L1002
    ("00c13203e0bcbfe8", 22, "get_details_by_id", "lost"),  # P1002
    ("00c13203e0bcbfe8", 23, "refuel_data", "lost"),
    ("00c13203e0bcbfe8", 24, "can_send_mms", "avoidable"),  # cannot, as five times before
    ("00c13203e0bcbfe8", 25, "reboot_device", "avoidable"),  # the status bar of call 18
    ("00c13203e0bcbfe8", 26, "can_send_mms", "avoidable"),
    ("00c13203e0bcbfe8", 27, "transfer_to_human_agents", "lost"),
    ("9cf1b6a8130daad1", 19, "transfer_to_human_agents", "lost"),
    ("a1fc5ca32b1d7701", 24, "can_send_mms", "avoidable"),  # as in calls 5, 17 and 20
    ("a1fc5ca32b1d7701", 25, "transfer_to_human_agents", "lost"),
    ("95ff7dd13e47e26a", 24, "transfer_to_human_agents", "lost"),
]


def test_thirteen_calls_after_a_block_one_by_one(imported):
    """Forty telecom runs in which a phone's user asks again after each fix whether it works now."""
    with imported("real", "tau2-bench", "gpt4.1_telecom_default.json.gz").lease() as con:
        after = [row for row in call_verdicts(con, DEFAULT).to_pylist() if row["action"] == "after_block"]
        found = [
            (row["run_id"].rpartition("/")[2], row["seq"], row["tool_name"], row["judged"]) for row in after
        ]
        assert sorted(found) == sorted(AFTER_A_BLOCK)
        assert all(not row["exact"] for row in after)  # a nudge came first each time

        report = suggestion_report(con, DEFAULT)
        resets, thresholds = report.suggestions
        assert resets.kind == SuggestionKind.RESETS
        assert {"reboot_device", "toggle_airplane_mode", "grant_app_permission"} <= set(
            resets.change["tools"]
        )
        assert not any(name.startswith(("check_", "can_", "get_", "run_")) for name in resets.change["tools"])
        assert (resets.before.calls_nudged, resets.after.calls_nudged) == (39, 0)
        assert (resets.before.calls_lost, resets.after.calls_lost) == (9, 0)
        assert (resets.before.calls_avoidable, resets.after.calls_avoidable) == (4, 0)
        # 1% of 689 calls are six; the present pair loses nine.
        assert thresholds.change == {"nudge_threshold": 4, "block_threshold": 6}
        assert (thresholds.after.calls_avoidable, thresholds.after.calls_lost) == (2, 1)
        wider = suggestion_report(con, DEFAULT, harm_limit=HarmLimit(calls=29, share=None))
        (pair,) = [one for one in wider.suggestions if one.kind == SuggestionKind.THRESHOLDS]
        assert pair.change == {"nudge_threshold": 2, "block_threshold": 4}
        assert (pair.after.calls_avoidable, pair.after.calls_lost) == (10, 29)


def test_runs_without_a_loop_give_nothing_and_say_so(imported):
    with imported("real", "tau2-bench", "gpt4.1_retail_default.json.gz").lease() as con:
        report = suggestion_report(con, DEFAULT)
        assert report.suggestions == ()
        assert report.notes[0].startswith("No repeat in 40 runs")
