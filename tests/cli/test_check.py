"""`loopscope check`: exit codes, what it says of its coverage, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from loopscope.cli import _check
from loopscope.collector import import_paths
from loopscope.sample_traces import files


def chat(*results: str, tool: str = "look", arguments: str = "{}") -> list[dict]:
    """A conversation that calls one tool once for each result."""
    messages: list[dict] = [{"role": "user", "content": "go"}]
    for number, content in enumerate(results):
        function = {"name": tool, "arguments": arguments}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": content})
    return messages


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """Where temporary files go; empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def write_traces(folder: Path) -> Path:
    """One run that a default policy blocks, one that it nudges, one that is clean."""
    folder.mkdir()
    (folder / "loop.json").write_text(json.dumps(chat(*"aaaaaa")))
    (folder / "short.json").write_text(json.dumps(chat(*"bbb")))
    (folder / "clean.json").write_text(json.dumps(chat(*"cd")))
    return folder


@pytest.fixture
def traces(tmp_path) -> Path:
    return write_traces(tmp_path / "traces")


@pytest.fixture(scope="module")
def traces_db(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checked")
    db = folder / "traces.duckdb"
    assert import_paths(db, [write_traces(folder / "traces")]).ok
    return db


def sample(name: str) -> Path:
    return next(path for path in files() if path.name == name)


def errors_of(ran) -> list[str]:
    return ran.err.strip().splitlines()


# -- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ([], 1),
        (["--max-blocked", 1], 0),
        (["--max-blocked", "off", "--max-nudged", 1], 1),
        (["--max-blocked", "off", "--max-nudged", 2], 0),
        (["--max-blocked", "off", "--max-incidents", 1], 1),
        (["--max-blocked", "off", "--max-incidents", 2], 0),
        (["--block", 7], 0),
        (["--nudge", "off", "--block", 6], 1),
    ],
)
def test_limits(run, traces_db, limits, code):
    ran = run("check", "--db", traces_db, *limits)
    assert ran.code == code, ran.err
    assert ran.err == ""


@pytest.mark.parametrize(("limit", "code"), [(0, 1), (1, 0)])
def test_nothing_of_a_check_is_left(run, traces, temporary, limit, code):
    ran = run("check", traces, "--max-blocked", limit)
    assert ran.code == code
    assert ran.err == ""
    assert list(temporary.iterdir()) == []


def test_text_says_which_run_of_which_file_and_what_is_covered(run, traces):
    ran = run("check", traces)
    (row,) = (line for line in ran.out.splitlines() if "blocked at" in line)
    assert "What the policy says" in ran.out
    assert "projected: blocked at call 5" in row
    assert "projected:" not in run("check", traces, "--nudge", "off").out
    assert "loop.json" in row
    assert "blocked at call 5 of 6: look, 5 equal results in a row; 1 call came after (1 avoidable)" in row
    assert "1 blocked run, at most 0: over" in ran.out
    assert ran.out.strip().endswith("Over the limit: 1 blocked, 2 nudged, 2 incidents in 3 judged runs.")


def test_a_database_is_judged_like_its_files(run, samples_db):
    of_files = json.loads(run("check", *files(), "--format", "json").out)
    ran = run("check", "--db", samples_db, "--format", "json")
    assert ran.code == 1
    of_store = json.loads(ran.out)
    for result in (of_files, of_store):
        for one in result["findings"]:
            del one["source"]
    assert of_files == of_store
    replayed = json.loads(run("replay", "--db", samples_db, "--format", "json").out)
    assert of_store["totals"] == replayed["totals"]
    found = {limit["name"]: limit["found"] for limit in of_store["limits"]}
    assert found["blocked"] == replayed["totals"]["runs_blocked"]
    assert found["nudged"] == replayed["totals"]["runs_nudged"]
    assert found["incidents"] == len(replayed["incidents"])
    runs = of_store["runs"]
    judged = runs["judged"] + runs["without_arguments"] + runs["without_results"]
    assert judged == runs["total"] == replayed["totals"]["runs"] - runs["without_calls"]


# -- nothing passes in silence ----------------------------------------------------------------------


def test_runs_without_content_are_not_judged_and_said(run):
    blind, clean = sample("hr_content_off.jsonl"), sample("research_clean.jsonl")
    both = run("check", blind, clean)
    assert both.code == 0
    sentence = both.out.strip().splitlines()[-1]
    assert "0 blocked, 0 nudged, 0 incidents in 1 judged run;" in sentence
    assert "1 run had no recorded arguments and could not be judged" in sentence
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in both.out
    alone = run("check", blind)
    assert alone.code == 2
    assert len(errors_of(alone)) == 1
    assert "1 run had no recorded arguments and could not be judged" in alone.err
    assert "nothing could be judged" in alone.err
    assert alone.out.lower().count("nothing could be judged") == 1


