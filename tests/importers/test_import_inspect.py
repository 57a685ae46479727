"""Inspect logs: events, pools and attachments, nested agents; and hostile `.eval` archives."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from export_files import ARGUMENTS, CALLS, RESULT, iso, query, save
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_import_paths import LOG, single, tables

from loopscope.collector import Spool, import_paths
from loopscope.collector.importers import _zip

EVAL = {"eval_id": "e1", "task": "shop", "model": "openai/gpt-4o", "created": iso(0)}
ASKED = {"id": "c", "function": "search", "arguments": ARGUMENTS, "type": "function"}


def says(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content} | more


def answers(number: int, *calls: str) -> dict[str, Any]:
    return says("assistant", "I look", id=f"a{number}", tool_calls=[{**ASKED, "id": call} for call in calls])


def model(number: float, answer: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    output = {
        "model": "openai/gpt-4o",
        "choices": [{"message": answer, "stop_reason": "stop"}] if answer else [],
        "usage": {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15},
    }
    event = {"event": "model", "timestamp": iso(number), "completed": iso(number + 0.1), "uuid": f"m{number}"}
    return event | {"model": "openai/gpt-4o", "input": [], "output": output} | more


def tool(number: float, call_id: str, result: Any = "attachment://r", **more: Any) -> dict[str, Any]:
    event = {"event": "tool", "timestamp": iso(number), "completed": iso(number + 0.2), "uuid": f"t{number}"}
    return event | {"id": call_id, "function": "search", "arguments": ARGUMENTS, "result": result} | more


def pool() -> list[dict[str, Any]]:
    messages = [says("user", "attachment://u", id="u1")]
    for number in (2, 3, 4, 5):
        messages.append(answers(number, f"c{number}"))
        content = "attachment://r" if number < 5 else ""
        error = {"error": {"type": "parsing", "message": "no such key"}} if number == 5 else {}
        messages.append(says("tool", content, id=f"r{number}", tool_call_id=f"c{number}") | error)
    return messages


def sample(**more: Any) -> dict[str, Any]:
    """The run of the other exports, as new versions write it: histories are ranges of a pool of messages."""
    events: list[dict[str, Any]] = [{"event": "sample_init", "timestamp": iso(0)}]
    for number in (2, 3, 4, 5):
        asked = answers(number, f"c{number}")
        events.append(model(number, asked, input_refs=[[0, 2 * (number - 2) + 1]]))
        error = {"error": {"type": "parsing", "message": "no such key"}, "result": ""} if number == 5 else {}
        events.append(tool(number + 0.3, f"c{number}", **error))
    events.append(model(6, answers(6, "c6"), input_refs=[[0, 9]]))
    return {
        "id": "s1",
        "epoch": 1,
        "uuid": "x1",
        "started_at": iso(0),
        "completed_at": iso(9),
        "messages": [],
        "events": events,
        "events_data": {"messages": pool(), "calls": []},
        "attachments": {"u": "Find it", "r": RESULT},
        "scores": {"match": {"value": "C"}},
    } | more


def log(*samples: dict[str, Any]) -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": EVAL, "samples": list(samples)}


def archive(path: Path, samples: list[dict[str, Any]], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as out:
        out.writestr("_journal/start.json", json.dumps({"version": 2, "eval": EVAL}))
        for entry in samples:
            out.writestr(f"samples/{entry['id']}_epoch_{entry['epoch']}.json", json.dumps(entry))
        out.writestr("summaries.json", "[]")
        out.writestr("header.json", json.dumps({"version": 2, "status": "success", "eval": EVAL}))
    return path


def zstandard_archive(path: Path, members: dict[str, bytes], **lies: int) -> Path:
    """A zip archive as Inspect writes it, which Python cannot write: method 93."""
    body, directory = b"", b""
    for name, content in members.items():
        packed = pa.Codec("zstd").compress(content, asbytes=True)
        size, crc = lies.get("size", len(content)), lies.get("crc", zlib.crc32(content))
        common = struct.pack("<HHHHHIIIHH", 20, 0, 93, 0, 0, crc, len(packed), size, len(name), 0)
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name.encode()
        body += b"PK\x03\x04" + common + name.encode() + packed
    ending = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    path.write_bytes(body + directory + b"PK\x05\x06" + ending)
    return path


def zstandard_members(*samples: dict[str, Any]) -> dict[str, bytes]:
    members = {f"samples/{number}.json": json.dumps(entry).encode() for number, entry in enumerate(samples)}
    return members | {"header.json": json.dumps({"eval": EVAL}).encode()}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


def write(kind: str, folder: Path) -> Path:
    if kind == "json":
        return save(folder / "a.json", log(sample()))
    if kind == "zstandard":
        return zstandard_archive(folder / "a.eval", zstandard_members(sample()))
    return archive(
        folder / "a.eval", [sample()], zipfile.ZIP_DEFLATED if kind == "deflate" else zipfile.ZIP_STORED
    )


KINDS = ("json", "deflate", "stored", "zstandard")


def test_every_way_of_writing_a_log_gives_the_same_run_once(tmp_path: Path, db: Path):
    for number, kind in enumerate(KINDS):
        (tmp_path / kind).mkdir()
        write(kind, tmp_path / kind)
        file = single(import_paths(db, [tmp_path / kind]))
        assert (file.format, file.runs, file.calls, file.requests) == ("inspect", 1, 5, 5)
        assert (file.skipped, file.already_there) == ([], number > 0)
    rows = [(name, json.loads(arguments), *rest) for name, arguments, *rest in query(db, CALLS)]
    assert [row[:4] for row in rows[:3]] == [("search", ARGUMENTS, RESULT, "success")] * 3
    assert rows[3][2:4] == ("no such key", "schema_error")
    assert rows[4][2:5] == (None, None, None)  # asked for, and nothing tells of an answer
    assert [row[4] for row in rows] == [1, 2, 3, 4, None]
    ((run_id, service, agent),) = query(
        db, "SELECT DISTINCT run_id, service_name, agent_name FROM tool_calls"
    )
    assert run_id.startswith("inspect/shop/s1/1/")
    assert (service, agent) == ("inspect/shop", "assistant")
    ended = query(db, "SELECT end_ns - start_ns FROM tool_calls WHERE outcome = 'success'")
    assert ended == [(2 * 10**8,)] * 3


def test_histories_are_whole_though_only_what_is_new_is_written(tmp_path: Path, db: Path):
    import_paths(db, [save(tmp_path / "a.json", log(sample()))])
    rows = query(
        db, "SELECT input_messages, model, input_tokens, output_tokens FROM llm_requests ORDER BY start_ns"
    )
    assert [len(row[0]) for row in rows] == [1, 3, 5, 7, 9]
    assert {row[1:] for row in rows} == {("openai/gpt-4o", 12, 3)}
    last = [json.loads(message) for message in rows[-1][0]]
    assert last[0]["parts"] == [{"type": "text", "content": "Find it"}]
    assert last[2]["parts"] == [{"type": "tool_call_response", "id": "c2", "response": RESULT}]
    written = query(db, "SELECT attributes FROM spans WHERE name LIKE 'chat%' ORDER BY start_ns")
    new = [len(json.loads(json.loads(row[0])["gen_ai.input.messages"])) for row in written]
    assert new == [1, 1, 1, 1, 1]


def test_old_logs_write_histories_out_and_nest_events(tmp_path: Path, db: Path):
    """No ids of messages, no pool, no times of ending; what a sub-agent does stands in the tool's event."""
    asked, seen = answers(2, "c2"), says("tool", RESULT, tool_call_id="c2")
    begin = {"event": "model", "timestamp": iso(1), "model": "m", "input": [says("user", "Find it")]}
    inner = [
        {
            "event": "tool",
            "timestamp": iso(3),
            "id": "c9",
            "function": "inner",
            "arguments": {},
            "result": "x",
        }
    ]
    outer = {"event": "tool", "timestamp": iso(2), "id": "c2", "function": "search", "arguments": ARGUMENTS}
    events = [
        begin | {"output": {"choices": [{"message": asked}], "time": 0.5}},
        outer | {"result": [{"type": "text", "text": RESULT}], "events": inner},
        begin
        | {"timestamp": iso(5), "input": [says("user", "Find it"), asked, seen], "output": {"choices": []}},
    ]
    import_paths(db, [save(tmp_path / "a.json", log({"id": 7, "epoch": 2, "events": events}))])
    assert [row[:4] for row in query(db, CALLS)] == [
        ("search", json.dumps(ARGUMENTS), RESULT, "success"),
        ("inner", "{}", "x", "success"),
    ]
    rows = query(db, "SELECT len(input_messages), end_ns - start_ns FROM llm_requests ORDER BY start_ns")
    assert rows == [(1, 5 * 10**8), (3, 0)]


