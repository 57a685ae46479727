"""`loopscope suggest`: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json

import pytest

from loopscope.guard import GuardPolicy


@pytest.fixture
def report(run, samples_db):
    done = run("suggest", "--db", samples_db, "--format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_json_has_the_documented_fields(report):
    assert report["schema_version"] == 1
    assert set(report) >= {"policy", "harm_limit", "runs", "calls", "runs_guarded", "suggestions", "notes"}
    assert report["harm_limit"] == {"calls": None, "share": 0.01, "runs": None}
    (one,) = report["suggestions"]
    assert one["kind"] == "resets"
    assert one["change"] == {"tools": {"edit_file": {"resets": True}}}
    assert one["before"]["calls_nudged"] - one["after"]["calls_nudged"] == one["effect"]["nudges_gone"] > 0
    assert set(one["before"]["exact"]) == set(one["after"]) - {"exact"}
    assert all(example["incident"] for example in one["evidence"][0]["examples"])


def test_before_is_what_replay_says(run, samples_db, report):
    totals = json.loads(run("replay", "--db", samples_db, "--format", "json").out)["totals"]
    assert all(one["before"] == totals for one in report["suggestions"])
    assert (report["runs"], report["calls"]) == (totals["runs"], totals["calls"])


def test_the_table_names_evidence_change_and_effect(run, samples_db, report):
    done = run("suggest", "--db", samples_db)
    (one,) = report["suggestions"]
    assert done.code == 0
    assert f"{one['key']}  {one['title']}" in done.out
    assert "! Seen in one run only" in done.out
    assert "change: Tool 'edit_file': a success of it sets the counts of other tools back." in done.out
    assert one["evidence"][0]["text"] in done.out
    assert "calls nudged 13 → 11 (exact 6 → 5)" in done.out
    assert f"--accept {one['key']} -o policy.toml" in done.out


def test_the_documented_output_is_what_is_printed(run, samples_db, samples):
    text = (samples.parent / "docs" / "suggestions.md").read_text(encoding="utf-8")
    block = text.split("$ loopscope suggest --db samples.duckdb\n")[1].split("```")[0]
    documented = [line for line in block.splitlines() if line]
    printed = [" ".join(line.split()) for line in run("suggest", "--db", samples_db).out.splitlines()]
    whole = " ".join(printed)  # lines wrap where the terminal ends
    assert len(documented) > 8
    assert [line for line in documented if " ".join(line.split()) not in whole] == []


def test_accepting_writes_the_policy_and_says_how_to_load_it(run, samples_db, report, tmp_path):
    key, file = report["suggestions"][0]["key"], tmp_path / "policy.toml"
    done = run("suggest", "--db", samples_db, "--accept", key, "-o", file)
    assert done.code == 0, done.err
    policy = GuardPolicy.from_file(file)
    assert policy.rules_for("edit_file").resets
    assert f"policy = GuardPolicy.from_file({str(file)!r})" in done.out
    assert "guard = DuplicateCallGuard(policy)" in done.out
    assert f"Wrote {file}: 1 change on top of the default policy" in done.out
    assert f"It is not in force. To put it in force: -o {samples_db.with_suffix('.policy.toml')}" in done.out
    after = json.loads(run("replay", "--db", samples_db, "--policy", file, "--format", "json").out)["totals"]
    assert after == report["suggestions"][0]["after"]
    again = run("suggest", "--db", samples_db, "--accept", key, "-o", file)
    assert (again.code, "is there already" in again.err) == (2, True)
    # The policy that was read may be written over; what is on it is not suggested again.
    gone = run("suggest", "--db", samples_db, "--policy", file, "--accept", key, "-o", file)
    assert (gone.code, "there is no such suggestion" in gone.err) == (2, True)
    assert GuardPolicy.from_file(file) == policy


def test_a_wider_limit_lets_thresholds_act_sooner(run, samples_db):
    def pair(*args):
        found = json.loads(run("suggest", "--db", samples_db, "--format", "json", *args).out)["suggestions"]
        return [one["change"] for one in found if one["kind"] == "thresholds"]

    assert pair("--max-lost", "6") == [{"nudge_threshold": 2, "block_threshold": 4}]
    assert (
        pair("--max-lost", "8") == pair("--max-lost", "7%") == [{"nudge_threshold": 2, "block_threshold": 3}]
    )
    assert pair("--max-lost", "100%", "--max-runs-lost", "0") != pair("--max-lost", "100%")


def test_a_store_without_a_loop_says_so(run, tmp_path, samples):
    db = tmp_path / "clean.duckdb"
    assert run("import", samples / "research_clean.jsonl", "--db", db).code == 0
    done = run("suggest", "--db", db)
    assert done.code == 0
    assert done.out.startswith("0 suggestions from 1 run with ")
    assert "No repeat in 1 run" in done.out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ["--max-lost", "some"],
            "--max-lost 'some': give a number of calls such as 20, or a share such as 2%",
        ),
        (["--max-lost", "101%"], "--max-lost '101%'"),
        (["--accept", "x"], "--accept needs a file to write"),
        (["-o", "p.toml"], "give --accept KEY as well"),
        (["--format", "csv"], "choose table or json"),
        (["--max-runs-lost", "-1"], "max-runs-lost"),
    ],
)
def test_wrong_options_are_one_line(run, samples_db, args, says):
    done = run("suggest", "--db", samples_db, *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert len(done.err.splitlines()) == 1


def test_an_unknown_key_names_those_that_are_there(run, samples_db, report, tmp_path):
    file = tmp_path / "policy.toml"
    done = run("suggest", "--db", samples_db, "--accept", "resets-00000000", "-o", file)
    assert done.code == 2
    assert report["suggestions"][0]["key"] in done.err
    assert not file.exists()


def test_no_database_is_one_line(run, tmp_path):
    done = run("suggest", "--db", tmp_path / "none.duckdb")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
