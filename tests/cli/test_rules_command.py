"""`loopscope rules` and `loopscope policy test`, as a user runs them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from loopscope.replay.rules import RULES
from loopscope.sample_traces import files

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "policy_tests.toml"


@pytest.fixture(scope="module")
def looping(tmp_path_factory):
    """A database with one run that loops, with hostile texts."""
    from loopscope.cli import main

    folder = tmp_path_factory.mktemp("rules")
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    for number in range(7):
        call = {"name": "look\x1b[31m", "arguments": '{"q": "a"}'}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "nothing\x1b[31m"})
    (folder / "chat.json").write_text(json.dumps({"messages": messages}))
    db = folder / "t.duckdb"
    assert main(["import", str(folder / "chat.json"), "--db", str(db)]) == 0
    return db


def test_rules_side_by_side(run, looping):
    ran = run("rules", "--db", looping)
    assert ran.code == 0, ran.err
    assert ran.err == ""
    for name in RULES:
        assert name in ran.out
    assert "1 run with 7 finished calls" in ran.out
    assert "called no tool" not in ran.out
    assert "\x1b" not in ran.out


def test_rules_as_json_and_csv(run, looping):
    data = json.loads(run("rules", "--db", looping, "--format", "json").out)
    assert data["schema_version"] == 1
    assert data["policy"]["block_threshold"] == 5
    by_name = {one["rule"]: one for one in data["rules"]}
    assert set(by_name) == set(RULES)
    assert by_name["roo-code"]["runs_stopped"] == 1
    assert by_name["roo-code"]["calls_refused"] == 1
    assert by_name["ours"]["agreement"] is None
    rows = list(csv.DictReader(io.StringIO(run("rules", "--db", looping, "--format", "csv").out)))
    assert [row["rule"] for row in rows] == [one["rule"] for one in data["rules"]]
    assert {row["rule"]: row["calls_after_stop"] for row in rows}["roo-code"] == "4"


def test_rules_with_knobs(run, looping):
    def stopped(*args):
        ran = run("rules", "--db", looping, "--format", "json", *args)
        assert ran.code == 0, ran.err
        return {one["rule"]: one["runs_stopped"] for one in json.loads(ran.out)["rules"]}

    assert stopped("--rule", "roo-code", "--rule", "cline") == {"roo-code": 1, "cline": 1}
    assert stopped("--rule", "cline", "--set", "cline.hard=9") == {"cline": 0}
    assert stopped("--rule", "goose-rep-001") == {"goose-rep-001": 0}
    assert stopped("--rule", "goose-rep-001", "--set", "goose-rep-001.max_repetitions=2") == {
        "goose-rep-001": 1
    }
    assert stopped("--rule", "hermes-0.19", "--set", "hermes-0.19.hard_stop=false") == {"hermes-0.19": 0}
    assert stopped("--rule", "roo-code", "--set", "roo-code.limit=off") == {"roo-code": 0}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--rule", "clime"), "there is no rule 'clime'; did you mean cline?"),
        (("--set", "cline.hard"), "give RULE.KNOB=VALUE"),
        (("--set", "cline=3"), "give RULE.KNOB=VALUE"),
        (("--set", "cline.had=3"), "has no knob 'had'; it has soft, hard"),
        (("--set", "cline.hard=many"), "cline.hard must be a whole number from 1"),
        (("--set", "nobody.hard=1"), "there is no rule 'nobody'"),
        (("--db", "none.duckdb"), "none.duckdb"),
    ],
)
def test_what_is_wrong_is_one_line(run, looping, args, said):
    given = ("--db", looping, *args) if "--db" not in args else args
    ran = run("rules", *given)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_rules_are_listed(run):
    ran = run("rules", "--list")
    assert ran.code == 0, ran.err
    assert all(name in ran.out for name in RULES)
    (one,) = json.loads(run("rules", "--list", "--rule", "crush", "--format", "json").out)
    assert one["source"].startswith("charmbracelet/crush@")


def test_policy_tests_pass_and_fail(run, tmp_path):
    ran = run("policy", "test", EXAMPLE)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "6 cases passed.\n"
    (tmp_path / "loose.toml").write_text('version = 1\nnudge_threshold = "off"\nblock_threshold = 9\n')
    junit = tmp_path / "junit.xml"
    ran = run("policy", "test", EXAMPLE, "--policy", tmp_path / "loose.toml", "--junit", junit)
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert (
        f"FAIL {EXAMPLE}:9: one search over and over: call 3: expected nudge count 3, got allow count 3"
        in lines
    )
    assert ran.err.endswith("of 6 cases failed\n")
    tree = ElementTree.parse(junit).getroot()
    assert tree.get("tests") == "6"
    assert int(tree.get("failures", "0")) > 0


def test_bad_policy_tests_are_one_line(run, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("version = 1\n\n[[cases]]\nname = 'x'\ncalls = [{ tol = 'a' }]\nfirst_block = 1\n")
    for args, said in (
        ((EXAMPLE, bad), f"{bad}: unknown key cases[1].calls[1].tol; did you mean cases[1].calls[1].tool?"),
        ((bad,), "(the case begins at line 3)"),
        ((tmp_path / "none.toml",), "cannot be read"),
        ((), "no file of policy tests is named"),
        ((EXAMPLE, "--policy", tmp_path / "none.toml"), "cannot be read"),
        ((EXAMPLE, "--junit", tmp_path / "no" / "x.xml"), "cannot be written"),
        ((EXAMPLE, "--record", "abcdef"), "--record prints a case"),
    ):
        ran = run("policy", "test", *args)
        assert ran.code == 2
        assert said in ran.err
        assert ran.err.count("\n") == 1
        assert ran.out == ""


def test_an_incident_is_recorded_as_a_case(run, looping, tmp_path):
    (incident,) = json.loads(run("incidents", "--db", looping, "--format", "json").out)["incidents"]
    ran = run("policy", "test", "--record", incident["key"][:10], "--db", looping)
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    file = tmp_path / "cases.toml"
    file.write_text("version = 1\n" + ran.out)
    assert run("policy", "test", file).out == "1 case passed.\n"
    assert "first_nudge = 3\nfirst_block = 5\n" in ran.out
    ran = run("policy", "test", "--record", "ffffffff", "--db", looping)
    assert ran.code == 2
    assert ran.err.count("\n") == 1


def test_a_rule_that_saw_no_call_has_no_figures(run, tmp_path):
    (blind,) = (file for file in files() if file.name == "hr_content_off.jsonl")
    db = tmp_path / "blind.duckdb"
    assert run("import", blind, "--db", db).code == 0
    rows = json.loads(run("rules", "--db", db, "--format", "json").out)["rules"]
    assert all(
        row["lacking"]["arguments"] == row["calls"] for row in rows if row["rule"] in ("ours", "cline")
    )
    lines = run("rules", "--db", db).out.splitlines()
    for rule in ("ours", "cline"):
        (line,) = (line for line in lines if line.startswith(f"{rule} "))
        assert set(line.split()[2:]) == {"–"}
    assert any("not seen by ours" in line for line in lines)


def test_runs_are_counted_as_replay_counts_them(run, samples_db):
    everything = json.loads(run("replay", "--db", samples_db, "--format", "json").out)["totals"]["runs"]
    seen = json.loads(run("rules", "--db", samples_db, "--rule", "ours", "--format", "json").out)["rules"][0][
        "runs"
    ]
    out = run("rules", "--db", samples_db, "--rule", "ours").out
    assert out.startswith(f"{seen} of {everything} runs, with ")
    assert f"; {everything - seen} called no tool" in out
    assert everything > seen
