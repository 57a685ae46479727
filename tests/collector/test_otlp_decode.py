"""OTLP protobuf and OTLP/JSON in, records out."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from loopscope.collector._otlp import (
    decode_logs,
    decode_traces,
    logs_json_to_protobuf,
    traces_json_to_protobuf,
)
from loopscope.guard import OtlpDecodeError

TRACE_ID = "5b8efff798038103d269b633813fc60c"
SPAN_ID = "eee19b7ec3c1b174"


def request(**span: Any) -> dict[str, Any]:
    """An OTLP/JSON request with one span; `span` replaces or adds fields."""
    fields: dict[str, Any] = {"traceId": TRACE_ID, "spanId": SPAN_ID, "name": "s", "startTimeUnixNano": "1"}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [fields | span]}]}]}


def one(obj: Any):
    (span,) = decode_traces(traces_json_to_protobuf(obj))
    return span


def test_a_whole_span() -> None:
    obj = {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
                "scopeSpans": [
                    {
                        "scope": {"name": "lib", "version": "1.2"},
                        "spans": [
                            {
                                "traceId": TRACE_ID,
                                "spanId": SPAN_ID,
                                "parentSpanId": "00000000000000aa",
                                "name": "execute_tool x",
                                "kind": 3,
                                "startTimeUnixNano": "1760000001000000000",
                                "endTimeUnixNano": "1760000002000000001",
                                "attributes": [
                                    {"key": "s", "value": {"stringValue": "t"}},
                                    {"key": "i", "value": {"intValue": "42"}},
                                    {"key": "d", "value": {"doubleValue": 0.5}},
                                    {"key": "b", "value": {"boolValue": False}},
                                    {"key": "bytes", "value": {"bytesValue": "aGk="}},
                                    {"key": "null", "value": {}},
                                    {"key": "a", "value": {"arrayValue": {"values": [{"intValue": 1}, {}]}}},
                                    {
                                        "key": "m",
                                        "value": {
                                            "kvlistValue": {
                                                "values": [{"key": "k", "value": {"stringValue": "v"}}]
                                            }
                                        },
                                    },
                                    {"key": "empty", "value": {"arrayValue": {}}},
                                ],
                                "droppedAttributesCount": 3,
                                "droppedEventsCount": 1,
                                "events": [
                                    {
                                        "timeUnixNano": "7",
                                        "name": "exception",
                                        "attributes": [
                                            {"key": "exception.type", "value": {"stringValue": "E"}}
                                        ],
                                        "droppedAttributesCount": 2,
                                    }
                                ],
                                "links": [{"traceId": "a" * 32, "spanId": "b" * 16}],
                                "status": {"code": 2, "message": "boom"},
                            }
                        ],
                    }
                ],
            }
        ]
    }
    span = one(obj)
    assert (span.trace_id, span.span_id, span.parent_span_id) == (TRACE_ID, SPAN_ID, "00000000000000aa")
    assert (span.name, span.kind, span.status_code, span.status_message) == ("execute_tool x", 3, 2, "boom")
    assert (span.start_ns, span.end_ns) == (1760000001000000000, 1760000002000000001)
    assert span.attributes == {
        "s": "t", "i": 42, "d": 0.5, "b": False, "bytes": "aGk=", "null": None, "a": [1, None],
        "m": {"k": "v"}, "empty": [],
    }  # fmt: skip
    assert (span.dropped_attributes, span.dropped_events) == (3, 1)
    assert (span.events[0].name, span.events[0].time_ns, span.events[0].dropped_attributes) == (
        "exception",
        7,
        2,
    )
    assert span.events[0].attributes == {"exception.type": "E"}
    assert (span.links[0].trace_id, span.links[0].span_id) == ("a" * 32, "b" * 16)
    assert span.resource == {"service.name": "shop"}
    assert (span.scope_name, span.scope_version) == ("lib", "1.2")


def test_missing_is_none() -> None:
    span = one(request())
    assert span.end_ns is None
    assert span.parent_span_id is None
    assert span.status_message is None
    assert (span.scope_name, span.scope_version) == (None, None)
    assert span.status_code == 0


@pytest.mark.parametrize(
    ("trace_id", "span_id"),
    [
        (TRACE_ID.upper(), SPAN_ID.upper()),
        ("0x" + TRACE_ID, "0x" + SPAN_ID),
        ("W47/95gDgQPSabYzgT/GDA==", "7uGbfsPBsXQ="),  # base64, as protobuf's own JSON writes bytes
        ("W47/95gDgQPSabYzgT/GDA", "7uGbfsPBsXQ"),
        ("W47_95gDgQPSabYzgT_GDA==", "7uGbfsPBsXQ="),
    ],
)
def test_ids_in_hex_and_base64(trace_id: str, span_id: str) -> None:
    span = one(request(traceId=trace_id, spanId=span_id))
    assert (span.trace_id, span.span_id) == (TRACE_ID, SPAN_ID)


def test_a_64_bit_trace_id_is_padded() -> None:
    assert one(request(traceId="d269b633813fc60c")).trace_id == "0" * 16 + "d269b633813fc60c"


@pytest.mark.parametrize("parent", ["", None, "0000000000000000"])
def test_no_parent(parent: str | None) -> None:
    assert one(request(parentSpanId=parent)).parent_span_id is None


def test_lenient_spellings() -> None:
    obj = {
        "resource_spans": [
            {
                "resource": {"attributes": {"service.name": "shop"}},
                "scope_spans": [
                    {
                        "spans": [
                            {
                                "trace_id": TRACE_ID,
                                "span_id": SPAN_ID,
                                "name": "s",
                                "kind": "SPAN_KIND_CLIENT",
                                "start_time_unix_nano": 5,
                                "end_time_unix_nano": 6,
                                "attributes": [
                                    {"key": "i", "value": {"int_value": 7}},
                                    {"key": "bare", "value": "text"},
                                    {"key": "t", "value": {"boolValue": "true"}},
                                ],
                                "status": {"code": "STATUS_CODE_ERROR"},
                                "someNewField": {"x": [1]},
                            }
                        ]
                    }
                ],
            }
        ]
    }
    span = one(obj)
    assert (span.kind, span.status_code, span.start_ns, span.end_ns) == (3, 2, 5, 6)
    assert span.attributes == {"i": 7, "bare": "text", "t": True}
    assert span.resource == {"service.name": "shop"}


@pytest.mark.parametrize(
    ("code", "number"), [("Error", 2), ("OK", 1), ("2", 2), (2.0, 2), ("?", 0), (9, 0), (None, 0)]
)
def test_status_codes(code: Any, number: int) -> None:
    assert one(request(status={"code": code})).status_code == number


def test_old_scope_names() -> None:
    obj = request()
    resource_spans = obj["resourceSpans"][0]
    resource_spans["instrumentationLibrarySpans"] = resource_spans.pop("scopeSpans")
    resource_spans["instrumentationLibrarySpans"][0]["instrumentationLibrary"] = {"name": "old"}
    assert one(obj).scope_name == "old"


def test_a_list_of_requests_and_an_empty_request() -> None:
    both = [request(), request(spanId="00000000000000bb")]
    assert len(decode_traces(traces_json_to_protobuf(both))) == 2
    assert decode_traces(traces_json_to_protobuf({})) == []
    assert decode_traces(b"") == []


def test_numbers_that_do_not_fit() -> None:
    attributes = [
        {"key": "big", "value": {"intValue": "99999999999999999999"}},
        {"key": "nan", "value": {"doubleValue": "NaN"}},
        {"key": "word", "value": {"intValue": "many"}},
    ]
    span = one(request(attributes=attributes))
    assert span.attributes["big"] == "99999999999999999999"
    assert math.isnan(span.attributes["nan"])
    assert span.attributes["word"] == "many"


def test_deep_values_become_text() -> None:
    value: dict[str, Any] = {"stringValue": "core"}
    for _ in range(400):
        value = {"arrayValue": {"values": [value]}}
    span = one(request(attributes=[{"key": "deep", "value": value}]))
    depth = 0
    at = span.attributes["deep"]
    while isinstance(at, list):
        at, depth = at[0], depth + 1
    assert depth > 10
    assert isinstance(at, str)


def test_lone_surrogates_are_replaced() -> None:
    obj = json.loads('{"a": "x\\ud800y"}')
    assert one(request(name=obj["a"])).name == "x?y"


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        ([1], "expected an object"),
        ("text", "expected an object"),
        (None, "found null"),
        ({"messages": []}, "no 'resourceSpans'"),
        ({"resourceSpans": {}}, "must be a list"),
        ({"resourceSpans": [1]}, "must hold objects"),
        (request(traceId="xyz"), "traceId"),
        (request(traceId=None), "found nothing"),
        (request(spanId="a" * 40), "16 hex digits"),
        (request(startTimeUnixNano="yesterday"), "Unix nanoseconds"),
        (request(startTimeUnixNano=-1), "Unix nanoseconds"),
        (request(startTimeUnixNano=1e300), "Unix nanoseconds"),
        (request(attributes="x"), "must be a list"),
        (request(attributes=[{"value": 1}]), "'key'"),
    ],
)
def test_what_is_refused(obj: Any, says: str) -> None:
    with pytest.raises(OtlpDecodeError, match=says) as error:
        traces_json_to_protobuf(obj)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("data", [b"\xff", b"{}", b"not protobuf at all", b"\x0a\xff\xff\xff\xff\x0f"])
def test_bytes_that_are_no_request(data: bytes) -> None:
    with pytest.raises(OtlpDecodeError, match="are not a trace request"):
        decode_traces(data)
    with pytest.raises(OtlpDecodeError, match="are not a log request"):
        decode_logs(data)


def test_a_span_without_id_is_refused() -> None:
    message = ExportTraceServiceRequest()
    message.resource_spans.add().scope_spans.add().spans.add(name="bad", trace_id=b"\1" * 16)
    with pytest.raises(OtlpDecodeError, match="'bad' has a span id of 0 bytes"):
        decode_traces(message.SerializeToString())


def test_logs() -> None:
    obj = {
        "resourceLogs": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
                "scopeLogs": [
                    {
                        "scope": {"name": "lib"},
                        "logRecords": [
                            {
                                "timeUnixNano": "5",
                                "traceId": TRACE_ID,
                                "spanId": SPAN_ID,
                                "eventName": "gen_ai.choice",
                                "severityNumber": 9,
                                "body": {
                                    "kvlistValue": {"values": [{"key": "index", "value": {"intValue": "0"}}]}
                                },
                            },
                            {
                                "observedTimeUnixNano": "6",
                                "severityText": "warn",
                                "body": {"stringValue": "hello"},
                                "attributes": [{"key": "event.name", "value": {"stringValue": "named"}}],
                                "droppedAttributesCount": 4,
                            },
                        ],
                    }
                ],
            }
        ]
    }
    first, second = decode_logs(logs_json_to_protobuf(obj))
    assert (first.trace_id, first.span_id, first.time_ns) == (TRACE_ID, SPAN_ID, 5)
    assert (first.event_name, first.severity, first.body) == ("gen_ai.choice", "INFO", {"index": 0})
    assert (second.trace_id, second.span_id, second.time_ns) == (None, None, 6)
    assert (second.event_name, second.severity, second.body) == ("named", "warn", "hello")
    assert (second.dropped_attributes, second.resource, second.scope_name) == (
        4,
        {"service.name": "shop"},
        "lib",
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
_SPAN_FIELDS = st.sampled_from(
    [
        "traceId",
        "spanId",
        "parentSpanId",
        "name",
        "kind",
        "startTimeUnixNano",
        "attributes",
        "events",
        "status",
    ]
)


@given(st.dictionaries(_SPAN_FIELDS, _JSON))
def test_junk_is_read_or_refused(fields: dict[str, Any]) -> None:
    with contextlib.suppress(OtlpDecodeError):
        assert len(decode_traces(traces_json_to_protobuf(request(**fields)))) == 1


@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_traces, decode_logs):
        with contextlib.suppress(OtlpDecodeError):
            assert isinstance(decode(data), list)
