"""Exporters as people run them send to a running receiver; the database then holds each record once."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from span_tools import call, provider

from loopscope.collector import Store, fold
from loopscope.collector._grpc_receiver import GrpcReceiver
from loopscope.collector._intake import Intake
from loopscope.collector._receiver import http_app

JAVASCRIPT = Path(__file__).with_name("javascript")
SPANS, LOGS = 300, 60


@contextmanager
def receivers(db: Path) -> Iterator[tuple[str, str]]:
    """Addresses of an OTLP/HTTP and an OTLP/gRPC receiver on one intake."""
    intake = Intake(db)
    with socket.create_server(("127.0.0.1", 0)) as sock, GrpcReceiver(intake, port=0) as by_grpc:
        app = http_app(intake, loopback_only=True)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, args=([sock],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}", by_grpc.address
        finally:
            server.should_exit = True
            thread.join()


def found(db: Path, query: str) -> list[tuple]:
    with Store(db).lease() as con:
        return con.execute(query).fetchall()


def send_spans(exporter, first: int) -> None:
    made = provider(BatchSpanProcessor(exporter, max_export_batch_size=70))
    for number in range(first, first + SPANS):
        call(made.get_tracer("agent"), number)
    assert made.force_flush()
    made.shutdown()


def send_logs(exporter, first: int) -> None:
    made = LoggerProvider(Resource({"service.name": "agent"}), shutdown_on_exit=False)
    made.add_log_record_processor(BatchLogRecordProcessor(exporter, max_export_batch_size=25))
    for number in range(first, first + LOGS):
        made.get_logger("agent").emit(body=f"line {number}", timestamp=1 + number)
    assert made.force_flush()
    made.shutdown()


def test_the_python_exporters(tmp_path):
    """All at once, by HTTP and gRPC, packed and not: every record is there, and once."""
    db = tmp_path / "traces.duckdb"
    with receivers(db) as (http, grpc):
        spans = [
            HttpSpanExporter(endpoint=f"{http}/v1/traces"),
            HttpSpanExporter(endpoint=f"{http}/v1/traces", compression=Compression.Gzip),
            GrpcSpanExporter(endpoint=grpc, insecure=True),
            GrpcSpanExporter(endpoint=grpc, insecure=True, compression=_gzip()),
        ]
        logs = [
            HttpLogExporter(endpoint=f"{http}/v1/logs"),
            GrpcLogExporter(endpoint=grpc, insecure=True, compression=_gzip()),
        ]
        senders = [
            *(threading.Thread(target=send_spans, args=(one, n * SPANS)) for n, one in enumerate(spans)),
            *(threading.Thread(target=send_logs, args=(one, n * LOGS)) for n, one in enumerate(logs)),
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
    result = fold(Store(db))
    assert (result.spans, result.logs, result.calls) == (4 * SPANS, 2 * LOGS, 4 * SPANS)
    ids = found(db, "SELECT call_id FROM tool_calls")
    assert sorted(ids) == sorted((f"call_{number}",) for number in range(4 * SPANS))
    assert sorted(found(db, "SELECT body FROM logs")) == sorted(
        (json.dumps(f"line {number}"),) for number in range(2 * LOGS)
    )


def _gzip():
    import grpc

    return grpc.Compression.Gzip


def check_javascript(db: Path) -> None:
    """The figures of send.mjs."""
    fold(Store(db))
    calls = found(
        db, "SELECT call_id, tool_name, arguments, outcome, http_status, service_name FROM tool_calls"
    )
    assert sorted(calls) == sorted(
        (
            f"call_{number}",
            "search_docs",
            '{"query":"Erstattung für Käse 🧀"}',
            "general_tool_error" if number % 5 == 4 else "success",
            503 if number % 5 == 4 else None,
            "javascript-agent",
        )
        for number in range(50)
    )
    assert found(db, "SELECT DISTINCT attributes->'$.sizes' FROM spans") == [("[1,2.5,9007199254740991]",)]
    assert sorted(found(db, "SELECT body FROM logs")) == [(f'"line {number}"',) for number in range(5)]


def test_what_the_javascript_exporters_sent(tmp_path):
    """The recorded bytes of javascript/send.mjs."""
    db = tmp_path / "traces.duckdb"
    requests = json.loads((JAVASCRIPT / "requests.json").read_text(encoding="utf-8"))
    assert {(request["content-type"], request["content-encoding"]) for request in requests} == {
        ("application/json", "identity"),
        ("application/x-protobuf", "gzip"),
    }
    with receivers(db) as (http, _):
        for request in requests:
            headers = {name: request[name] for name in ("content-type", "content-encoding", "user-agent")}
            body = base64.b64decode(request["body"])
            answer = httpx.post(http + request["path"], content=body, headers=headers)
            assert answer.status_code == 200
            assert answer.content in (b"", b"{}")
    check_javascript(db)


@pytest.mark.skipif(
    shutil.which("node") is None or not (JAVASCRIPT / "node_modules").exists(),
    reason="needs node, and `npm install` in tests/collector/javascript",
)
def test_the_javascript_exporters(tmp_path):
    db = tmp_path / "traces.duckdb"
    with receivers(db) as (http, _):
        subprocess.run(["node", "send.mjs", http], cwd=JAVASCRIPT, check=True)
    check_javascript(db)
