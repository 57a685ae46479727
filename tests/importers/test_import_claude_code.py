"""Claude Code's files: answers over several lines, results, branches, resumed and compacted sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from session_files import Claude, read, write

from loopscope.collector import Store, import_paths
from loopscope.collector.importers.sessions import _run


def small() -> Claude:
    """A session with a loop in it, a failure, an interruption and a call that nobody answered."""
    log = Claude()
    log.user("Why do the tests fail?")
    log.says("msg_1", "I look.", tokens=3)
    for number in range(3):
        message = f"msg_{number + 2}"
        log.asks(message, f"toolu_{number}", "Bash", {"command": "make test", "timeout": 60}, tokens=9)
        log.result(f"toolu_{number}", "2 failed", failed=False, toolUseResult={"interrupted": False})
    log.asks("msg_5", "toolu_3", "Read", {"file_path": "/nowhere"})
    log.result("toolu_3", "File does not exist.", failed=True)
    log.asks("msg_6", "toolu_4", "Bash", {"command": "sleep 900"})
    log.result("toolu_4", "", failed=False, toolUseResult={"stdout": "", "interrupted": True})
    log.asks("msg_7", "toolu_5", "Write", {"file_path": "a", "content": "b"})
    log.user("[Request interrupted by user for tool use]")
    return log


def test_a_session_is_a_run_with_its_facts():
    found = read("claude-code", small().entries)
    assert found.skipped == []
    (root,) = found.roots()
    assert root.name == "invoke_agent claude-code"
    assert root.resource == {"service.name": "claude-code", "loopscope.times": "recorded"}
    assert root.attributes["gen_ai.conversation.id"] == "s-1"
    assert root.attributes["loopscope.source.cwd"] == "/home/a/shop"
    assert root.attributes["loopscope.source.git_branch"] == "main"
    assert {call.run_id for call in found.calls} == {root.attributes["loopscope.run.id"]}
    assert root.attributes["loopscope.run.id"].startswith("claude-code/s-1/")
    assert {call.session_id for call in found.calls} == {"s-1"}
    assert {request.model for request in found.requests} == {"claude-sonnet-4-5"}
    assert {request.provider for request in found.requests} == {"anthropic"}


def test_calls_have_the_outcome_that_the_file_flags():
    found = read("claude-code", small().entries)
    test = '{"command":"make test","timeout":60}'
    assert found.told() == [
        ("Bash", test, "2 failed", "success"),
        ("Bash", test, "2 failed", "success"),
        ("Bash", test, "2 failed", "success"),
        ("Read", '{"file_path":"/nowhere"}', "File does not exist.", "general_tool_error"),
        ("Bash", '{"command":"sleep 900"}', "", "general_tool_error"),
        ("Write", '{"file_path":"a","content":"b"}', None, None),
    ]
    assert [call.error_kind for call in found.calls[3:]] == ["not_found", "cancelled", None]
    assert [call.seq for call in found.calls] == [1, 2, 3, 4, 5, None]
    assert [call.turn for call in found.calls] == [2, 3, 4, 5, 6, 7]
    assert [call.call_id for call in found.calls] == [f"toolu_{number}" for number in range(6)]


def test_calls_that_the_user_did_not_let_run():
    log = Claude()
    log.user("go")
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    for call_id, text in (("a", refusal), ("b", "[Request interrupted by user for tool use]")):
        log.asks(f"msg_{call_id}", call_id, "Bash", {"command": "rm"})
        log.result(call_id, text, failed=True)
    # In a result that is none of Claude Code's own, the same words say nothing.
    log.asks("msg_c", "c", "Read", {"file_path": "notes"})
    log.result("c", refusal, failed=False)
    found = read("claude-code", log.entries)
    assert [(call.outcome, call.error_kind) for call in found.calls] == [
        ("general_tool_error", "denied"),
        ("general_tool_error", "cancelled"),
        ("success", None),
    ]


def test_lines_of_one_answer_are_one_request():
    log = Claude()
    log.user("go")
    log.block("msg_1", {"type": "thinking", "thinking": "hm", "signature": "x"}, tokens=1)
    log.says("msg_1", "Two at once.", tokens=1)
    log.asks("msg_1", "a", "Read", {"p": 1}, tokens=1)
    log.asks("msg_1", "b", "Read", {"p": 2}, tokens=44)
    log.result("a", "one")
    log.result("b", "two")
    log.says("msg_2", "Done.")
    found = read("claude-code", log.entries)
    first, second = found.requests
    assert (first.input_tokens, first.output_tokens) == (124, 44)  # with what the cache held; told once
    assert found.histories() == [
        ["user: go"],
        ["user: go", "assistant: (reasoning) Two at once. ->a ->b", "tool: <-a", "tool: <-b"],
    ]
    assert [request.content_state for request in found.requests] == ["full", "full"]
    assert first.end_ns is not None
    assert first.start_ns < first.end_ns <= second.start_ns


def test_results_of_parallel_calls_hang_on_their_own_lines():
    """The chain of parents leads past all but one of the results; the next request had them all."""
    log = Claude()
    log.user("go")
    first = log.asks("msg_1", "a", "Read", {"p": 1})
    log.result("a", "one")
    second = log.asks("msg_1", "b", "Read", {"p": 2}, parent=first)
    log.result("b", "two", parent=second)
    log.says("msg_2", "Done.")
    found = read("claude-code", log.entries)
    assert len(found.requests) == 2
    assert found.histories()[1] == ["user: go", "assistant: ->a ->b", "tool: <-a", "tool: <-b"]
    assert [call.result for call in found.calls] == ["one", "two"]
    assert found.skipped == []


def test_a_question_asked_anew_is_a_branch():
    log = Claude()
    log.user("hello")
    greeting = log.says("msg_1", "Hello.")
    log.user("make it red")
    log.says("msg_2", "Red.")
    log.user("make it blue", parent=greeting)
    log.says("msg_3", "Blue.")
    found = read("claude-code", log.entries)
    assert found.histories() == [
        ["user: hello"],
        ["user: hello", "assistant: Hello.", "user: make it red"],
        ["user: hello", "assistant: Hello.", "user: make it blue"],
    ]
    assert len(found.roots()) == 1


def test_a_compaction_begins_the_history_anew():
    log = Claude()
    log.user("go")
    log.asks("msg_1", "a", "Read", {"p": 1})
    last = log.result("a", "one")
    log.add("system", {"subtype": "compact_boundary", "logicalParentUuid": last}, parent=None)
    log.user("This session is continued: they read p.", isCompactSummary=True)
    log.asks("msg_2", "b", "Read", {"p": 1})
    log.result("b", "one")
    log.says("msg_3", "Done.")
    found = read("claude-code", log.entries)
    assert len(found.roots()) == 1
    assert found.histories()[1:] == [
        ["user: This session is continued: they read p."],
        ["user: This session is continued: they read p.", "assistant: ->b", "tool: <-b"],
    ]
    assert [call.seq for call in found.calls] == [1, 2]
    assert {request.content_state for request in found.requests} == {"full"}


def test_refused_requests_are_requests():
    text = (
        'API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"messages.2:'
        ' `tool_use` ids were found without `tool_result` blocks immediately after: a"}}'
    )
    log = Claude()
    log.user("go")
    log.add(
        "system",
        {
            "subtype": "api_error",
            "error": {
                "status": 529,
                "error": {"error": {"type": "overloaded_error", "message": "Overloaded"}},
            },
            "retryAttempt": 1,
        },
    )
    message = {
        "id": "x",
        "role": "assistant",
        "model": "<synthetic>",
        "content": [{"type": "text", "text": text}],
    }
    log.add("assistant", {"message": message, "isApiErrorMessage": True})
    log.user("again")
    log.says("msg_2", "Now.")
    log.add(
        "assistant", {"message": {**message, "content": [{"type": "text", "text": "No response requested."}]}}
    )
    found = read("claude-code", log.entries)
    overloaded, refused, good = found.requests
    assert (overloaded.status, overloaded.http_status) == ("error", 529)
    assert (refused.status, refused.http_status, refused.error_text) == ("error", 400, text)
    assert good.status == "ok"
    assert found.histories() == [["user: go"], ["user: go"], ["user: go", "user: again"]]


@pytest.mark.parametrize("rewritten", [False, True])
def test_lines_repeated_by_a_resumed_session_are_the_same_calls(rewritten: bool):
    log = small()
    repeated = [{**entry, "sessionId": "s-2"} if rewritten else entry for entry in log.entries]
    later = Claude("s-2" if rewritten else "s-1")
    later.entries, later.tip, later._count = log.entries + repeated, log.tip, 100
    later._second = 100
    later.user("go on")
    later.asks("msg_9", "toolu_9", "Bash", {"command": "make test"})
    later.result("toolu_9", "2 failed")
    found = read("claude-code", later.entries)
    once = read("claude-code", small().entries)
    assert len(found.calls) == len(once.calls) + 1
    assert len(found.requests) == len(once.requests) + 1
    assert len(found.roots()) == 1
    assert found.skipped == []
    assert found.requests[-1].content_state == "full"


def test_two_files_of_one_session_do_not_double(tmp_path: Path):
    """A session that was resumed under another id repeats what was before it."""
    log = small()
    resumed = Claude("s-2")
    resumed.entries = [{**entry, "sessionId": "s-2"} for entry in log.entries]
    resumed.tip, resumed._second = log.tip, 100
    resumed.asks("msg_9", "toolu_9", "Bash", {"command": "make test", "timeout": 60})
    resumed.result("toolu_9", "2 failed")
    write(tmp_path / "p" / "a.jsonl", log.entries)
    write(tmp_path / "p" / "b.jsonl", resumed.entries)
    db = tmp_path / "t.duckdb"
    report = import_paths(db, [tmp_path / "p"])
    assert report.errors == []
    assert (report.totals.runs, report.totals.calls, report.totals.requests) == (1, 7, 8)
    again = import_paths(db, [tmp_path / "p"])
    assert [file.already_there for file in again.files] == [True, True]
    with Store(db).lease() as con:
        assert con.execute(
            "SELECT count(*), count(DISTINCT run_id), max(seq) FROM tool_calls"
        ).fetchall() == [(7, 1, 6)]


def subagent(common: dict[str, Any]) -> Claude:
    log = Claude("s-1", isSidechain=True, **common)
    log._count = 500
    log.user("Count the files.")
    log.asks("msg_s1", "toolu_s1", "Glob", {"pattern": "*"})
    log.result("toolu_s1", "3 files")
    log.says("msg_s2", "Three.")
    return log


def test_a_subagent_in_the_same_file_is_a_run_of_its_own():
    log = Claude()
    log.user("How many files?")
    prompt = {"description": "count", "prompt": "Count the files.", "subagent_type": "counter"}
    log.asks("msg_1", "toolu_1", "Task", prompt)
    aside = subagent({})
    # Lines of both alternate, as they do when they run at once.
    log.entries += aside.entries
    log.result("toolu_1", [{"type": "text", "text": "Three."}])
    log.says("msg_2", "3 files.")
    found = read("claude-code", log.entries)
    assert len(found.roots()) == 2
    agents = {call.tool_name: call.agent_name for call in found.calls}
    assert agents == {"Task": "claude-code", "Glob": "counter"}
    task, glob = sorted(found.calls, key=lambda call: call.tool_name, reverse=True)
    assert glob.run_id != task.run_id
    assert (glob.parent_run_id, task.parent_run_id) == (task.run_id, None)
    assert {call.session_id for call in found.calls} == {"s-1"}
    assert ["user: How many files?", "assistant: ->toolu_1", "tool: <-toolu_1"] in found.histories()
    assert ["user: Count the files.", "assistant: ->toolu_s1", "tool: <-toolu_s1"] in found.histories()
    assert found.skipped == []


def test_a_folder_of_projects_with_subagents_in_files_of_their_own(tmp_path: Path):
    projects = tmp_path / "projects"
    write(projects / "-home-a-shop" / "s-1.jsonl", small().entries)
    agent = subagent({"agentId": "a1b2"}).entries
    write(projects / "-home-a-shop" / "s-1" / "subagents" / "agent-a1b2.jsonl", agent)
    write(projects / "-home-a-web" / "s-9.jsonl", [{"type": "summary", "summary": "old", "leafUuid": "x"}])
    write(projects / "-home-a-web" / "settings.json", [{"theme": "dark"}])
    db = tmp_path / "t.duckdb"
    report = import_paths(db, [projects])
    assert report.errors == []
    assert {(file.path.name, file.format, file.runs, file.calls) for file in report.files} == {
        ("s-1.jsonl", "claude-code", 1, 6),
        ("agent-a1b2.jsonl", "claude-code", 1, 1),
        ("s-9.jsonl", "claude-code", 0, 0),
    }
    (empty,) = [file for file in report.files if file.path.name == "s-9.jsonl"]
    assert empty.skipped == [("the whole file", "no request to a model in it")]
    assert [Path(skip.where).name for skip in report.skipped] == ["settings.json"]
    with Store(db).lease() as con:
        rows = con.execute(
            "SELECT DISTINCT agent_name, session_id, run_id, parent_run_id FROM tool_calls ORDER BY 1"
        ).fetchall()
    assert [row[:2] for row in rows] == [("claude-code", "s-1"), ("subagent", "s-1")]
    (_, _, outer, nobody), (_, _, inner, parent) = rows
    assert (parent, nobody) == (outer, None)
    assert inner != outer


@pytest.mark.parametrize(
    ("place", "session", "told"),
    [
        ("s-1/subagents", "s-1", True),
        (".", "s-1", True),  # where they lay before 2.0.64
        ("s-2/subagents", "s-1", False),  # another session's
        ("s-1/subagents", "s-2", False),  # the file says that it is another session
    ],
)
def test_the_run_that_began_a_subagent_is_told_by_the_files_around_it(tmp_path, place, session, told):
    main = small()
    for entry in main.entries:
        entry["sessionId"] = session
    write(tmp_path / "s-1.jsonl", main.entries)
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "agent-a1b2.jsonl"
    write(path, subagent({"agentId": "a1b2"}).entries)
    db = tmp_path / "t.duckdb"
    import_paths(db, [path])  # alone, and before the session
    import_paths(db, [tmp_path / "s-1.jsonl"])
    with Store(db).lease() as con:
        ((parent, is_there),) = con.execute(
            "SELECT parent_run_id, parent_run_id IN (SELECT run_id FROM tool_calls WHERE tool_name = 'Bash')"
            " FROM tool_calls WHERE tool_name = 'Glob'"
        ).fetchall()
    assert (parent is not None) is told
    assert is_there is (True if told else None)


@pytest.mark.parametrize("session", ["../s-1", "s-1/../s-1", "", "x" * 101, "s-1\0"])
def test_a_session_id_is_never_taken_for_a_path(tmp_path, session):
    write(tmp_path / "s-1.jsonl", small().entries)
    entries = subagent({"agentId": "a1b2"}).entries
    for entry in entries:
        entry["sessionId"] = session
    path = tmp_path / "agent-a1b2.jsonl"
    write(path, entries)
    db = tmp_path / "t.duckdb"
    import_paths(db, [path])
    with Store(db).lease() as con:
        assert con.execute("SELECT DISTINCT parent_run_id FROM tool_calls").fetchall() == [(None,)]


def test_entries_whose_parent_is_not_in_the_file_have_a_history_in_part():
    log = small()
    found = read("claude-code", log.entries[3:])
    assert found.requests[0].content_state == "truncated"
    assert found.requests[-1].content_state == "truncated"
    assert found.skipped == [("line 1", "a result for 'toolu_0', which no open call has")]


def test_ten_thousand_entries_in_one_chain():
    log = Claude()
    log.user("go")
    for number in range(3_333):
        log.add("progress", {"data": {"type": "hook_progress"}})
        log.asks(f"msg_{number}", f"c{number}", "Bash", {"command": "make"})
        log.result(f"c{number}", "ok")
    assert len(log.entries) == 10_000
    found = read("claude-code", log.entries)
    assert len(found.calls) == 3_333
    assert len({call.run_id for call in found.calls}) == 1
    assert [len(found.requests[number].input_messages or ()) for number in (100, 499, 500)] == [
        201,
        999,
        1_001,
    ]
    assert {request.content_state for request in found.requests[:501]} == {"full"}


def test_a_very_long_session_is_several_traces_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_run, "_TRACE_TURNS", 10)
    log = Claude()
    log.user("go")
    for number in range(34):
        log.asks(f"msg_{number}", f"c{number}", "Bash", {"command": "make"})
        log.result(f"c{number}", "ok")
    found = read("claude-code", log.entries)
    assert len({call.trace_id for call in found.calls}) == len(found.roots()) == 4
    assert {request.content_state for request in found.requests} == {"full"}
    assert [len(history) for history in found.histories()] == [1 + 2 * number for number in range(34)]
    path = write(tmp_path / "s.jsonl", log.entries)
    db = tmp_path / "t.duckdb"
    (file,) = import_paths(db, [path]).files
    assert (file.runs, file.calls, file.requests) == (1, 34, 34)
    with Store(db).lease() as con:
        rows = con.execute("SELECT call_id, seq, turn FROM tool_calls ORDER BY seq").fetchall()
    assert rows == [(f"c{number}", number + 1, number + 1) for number in range(34)]
    # A session that went on since: its first traces stay what they were.
    log.says("msg_z", "done")
    write(path, log.entries)
    assert import_paths(db, [path]).totals.requests == 35
    assert import_paths(db, [path]).files[0].already_there


def test_what_stream_json_prints_is_read_too():
    """`claude -p --output-format stream-json`: no parents, other names for the ids."""
    message = {
        "id": "msg_1",
        "role": "assistant",
        "model": "m",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    asks = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "a", "is_error": True}
    found = read(
        "claude-code",
        [
            {
                "type": "system",
                "subtype": "init",
                "session_id": "s",
                "uuid": "0",
                "cwd": "/w",
                "tools": ["Bash"],
            },
            {"type": "assistant", "session_id": "s", "uuid": "1", "message": {**message, "content": [asks]}},
            {
                "type": "user",
                "session_id": "s",
                "uuid": "2",
                "message": {"role": "user", "content": [result]},
            },
            {
                "type": "assistant",
                "session_id": "s",
                "uuid": "3",
                "message": {**message, "id": "msg_2", "content": []},
            },
            {"type": "result", "subtype": "success", "session_id": "s", "result": "done"},
        ],
    )
    assert found.told() == [("Bash", '{"command":"ls"}', "a", "general_tool_error")]
    assert found.histories() == [[], ["assistant: ->c1", "tool: <-c1"]]
    assert found.roots()[0].attributes["loopscope.source.cwd"] == "/w"


def test_message_ids_that_a_proxy_gives_out_again_are_other_answers():
    log = Claude()
    log.user("go")
    for number in range(3):
        log.asks("chatcmpl", f"c{number}", "Bash", {"command": "make"}, requestId=None)
        log.result(f"c{number}", "ok")
    found = read("claude-code", log.entries)
    assert len(found.requests) == 3
    assert [call.seq for call in found.calls] == [1, 2, 3]
