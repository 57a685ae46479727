"""Hostile requests: an error answer or a kept record, never a crash, never a lost neighbour."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from span_tools import spooled, spooled_logs
from test_receiver import JSON, PROTOBUF, Client, post, span, traces

from loopscope.collector import Store, fold, logs_json_to_protobuf, otlp_app, traces_json_to_protobuf
from loopscope.collector._utf8 import with_valid_text


@pytest.fixture
def db(tmp_path):
    return tmp_path / "traces.duckdb"


@pytest.fixture
def client(db):
    return Client(otlp_app(db))


@pytest.fixture(scope="module")
def fuzzing() -> ModuleType:
    """benchmarks/bench_fuzz_receiver.py, which does the same with 10^5 bodies."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_fuzz_receiver.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_fuzzed_bodies(fuzzing, tmp_path):
    report = fuzzing.Fuzz(tmp_path, seed=7).run(1_500)
    assert report.faults == []
    assert report.bodies == 1_500
    assert min(report.ways.values()) >= 1
    assert set(report.ways) == {"bytes", "tree", "neighbour", "text", "extreme"}
    assert report.sound > 400
    assert report.stored_spans > 400


def test_a_fault_would_be_seen(fuzzing, tmp_path, monkeypatch):
    """A receiver that refuses a batch for one bad span, as this one once did."""
    monkeypatch.setattr("loopscope.collector._intake.with_valid_text", lambda data, _: data)
    assert any(" 400 for text" in fault for fault in fuzzing.Fuzz(tmp_path, seed=7).run(200).faults)


# -- one at a time --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"traceId": "zz"}, "traceId"),
        ({"traceId": ""}, "traceId"),
        ({"traceId": 5}, "traceId"),
        ({"spanId": "1" * 17}, "spanId"),
        ({"traceId": "0" * 32}, "no usable"),
        ({"startTimeUnixNano": "-1"}, "nanoseconds"),
        ({"endTimeUnixNano": 2**64}, "nanoseconds"),
        ({"startTimeUnixNano": "soon"}, "nanoseconds"),
        ({"attributes": 7}, "attributes"),
        ({"events": {"name": "x"}}, "events"),
    ],
)
def test_a_broken_span_in_json_takes_no_neighbour_along(client, db, fields, reason):
    body = json.dumps(traces(span(1), span(2, **fields), span(3)))
    response = post(client, body, JSON)
    assert response.status_code == 200
    partial = response.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert reason in partial["errorMessage"]
    assert [found.name for found in spooled(db)] == ["span 1", "span 3"]


def test_a_broken_log_record_in_json_takes_no_neighbour_along(client, db):
    records = [{"body": {"stringValue": text}} for text in ("first", "second", "third")]
    records[1]["timeUnixNano"] = "-5"
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
    partial = post(client, body, JSON, "/v1/logs").json()["partialSuccess"]
    assert partial["rejectedLogRecords"] == "1"
    assert "nanoseconds" in partial["errorMessage"]
    assert [found.body for found in spooled_logs(db)] == ["first", "third"]


def test_broken_spans_are_counted_in_protobuf_answers_too(client):
    answer = ExportTraceServiceResponse.FromString(
        post(client, _without_ids(traces_json_to_protobuf(traces(span(1), span(2))))).content
    )
    assert answer.partial_success.rejected_spans == 1
    logs = post(client, b"", path="/v1/logs").content
    assert not ExportLogsServiceResponse.FromString(logs).HasField("partial_success")


def _without_ids(data: bytes) -> bytes:
    request = ExportTraceServiceRequest.FromString(data)
    request.resource_spans[0].scope_spans[0].spans[0].trace_id = b""
    return request.SerializeToString()


@pytest.mark.parametrize("bad", [b"\xff\xfe\xfd", b"a\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"])
def test_text_that_is_not_utf8_is_repaired(client, db, bad):
    mark = "Q" * len(bad)
    body = traces_json_to_protobuf(
        traces(
            span(1),
            span(
                2,
                name=mark,
                attributes=[{"key": mark, "value": {"stringValue": mark}}],
                status={"message": mark},
            ),
        )
    ).replace(mark.encode(), bad)
    assert post(client, body).status_code == 200
    first, second = spooled(db)
    expected = bad.decode("utf-8", "replace")
    assert first.name == "span 1"
    assert (second.name, second.status_message, second.attributes) == (
        expected,
        expected,
        {expected: expected},
    )