def test_a_log_without_events_is_read_from_its_messages(tmp_path: Path, db: Path):
    messages = pool()
    file = single(import_paths(db, [save(tmp_path / "a.json", log(sample(events=[], messages=messages)))]))
    assert (file.runs, file.calls, file.requests) == (1, 4, 4)
    assert [row[2:4] for row in query(db, CALLS)] == [
        *[(RESULT, "success")] * 3,
        ("no such key", "general_tool_error"),
    ]
    assert query(db, "SELECT DISTINCT model FROM llm_requests") == [("openai/gpt-4o",)]


def test_calls_that_are_answered_only_in_a_later_history(tmp_path: Path, db: Path):
    """As where another agent runs inside a sandbox: there are model events alone."""
    events = [event for event in sample()["events"] if event["event"] != "tool"]
    import_paths(db, [save(tmp_path / "a.json", log(sample(events=events)))])
    assert [row[2:4] for row in query(db, CALLS)] == [
        *[(RESULT, "success")] * 3,
        ("no such key", "schema_error"),
        (None, None),
    ]


def test_nested_agents_are_runs_of_their_own_and_scorers_agents_of_theirs(tmp_path: Path, db: Path):
    def begin(name: str, kind: str, parent: str | None, number: float) -> dict[str, Any]:
        return {
            "event": "span_begin",
            "timestamp": iso(number),
            "id": name,
            "parent_id": parent,
            "type": kind,
            "name": name,
        }

    def end(name: str, number: float) -> dict[str, Any]:
        return {"event": "span_end", "timestamp": iso(number), "id": name}

    events = [
        begin("solvers", "solvers", None, 1),
        begin("react", "agent", "solvers", 1),
        model(2, answers(2, "c2"), span_id="react"),
        begin("t", "tool", "react", 3),
        tool(3, "c2", span_id="react"),
        begin("helper", "agent", "t", 3.1),
        model(3.2, answers(3, "c3"), span_id="helper"),
        tool(3.4, "c3", span_id="helper"),
        end("helper", 3.8),
        end("t", 4),
        end("react", 5),
        begin("grader", "scorer", None, 6),
        model(7, says("assistant", "C"), span_id="grader"),
    ]
    file = single(import_paths(db, [save(tmp_path / "a.json", log(sample(events=events)))]))
    assert (file.runs, file.calls, file.requests) == (2, 2, 3)
    calls = query(db, "SELECT agent_name, call_id, run_id FROM tool_calls ORDER BY start_ns")
    assert [call[:2] for call in calls] == [("react", "c2"), ("helper", "c3")]
    assert calls[1][2].startswith(calls[0][2] + "/")
    agents = query(db, "SELECT agent_name FROM llm_requests ORDER BY start_ns")
    assert agents == [("react",), ("helper",), ("scorer",)]


