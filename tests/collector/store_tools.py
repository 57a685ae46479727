"""Helpers for tests of the spool, the store and the fold."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from loopscope.collector import Derived, LlmRequest, LogRecord, SpanRecord, Spool, Store, ToolCall
from loopscope.collector._segment import encode_segment

BOOKKEEPING = {"folded_segments"}
TABLES = {
    "span_rows": "trace_id, span_id",
    "log_rows": "log_key",
    "contents": "text",
    "tool_call_rows": "trace_id, span_id, position",
    "llm_request_rows": "trace_id, span_id",
    "trace_rows": "trace_id",
    "labels": "key",
    "policies": "name",
    "drop_counters": "name, source",
    "spans": "trace_id, span_id",
    "logs": "ALL",
    "tool_calls": "trace_id, span_id, position",
    "llm_requests": "trace_id, span_id",
}


def any_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[any_value(item) for item in value]))
    if isinstance(value, dict):
        return AnyValue(kvlist_value=KeyValueList(values=pairs(value)))
    return AnyValue()


def pairs(attributes: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def trace_id(number: int) -> str:
    return f"{number:032x}"


def span_id(number: int) -> str:
    return f"{number:016x}"


def spans_payload(*spans: dict[str, Any], service: str | None = "svc") -> bytes:
    """An ExportTraceServiceRequest.

    A span: trace, span (numbers), start, end (ns; None: not ended), attributes, events, parent, status, name.
    """
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    if service is not None:
        group.resource.attributes.extend(pairs({"service.name": service}))
    scope = group.scope_spans.add()
    scope.scope.name = "tests"
    for raw in spans:
        span = scope.spans.add()
        span.trace_id = bytes.fromhex(trace_id(raw.get("trace", 1)))
        span.span_id = bytes.fromhex(span_id(raw["span"]))
        if raw.get("parent") is not None:
            span.parent_span_id = bytes.fromhex(span_id(raw["parent"]))
        span.name = raw.get("name", "work")
        span.start_time_unix_nano = raw.get("start", 1_000)
        if raw.get("end") is not None:
            span.end_time_unix_nano = raw["end"]
        span.attributes.extend(pairs(raw.get("attributes", {})))
        if raw.get("status"):
            span.status.code = raw["status"]
        for name, attributes in raw.get("events", []):
            event = span.events.add()
            event.name = name
            event.time_unix_nano = span.start_time_unix_nano
            event.attributes.extend(pairs(attributes))
        for linked in raw.get("links", []):
            link = span.links.add()
            link.trace_id = bytes.fromhex(trace_id(linked))
            link.span_id = bytes.fromhex(span_id(linked))
    return request.SerializeToString()


def logs_payload(*logs: dict[str, Any]) -> bytes:
    """An ExportLogsServiceRequest. A log: trace (number or None), span, time, body, attributes, event."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.extend(pairs({"service.name": "svc"}))
    scope = group.scope_logs.add()
    for raw in logs:
        record = scope.log_records.add()
        if raw.get("trace") is not None:
            record.trace_id = bytes.fromhex(trace_id(raw["trace"]))
            record.span_id = bytes.fromhex(span_id(raw.get("span", 1)))
        record.time_unix_nano = raw.get("time", 2_000)
        if "event" in raw:
            record.event_name = raw["event"]
        if raw.get("body") is not None:
            record.body.CopyFrom(any_value(raw["body"]))
        record.attributes.extend(pairs(raw.get("attributes", {})))
    return request.SerializeToString()


def put_segment(
    spool: Spool,
    payloads: list[tuple[str, bytes]],
    *,
    received_ns: int,
    name: str,
    meta: dict[str, Any] | None = None,
) -> Path:
    """A segment with a receive time and a name of the test's choice."""
    spool.prepare()
    path = spool.path / f"{name}.seg"
    path.write_bytes(encode_segment(payloads, received_ns=received_ns, meta=meta))  # type: ignore[arg-type]
    return path


def copy_spool(source: Spool, target: Spool, names: list[str] | None = None) -> None:
    target.prepare()
    for path in source.pending():
        if names is None or path.name in names:
            shutil.copyfile(path, target.path / path.name)


