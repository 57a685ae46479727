"""Gemini CLI's sessions: messages written again, rewinds, checkpoints, older files and saved chats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from session_files import Entry, clock, read, write

from loopscope.collector import import_paths

HEAD = {
    "sessionId": "g-1",
    "projectHash": "ab12",
    "startTime": clock(0),
    "lastUpdated": clock(0),
    "kind": "main",
}


def message(number: int, kind: str, content: Any, **more: Any) -> Entry:
    return {"id": f"m{number}", "timestamp": clock(number * 10), "type": kind, "content": content, **more}


def call(
    call_id: str, status: str, output: Any = None, *, at: int = 0, name: str = "run_shell_command"
) -> Entry:
    key = "error" if status == "error" else "output"
    result = None
    if output is not None:
        result = [{"functionResponse": {"id": call_id, "name": name, "response": {key: output}}}]
    return {
        "id": call_id,
        "name": name,
        "args": {"command": "make"},
        "result": result,
        "status": status,
        "timestamp": clock(at),
        "resultDisplay": "for people",
    }


def answer(number: int, text: str, *calls: Entry, **more: Any) -> Entry:
    tokens = {"input": 100, "output": 5, "cached": 60, "thoughts": 2, "tool": 0, "total": 107}
    return message(number, "gemini", text, toolCalls=list(calls), model="gemini-3-pro", tokens=tokens, **more)


def small() -> list[Entry]:
    return [
        HEAD,
        message(1, "user", [{"text": "Why do the tests fail?"}]),
        answer(2, "I look.", call("c1", "success", "2 failed", at=21)),
        answer(3, "", call("c2", "success", "2 failed", at=31)),
        answer(4, "", call("c3", "success", "2 failed", at=41)),
        answer(5, "", call("c4", "error", "Path is not in the workspace", at=51, name="read_file")),
        answer(6, "", call("c5", "cancelled", "User did not allow tool call", at=61)),
        answer(7, "", call("c6", "awaiting_approval", at=71)),
        {"$set": {"lastUpdated": clock(80)}},
    ]


def test_a_session_is_a_run_with_its_facts():
    found = read("gemini-cli", small())
    assert found.skipped == []
    (root,) = found.roots()
    assert root.attributes["gen_ai.conversation.id"] == "g-1"
    assert root.resource == {"service.name": "gemini-cli", "loopscope.times": "recorded"}
    assert {request.model for request in found.requests} == {"gemini-3-pro"}
    assert (found.requests[0].input_tokens, found.requests[0].output_tokens) == (100, 7)
    assert found.histories()[1] == ["user: Why do the tests fail?", "assistant: I look. ->c1", "tool: <-c1"]


def test_calls_have_the_status_that_the_file_gives():
    found = read("gemini-cli", small())
    make = '{"command":"make"}'
    assert found.told() == [
        ("run_shell_command", make, "2 failed", "success"),
        ("run_shell_command", make, "2 failed", "success"),
        ("run_shell_command", make, "2 failed", "success"),
        ("read_file", make, "Path is not in the workspace", "general_tool_error"),
        ("run_shell_command", make, "User did not allow tool call", "general_tool_error"),
        ("run_shell_command", make, None, None),
    ]
    assert [c.seq for c in found.calls] == [1, 2, 3, 4, 5, None]
    assert found.calls[4].error_kind == "cancelled"


def test_parallel_calls_count_in_the_order_of_their_end():
    entries = [HEAD, message(1, "user", "go")]
    entries.append(answer(2, "", call("slow", "success", "1", at=29), call("fast", "success", "2", at=22)))
    found = read("gemini-cli", entries)
    assert [c.call_id for c in found.calls] == ["fast", "slow"]


def test_a_message_written_again_counts_as_it_was_last():
    entries = small()
    early = answer(3, "", call("c2", "executing"))
    found = read("gemini-cli", [*entries[:3], early, *entries[3:]])
    assert found.told() == read("gemini-cli", entries).told()
    assert len(found.requests) == 6


def test_what_was_rewound_is_no_history_but_its_calls_were_made():
    entries = [*small(), {"$rewindTo": "m3"}, message(8, "user", "stop that"), answer(9, "Fine.")]
    found = read("gemini-cli", entries)
    assert found.histories()[-1] == [
        "user: Why do the tests fail?",
        "assistant: I look. ->c1",
        "tool: <-c1",
        "user: stop that",
    ]
    assert len(found.calls) == 6


def test_a_checkpoint_repeats_and_can_shorten():
    entries = small()
    same = [*entries, {"$set": {"messages": entries[1:8]}}, message(8, "user", "on"), answer(9, "Fine.")]
    found = read("gemini-cli", same)
    assert len(found.calls) == 6
    assert found.histories()[-1][-2:] == ["assistant: ->c6", "user: on"]
    assert len(found.histories()[-1]) == 13
    summary = message(20, "user", [{"text": "<summary>"}])
    shorter = [
        *entries,
        {"$set": {"messages": [summary, entries[7]]}},
        message(21, "user", "on"),
        answer(22, "Fine."),
    ]
    found = read("gemini-cli", shorter)
    assert found.histories()[-1][0] == "user: <summary>"
    assert len(found.histories()[-1]) == 3
    assert len(found.calls) == 6
    assert len(found.requests) == 7


def test_older_files_are_one_object(tmp_path: Path):
    entries = small()
    whole = {**HEAD, "messages": entries[1:8]}
    assert read("gemini-cli", whole, lines=False).told() == read("gemini-cli", entries).told()
    # A session that was begun by the old version and carried on by the new one is one run.
    write(tmp_path / "a" / "session-1.jsonl", entries)
    (tmp_path / "a" / "session-1.json").write_text(json.dumps(whole, indent=2))
    report = import_paths(tmp_path / "t.duckdb", [tmp_path / "a"])
    assert report.errors == []
    assert {file.format for file in report.files} == {"gemini-cli"}
    assert (report.totals.runs, report.totals.calls, report.totals.requests) == (1, 6, 6)


def test_errors_are_requests_that_failed():
    entries = [
        *small()[:2],
        message(2, "error", "[API Error: got status: 400 INVALID_ARGUMENT]"),
        answer(3, "Now."),
    ]
    found = read("gemini-cli", entries)
    assert [(r.status, r.http_status) for r in found.requests] == [("error", 400), ("ok", None)]


SAVED: list[Entry] = [
    {"role": "user", "parts": [{"text": "go"}]},
    {"role": "model", "parts": [{"text": "ok"}, {"functionCall": {"name": "ls", "args": {"path": "."}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "a"}}}]},
    {"role": "model", "parts": [{"functionCall": {"id": "x", "name": "ls", "args": {"path": "/"}}}]},
    {"role": "user", "parts": [{"functionResponse": {"id": "x", "name": "ls", "response": {"error": "no"}}}]},
    {"role": "model", "parts": [{"text": "done"}]},
]


@pytest.mark.parametrize("wrap", [lambda saved: saved, lambda saved: {"history": saved, "authType": "x"}])
def test_saved_chats(tmp_path: Path, wrap: Any):
    path = tmp_path / "checkpoint-x.json"
    path.write_text(json.dumps(wrap(SAVED)))
    report = import_paths(tmp_path / "t.duckdb", [path])
    (file,) = report.files
    assert (file.format, file.runs, file.calls, file.requests, file.skipped) == ("gemini-cli", 1, 2, 3, [])
    found = read("gemini-cli", wrap(SAVED), lines=False)
    assert found.told() == [
        ("ls", '{"path":"."}', "a", "success"),
        ("ls", '{"path":"/"}', "no", "general_tool_error"),
    ]
    assert len(found.histories()[-1]) == 5