def test_failed_requests_and_ends(tmp_path: Path, db: Path):
    refused = "BadRequestError: Error code: 400 - duplicate tool_call_id"
    events = [
        model(2, None, error=refused),
        model(3, answers(3, "c3")),
        tool(4, "c3", "", pending=True, completed=None),
    ]
    samples = [
        sample(events=events, error={"message": "it broke"}),
        sample(id="s2", uuid="x2", events=events, limit={"type": "message", "limit": 9}),
    ]
    import_paths(db, [save(tmp_path / "a.json", log(*samples))])
    rows = query(db, "SELECT DISTINCT status, error_text FROM llm_requests ORDER BY 1")
    assert rows == [("error", refused), ("ok", None)]
    assert query(db, "SELECT DISTINCT outcome, end_ns FROM tool_calls") == [(None, None)]
    ends = query(db, "SELECT status_message FROM spans WHERE parent_span_id IS NULL ORDER BY 1")
    assert ends == [("it broke",), ("the sample ended at its limit of message",)]


def test_epochs_are_different_runs_and_without_a_header_the_journal_serves(tmp_path: Path, db: Path):
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("_journal/start.json", json.dumps({"eval": EVAL}))
        for epoch in (1, 2):
            out.writestr(f"samples/s1_epoch_{epoch}.json", json.dumps(sample(epoch=epoch, uuid=None)))
    file = single(import_paths(db, [path]))
    assert (file.runs, file.calls) == (2, 10)


# -- archives that are not what they should be --------------------------------------------------------------


def test_names_in_an_archive_are_never_paths(tmp_path: Path, db: Path):
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "a.eval"
    tricks = ("../escaped.json", "/tmp/escaped.json", "samples/../../escaped.json", "samples/\x1b[31m.json")
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("header.json", json.dumps({"eval": EVAL}))
        for number, name in enumerate(tricks):
            out.writestr(name, json.dumps(sample(id=f"s{number}", uuid=None)))
    before = sorted(tmp_path.rglob("*"))
    file = single(import_paths(db, [path]))
    assert file.runs == 2  # what lies below samples/, whatever it is called
    made = set(tmp_path.rglob("*")) - set(before)
    assert {item.name for item in made if item.is_file()} <= {"t.duckdb", "t.duckdb.lock", ".lock"}
    assert not (tmp_path / "escaped.json").exists()