def test_a_run_without_recorded_results_is_not_judged(run, tmp_path):
    messages = [one for one in chat(*"aaaaaa") if one["role"] != "tool"]
    (tmp_path / "asked.json").write_text(json.dumps(messages))
    ran = run("check", tmp_path / "asked.json")
    assert ran.code == 2
    assert "nothing could be judged" in ran.err


def test_a_run_that_only_failed_is_judged(run, tmp_path):
    """General errors are not counted by design; that is a verdict, not a gap."""
    ran = run("check", sample("report_db_locked.jsonl"))
    assert ran.code == 0
    assert "in 1 judged run" in ran.out


def test_no_tool_call_at_all(run, tmp_path):
    (tmp_path / "talk.json").write_text(
        '[{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]'
    )
    ran = run("check", tmp_path / "talk.json", "--junit", tmp_path / "j.xml")
    assert ran.code == 2
    assert len(errors_of(ran)) == 1
    assert "1 run called no tool" in ran.err
    assert ET.parse(tmp_path / "j.xml").getroot().get("errors") == "1"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--db", "x.duckdb", "PATH"], "not both"),
        (["PATH", "--max-blocked", "-1"], "--max-blocked"),
        (["PATH", "--max-nudged", "few"], "--max-nudged"),
        (["PATH", "--max-blocked", "off"], "all limits are off"),
        (["PATH", "--block", "off"], "no limit can be exceeded"),
        (["PATH", "--max-blocked", "off", "--max-nudged", "3", "--nudge", "off"], "no limit can be exceeded"),
        (["PATH", "--nudge", "5", "--block", "5"], "nudge"),
        (["PATH", "--policy", "absent.toml"], "absent.toml"),
        (["absent.json"], "absent.json"),
        (["EMPTY"], "no trace file"),
        (["--db", "absent.duckdb"], "absent.duckdb"),
        (["PATH", "--junit", "EMPTY"], "is a folder"),
        (["PATH", "--summary", "EMPTY"], "is a folder"),
        (["PATH", "--junit", "FILE/x.xml"], "cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, traces, tmp_path, temporary, args, says):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    places = {"PATH": traces, "EMPTY": tmp_path / "empty", "FILE/x.xml": tmp_path / "file" / "x.xml"}
    ran = run("check", *(places.get(arg, arg) for arg in args))
    assert ran.code == 2, ran.out
    assert len(errors_of(ran)) == 1
    assert says in ran.err
    assert list(temporary.iterdir()) == []


def test_what_cannot_be_read_is_bad_input_beside_good_files(run, traces, tmp_path):
    (traces / "clean.json").unlink()
    (traces / "half.json").write_text(json.dumps(chat("a"))[:-20])
    junit, summary = tmp_path / "j.xml", tmp_path / "s.md"
    ran = run("check", traces, "--max-blocked", 9, "--junit", junit, "--summary", summary)
    assert ran.code == 2
    assert len(errors_of(ran)) == 1
    assert "half.json" in ran.err
    assert "in 2 judged runs" in ran.out
    root = ET.parse(junit).getroot()
    assert (root.get("failures"), root.get("errors")) == ("0", "1")
    assert "half.json" in summary.read_text()


def test_per_tool_thresholds_make_a_limit_one_that_can_be_exceeded(run, traces, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('version = 1\nblock_threshold = "off"\n[tools.look]\nblock_threshold = 6\n')
    assert run("check", traces, "--policy", policy).code == 1
    policy.write_text('version = 1\nblock_threshold = "off"\n[tools.other]\nexempt = true\n')
    assert run("check", traces, "--policy", policy).code == 2


def test_the_policy_beside_a_database_is_not_that_of_files(run, traces, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces.policy.toml").write_text("version = 1\nblock_threshold = 9\n")
    assert run("check", traces).code == 1
    monkeypatch.setenv("LOOPSCOPE_POLICY", str(tmp_path / "traces.policy.toml"))
    assert run("check", traces).code == 0


def test_files_are_judged_where_the_environment_names_a_database(run, traces, samples_db, monkeypatch):
    monkeypatch.setenv("LOOPSCOPE_DB", str(samples_db))
    assert "in 3 judged runs" in run("check", traces).out
    assert "in 19 judged runs" in run("check").out


# -- nothing is left behind -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_nothing_is_left_behind_when_interrupted(run, traces, temporary, monkeypatch, number, code):
    seen: list[int] = []
    inside = _check.import_with_progress

    def interrupted(db: Path, paths: list[Path]):
        report = inside(db, paths)
        seen.append(len(list(temporary.rglob("*.duckdb"))))
        os.kill(os.getpid(), number)
        return report

    monkeypatch.setattr(_check, "import_with_progress", interrupted)
    # Who started the tests may have them ignored: a shell SIGINT in the background, nohup SIGHUP.
    interrupt = number == signal.SIGINT
    signal.signal(number, signal.default_int_handler if interrupt else signal.SIG_DFL)
    before = signal.getsignal(number)
    try:
        ended = run("check", traces).code
    except SystemExit as end:
        ended = end.code
    assert ended == code
    assert seen == [1]
    assert list(temporary.iterdir()) == []
    assert signal.getsignal(number) == before


def test_a_check_writes_nothing_but_what_it_is_asked_for(run, traces, tmp_path, monkeypatch, temporary):
    monkeypatch.chdir(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))
    run("check", traces)
    assert sorted(path for path in tmp_path.rglob("*")) == before


# -- JUnit ------------------------------------------------------------------------------------------


def cases_of(file: Path) -> dict[str, ET.Element]:
    return {case.get("name", ""): case for case in ET.parse(file).getroot().iter("testcase")}


def test_junit_fails_where_the_exit_code_does(run, traces, tmp_path):
    junit = tmp_path / "out" / "junit.xml"
    for limit, failing in ((0, {"at most 0 blocked runs", "loop.json"}), (1, set())):
        ran = run("check", traces, "--max-blocked", limit, "--junit", junit)
        assert ran.code == bool(failing)
        cases = cases_of(junit)
        failed = {name.partition(":")[0] for name, case in cases.items() if case.find("failure") is not None}
        assert failed == failing
        root = ET.parse(junit).getroot()
        assert root.get("tests") == str(len(cases)) == "5"
        assert root.get("failures") == str(len(failing))
        assert [suite.get("name") for suite in root] == ["limits", "runs"]
    looped = next(case for name, case in cases.items() if name.startswith("loop.json"))
    assert "blocked at call 5" in (looped.findtext("system-out") or "")
    assert looped.get("file") == (traces / "loop.json").as_posix()


def test_junit_skips_runs_that_could_not_be_judged(run, tmp_path):
    junit = tmp_path / "junit.xml"
    run("check", sample("hr_content_off.jsonl"), sample("research_clean.jsonl"), "--junit", junit)
    (skipped,) = (
        case.find("skipped") for case in cases_of(junit).values() if case.find("skipped") is not None
    )
    assert skipped.get("message") == "not judged: no arguments were recorded"


HOSTILE = "\x1b[31m]]>\x00<b>&\"'\ud800\ufffe\uffff\u202e|`x`\n![i](http://x)"


def test_hostile_text_is_text(run, tmp_path):
    folder = tmp_path / "hostile"
    folder.mkdir()
    text = json.dumps(chat(*[HOSTILE] * 6, tool=HOSTILE, arguments=json.dumps({"q": HOSTILE})))
    (folder / "a]]>&<.json").write_text(text)
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    ran = run("check", folder, "--junit", junit, "--summary", summary)
    assert ran.code == 1, ran.err
    (failure,) = (case.find("failure") for case in cases_of(junit).values() if case.get("file"))
    shown = failure.text or ""
    assert "]]>" in shown
    assert "\\x1b[31m" in shown
    assert "<b>" in shown
    raw = junit.read_text("utf-8")
    assert not set(raw) & set("\x00\x1b\u202e\ufffe\uffff")
    page = summary.read_text("utf-8")
    assert not set(page) & set("\x00\x1b\u202e")
    outside = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", page)
    assert "Loopscope check" in outside
    assert "http:" not in outside
    assert "<b>" not in outside
    assert "\x1b" not in ran.out


def test_the_same_input_gives_the_same_bytes(run, traces, tmp_path):
    made = []
    for number, order in enumerate((["loop", "short", "clean"], ["clean", "loop", "short"])):
        junit, summary = tmp_path / f"{number}.xml", tmp_path / f"{number}.md"
        names = [traces / f"{name}.json" for name in order]
        out = run("check", *names, "--junit", junit, "--summary", summary, "--format", "json").out
        made.append((out, junit.read_bytes(), summary.read_bytes()))
    assert made[0] == made[1]


# -- the summary --------------------------------------------------------------------------------------


def test_a_summary_is_appended(run, traces, tmp_path):
    summary = tmp_path / "summary.md"
    run("check", traces, "--summary", summary)
    once = summary.read_text()
    assert once.startswith("## Loopscope check: over the limit\n")
    run("check", traces, "--summary", summary)
    assert summary.read_text() == once + once


def test_a_summary_stays_within_what_is_shown(run, traces, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_bytes(b"x" * ((1 << 20) - 400))
    ran = run("check", traces, "--summary", summary)
    assert ran.code == 1
    assert summary.stat().st_size <= 1 << 20
    assert "Loopscope check: over the limit" in summary.read_text()
    full = tmp_path / "full.md"
    full.write_bytes(b"x" * (1 << 20))
    ran = run("check", traces, "--summary", full)
    assert full.stat().st_size == 1 << 20
    assert "has no room" in ran.err
