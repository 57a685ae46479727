"""Codex CLI's rollouts: items to answers, exit codes, events beside them, forks and compactions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from session_files import Entry, clock, read, write

from loopscope.collector import import_paths


class Rollout:
    def __init__(self, session: str = "0199-a", **meta: Any) -> None:
        self.entries: list[Entry] = []
        self._second = 0
        self.add(
            "session_meta",
            {"id": session, "timestamp": clock(0), "cwd": "/home/a", "model_provider": "openai", **meta},
        )
        self.add("turn_context", {"cwd": "/home/a", "model": "gpt-5-codex"})

    def add(self, kind: str, payload: Entry) -> None:
        self._second += 1
        self.entries.append({"timestamp": clock(self._second), "type": kind, "payload": payload})

    def item(self, kind: str, **payload: Any) -> None:
        self.add("response_item", {"type": kind, **payload})

    def event(self, kind: str, **payload: Any) -> None:
        self.add("event_msg", {"type": kind, **payload})

    def user(self, text: str) -> None:
        self.event("user_message", message=text)
        self.item("message", role="user", content=[{"type": "input_text", "text": text}])

    def says(self, text: str) -> None:
        self.event("agent_message", message=text)
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def asks(self, call_id: str, name: str = "shell", arguments: str = '{"command":["make"]}') -> None:
        self.item("function_call", name=name, arguments=arguments, call_id=call_id)

    def result(self, call_id: str, output: Any) -> None:
        self.item("function_call_output", call_id=call_id, output=output)

    def tokens(self, last: int, total: int) -> None:
        self.event(
            "token_count",
            info={
                "last_token_usage": {"input_tokens": last, "cached_input_tokens": 7, "output_tokens": 5},
                "total_token_usage": {"input_tokens": total, "output_tokens": total},
            },
        )


def shell_output(text: str, code: int, seconds: float) -> str:
    return json.dumps({"output": text, "metadata": {"exit_code": code, "duration_seconds": seconds}})


def small() -> Rollout:
    log = Rollout()
    log.item("message", role="developer", content=[{"type": "input_text", "text": "rules"}])
    log.user("Why do the tests fail?")
    log.item("reasoning", summary=[{"type": "summary_text", "text": "look"}], encrypted_content="gAAA" * 500)
    log.says("I look.")
    log.asks("c1")
    log.tokens(100, 100)
    log.result("c1", shell_output("2 failed", 0, 1.1))
    log.asks("c2")
    log.tokens(120, 220)
    log.tokens(120, 220)  # told again with the limits
    log.result("c2", shell_output("2 failed", 0, 2.2))
    log.asks("c3")
    log.result("c3", shell_output("2 failed", 0, 0.9))
    log.asks("c4", arguments='{"command":["cat","/nowhere"]}')
    log.result("c4", shell_output("cat: /nowhere: No such file or directory", 1, 0.1))
    log.asks("c5", arguments='{"command":["sleep","900"]}')
    log.event("turn_aborted", reason="interrupted")
    log.result("c5", "aborted by user after 3.2s")
    log.asks("c6", name="update_plan", arguments="{}")
    return log


def test_a_rollout_is_a_run_with_its_facts():
    found = read("codex", small().entries)
    assert found.skipped == []
    (root,) = found.roots()
    assert root.resource["service.name"] == "codex"
    assert root.attributes["loopscope.source.cwd"] == "/home/a"
    assert root.attributes["gen_ai.conversation.id"] == "0199-a"
    assert {request.model for request in found.requests} == {"gpt-5-codex"}
    assert {request.provider for request in found.requests} == {"openai"}
    assert found.histories()[:2] == [
        ["system: rules", "user: Why do the tests fail?"],
        [
            "system: rules",
            "user: Why do the tests fail?",
            "assistant: (reasoning) I look. ->c1",
            "tool: <-c1",
        ],
    ]
    assert [(r.input_tokens, r.output_tokens) for r in found.requests[:3]] == [
        (100, 5),
        (120, 5),
        (None, None),
    ]


def test_equal_results_are_equal_whatever_time_they_took():
    found = read("codex", small().entries)
    make = '{"command":["make"]}'
    assert found.told() == [
        ("shell", make, "2 failed", "success"),
        ("shell", make, "2 failed", "success"),
        ("shell", make, "2 failed", "success"),
        (
            "shell",
            '{"command":["cat","/nowhere"]}',
            "cat: /nowhere: No such file or directory",
            "general_tool_error",
        ),
        ("shell", '{"command":["sleep","900"]}', "aborted by user after 3.2s", "general_tool_error"),
        ("update_plan", "{}", None, None),
    ]
    assert len({call.result_hash for call in found.calls[:3]}) == 1
    assert [call.error_kind for call in found.calls[3:]] == ["not_found", "cancelled", None]
    assert [call.turn for call in found.calls] == [1, 2, 3, 4, 5, 6]
    # The model saw all of it.
    assert (
        '"duration_seconds": 1.1'
        in json.loads((found.requests[1].input_messages or [])[-1])["parts"][0]["response"]
    )


@pytest.mark.parametrize(
    ("output", "result", "failed"),
    [
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nfine\n", "fine\n", "success"),
        (
            "Exit code: 2\nWall time: 9 seconds\nTotal output lines: 7\nOutput:\nbad",
            "bad",
            "general_tool_error",
        ),
        (
            "Chunk ID: 0a1b\nWall time: 0.05 seconds\nProcess exited with code 1\nOriginal token count: 4\n"
            "Output:\nno",
            "no",
            "general_tool_error",
        ),
        ("Exit code: 2 is what make said\nOutput:\nx", None, "success"),
        ("plain", "plain", "success"),
        (
            [{"type": "input_text", "text": "from "}, {"type": "input_text", "text": "mcp"}],
            "from mcp",
            "success",
        ),
        ({"content": "no such thing", "success": False}, "no such thing", "general_tool_error"),
        (
            '{"metadata": {"exit_code": "x"}, "output": 1}',
            '{"metadata": {"exit_code": "x"}, "output": 1}',
            "success",
        ),
    ],
)
def test_forms_of_output(output: Any, result: str | None, failed: str):
    log = Rollout()
    log.user("go")
    log.asks("c1")
    log.result("c1", output)
    (call,) = read("codex", log.entries).calls
    assert call.result == (output if result is None else result)
    assert call.outcome == failed


def test_events_tell_how_calls_ended():
    log = Rollout()
    log.user("go")
    log.asks("before", name="exec_command")
    log.asks("after", name="exec_command")
    log.asks("alone", name="exec_command")
    log.asks("mcp", name="mcp__db__query")
    log.event("exec_command_end", call_id="before", exit_code=1, aggregated_output="no", status="failed")
    log.result("before", "no")
    log.result("after", "yes")
    log.event("exec_command_end", call_id="after", exit_code=0, aggregated_output="yes")
    log.event("exec_command_end", call_id="alone", exit_code=3, aggregated_output="half of it")
    log.result("mcp", "relation does not exist")
    log.event(
        "mcp_tool_call_end",
        call_id="mcp",
        result={"Ok": {"content": [{"type": "text", "text": "relation does not exist"}], "isError": True}},
    )
    log.says("so")
    found = read("codex", log.entries)
    assert {call.call_id: (call.result, call.outcome) for call in found.calls} == {
        "before": ("no", "general_tool_error"),
        "after": ("yes", "success"),
        "alone": ("half of it", "general_tool_error"),
        "mcp": ("relation does not exist", "general_tool_error"),
    }


def test_other_kinds_of_calls():
    log = Rollout()
    log.user("go")
    log.item(
        "custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c1", status="completed"
    )
    log.item("custom_tool_call_output", call_id="c1", output='{"output":"Done","metadata":{"exit_code":0}}')
    log.item("local_shell_call", call_id="c2", status="completed", action={"type": "exec", "command": ["ls"]})
    log.item("function_call_output", call_id="c2", output="a")
    log.item("web_search_call", status="completed", action={"type": "search", "query": "x"})
    log.item("function_call", namespace="mcp__db", name="query", arguments="{}", call_id="c3")
    found = read("codex", log.entries)
    assert found.told() == [
        ("apply_patch", "*** Begin Patch", "Done", "success"),
        ("local_shell", '{"type":"exec","command":["ls"]}', "a", "success"),
        ("mcp__db__query", "{}", None, None),
    ]


def test_a_compaction_begins_the_history_anew():
    log = small()
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "summary"}]}]
    log.add("compacted", {"message": "summary", "replacement_history": history})
    log.asks("c7")
    log.result("c7", "2 failed")
    log.add("compacted", {"message": "only this"})
    log.says("done")
    found = read("codex", log.entries)
    assert found.histories()[-2:] == [["user: summary"], ["user: only this"]]
    assert found.requests[-1].content_state == "full"
    assert found.calls[-2].seq == 6  # one run before and after


def test_turns_that_were_rolled_back_are_no_history():
    log = Rollout()
    log.user("one")
    log.says("1")
    log.user("two")
    log.says("2")
    log.event("thread_rolled_back", num_turns=1)
    log.user("three")
    log.says("3")
    assert read("codex", log.entries).histories()[-1] == ["user: one", "assistant: 1", "user: three"]


def test_requests_that_were_refused():
    log = Rollout()
    log.user("go")
    body = '{"error":{"message":"No tool output found for function call c1.","code":null}}'
    log.event("error", message=f"unexpected status 400 Bad Request: {body}", codex_error_info="bad_request")
    log.says("now")
    found = read("codex", log.entries)
    refused, good = found.requests
    assert (refused.status, refused.http_status) == ("error", 400)
    assert "No tool output found" in (refused.error_text or "")
    assert good.status == "ok"
    assert found.histories() == [["user: go"], ["user: go"]]


def fork(log: Rollout) -> Rollout:
    """A new file: its own head, then all of what it was forked from, under new times."""
    new = Rollout("0199-b", forked_from_id="0199-a")
    new.entries = new.entries[:1]
    for entry in log.entries:
        new.add(entry["type"], entry["payload"])
    return new


def test_a_fork_does_not_double_what_it_repeats(tmp_path: Path):
    log = small()
    forked = fork(log)
    log.says("the end")
    forked.user("another way")
    forked.asks("c9")
    forked.result("c9", "fine")
    write(tmp_path / "a" / "rollout-1.jsonl", log.entries)
    write(tmp_path / "a" / "rollout-2.jsonl", forked.entries)
    db = tmp_path / "t.duckdb"
    report = import_paths(db, [tmp_path / "a"])
    assert report.errors == []
    assert {file.format for file in report.files} == {"codex"}
    one, two = read("codex", log.entries), read("codex", forked.entries)
    assert {call.run_id.rpartition("/")[2] for call in one.calls + two.calls} == {
        one.roots()[0].trace_id[:16]
    }
    assert report.totals.calls == 7
    assert report.totals.requests == len(one.requests) + 1
    assert all(file.already_there for file in import_paths(db, [tmp_path / "a"]).files)


def test_lines_repeated_whole_are_read_once():
    log = small()
    found = read("codex", log.entries + log.entries[2:])
    assert found.told() == read("codex", log.entries).told()


def test_files_of_old_versions_hold_items_bare():
    log = small()
    head = {"id": "0199-a", "timestamp": clock(0), "instructions": None, "git": {}}
    bare = [head, {"record_type": "state"}]
    bare += [entry["payload"] for entry in log.entries if entry["type"] == "response_item"]
    found = read("codex", bare)
    assert found.told() == read("codex", log.entries).told()
    assert found.skipped == []
