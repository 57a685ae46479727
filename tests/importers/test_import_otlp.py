"""OTLP files of every layout to requests: nothing lost, nothing doubled, bad ones refused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from loopscope.collector import (
    SpanRecord,
    decode_logs,
    decode_traces,
    logs_json_to_protobuf,
    traces_json_to_protobuf,
)
from loopscope.collector.importers import _otlp
from loopscope.collector.importers._json_stream import json_values
from loopscope.collector.importers._otlp import Part, json_parts, proto_parts
from loopscope.collector.importers._report import FormatError, NotATraceError, SkipList

TRACE = "5b8efff798038103d269b633813fc60c"


def trace_request(*span_ids: int, text: str = "x", service: str = "s") -> dict[str, Any]:
    spans = [
        {
            "traceId": TRACE,
            "spanId": f"{span_id:016x}",
            "name": f"span {span_id}",
            "startTimeUnixNano": "1000",
            "endTimeUnixNano": "2000",
            "attributes": [{"key": "text", "value": {"stringValue": text}}],
        }
        for span_id in span_ids
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {
        "resourceSpans": [
            {"resource": resource, "scopeSpans": [{"scope": {"name": "lib", "version": "1"}, "spans": spans}]}
        ]
    }


def log_request(body: str, trace_id: str | None = TRACE) -> dict[str, Any]:
    record: dict[str, Any] = {"timeUnixNano": "1000", "body": {"stringValue": body}}
    if trace_id:
        record["traceId"] = trace_id
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}


def of_json(text: str) -> tuple[list[Part], list[tuple[str, str]]]:
    skipped = SkipList()
    parts = list(json_parts(json_values(io.BytesIO(text.encode()).read), skipped))
    return parts, [tuple(skip) for skip in skipped]


def of_bytes(data: bytes) -> list[Part]:
    return list(proto_parts(io.BytesIO(data).read, SkipList()))


def names(parts: list[Part]) -> list[str]:
    return [span.name for part in parts if part.signal == "traces" for span in decode_traces(part.data)]


def prefixed(*messages: bytes) -> bytes:
    return b"".join(len(message).to_bytes(4, "big") + message for message in messages)


LAYOUTS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "lines": lambda requests: "\n".join(json.dumps(request) for request in requests),
    "pretty": lambda requests: "".join(json.dumps(request, indent=2) for request in requests),
    "array": lambda requests: json.dumps(requests, indent=1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_json_layouts(layout: str):
    parts, skipped = of_json(LAYOUTS[layout]([trace_request(1, 2), {}, trace_request(3)]))
    assert names(parts) == ["span 1", "span 2", "span 3"]
    assert sum(part.records for part in parts) == 3
    assert {trace for part in parts for trace in part.trace_ids} == {bytes.fromhex(TRACE)}
    assert skipped == []


def test_logs_and_traces_may_share_a_file_and_metrics_are_skipped():
    both = trace_request(1) | log_request("hello")
    parts, skipped = of_json(
        "\n".join(map(json.dumps, [both, {"resourceMetrics": []}, log_request("x", None)]))
    )
    assert [part.signal for part in parts] == ["traces", "logs", "logs"]
    assert [part.without_trace for part in parts] == [False, False, True]
    assert decode_logs(parts[1].data)[0].body == "hello"
    assert skipped == [("line 2", "OTLP metrics; only traces and logs are read")]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"foo": 1}', "not an OTLP request"),
        ("[1]", "not an OTLP request"),
        ("7", "not an OTLP request"),
        ('{"resourceSpans": 5}', "must be a list"),
        (json.dumps(trace_request(1)).replace(TRACE, "nothex"), "traceId"),
        (json.dumps(trace_request(1)).replace('"1000"', '"soon"'), "Unix nanoseconds"),
        ('{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "no ids"}]}]}]}', "traceId"),
    ],
)
def test_json_that_is_not_otlp_is_refused_with_its_line(line: str, what: str):
    with pytest.raises(FormatError) as caught:
        of_json(f"{json.dumps(trace_request(1))}\n{line}\n")
    assert what in caught.value.what
    assert "line 2" in caught.value.where


def test_protobuf_layouts():
    one = traces_json_to_protobuf(trace_request(1, 2))
    two = traces_json_to_protobuf(trace_request(3))
    for data in (one + two, prefixed(one, b"", two)):
        parts = of_bytes(data)
        assert names(parts) == ["span 1", "span 2", "span 3"]
        assert {part.signal for part in parts} == {"traces"}


def test_protobuf_logs_are_told_from_traces():
    logs = logs_json_to_protobuf(log_request("hello"))
    for data in (logs, prefixed(logs)):
        (part,) = of_bytes(data)
        assert (part.signal, part.records) == ("logs", 1)
        assert decode_logs(part.data)[0].body == "hello"


def test_a_long_first_resource_is_read():
    data = traces_json_to_protobuf(trace_request(1, text="x" * 200_000))
    assert names(of_bytes(data)) == ["span 1"]


GOOD = traces_json_to_protobuf(trace_request(1))


@pytest.mark.parametrize(
    ("data", "kind", "where"),
    [
        (b"random bytes of no kind", NotATraceError, ""),
        (b"\n" + bytes(range(128, 250)), NotATraceError, ""),
        (b"\x00\x00\x00\x05hello", NotATraceError, "message 1"),
        (b"\x00\x00\x00\x09hello", NotATraceError, ""),
        (prefixed(GOOD) + b"\x00\x00\x01", FormatError, "message 2"),
        (prefixed(GOOD, GOOD)[:-1], FormatError, "message 2"),
        (prefixed(GOOD) + b"\xff\xff\xff\xff", FormatError, "message 2"),
        (prefixed(GOOD) + prefixed(b"hello"), FormatError, "message 2"),
        (prefixed(GOOD, logs_json_to_protobuf(log_request("x"))), FormatError, "message 2"),
        (GOOD + GOOD[:-3], FormatError, "resource 2"),
        (GOOD + b"\x12\x00", FormatError, "resource 2"),
        (GOOD + b"\x0a", FormatError, "resource 2"),
    ],
)
def test_protobuf_that_is_bad_is_refused(data: bytes, kind: type[FormatError], where: str):
    with pytest.raises(kind) as caught:
        of_bytes(data)
    assert where in caught.value.where


def test_spans_without_usable_ids_are_refused():
    long_id = GOOD.replace(b"\x12\x08" + bytes(7) + b"\x01", b"\x12\x08" + b"\x01" * 8)
    assert long_id != GOOD
    assert names(of_bytes(long_id)) == ["span 1"]
    for bad in (
        GOOD.replace(b"\x0a\x10" + bytes.fromhex(TRACE), b"\x2a\x10" + b"x" * 16),  # no trace id
        GOOD.replace(b"\x12\x08" + bytes(7) + b"\x01", b"\x2a\x08" + b"y" * 8),  # no span id
    ):
        assert bad != GOOD
        with pytest.raises(FormatError):
            of_bytes(bad)


def test_a_large_request_is_split_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_otlp, "_PART_BYTES", 2000)
    request = trace_request(*range(1, 31), text="y" * 300)
    request["resourceSpans"] += trace_request(*range(31, 61), service="other")["resourceSpans"]
    data = traces_json_to_protobuf(request)
    parts = of_bytes(data)
    assert len(parts) > 5
    assert all(len(part.data) < 2600 for part in parts)
    assert sum(part.records for part in parts) == 60

    def every(pieces: list[bytes]) -> list[SpanRecord]:
        return [span for piece in pieces for span in decode_traces(piece)]

    assert every([part.data for part in parts]) == every([data])


def zstandard(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


@pytest.mark.parametrize("kind", ["protobuf", "json"])
def test_messages_that_the_collector_compressed_one_by_one(kind: str):
    """The file exporter's `compression`: each message packed alone, JSON ones too, behind its length."""
    requests = [trace_request(1), trace_request(2, 3)]
    messages = [
        traces_json_to_protobuf(request) if kind == "protobuf" else json.dumps(request).encode()
        for request in requests
    ]
    parts = of_bytes(prefixed(*map(zstandard, messages)))
    assert names(parts) == ["span 1", "span 2", "span 3"]


def test_a_bad_compressed_message_is_named(monkeypatch: pytest.MonkeyPatch):
    good = zstandard(traces_json_to_protobuf(trace_request(1)))
    with pytest.raises(FormatError, match="zstandard data that is damaged") as caught:
        of_bytes(prefixed(good, good[:-4]))
    assert caught.value.where == "message 2"
    bad = zstandard(json.dumps(trace_request(1)).replace(TRACE, "nothex").encode())
    with pytest.raises(FormatError, match="traceId") as caught:
        of_bytes(prefixed(good, bad))
    assert caught.value.where == "message 2"
    monkeypatch.setattr(_otlp, "_BOMB_FROM", 1 << 16)
    with pytest.raises(FormatError, match="unpacks to more than 300 times its size"):
        of_bytes(prefixed(good, zstandard(b" " * (8 << 20))))
