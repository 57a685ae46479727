"""The pi coding agent's sessions: lists and trees of entries, aborted turns, compactions, branches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from session_files import Entry, brief, clock, read, write
from shared_corpus import corpus

from loopscope.collector import Store, import_paths
from loopscope.guard import DuplicateCallGuard, GuardPolicy, Outcome


class Session:
    """Version 1: entries follow each other. `tree`: version 3, with `id` and `parentId`."""

    def __init__(self, *, tree: bool = False, **head: Any) -> None:
        self.tree = tree
        self.tip: str | None = None
        self.entries: list[Entry] = [
            {"type": "session", "id": "pi-1", "timestamp": clock(0), "cwd": "/home/a", **head}
        ]

    def add(self, kind: str, *, parent: str | type | None = str, **body: Any) -> str:
        number = len(self.entries)
        entry: Entry = {"type": kind, "timestamp": clock(number), **body}
        own = f"e{number}"
        if self.tree:
            entry |= {"id": own, "parentId": self.tip if parent is str else parent}
            self.tip = own
        self.entries.append(entry)
        return own

    def user(self, text: str, **more: Any) -> str:
        return self.add(
            "message", message={"role": "user", "content": [{"type": "text", "text": text}]}, **more
        )

    def answer(self, *blocks: Entry, stop: str = "toolUse", error: str | None = None) -> str:
        usage = {
            "input": 4,
            "output": 9,
            "cacheRead": 100,
            "cacheWrite": 20,
            "cost": {"input": 0.1, "total": 0.25},
        }
        message = {
            "role": "assistant",
            "content": list(blocks),
            "provider": "anthropic",
            "model": "claude-opus-4-5",
            "usage": usage,
            "stopReason": stop,
        }
        if error is not None:
            message["errorMessage"] = error
        return self.add("message", message=message)

    def says(self, text: str) -> str:
        return self.answer({"type": "text", "text": text}, stop="stop")

    def asks(self, call_id: str, name: str = "bash", **arguments: Any) -> str:
        return self.answer({"type": "toolCall", "id": call_id, "name": name, "arguments": arguments})

    def result(self, call_id: str, text: str, *, failed: bool = False) -> str:
        content = [{"type": "text", "text": text}]
        return self.add(
            "message",
            message={"role": "toolResult", "toolCallId": call_id, "content": content, "isError": failed},
        )


def small(*, tree: bool = False) -> Session:
    log = Session(tree=tree)
    log.user("Why do the tests fail?")
    for number in range(3):
        log.asks(f"c{number}", command="make test")
        log.result(f"c{number}", "2 failed")
    log.asks("c3", "read", path="/nowhere")
    log.result("c3", "ENOENT: no such file or directory", failed=True)
    log.answer(
        {"type": "text", "text": "I will"},
        {"type": "toolCall", "id": "c4", "name": "bash", "arguments": {"command": "sleep 900"}},
        stop="aborted",
        error="Request was aborted.",
    )
    log.answer(stop="aborted", error="Request was aborted.")
    log.add("model_change", provider="openai", modelId="gpt-5")
    log.user("go on")
    return log


@pytest.mark.parametrize("tree", [False, True])
def test_a_session_is_a_run_with_its_facts(tree: bool):
    found = read("pi", small(tree=tree).entries)
    assert found.skipped == []
    (root,) = found.roots()
    assert root.attributes["gen_ai.conversation.id"] == "pi-1"
    assert root.attributes["loopscope.source.cwd"] == "/home/a"
    assert root.resource["service.name"] == "pi"
    first = found.requests[0]
    assert (first.model, first.provider, first.input_tokens, first.output_tokens, first.cost) == (
        "claude-opus-4-5",
        "anthropic",
        124,
        9,
        0.25,
    )
    make = '{"command":"make test"}'
    assert found.told() == [
        ("bash", make, "2 failed", "success"),
        ("bash", make, "2 failed", "success"),
        ("bash", make, "2 failed", "success"),
        ("read", '{"path":"/nowhere"}', "ENOENT: no such file or directory", "general_tool_error"),
        ("bash", '{"command":"sleep 900"}', None, None),
    ]
    assert [call.seq for call in found.calls] == [1, 2, 3, 4, None]
    assert [(r.status, r.error_text) for r in found.requests[-2:]] == [("error", "Request was aborted.")] * 2
    assert found.histories()[1] == ["user: Why do the tests fail?", "assistant: ->c0", "tool: <-c0"]
    assert {request.content_state for request in found.requests} == {"full"}


def test_a_refused_request_has_its_status():
    log = small()
    body = '{"type":"error","error":{"type":"invalid_request_error","message":"messages.2: `tool_use` ids"}}'
    log.answer(stop="error", error=f"400 {body}")
    log.says("now")
    found = read("pi", log.entries)
    refused, good = found.requests[-2:]
    assert (refused.status, refused.http_status, refused.error_text) == ("error", 400, f"400 {body}")
    assert good.status == "ok"
    assert found.histories()[-1] == found.histories()[-2]  # nothing came of it


def call(call_id: str, name: str = "bash") -> Entry:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": {"command": "ls"}}


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("stop", ["aborted", "error"])
def test_calls_of_a_turn_that_was_cut_off_are_not_sent_again(tree: bool, stop: str):
    log = Session(tree=tree)
    log.user("one")
    log.answer({"type": "text", "text": "I will"}, call("c1"), stop=stop, error="Request was aborted.")
    log.user("two")
    log.answer(call("c2"), call("c3"), stop=stop, error="Request was aborted.")
    log.user("three")
    log.says("3")
    log.user("four")
    log.says("4")
    found = read("pi", log.entries)
    begun = ["user: one", "assistant: I will", "user: two"]
    assert found.histories() == [
        ["user: one"],
        begun,
        [*begun, "user: three"],
        [*begun, "user: three", "assistant: 3", "user: four"],
    ]
    assert [brief(message) for message in found.requests[0].output_messages or ()] == [
        "assistant: I will ->c1"
    ]
    assert {request.content_state for request in found.requests} == {"full"}
    assert [(c.call_id, c.seq) for c in found.calls] == [("c1", None), ("c2", None), ("c3", None)]


def test_a_call_of_a_turn_that_was_cut_off_is_sent_with_its_result():
    log = Session()
    log.user("one")
    log.answer(call("c1"), call("c2"), stop="aborted", error="Request was aborted.")
    log.result("c1", "a")
    log.user("two")
    log.says("2")
    assert read("pi", log.entries).histories()[-1] == [
        "user: one",
        "assistant: ->c1",
        "tool: <-c1",
        "user: two",
    ]


def test_a_call_that_a_compaction_cut_off_is_not_kept():
    log = Session(tree=True)
    log.user("one")
    kept = log.answer(call("c1"), call("c2"))
    log.result("c1", "a")
    log.asks("c3")
    log.add("compaction", summary="they said one", firstKeptEntryId=kept, tokensBefore=9)
    log.user("two")
    log.says("2")
    assert read("pi", log.entries).histories()[-1] == [
        "user: they said one",
        "assistant: ->c1",
        "tool: <-c1",
        "user: two",
    ]


@pytest.mark.parametrize("tree", [False, True])
def test_a_compaction_keeps_the_end_of_the_history(tree: bool):
    log = Session(tree=tree)
    log.user("one")
    log.says("1")
    log.user("two")
    kept = log.asks("c1", command="ls")
    log.result("c1", "a")
    if tree:
        log.add("compaction", summary="they said one", firstKeptEntryId=kept, tokensBefore=9)
    else:
        log.add("compaction", summary="they said one", firstKeptEntryIndex=int(kept[1:]), tokensBefore=9)
    log.user("three")
    log.says("3")
    found = read("pi", log.entries)
    assert found.histories()[-1] == ["user: they said one", "assistant: ->c1", "tool: <-c1", "user: three"]
    assert found.requests[-1].content_state == "full"
    assert [call.seq for call in found.calls] == [1]


def test_a_branch_in_the_tree():
    log = Session(tree=True)
    log.user("hello")
    greeting = log.says("Hello.")
    log.user("red")
    log.says("Red.")
    log.tip = greeting
    log.user("blue")
    log.says("Blue.")
    assert read("pi", log.entries).histories()[-1] == ["user: hello", "assistant: Hello.", "user: blue"]


def test_a_session_branched_off_does_not_double(tmp_path: Path):
    log = small()
    branch = Session(branchedFrom="/x/1.jsonl")
    branch.entries[0] |= {"id": "pi-2", "timestamp": clock(3000)}
    branch.entries += log.entries[1:]
    branch.asks("c9", command="make test")
    branch.result("c9", "2 failed")
    write(tmp_path / "s" / "1.jsonl", log.entries)
    write(tmp_path / "s" / "2.jsonl", branch.entries)
    db = tmp_path / "t.duckdb"
    report = import_paths(db, [tmp_path / "s"])
    assert report.errors == []
    assert {file.format for file in report.files} == {"pi"}
    assert (report.totals.runs, report.totals.calls) == (1, 6)
    assert all(file.already_there for file in import_paths(db, [tmp_path / "s"]).files)


def test_what_the_user_runs_is_told_to_the_model():
    log = Session()
    log.user("hi")
    log.add("message", message={"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 0})
    log.add(
        "message",
        message={"role": "bashExecution", "command": "env", "output": "x", "excludeFromContext": True},
    )
    log.says("1")
    found = read("pi", log.entries)
    assert found.histories() == [["user: hi", "user: $ ls\na\n"]]
    assert found.calls == []


def test_a_real_session(tmp_path: Path):
    """The figures that its readers counted."""
    path = corpus("real", "pi-mono", "before-compaction.jsonl.gz")
    stats = json.loads(corpus("real", "STATS.json").read_text())["pi-mono"][path.name]
    db = tmp_path / "t.duckdb"
    report = import_paths(db, [path])
    (file,) = report.files
    assert (file.format, file.runs, file.calls, file.error, file.skipped) == (
        "pi",
        stats["trajs"],
        stats["calls"],
        None,
        [],
    )
    assert import_paths(db, [path]).files[0].already_there
    with Store(db).lease() as con:
        rows = con.execute(
            "SELECT tool_name, arguments, result, outcome, call_id, seq FROM tool_calls ORDER BY seq"
        ).fetchall()
        requests = con.execute(
            "SELECT status, http_status, content_state, count(*) FROM llm_requests GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert sum(row[5] is None for row in rows) == stats["unanswered"]
    assert sum(row[3] == "general_tool_error" for row in rows) == stats["errors"]
    assert len({row[4] for row in rows if row[4]}) == stats["calls_with_id"] - stats["dup_ids"]
    # 18 turns that the user cut off and one that was refused; 465 that were answered.
    assert requests == [("error", 400, "full", 1), ("error", None, "full", 18), ("ok", None, "full", 465)]
    for name, counted in (
        ("errors_not_counted", {Outcome.SUCCESS, Outcome.SCHEMA_ERROR}),
        ("errors_counted", set(Outcome)),
    ):
        guard = DuplicateCallGuard(
            GuardPolicy(nudge_threshold=3, block_threshold=5, counted_outcomes=frozenset(counted))
        )
        actions = [
            str(
                guard.observe(
                    tool_name=tool, arguments=arguments, output=result, outcome=Outcome(outcome), agent="pi"
                ).action
            )
            for tool, arguments, result, outcome, _, seq in rows
            if seq is not None
        ]
        wanted = stats["guard_reference_nudge3_block5"][name]
        assert int("nudge" in actions) == wanted["trajs_nudged"]
        assert int("block" in actions) == wanted["trajs_blocked"]
        assert actions.count("after_block") == wanted["calls_after_block"]