def test_a_repair_changes_nothing_but_text():
    request = traces(span(1), span(2, attributes=[{"key": "raw", "value": {"bytesValue": "/////w=="}}]))
    data = traces_json_to_protobuf(request)
    unknown = b"\xa2\x06\x02\xff\xff"  # field 100, not of this schema: kept as it is
    assert with_valid_text(data + unknown, ExportTraceServiceRequest.DESCRIPTOR) == data + unknown


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05\x01", b"\x0f", b"\x08" + b"\x80" * 12, b"\x09\x01", b"\x0b"]
)
def test_what_is_no_message_is_not_repaired(data):
    with pytest.raises(ValueError):  # noqa: PT011  which fault it is does not matter
        with_valid_text(data, ExportTraceServiceRequest.DESCRIPTOR)


@pytest.mark.parametrize(
    "value",
    [
        {"doubleValue": float("nan")},
        {"doubleValue": "-Infinity"},
        {"intValue": str(2**63)},
        {"intValue": 10**400},
        {"stringValue": "\ud800"},
        {"stringValue": "\x00\x01s"},
    ],
)
def test_odd_values_are_kept_and_readable(client, db, value):
    body = json.dumps(traces(span(1), span(2, attributes=[{"key": "odd", "value": value}])))
    assert post(client, body, JSON).status_code == 200
    assert fold(Store(db)).spans == 2
    with Store(db).lease() as con:
        rows = con.execute(
            "SELECT name, json_valid(attributes), attributes FROM spans ORDER BY name"
        ).fetchall()
    assert [(name, valid) for name, valid, _ in rows] == [("span 1", True), ("span 2", True)]
    assert "odd" in json.loads(rows[1][2])


@pytest.mark.parametrize("time_ns", [0, 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_any_time_is_kept(client, db, time_ns):
    body = json.dumps(traces(span(1), span(2, startTimeUnixNano=time_ns, endTimeUnixNano=time_ns)))
    assert post(client, body, JSON).status_code == 200
    assert fold(Store(db)).spans == 2
    with Store(db).lease() as con:
        rows = con.execute("SELECT name, started_at FROM spans ORDER BY name").fetchall()
    assert [name for name, _ in rows] == ["span 1", "span 2"]


@pytest.mark.parametrize(
    "service", ["../../../etc/passwd", "/dev/null", "a\x00b", "'; DROP TABLE spans; --", "x" * 9000]
)
def test_a_service_name_is_only_a_name(client, db, service, tmp_path):
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    request = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span(1)]}]}]}
    assert post(client, traces_json_to_protobuf(request)).status_code == 200
    fold(Store(db))
    with Store(db).lease() as con:
        assert con.execute("SELECT service_name FROM spans").fetchall() == [(service,)]
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} == {"traces"}


def test_deeply_nested_values_are_kept(client, db):
    value: dict = {"stringValue": "bottom"}
    for _ in range(200):
        value = {"arrayValue": {"values": [value]}}
    body = json.dumps(traces(span(1, attributes=[{"key": "deep", "value": value}])))
    assert post(client, body, JSON).status_code == 200
    assert fold(Store(db)).spans == 1


def test_logs_of_every_kind_of_body(client, db):
    values = [
        None,
        {},
        {"kvlistValue": {}},
        {"arrayValue": {"values": [{}]}},
        {"bytesValue": "AA=="},
        {"doubleValue": "NaN"},
    ]
    records = [{"timeUnixNano": str(n + 1), "body": value} for n, value in enumerate(values)]
    body = logs_json_to_protobuf({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
    assert post(client, body, PROTOBUF, "/v1/logs").status_code == 200
    assert fold(Store(db)).logs == len(values)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20, (2 << 20) + 77])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_bodies_are_unpacked_step_by_step_and_whole(tmp_path, size, level):
    from loopscope.collector._intake import Intake, _unpack

    intake = Intake(tmp_path / "traces.duckdb")
    for data in (b"a" * size, (bytes(range(256)) * (size // 256 + 1))[:size]):
        with intake.hold() as held:
            assert _unpack(gzip.compress(data, level), "gzip", intake, held) == data


def test_what_a_body_grows_to_counts_against_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("loopscope.collector._intake._MAX_WAITING_BYTES", 4 << 20)
    client = Client(otlp_app(tmp_path / "traces.duckdb"))
    bomb = gzip.compress(b"\0" * (8 << 20))
    response = post(client, bomb, **{"content-encoding": "gzip"})
    assert response.status_code == 503
    assert "retry-after" in response.headers
    body = traces_json_to_protobuf(traces(span(1)))
    assert post(client, body).status_code == 200  # what was held was given back
