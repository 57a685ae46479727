"""`loopscope import`: what it says, and that bad input is one line, exit code 2, nothing stored."""

from __future__ import annotations

import gzip
import json
import random

import pytest


def chat(*contents: str) -> list[dict]:
    """A conversation that calls `look` once for each content."""
    messages: list[dict] = [{"role": "user", "content": "go"}]
    for number, content in enumerate(contents):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": content})
    return messages


def test_reports_what_came_in_and_importing_again_changes_nothing(run, tmp_path):
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(chat("a", "a", "a")))
    db = tmp_path / "t.duckdb"

    first = run("import", file, "--db", db)
    assert first.code == 0
    assert "1 run, 3 calls" in first.out
    before = run("query", "SELECT * FROM tool_calls ORDER BY span_id", "--db", db, "--format", "json").out

    second = run("import", file, "--db", db)
    assert "already there" in second.out
    assert (
        run("query", "SELECT * FROM tool_calls ORDER BY span_id", "--db", db, "--format", "json").out
        == before
    )


def test_json_report_names_each_file_and_format(run, tmp_path):
    (tmp_path / "chat.json").write_text(json.dumps(chat("a")))
    ran = run("import", tmp_path / "chat.json", "--db", tmp_path / "t.duckdb", "--json")
    report = json.loads(ran.out)
    assert report["files"][0]["format"] == "openai-chat"
    assert report["files"][0]["calls"] == report["totals"]["calls"] == 1


def bad_inputs():
    noise = random.Random(7).randbytes(4096)
    whole = gzip.compress(json.dumps(chat(*"abcdefgh")).encode())
    return {
        "noise.bin": noise,
        "empty.jsonl": b"",
        "cut.json.gz": whole[: len(whole) // 2],
        "half.json": json.dumps(chat("a")).encode()[:-20],
        "no_trace.json": b'{"hello": "world"}',
    }


@pytest.mark.parametrize("name", bad_inputs())
def test_bad_file_is_one_line_and_leaves_no_database_behind(run, tmp_path, name):
    file = tmp_path / name
    file.write_bytes(bad_inputs()[name])
    db = tmp_path / "t.duckdb"
    ran = run("import", file, "--db", db)
    assert ran.code == 2
    assert len(ran.err.strip().splitlines()) == 1
    assert name in ran.err
    assert "Traceback" not in ran.err
    assert not list(tmp_path.glob("t.duckdb.spool/*.seg*"))
    if db.exists():
        counted = run("query", "SELECT count(*) AS n FROM spans", "--db", db, "--format", "json")
        assert json.loads(counted.out) == [{"n": 0}]


def test_folder_with_nothing_importable(run, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "readme.txt").write_text("hello")
    ran = run("import", folder, "--db", tmp_path / "t.duckdb")
    assert ran.code == 2
    assert len(ran.err.strip().splitlines()) == 1
    assert "notes" in ran.err


def test_missing_file(run, tmp_path):
    ran = run("import", tmp_path / "absent.json", "--db", tmp_path / "t.duckdb")
    assert ran.code == 2
    assert len(ran.err.strip().splitlines()) == 1
    assert "absent.json" in ran.err


def test_good_files_come_in_beside_a_bad_one(run, tmp_path):
    (tmp_path / "good.json").write_text(json.dumps(chat("a")))
    (tmp_path / "bad.json").write_text("{")
    db = tmp_path / "t.duckdb"
    ran = run("import", tmp_path / "good.json", tmp_path / "bad.json", "--db", db)
    assert ran.code == 2
    assert "bad.json" in ran.err
    assert "good.json" in ran.out
    counted = run("query", "SELECT count(*) AS n FROM tool_calls", "--db", db, "--format", "json")
    assert json.loads(counted.out) == [{"n": 1}]


def test_trace_text_cannot_command_the_terminal(run, tmp_path):
    name = "\x1b[31mred[/]\u202e"
    messages = chat("a", "a", "a")
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["name"] = name
    (tmp_path / "chat.json").write_text(json.dumps(messages))
    db = tmp_path / "t.duckdb"
    run("import", tmp_path / "chat.json", "--db", db)
    for command in ("incidents", "replay", "report"):
        ran = run(command, "--db", db)
        assert ran.code == 0, ran.err
        assert "\x1b[31m" not in ran.out
        assert "\u202e" not in ran.out
    assert "red" in run("incidents", "--db", db).out
