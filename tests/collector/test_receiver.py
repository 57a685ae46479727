"""The OTLP/HTTP receiver: what it takes, what it refuses and how, and that 200 means durable."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import zlib
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from opentelemetry.exporter.otlp.proto.http.trace_exporter import Compression, OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from span_tools import call, provider, spooled, spooled_logs

from loopscope.collector import Spool, otlp_app, read_segment, traces_json_to_protobuf
from loopscope.guard import SpoolError

PROTOBUF, JSON = "application/x-protobuf", "application/json"
LIMIT = 20_000


def span(number: int = 1, **fields) -> dict:
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        **fields,
    }


def traces(*spans: dict) -> dict:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


LOGS = {
    "resourceLogs": [
        {"scopeLogs": [{"logRecords": [{"timeUnixNano": "1", "body": {"stringValue": "hello"}}]}]}
    ]
}


@pytest.fixture
def db(tmp_path):
    return tmp_path / "traces.duckdb"


class Client:
    """Asks an ASGI application without a socket."""

    def __init__(self, app, base_url: str = "http://127.0.0.1:4318") -> None:
        self._app = app
        self._base_url = base_url

    def request(self, method: str, path: str, content=None, headers=None) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url=self._base_url) as client:
                return await client.request(method, path, content=content, headers=headers)

        return asyncio.run(ask())

    def get(self, path: str, **options) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options) -> httpx.Response:
        return self.request("POST", path, **options)


@pytest.fixture
def client(db):
    return Client(otlp_app(db, max_body_bytes=LIMIT))


def post(client, body, content_type=PROTOBUF, path="/v1/traces", **headers):
    return client.post(path, content=body, headers={"content-type": content_type, **headers})


def rpc_status(response) -> tuple[int, str]:
    """Code and message of the google.rpc.Status that an error carries."""
    if response.headers["content-type"] == JSON:
        found = response.json()
        return found["code"], found["message"]
    # A Status has the same layout as an AnyValue has not; read it as a partial success: number 1, text 2.
    found = ExportTraceServiceResponse().partial_success
    found.ParseFromString(response.content)
    return found.rejected_spans, found.error_message


# -- what it takes --------------------------------------------------------------------------------


def test_protobuf(client, db):
    response = post(client, traces_json_to_protobuf(traces(span(1), span(2))))
    assert response.status_code == 200
    assert response.headers["content-type"] == PROTOBUF
    assert ExportTraceServiceResponse.FromString(response.content) == ExportTraceServiceResponse()
    assert [found.name for found in spooled(db)] == ["span 1", "span 2"]


def test_json(client, db):
    response = post(client, json.dumps(traces(span(1))), "application/json; charset=utf-8")
    assert (response.status_code, response.headers["content-type"], response.json()) == (200, JSON, {})
    assert [found.trace_id for found in spooled(db)] == [f"{1:032x}"]


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_logs(client, db, content_type):
    from loopscope.collector import logs_json_to_protobuf

    body = json.dumps(LOGS) if content_type == JSON else logs_json_to_protobuf(LOGS)
    response = post(client, body, content_type, "/v1/logs")
    assert response.status_code == 200
    if content_type == PROTOBUF:
        assert ExportLogsServiceResponse.FromString(response.content) == ExportLogsServiceResponse()
    assert [record.body for record in spooled_logs(db)] == ["hello"]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
        ("deflate", zlib.compress),
        ("identity", bytes),
        ("", bytes),
    ],
)
def test_content_encodings(client, db, encoding, pack):
    body = traces_json_to_protobuf(traces(span(1)))
    assert post(client, pack(body), **{"content-encoding": encoding}).status_code == 200
    assert len(spooled(db)) == 1


def test_an_empty_request_is_fine(client):
    assert post(client, b"").status_code == 200
    assert post(client, "{}", JSON).status_code == 200


def test_spans_without_ids_are_reported_and_spoil_nothing(client, db):
    request = ExportTraceServiceRequest.FromString(traces_json_to_protobuf(traces(*map(span, range(1, 6)))))
    spans = request.resource_spans[0].scope_spans[0].spans
    spans[0].trace_id = b""
    spans[1].span_id = b"\0" * 8
    spans[2].trace_id = b"x" * 17
    spans[3].parent_span_id = b"x" * 9
    answer = ExportTraceServiceResponse.FromString(post(client, request.SerializeToString()).content)
    assert answer.partial_success.rejected_spans == 4
    assert "4 spans" in answer.partial_success.error_message
    assert [found.name for found in spooled(db)] == ["span 5"]


# -- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type", "headers"),
    [
        (b"\xff\xff not protobuf", PROTOBUF, {}),
        (b"\x0a\x05\x01", PROTOBUF, {}),
        (b"not json", JSON, {}),
        (b"\xff\xfe\xfd", JSON, {}),
        (b"[1, 2]", JSON, {}),
        (b'{"resourceSpans": 7}', JSON, {}),
        (b"[" * 10_000, JSON, {}),
        (b'{"resourceSpans": ' + b"9" * 6000 + b"}", JSON, {}),
        (b"not gzip", PROTOBUF, {"content-encoding": "gzip"}),
        (gzip.compress(b"x" * 1000, mtime=0)[:-9], PROTOBUF, {"content-encoding": "gzip"}),
        (gzip.compress(b"", mtime=0) + b"rubbish", PROTOBUF, {"content-encoding": "gzip"}),
        (b"", PROTOBUF, {"content-encoding": "gzip"}),
    ],
)
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
def test_malformed_is_400_with_a_status(client, db, body, content_type, headers, path):
    response = post(client, body, content_type, path, **headers)
    if not body:
        assert response.status_code == 200  # nothing is a whole request, packed or not
        return
    assert (response.status_code, response.headers["content-type"]) == (400, content_type)
    code, message = rpc_status(response)
    assert code == 3
    assert message
    assert "\n" not in message
    assert Spool(db).pending() == []


def test_too_large_as_sent_or_as_unpacked_is_413(client, db):
    big = traces_json_to_protobuf(traces(span(1, name="x" * (LIMIT + 1))))
    for body, headers in [
        (big, {}),
        (gzip.compress(big), {"content-encoding": "gzip"}),
        (gzip.compress(b"\0" * 50_000_000, 9)[:LIMIT], {"content-encoding": "gzip"}),
    ]:
        response = post(client, body, **headers)
        assert response.status_code == 413
        code, message = rpc_status(response)
        assert code == 8
        assert str(LIMIT) in message

    async def in_pieces():
        for start in range(0, len(big), 1000):
            yield big[start : start + 1000]

    assert post(client, in_pieces()).status_code == 413  # no Content-Length to believe
    assert Spool(db).pending() == []


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_other_types_are_415(client, content_type):
    response = post(client, b"{}", content_type)
    assert response.status_code == 415
    assert "application/x-protobuf" in rpc_status(response)[1]


def test_other_encodings_are_415(client):
    assert post(client, b"x", **{"content-encoding": "br"}).status_code == 415


def test_a_spool_that_refuses_is_503_with_retry_after(client, db, monkeypatch):
    def full(*_args, **_options):
        raise SpoolError("the disk is full")

    body = traces_json_to_protobuf(traces(span(1)))
    with monkeypatch.context() as patch:
        patch.setattr(Spool, "write", full)
        response = post(client, body)
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    code, message = rpc_status(response)
    assert code == 14
    assert "the disk is full" in message
    assert post(client, body).status_code == 200
    assert len(spooled(db)) == 1


def test_metrics_are_refused_with_the_way_to_turn_them_off(client):
    response = post(client, b"", path="/v1/metrics")
    assert response.status_code == 404
    assert "OTEL_METRICS_EXPORTER=none" in rpc_status(response)[1]


def test_other_methods_and_paths(client):
    assert client.get("/v1/traces").status_code == 405
    assert client.post("/v2/traces").status_code == 404
    assert "/v1/traces" in client.get("/").text


# -- who may ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["127.0.0.1:4318", "localhost:4318", "LOCALHOST", "[::1]:4318", "127.0.0.2", "app.localhost"]
)
def test_this_machine_by_any_of_its_names(client, host):
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:4318", "127.0.0.1.evil.example", "10.0.0.1", "", "[", "localhost.evil"],
)
def test_dns_rebinding_is_refused(client, db, host):
    response = post(client, traces_json_to_protobuf(traces(span(1))), host=host)
    assert response.status_code == 403
    assert Spool(db).pending() == []


def test_pages_of_other_sites_are_refused(client):
    assert client.get("/", headers={"origin": "https://evil.example"}).status_code == 403
    assert client.get("/", headers={"origin": "null"}).status_code == 403
    asked = {"origin": "http://localhost:3000", "access-control-request-method": "POST"}
    response = client.request("OPTIONS", "/v1/traces", headers=asked)
    assert response.status_code == 405
    assert not any(name.startswith("access-control") for name in response.headers)


def test_other_names_are_fine_on_a_server_for_the_network(db):
    client = Client(otlp_app(db, loopback_only=False), "http://collector.example")
    assert client.get("/").status_code == 200


# -- content --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "variable", "kept"),
    [(None, "true", True), (None, "false", False), (False, "true", False), (True, "0", True)],
)
def test_content_is_left_out_before_anything_is_written(db, monkeypatch, argument, variable, kept):
    monkeypatch.setenv("LOOPSCOPE_CAPTURE_CONTENT", variable)
    secret = [{"key": "input.value", "value": {"stringValue": "secret"}}]
    client = Client(otlp_app(db, capture_content=argument))
    assert post(client, json.dumps(traces(span(1, attributes=secret))), JSON).status_code == 200
    log = json.dumps(LOGS).replace("hello", "secret")
    assert post(client, log, JSON, "/v1/logs").status_code == 200
    assert [b"secret" in path.read_bytes() for path in Spool(db).pending()] == [kept, kept]


# -- a real server --------------------------------------------------------------------------------


@contextmanager
def running(app):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, args=([sock],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip, Compression.Deflate])
def test_the_exporter_of_the_sdk(db, compression):
    with running(otlp_app(db)) as url:
        exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces", compression=compression)
        made = provider(BatchSpanProcessor(exporter))
        for number in range(700):
            call(made.get_tracer("agent"), number)
        assert made.force_flush()
        assert sorted(int(found.attributes["gen_ai.tool.call.id"][5:]) for found in spooled(db)) == list(
            range(700)
        )
        made.shutdown()


def test_requests_that_wait_share_a_segment(db, monkeypatch):
    """Ten clients with one span each: while the first is on its way to the disk, nine gather."""
    gate, entered = threading.Event(), threading.Event()
    write = Spool.write

    def slow(spool, payloads, **options):
        entered.set()
        gate.wait()
        return write(spool, payloads, **options)

    monkeypatch.setattr(Spool, "write", slow)
    arrived = threading.Semaphore(0)

    async def counted(scope, receive, send):
        async def counting():
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                arrived.release()
            return message

        await app(scope, counting if scope["type"] == "http" else receive, send)

    app = otlp_app(db)
    with running(counted) as url:
        exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces")
        tracer = provider(SimpleSpanProcessor(exporter)).get_tracer("agent")
        first = threading.Thread(target=call, args=(tracer, 0))
        first.start()
        entered.wait()
        others = [threading.Thread(target=call, args=(tracer, number)) for number in range(1, 10)]
        for thread in others:
            thread.start()
        for _ in range(10):
            arrived.acquire()
        assert spooled(db) == []
        gate.set()
        for thread in (first, *others):
            thread.join()
    sizes = [len(read_segment(path).payloads) for path in Spool(db).pending()]
    assert sum(sizes) == 10
    assert len(sizes) <= 3
