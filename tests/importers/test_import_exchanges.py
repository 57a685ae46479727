"""Transcripts of the Messages and Responses APIs: conversations, and logs that send them again and again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from session_files import Entry, as_lines, read, write

from loopscope.collector import import_paths

# -- Anthropic ------------------------------------------------------------------------------------------


def use(call_id: str, name: str = "search", **arguments: Any) -> Entry:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any, *, failed: bool | None = None) -> Entry:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return block if failed is None else {**block, "is_error": failed}


def user(content: Any) -> Entry:
    return {"role": "user", "content": content}


def assistant(*blocks: Entry) -> Entry:
    return {"role": "assistant", "content": list(blocks)}


TALK: list[Entry] = [
    user("Find it."),
    assistant({"type": "text", "text": "I search."}, use("t1", q="x")),
    user([result("t1", [{"type": "text", "text": "nothing"}])]),
    assistant(use("t2", q="x"), use("t3", q="y")),
    user(
        [result("t3", "timed out", failed=True), result("t2", "nothing"), {"type": "text", "text": "hurry"}]
    ),
    assistant({"type": "thinking", "thinking": "hm", "signature": "s"}, use("t4", q="x")),
]
TALK_CALLS = [
    ("search", '{"q":"x"}', "nothing", "success"),
    ("search", '{"q":"y"}', "timed out", "general_tool_error"),
    ("search", '{"q":"x"}', "nothing", "success"),
    ("search", '{"q":"x"}', None, None),
]


def response(number: int, content: list[Entry], **more: Any) -> Entry:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10 * number, "output_tokens": number, "cache_read_input_tokens": 1},
        **more,
    }


def exchanges(talk: list[Entry]) -> list[Entry]:
    """A log of requests, each with all that was said before, and their responses."""
    log = []
    for number, message in enumerate(talk):
        if message["role"] == "assistant":
            request = {"model": "claude-sonnet-4-5", "system": "Be brief.", "messages": talk[:number]}
            stamp = f"2026-03-01T10:00:{number:02}Z"
            log.append(
                {"timestamp": stamp, "request": request, "response": response(number, message["content"])}
            )
    return log


LAYOUTS: dict[str, tuple[Any, bool]] = {
    "a list of messages": (TALK, False),
    "messages one a line": (TALK, True),
    "a request": ({"model": "m", "max_tokens": 9, "system": "s", "messages": TALK}, False),
    "requests one a line": ([{"messages": TALK}], True),
    "lists one a line": ([TALK], True),
    "requests and responses": (exchanges(TALK), True),
    "a list of those": (exchanges(TALK), False),
    "with bodies in texts": (
        [
            {
                "request": {"body": json.dumps(e["request"])},
                "response": {"status": 200, "body": e["response"]},
            }
            for e in exchanges(TALK)
        ],
        True,
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_gives_the_same_calls(tmp_path: Path, layout: str):
    data, lines = LAYOUTS[layout]
    path = tmp_path / "x.json"
    path.write_bytes(as_lines(data) if lines else json.dumps(data).encode())
    db = tmp_path / "t.duckdb"
    report = import_paths(db, [path])
    (file,) = report.files
    assert (file.error, file.format, file.runs, file.calls, file.requests) == (None, "anthropic", 1, 4, 3)
    assert file.skipped == []
    assert import_paths(db, [path]).files[0].already_there
    found = read("anthropic", path.read_bytes(), lines=lines)
    assert found.told() == TALK_CALLS
    assert [call.turn for call in found.calls] == [1, 2, 2, 3]
    assert {request.content_state for request in found.requests} == {"full"}
    assert [message for message in found.histories()[-1] if not message.startswith("system")] == [
        "user: Find it.",
        "assistant: I search. ->t1",
        "tool: <-t1",
        "assistant: ->t2 ->t3",
        "tool: <-t3",
        "tool: <-t2",
        "user: hurry",
    ]


def test_responses_tell_usage_and_times():
    found = read("anthropic", exchanges(TALK))
    assert [(r.model, r.input_tokens, r.output_tokens) for r in found.requests] == [
        ("claude-sonnet-4-5", 11, 1),
        ("claude-sonnet-4-5", 31, 3),
        ("claude-sonnet-4-5", 51, 5),
    ]
    assert found.roots()[0].resource["loopscope.times"] == "recorded"


def test_a_request_tried_again_is_another_request_of_one_conversation():
    first, *others = exchanges(TALK)
    refused = {
        "request": first["request"],
        "response": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "status": 529,
    }
    found = read("anthropic", [refused, refused, first, *others])
    assert [(r.status, r.http_status) for r in found.requests if r.status == "error"] == [("error", 529)] * 2
    assert "Overloaded" in (found.requests[0].error_text or "")
    assert found.told() == TALK_CALLS


def test_a_log_that_is_repeated_whole_is_read_once():
    log = exchanges(TALK)
    once, twice = read("anthropic", log), read("anthropic", log + log)
    assert twice.spans == once.spans
    items = responses(linked=False)
    assert len(read("openai-responses", items + items).requests) == 3
    # In any order: what a later history holds is the answer that its own line tells.
    assert len(read("anthropic", log[::-1]).calls) == 4


def test_constant_ids_are_other_calls_each_time():
    talk = [user("go")]
    for _ in range(3):
        talk += [assistant(use("call_0", q="x")), user([result("call_0", "nothing")])]
    for layout in ([{"messages": talk}], exchanges([*talk, assistant({"type": "text", "text": "ok"})]), talk):
        found = read("anthropic", layout)
        assert found.told() == [("search", '{"q":"x"}', "nothing", "success")] * len(found.calls)
        assert len(found.calls) == 3
        assert len(found.roots()) == 1


def test_calls_of_a_history_that_was_rewritten_are_not_new():
    log = exchanges(TALK)
    cut = {**log[-1]["request"], "messages": [user("Summary."), *TALK[3:]]}
    log.append({"request": cut, "response": response(77, [{"type": "text", "text": "done"}])})
    found = read("anthropic", log)
    assert found.told() == TALK_CALLS
    assert len(found.roots()) == 1
    assert len(found.requests) == 4
    assert found.histories()[-1][:2] == ["system: Be brief.", "user: Summary."]


def test_a_conversation_that_grows_from_line_to_line_is_one():
    lines = [{"messages": TALK[:2]}, {"messages": TALK[:4]}, {"messages": TALK}]
    found = read("anthropic", lines)
    assert found.told() == TALK_CALLS
    assert len(found.roots()) == 1
    assert len(found.requests) == 3


def test_equal_conversations_of_one_file_are_different_runs():
    found = read("anthropic", [{"messages": TALK}, {"messages": TALK}])
    assert len(found.roots()) == 2
    assert len(found.calls) == 8


def test_messages_without_blocks_are_anybodys(tmp_path: Path):
    path = write(
        tmp_path / "x.jsonl", [{"messages": [user("hi"), {"role": "assistant", "content": "hello"}]}]
    )
    assert import_paths(tmp_path / "t.duckdb", [path]).files[0].format == "openai-chat"
    named = import_paths(tmp_path / "t.duckdb", [path], format="anthropic").files[0]
    assert (named.format, named.requests, named.error) == ("anthropic", 1, None)


# -- OpenAI Responses -----------------------------------------------------------------------------------


def item(kind: str, **body: Any) -> Entry:
    return {"type": kind, **body}


def said(role: str, text: str) -> Entry:
    part = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": part, "text": text}]}


def asked(call_id: str, arguments: str) -> Entry:
    return item("function_call", id=f"fc_{call_id}", call_id=call_id, name="search", arguments=arguments)


def came(call_id: str, output: Any) -> Entry:
    return item("function_call_output", call_id=call_id, output=output)


ITEMS: list[Entry] = [
    said("user", "Find it."),
    item("reasoning", summary=[{"type": "summary_text", "text": "hm"}]),
    said("assistant", "I search."),
    asked("t1", '{"q":"x"}'),
    came("t1", "nothing"),
    asked("t2", '{"q":"x"}'),
    asked("t3", '{"q":"y"}'),
    came("t3", [{"type": "input_text", "text": "timed out"}]),
    came("t2", "nothing"),
    said("user", "hurry"),
    asked("t4", '{"q":"x"}'),
]
ITEM_CALLS = [
    ("search", '{"q":"x"}', "nothing", "success"),
    ("search", '{"q":"y"}', "timed out", "success"),
    ("search", '{"q":"x"}', "nothing", "success"),
    ("search", '{"q":"x"}', None, None),
]


def responses(*, linked: bool) -> list[Entry]:
    """A log of requests; `linked`: with `previous_response_id` and only what is new."""
    log: list[Entry] = []
    begins, ends = (1, 5, 10), (4, 7, 11)
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        request: Entry = {"model": "gpt-5", "input": ITEMS[:begin]}
        if linked:
            request["input"] = ITEMS[ends[number - 1] : begin] if number else "Find it."
            request["previous_response_id"] = f"resp_{number - 1}" if number else None
        log.append(
            {
                "request": request,
                "response": {
                    "id": f"resp_{number}",
                    "object": "response",
                    "created_at": 1_772_359_200 + number,
                    "model": "gpt-5-2026",
                    "output": ITEMS[begin:end],
                    "previous_response_id": request.get("previous_response_id"),
                    "error": None,
                    "usage": {
                        "input_tokens": 10 + number,
                        "output_tokens": number,
                        "input_tokens_details": {"cached_tokens": 2},
                    },
                },
            }
        )
    return log


ITEM_LAYOUTS: dict[str, tuple[Any, bool]] = {
    "a list of items": (ITEMS, False),
    "items one a line": (ITEMS, True),
    "an input": ({"model": "m", "input": ITEMS}, False),
    "input and output": ({"model": "m", "input": ITEMS[:10], "output": ITEMS[10:]}, False),
    "requests and responses": (responses(linked=False), True),
    "linked by ids": (responses(linked=True), True),
}


@pytest.mark.parametrize("layout", ITEM_LAYOUTS)
def test_each_layout_of_items_gives_the_same_calls(tmp_path: Path, layout: str):
    data, lines = ITEM_LAYOUTS[layout]
    path = tmp_path / "x.json"
    path.write_bytes(as_lines(data) if lines else json.dumps(data).encode())
    db = tmp_path / "t.duckdb"
    report = import_paths(db, [path])
    (file,) = report.files
    assert (file.error, file.format, file.runs, file.calls, file.requests) == (
        None,
        "openai-responses",
        1,
        4,
        3,
    )
    assert file.skipped == []
    assert import_paths(db, [path]).files[0].already_there
    found = read("openai-responses", path.read_bytes(), lines=lines)
    assert found.told() == ITEM_CALLS
    assert found.histories()[-1] == [
        "user: Find it.",
        "assistant: (reasoning) I search. ->t1",
        "tool: <-t1",
        "assistant: ->t2 ->t3",
        "tool: <-t3",
        "tool: <-t2",
        "user: hurry",
    ]


def test_responses_by_themselves_with_usage():
    log = [entry["response"] for entry in responses(linked=True)]
    found = read("openai-responses", log)
    assert [(r.model, r.input_tokens, r.output_tokens) for r in found.requests] == [
        ("gpt-5-2026", 10, 0),
        ("gpt-5-2026", 11, 1),
        ("gpt-5-2026", 12, 2),
    ]
    assert len(found.roots()) == 1
    assert [call.call_id for call in found.calls] == ["t1", "t2", "t3", "t4"]


def test_a_response_that_failed():
    error = {
        "error": {"message": "No tool output found for function call t1.", "type": "invalid_request_error"}
    }
    request = {"model": "gpt-5", "input": ITEMS[:4]}
    found = read("openai-responses", [{"request": request, "response": error, "status_code": 400}])
    refused = found.requests[-1]
    assert (refused.status, refused.http_status) == ("error", 400)
    assert "No tool output found" in (refused.error_text or "")
