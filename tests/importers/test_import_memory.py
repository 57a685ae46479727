"""Memory of an import: by its settings, not by how much is imported.

What bounds it in use (pieces of 1 MB, 16 million characters of messages and so on) is made small here, so
that a few hundred kB reach every bound. Python's own allocations are measured, which are the same each time.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from loopscope.collector.importers import _files, _import, _json_stream, _otlp, _stage
from loopscope.collector.importers._files import ByteSource
from loopscope.collector.importers._report import FileReport, SkipList
from loopscope.collector.importers._stage import Stage
from loopscope.collector.importers.sessions import _claude_code, _formats, _lines, _run
from loopscope.collector.importers.sessions._history import Contents

MOST = 1.3  # for four times as much
ENTRIES = 24  # of 15 kB: a hundred bytes of ids are kept of each


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch):
    for module, name, value in (
        (_json_stream, "_CHUNK", 16 << 10),
        (_json_stream, "_SPLIT_FROM", 32 << 10),
        (_lines, "_CHUNK", 16 << 10),
        (_formats, "_HEADS", (8 << 10,)),
        (_run, "_PART_BYTES", 16 << 10),
        (_run, "_TRACE_BYTES", 64 << 10),
        (_run, "_WHOLE_HISTORY", 16 << 10),
        (_otlp, "_PART_BYTES", 16 << 10),
        (_stage, "_PAYLOAD_BYTES", 16 << 10),
        (_stage, "_SEGMENT_BYTES", 32 << 10),
        (_stage, "_IN_MEMORY", 16 << 10),
        (_import, "_BATCH_BYTES", 64 << 10),
        (_import, "_LOOK_AHEAD", 16 << 10),
        (_files, "_BOMB_FROM", 1 << 30),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(_claude_code, "Contents", partial(Contents, 32 << 10))
    monkeypatch.setattr(_claude_code, "Nodes", partial(_claude_code.Nodes, 50))


def text(number: int, size: int) -> str:
    """No two are alike."""
    return f"{number} " + f"word{number % 97} " * (size // 8)


def otlp_line(number: int) -> str:
    span = {
        "traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "execute_tool read", "kind": 1,
        "startTimeUnixNano": str(1_790_000_000_000_000_000 + number),
        "endTimeUnixNano": str(1_790_000_000_000_000_500 + number),
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
            {"key": "gen_ai.tool.name", "value": {"stringValue": "read"}},
            {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": json.dumps({"at": number})}},
            {"key": "gen_ai.tool.call.result", "value": {"stringValue": text(number, 15_000)}},
        ],
    }  # fmt: skip
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})


def chat(number: int) -> dict[str, object]:
    function = {"name": "read", "arguments": json.dumps({"at": number})}
    asked = [{"id": f"c{number}", "type": "function", "function": function}]
    return {
        "id": f"chat{number}",
        "messages": [
            {"role": "user", "content": text(number, 100)},
            {"role": "assistant", "content": None, "tool_calls": asked},
            {"role": "tool", "tool_call_id": f"c{number}", "content": text(number, 15_000)},
        ],
    }


ABOUT = {"eval_id": "e", "task": "t", "model": "m"}


def sample(number: int) -> dict[str, object]:
    ids = ("id", "type", "function", "arguments")
    asked = dict(zip(ids, (f"c{number}", "function", "read", {"at": number}), strict=True))
    result = text(number, 15_000)
    answer = {"role": "assistant", "content": "", "tool_calls": [asked]}
    messages = [{"role": "user", "content": text(number, 100)}, answer]
    messages.append({"role": "tool", "content": result, "tool_call_id": f"c{number}"})
    return {"id": f"s{number}", "epoch": 1, "messages": messages}


def session_lines(turns: int, size: int, session: str = "s") -> list[str]:
    lines: list[str] = []
    parent = None

    def say(kind: str, content: object, number: int, **more: object) -> None:
        nonlocal parent
        uuid = f"{session}-{len(lines)}"
        message = {"role": kind, "content": content, **more}
        at = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        own = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, "timestamp": at}
        lines.append(json.dumps({**own, "message": message}))
        parent = uuid

    say("user", "begin", 0)
    for number in range(turns):
        tool = {"type": "tool_use", "id": f"{session}c{number}", "name": "Read", "input": {"at": number}}
        say("assistant", [tool], number, id=f"msg_{session}{number}", model="m")
        result = {
            "type": "tool_result",
            "tool_use_id": f"{session}c{number}",
            "content": text(number, size),
        }
        say("user", [result], number)
    return lines


def write_otlp(path: Path, times: int) -> None:
    path.write_text("\n".join(otlp_line(number) for number in range(ENTRIES * times)))


def write_chats(path: Path, times: int) -> None:
    path.write_text("\n".join(json.dumps(chat(number)) for number in range(ENTRIES * times)))


def write_log(path: Path, times: int) -> None:
    samples = [sample(number) for number in range(ENTRIES * times)]
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": ABOUT, "samples": samples}))


def write_session(path: Path, times: int) -> None:
    """As many calls, longer texts."""
    path.write_text("\n".join(session_lines(200, 2_000 * times)))


def peak(work) -> int:
    """The most memory that Python's objects took."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def read(path: Path) -> None:
    stage = Stage(path.parent, None)
    with ByteSource(path) as source:
        for part in _import._parts(source, "auto", FileReport(path=path), SkipList()):
            stage.add(part)
    stage.finish()
    assert stage.spans >= ENTRIES
    stage.close()


@pytest.mark.parametrize("write", [write_otlp, write_chats, write_log, write_session])
def test_reading_takes_no_more_for_more(tmp_path, write):
    small, large = tmp_path / "small", tmp_path / "large"
    write(small, 1)
    write(large, 4)
    assert large.stat().st_size > 2 * small.stat().st_size
    read(small)  # what is made once, and stays
    assert peak(lambda: read(large)) < MOST * peak(lambda: read(small))
