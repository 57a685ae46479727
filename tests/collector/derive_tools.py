"""Spans and traces in few words, for the tests of decoding and derivation."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

from loopscope.collector._derive import derive_trace
from loopscope.collector._otlp import (
    decode_logs,
    decode_traces,
    logs_json_to_protobuf,
    traces_json_to_protobuf,
)
from loopscope.collector._records import Derived, LogRecord, SpanEvent, SpanRecord

TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_760_000_000_000_000_000
_ids = count(1)


def span(name: str = "span", /, parent: SpanRecord | str | None = None, **fields: Any) -> SpanRecord:
    """A span of the one test trace. Each starts after the one made before it, and ends at once.

    `at=(start, end)` sets both in seconds after the start of the trace; `attrs` are attributes.
    """
    number = next(_ids)
    start = START + number * 1_000_000
    at = fields.pop("at", None)
    ended = fields.pop("ended", True)
    span_id = fields.pop("span_id", f"{number:016x}")
    record = SpanRecord(
        trace_id=fields.pop("trace_id", TRACE),
        span_id=span_id,
        parent_span_id=parent.span_id if isinstance(parent, SpanRecord) else parent,
        name=name,
        kind=1,
        start_ns=START + int(at[0] * 1e9) if at else start,
        end_ns=(START + int(at[1] * 1e9) if at else start + 500_000) if ended else None,
        attributes=fields.pop("attrs", {}),
        events=fields.pop("events", []),
        status_code=fields.pop("status", 0),
        status_message=fields.pop("message", None),
    )
    for key, value in fields.items():
        setattr(record, key, value)
    return record


def tool(
    name: str = "search", arguments: Any = '{"q": "x"}', result: Any = "nothing", **fields: Any
) -> SpanRecord:
    """A tool span of the official conventions; None leaves an attribute out."""
    attrs = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": fields.pop("call_id", None),
        "gen_ai.tool.call.arguments": arguments,
        "gen_ai.tool.call.result": result,
        **fields.pop("attrs", {}),
    }
    return span(
        f"execute_tool {name}",
        attrs={key: value for key, value in attrs.items() if value is not None},
        **fields,
    )


def chat(inputs: Any = None, outputs: Any = None, **fields: Any) -> SpanRecord:
    """An LLM span of the official conventions."""
    attrs = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.provider.name": "p",
        "gen_ai.input.messages": json.dumps(inputs) if inputs is not None else None,
        "gen_ai.output.messages": json.dumps(outputs) if outputs is not None else None,
        **fields.pop("attrs", {}),
    }
    return span("chat m", attrs={key: value for key, value in attrs.items() if value is not None}, **fields)


def agent(name: str | None = "support", **fields: Any) -> SpanRecord:
    """An agent span of the official conventions."""
    attrs = {"gen_ai.operation.name": "invoke_agent", **({"gen_ai.agent.name": name} if name else {})}
    return span(f"invoke_agent {name}", attrs=attrs | fields.pop("attrs", {}), **fields)


def exception(kind: str, message: str) -> SpanEvent:
    """The event that record_exception() adds."""
    return SpanEvent("exception", START, {"exception.type": kind, "exception.message": message})


def asks(call_id: str | None, name: str = "search", arguments: Any = None) -> dict[str, Any]:
    """An assistant message with one tool call."""
    part = {"type": "tool_call", "name": name, "arguments": {"q": "x"} if arguments is None else arguments}
    return {"role": "assistant", "parts": [part | ({"id": call_id} if call_id else {})]}


def answers(call_id: str | None, text: str) -> dict[str, Any]:
    """A tool message."""
    part = {"type": "tool_call_response", "response": text}
    return {"role": "tool", "parts": [part | ({"id": call_id} if call_id else {})]}


def read_file(path: Path) -> tuple[list[SpanRecord], list[LogRecord]]:
    """The spans of an OTLP JSON lines file and the log records beside it; of a file of logs these alone."""
    spans: list[SpanRecord] = []
    logs: list[LogRecord] = []
    beside = path
    if not path.name.endswith(".logs.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            spans += decode_traces(traces_json_to_protobuf(json.loads(line)))
        beside = path.with_suffix(".logs.jsonl")
    if beside.exists():
        for line in beside.read_text("utf-8").splitlines():
            logs += decode_logs(logs_json_to_protobuf(json.loads(line)))
    return spans, logs


def derive_file(path: Path) -> tuple[list[SpanRecord], Derived]:
    """All traces of an OTLP JSON lines file, with the log records beside it."""
    spans, logs = read_file(path)
    return spans, derive_trace(spans, logs)