def bomb(path: Path, method: int) -> Path:
    """A small file that unpacks to hundreds of megabytes of good JSON."""
    text = b'{"id": "s1", "epoch": 1, "events": [' + b" " * (200 << 20) + b"]}"
    if method == 93:
        return zstandard_archive(
            path, {"header.json": json.dumps({"eval": EVAL}).encode(), "samples/a.json": text}
        )
    with zipfile.ZipFile(path, "w", method) as out:
        out.writestr("header.json", json.dumps({"eval": EVAL}))
        out.writestr("samples/a.json", text)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, 93])
def test_a_bomb_is_refused(tmp_path: Path, db: Path, method: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_zip, "_BOMB_FROM", 1 << 16)
    path = bomb(tmp_path / "a.eval", method)
    assert path.stat().st_size < 1 << 20
    (error,) = import_paths(db, [path]).errors
    assert "unpacks to more than 300 times its size" in str(error)
    assert not db.exists()


def test_many_members_over_one_piece_of_data_are_a_bomb_together(
    tmp_path: Path, db: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_zip, "_BOMB_FROM", 1 << 16)
    members = zstandard_members(sample(store={"x": "y" * 60_000}))
    path = zstandard_archive(tmp_path / "a.eval", members)
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entry = data[start : data.index(b"PK\x01\x02", start + 1)]
    many = 2000
    directory = entry * many + data[start + len(entry) : end]
    # The same member under other names, all pointing at one piece of data.
    directory = (
        b"".join(
            entry.replace(b"samples/0.json", b"samples/" + f"{n:x}"[-1:].encode() + b".json")
            for n in range(16)
        )
        + data[start + len(entry) : end]
    )
    count = 17
    ending = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), start, 0)
    path.write_bytes(data[:start] + directory + b"PK\x05\x06" + ending)
    monkeypatch.setattr(_zip, "_BOMB_RATIO", 100)
    (error,) = import_paths(db, [path]).errors
    assert "unpacks to more than" in str(error)


BROKEN = {
    "cut": lambda data: data[:-30],
    "half": lambda data: data[: len(data) // 2],
    "no header": lambda data: data.replace(b"header.json", b"hesder.json").replace(
        b"start.json", b"stert.json"
    ),
}


@pytest.mark.parametrize("kind", ["deflate", "stored", "zstandard"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_damaged_archive_is_one_clear_line_and_the_rest_goes_in(
    tmp_path: Path, db: Path, kind: str, how: str
):
    path = write(kind, tmp_path)
    path.write_bytes(BROKEN[how](path.read_bytes()))
    report = import_paths(db, [path, save(tmp_path / "good.json", LOG)])
    assert [file.ok for file in report.files] == [False, True]
    message = str(report.errors[0])
    assert ("no evaluation log of Inspect" if how == "no header" else "damaged or cut off") in message
    assert "\n" not in message
    assert report.totals.calls == 2


@pytest.mark.parametrize("lie", [{"size": 10}, {"size": 10**6}, {"crc": 7}])
def test_members_that_lie_about_themselves_are_refused(tmp_path: Path, db: Path, lie: dict[str, int]):
    path = zstandard_archive(tmp_path / "a.eval", zstandard_members(sample()), **lie)
    (error,) = import_paths(db, [path]).errors
    assert "this member of the zip archive is damaged" in str(error)


def test_a_bad_sample_keeps_the_whole_log_out_and_says_which(tmp_path: Path, db: Path):
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("header.json", json.dumps({"eval": EVAL}))
        out.writestr("samples/a.json", json.dumps(sample()))
        out.writestr("samples/b.json", '{"id": "s2", "events": [')
    (error,) = import_paths(db, [path]).errors
    assert "samples/b.json: " in str(error)
    assert "cut off" in str(error)
    assert not db.exists()
    other = archive(tmp_path / "other.zip", [])
    with zipfile.ZipFile(other, "w") as out:
        out.writestr("a.txt", "x")
    (error,) = import_paths(db, [other]).errors
    assert "no evaluation log of Inspect" in str(error)
    (error,) = import_paths(db, [archive(other, [sample()])], format="openai-chat").errors
    assert "read as openai-chat, but it is a zip archive" in str(error)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS[1:]), at=st.integers(0, 1 << 14), what=st.binary(min_size=1, max_size=4))
def test_a_damaged_archive_comes_in_whole_or_not_at_all(tmp_path: Path, kind: str, at: int, what: bytes):
    path = write(kind, tmp_path)
    data = path.read_bytes()
    at %= len(data)
    path.write_bytes(data[:at] + what + data[at + len(what) :])
    db = tmp_path / "damaged.duckdb"
    for left in tmp_path.glob("damaged.duckdb*"):
        if left.is_file():
            left.unlink()
    report = import_paths(db, [path])
    if report.ok:
        assert report.totals.spans == len(tables(db)["span_rows"]) if report.totals.spans else True
    else:
        assert not db.exists()
        assert Spool(db).pending() == []
