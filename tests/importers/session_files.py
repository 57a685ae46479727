"""Session files of agents in small, and helpers that read them without a database."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopscope.collector import LlmRequest, SpanRecord, ToolCall, decode_traces, derive_trace
from loopscope.collector.importers._json_stream import json_values
from loopscope.collector.importers._report import SkipList
from loopscope.collector.importers.sessions import session_format

Entry = dict[str, Any]


@dataclass
class Read:
    """What a file came to."""

    spans: list[SpanRecord]
    calls: list[ToolCall]  # as they are counted: by run, then in order; those that never ended come last
    requests: list[LlmRequest]  # in the order of their start
    skipped: list[tuple[str, str]]

    def roots(self) -> list[SpanRecord]:
        return [span for span in self.spans if span.parent_span_id is None]

    def told(self) -> list[tuple[str, str | None, str | None, str | None]]:
        """(tool, arguments, result, outcome) of each call."""
        return [(call.tool_name, call.arguments, call.result, call.outcome) for call in self.calls]

    def histories(self) -> list[list[str]]:
        """What each request had before it, in short."""
        return [[brief(message) for message in request.input_messages or ()] for request in self.requests]


def brief(message: str) -> str:
    """A message in short: `user: text`, `assistant: ->id`, `tool: <-id`."""
    value = json.loads(message)
    said = []
    for part in value["parts"]:
        kind = part["type"]
        said.append(
            f"->{part['id']}"
            if kind == "tool_call"
            else f"<-{part.get('id')}"
            if kind == "tool_call_response"
            else str(part.get("content"))
            if kind == "text"
            else f"({kind})"
        )
    return f"{value['role']}: {' '.join(said)}"


def as_lines(entries: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def write(path: Path, entries: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_lines(entries))
    return path


def read(name: str, entries: Sequence[Any] | Entry | bytes, *, lines: bool = True) -> Read:
    """A file of the format, as JSON lines or (`lines=False`) as one JSON value."""
    format = session_format(name)
    assert format is not None
    skipped = SkipList()
    if isinstance(entries, bytes):
        data = entries
    else:
        data = as_lines(entries) if lines and not isinstance(entries, dict) else json.dumps(entries).encode()
    stream = io.BytesIO(data)
    found = (
        format.of_lines(stream.read, skipped)
        if lines
        else format.of_values(json_values(stream.read), skipped)
    )
    latest: dict[tuple[str, str], SpanRecord] = {}
    for part in found:
        spans = decode_traces(part.data)
        assert len(spans) == part.records
        for span in spans:
            assert (span.trace_id, span.span_id) not in latest, "a span is written once"
            latest[span.trace_id, span.span_id] = span
    by_trace: dict[str, list[SpanRecord]] = {}
    for span in latest.values():
        by_trace.setdefault(span.trace_id, []).append(span)
    calls: list[ToolCall] = []
    requests: list[LlmRequest] = []
    for spans in by_trace.values():
        derived = derive_trace(spans)
        calls += derived.tool_calls
        requests += derived.llm_requests
    calls.sort(key=lambda call: (call.run_id, call.seq is None, call.seq or call.start_ns))
    requests.sort(key=lambda request: (request.start_ns, request.end_ns or 0))
    return Read(list(latest.values()), calls, requests, [(skip.where, skip.why) for skip in skipped])


def clock(second: int) -> str:
    return f"2026-03-01T10:{second // 60:02}:{second % 60:02}.000Z"


# -- Claude Code ----------------------------------------------------------------------------------------


class Claude:
    """Writes a session as Claude Code does: each entry names the one above it."""

    def __init__(self, session: str = "s-1", **common: Any) -> None:
        self.entries: list[Entry] = []
        self.session = session
        self.tip: str | None = None
        self.common = {
            "isSidechain": False,
            "cwd": "/home/a/shop",
            "version": "2.0.1",
            "gitBranch": "main",
        } | common
        self._count = 0
        self._second = 0

    def add(self, kind: str, body: Entry, *, parent: str | type | None = str, **more: Any) -> str:
        self._count += 1
        self._second += 1
        uuid = f"{self.session}-{self._count}"
        above = self.tip if parent is str else parent
        self.entries.append(
            {
                "parentUuid": above,
                "sessionId": self.session,
                "type": kind,
                "uuid": uuid,
                "timestamp": clock(self._second),
                **self.common,
                **body,
                **more,
            }
        )
        self.tip = uuid
        return uuid

    def user(self, text: str, **more: Any) -> str:
        return self.add("user", {"message": {"role": "user", "content": text}}, **more)

    def block(self, message_id: str, block: Entry, *, tokens: int = 1, **more: Any) -> str:
        """One line of an answer."""
        message = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [block],
            "usage": {
                "input_tokens": 4,
                "output_tokens": tokens,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 20,
            },
        }
        return self.add("assistant", {"message": message, "requestId": f"req_{message_id}"}, **more)

    def says(self, message_id: str, text: str, **more: Any) -> str:
        return self.block(message_id, {"type": "text", "text": text}, **more)

    def asks(self, message_id: str, call_id: str, name: str, arguments: Any, **more: Any) -> str:
        return self.block(
            message_id, {"type": "tool_use", "id": call_id, "name": name, "input": arguments}, **more
        )

    def result(self, call_id: str, text: Any, *, failed: bool | None = None, **more: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        if failed is not None:
            block["is_error"] = failed
        return self.add("user", {"message": {"role": "user", "content": [block]}}, **more)