def dump(
    store: Store, *, without: frozenset[str] | set[str] = frozenset()
) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the database in a fixed order, bookkeeping left out.

    Keys of texts, which are counted as the texts come in, are the texts themselves here.
    """
    found = {}
    with store.lease() as con:
        texts = dict(con.execute("SELECT hash, text FROM contents").fetchall())
        for table, order in TABLES.items():
            if table not in without:
                columns = {"trace_rows": "* EXCLUDE (changed_in)", "contents": "check_hash, text"}.get(
                    table, "*"
                )
                result = con.execute(f"SELECT {columns} FROM {table} ORDER BY {order}")
                names = [column[0] for column in result.description or ()]
                keyed = [at for at, name in enumerate(names) if name.endswith(("_parts", "_content"))]
                found[table] = [_with_texts(row, keyed, texts) for row in result.fetchall()]
    return found


def _with_texts(row: tuple[Any, ...], keyed: list[int], texts: dict[int, str]) -> tuple[Any, ...]:
    values = list(row)
    for at in keyed:
        if values[at] is not None:
            values[at] = (
                [texts[key] for key in values[at]] if isinstance(values[at], list) else texts[values[at]]
            )
    return tuple(values)


def count(store: Store, table: str) -> int:
    with store.lease() as con:
        return con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]


def derive(spans: list[SpanRecord], logs: list[LogRecord]) -> Derived:
    """A small derivation with the traits of the real one: what it says of one span depends on the others.

    Spans with the attribute `tool` are calls, spans with `messages` are requests; `conversation` on any span
    of the trace makes the run go beyond the trace; a log with `about` = a span's id brings a missing result.
    """
    derived = Derived()
    conversation = next((s.attributes["conversation"] for s in spans if "conversation" in s.attributes), None)
    if any(s.attributes.get("explode") for s in spans):
        raise RuntimeError("cannot make sense\nof this trace")
    late = {log.attributes["about"]: log.body for log in logs if "about" in log.attributes}
    turns = sorted(s.end_ns for s in spans if "messages" in s.attributes and s.end_ns is not None)
    ended = sorted(
        (s for s in spans if "tool" in s.attributes and s.end_ns is not None),
        key=lambda s: (s.end_ns, s.start_ns, s.span_id),
    )
    common: dict[str, Any] = {
        "run_id": conversation or spans[0].trace_id if spans else "none",
        "run_source": "conversation" if conversation else "trace",
        "session_id": None,
        "agent_name": None,
        "content_state": "full",
        "dialect": "test",
    }
    for span in spans:
        service = span.resource.get("service.name")
        if "tool" in span.attributes:
            asked = sum(end <= span.start_ns for end in turns)
            derived.tool_calls.append(
                ToolCall(
                    trace_id=span.trace_id,
                    span_id=span.span_id,
                    position=0,
                    parent_run_id=None,
                    service_name=service,
                    turn=asked or None,
                    tool_name=span.attributes["tool"],
                    call_id=None,
                    arguments=span.attributes.get("arguments"),
                    result=span.attributes.get("result", late.get(span.span_id)),
                    outcome="success",
                    error_kind=None,
                    error_type=None,
                    error_message=None,
                    http_status=None,
                    start_ns=span.start_ns,
                    end_ns=span.end_ns,
                    fingerprint=len(span.attributes["tool"]),
                    result_hash=None,
                    scope_key=None,
                    recorded_verdict=None,
                    seq=ended.index(span) + 1 if span in ended else None,
                    **common,
                )
            )
        if "messages" in span.attributes:
            messages = json.loads(span.attributes["messages"])
            derived.llm_requests.append(
                LlmRequest(
                    trace_id=span.trace_id,
                    span_id=span.span_id,
                    service_name=service,
                    turn=sum(end <= span.end_ns for end in turns) if span.end_ns is not None else None,
                    provider="p",
                    model="m",
                    input_messages=[json.dumps(message) for message in messages],
                    output_messages=None,
                    input_tokens=1,
                    output_tokens=None,
                    cost=None,
                    status="ok",
                    http_status=None,
                    error_type=None,
                    error_text=None,
                    error_class=None,
                    start_ns=span.start_ns,
                    end_ns=span.end_ns,
                    **common,
                )
            )
    return derived


def python_env() -> dict[str, str]:
    """An environment for child processes."""
    return {**os.environ, "PYTHONUNBUFFERED": "1"}
