"""`loopscope policy diff`: words, and with a database what changes on the recorded calls."""

from __future__ import annotations

import csv
import io
import json

import pytest


@pytest.fixture
def strict(tmp_path):
    file = tmp_path / "strict.toml"
    file.write_text("version = 1\nnudge_threshold = 2\nblock_threshold = 3\n")
    return file


def test_without_a_database_it_says_words_only(run, strict):
    ran = run("policy", "diff", "default", strict)
    assert ran.code == 0
    assert "3" in ran.out
    assert "verdict" not in ran.out
    words = json.loads(run("policy", "diff", "default", strict, "--format", "json").out)
    assert set(words) == {"schema_version", "words"}
    assert len(words["words"]) == 2
    assert "say the same" in run("policy", "diff", "default", "default").out


def test_the_json_holds_both_sides_and_what_changes(run, samples_db, strict):
    found = json.loads(run("policy", "diff", "default", strict, "--db", samples_db, "--format", "json").out)
    assert found["words"]
    replayed = {
        name: json.loads(run("replay", "--db", samples_db, *policy, "--format", "json").out)["totals"]
        for name, policy in (("before", ("--nudge", 3, "--block", 5)), ("after", ("--policy", strict)))
    }
    for side, totals in replayed.items():
        assert found[side]["totals"] == totals
    assert found["calls_changed"] == sum(one["calls"] for one in found["changes"]) > 0
    gain = found["newly_avoided"] - found["no_longer_avoided"]
    assert gain == replayed["after"]["calls_avoidable"] - replayed["before"]["calls_avoidable"]
    shown = found["examples"]
    assert {(one["before"], one["after"]) for one in shown} == {
        (one["before"], one["after"]) for one in found["changes"]
    }


def test_the_table_says_gain_harm_and_which_verdicts_change(run, samples_db, strict):
    ran = run("policy", "diff", "default", strict, "--db", samples_db)
    assert ran.code == 0
    found = json.loads(run("policy", "diff", "default", strict, "--db", samples_db, "--format", "json").out)
    assert f"for {found['calls_changed']:,} of" in ran.out
    assert f"Gain: {found['newly_avoided']:,} more" in ran.out
    assert f"{found['newly_lost']:,} more calls lost" in ran.out
    assert "allowed → nudged" in ran.out
    back = run("policy", "diff", strict, "default", "--db", samples_db).out
    assert f"Gain: {found['newly_avoided']:,} fewer needless calls spared." in back
    (one, other) = (next(line for line in out.splitlines() if "spared:" in line) for out in (ran.out, back))
    assert "+" in one
    assert "-" in other
    for what in ("tokens", "cost"):
        line = next(line for line in ran.out.splitlines() if line.split()[:1] == [what])
        assert "+" in line
    again = run("policy", "diff", strict, strict, "--db", samples_db).out
    assert "say the same" in again
    assert "No verdict changes" in again


def test_every_figure_as_csv(run, samples_db, strict):
    text = run("policy", "diff", "default", strict, "--db", samples_db, "--format", "csv").out
    rows = {row["what"]: row for row in csv.DictReader(io.StringIO(text))}
    found = json.loads(run("policy", "diff", "default", strict, "--db", samples_db, "--format", "json").out)
    assert int(rows["calls_lost"]["after"]) == found["after"]["totals"]["calls_lost"]
    assert int(rows["avoidable.wall_ns"]["after"]) == found["after"]["after_block"]["avoidable"]["wall_ns"]


def test_filters_choose_what_is_compared(run, samples_db, strict):
    def compared(*args):
        command = ("policy", "diff", "default", strict, "--db", samples_db, "--format", "json")
        return json.loads(run(*command, *args).out)

    everything = compared()
    tool = everything["by_tool"][0]["name"]
    only = compared("--tool", tool)
    assert [one["name"] for one in only["by_tool"]] == [tool]
    assert 0 < only["calls_changed"] < everything["calls_changed"]
    assert compared("--agent", "nobody")["after"]["totals"]["calls"] == 0
    assert compared("--until", "1971-01-01")["calls_changed"] == 0
    assert compared("--since", "1971-01-01")["calls_changed"] == everything["calls_changed"]


def test_the_saved_policy_may_be_named(run, samples_db, strict, monkeypatch):
    monkeypatch.setenv("LOOPSCOPE_POLICY", str(strict))
    assert "say the same" in run("policy", "diff", "saved", strict).out
    monkeypatch.setenv("LOOPSCOPE_POLICY", str(strict.with_name("absent.toml")))
    wrong = run("policy", "diff", "default", "saved", "--db", samples_db)
    assert wrong.code == 2
    assert "absent.toml" in wrong.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--tool", "x"), "--db"),
        (("--db", "DB", "--since", "yesterday"), "--since"),
        (("--db", "absent.duckdb"), "absent.duckdb"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(run, samples_db, strict, args, says):
    args = [samples_db if arg == "DB" else arg for arg in args]
    wrong = run("policy", "diff", "default", strict, *args)
    assert wrong.code == 2
    assert says in wrong.err
    assert len(wrong.err.strip().splitlines()) == 1


def test_a_hostile_tool_name_does_not_act(run, tmp_path, strict):
    import duckdb

    from loopscope.sample_traces import files

    db = tmp_path / "x.duckdb"
    assert run("import", *files(), "--db", db).code == 0
    with duckdb.connect(str(db)) as con:
        con.execute("UPDATE tool_call_rows SET tool_name = '\x1b[31m' || tool_name, result = '[red]\x1b[2J'")
        con.execute(
            "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS VARCHAR) WHERE key = 'version'"
        )
    ran = run("policy", "diff", "default", strict, "--db", db)
    assert ran.code == 0
    assert "\x1b[31m" not in ran.out
    assert "\x1b[2J" not in ran.out
    assert "\\x1b[31m" in ran.out


def test_replay_says_what_it_would_have_spared(run, samples_db):
    found = json.loads(run("replay", "--db", samples_db, "--format", "json").out)
    spared = found["impact"]["after_block"]["avoidable"]
    assert spared["calls"] == found["totals"]["calls_avoidable"] > 0
    assert found["impact"]["lost"]["total"] == found["totals"]["calls_lost"]
    text = run("replay", "--db", samples_db).out
    assert f"{spared['input_tokens']:,} in" in text
    assert "went in circles and ended without an error" in text
    # Nothing was blocked: nothing to tell of.
    assert "tokens" not in run("replay", "--db", samples_db, "--block", "off").out


def test_calls_without_a_recorded_request_did_not_cost_nothing(run, tmp_path):
    spans = [
        {
            "traceId": f"{1:032x}",
            "spanId": f"{number:016x}",
            "name": "execute_tool look",
            "startTimeUnixNano": str(1_760_000_000_000_000_000 + number * 10**9),
            "endTimeUnixNano": str(1_760_000_000_500_000_000 + number * 10**9),
            "attributes": [
                {"key": f"gen_ai.{key}", "value": {"stringValue": value}}
                for key, value in (
                    ("operation.name", "execute_tool"),
                    ("tool.name", "look"),
                    ("tool.call.arguments", "{}"),
                    ("tool.call.result", "the same"),
                )
            ],
        }
        for number in range(1, 8)
    ]
    (tmp_path / "calls.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    db = tmp_path / "calls.duckdb"
    assert run("import", tmp_path / "calls.json", "--db", db).code == 0
    ran = run("replay", "--db", db)
    (line,) = (line for line in ran.out.splitlines() if line.startswith("avoidable: "))
    assert line.split("already")[1].split() == ["2", "2", "s", "0", "–", "–"]
    assert "$0" not in ran.out
