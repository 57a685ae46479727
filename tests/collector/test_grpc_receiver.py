"""The OTLP/gRPC receiver: what it takes, what it refuses and how, and that an answer means durable."""

from __future__ import annotations

import asyncio
import gzip
import resource
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from span_tools import call, provider, spooled, spooled_logs
from store_tools import logs_payload, spans_payload

from loopscope.collector import Spool, otlp_app, read_segment
from loopscope.collector._grpc_receiver import GrpcReceiver
from loopscope.collector._intake import Intake
from loopscope.collector._receiver import http_app
from loopscope.guard import LoopscopeError, SpoolError

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
GZIP = grpc.Compression.Gzip


@pytest.fixture
def db(tmp_path):
    return tmp_path / "traces.duckdb"


@pytest.fixture
def start(db):
    """Start a receiver; the channel to it."""
    running = []

    def make(**options):
        receiver = GrpcReceiver(Intake(db, **options), port=0)
        receiver.start()
        channel = grpc.insecure_channel(
            receiver.address.removeprefix("http://"), options=[("grpc.max_send_message_length", -1)]
        )
        running.append((receiver, channel))
        return channel

    yield make
    for receiver, channel in running:
        channel.close()
        receiver.stop()


def traces(*numbers: int) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(
        spans_payload(*({"trace": n, "span": n, "name": f"span {n}", "end": 2_000} for n in numbers))
    )


def refused(ask) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as found:
        ask()
    return found.value


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, GZIP])
def test_traces_and_logs(start, db, compression):
    channel = start()
    answer = TraceServiceStub(channel).Export(traces(1, 2), compression=compression)
    assert not answer.HasField("partial_success")
    assert [span.name for span in spooled(db)] == ["span 1", "span 2"]
    logs = ExportLogsServiceRequest.FromString(logs_payload({"body": "hello"}))
    LogsServiceStub(channel).Export(logs, compression=compression)
    assert [record.body for record in spooled_logs(db)] == ["hello"]


def test_spans_without_ids_are_reported_and_spoil_nothing(start, db):
    request = traces(1, 2, 3)
    request.resource_spans[0].scope_spans[0].spans[1].trace_id = b""
    partial = TraceServiceStub(start()).Export(request).partial_success
    assert partial.rejected_spans == 1
    assert partial.error_message
    assert [span.name for span in spooled(db)] == ["span 1", "span 3"]


def test_what_is_no_request(start, db):
    raw = start().unary_unary(EXPORT)
    for body in (b"\xff\xff\xff", b"\x1f\x8bnot gzip", gzip.compress(b"x" * 500)[:-9]):
        error = refused(lambda body=body: raw(body))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        assert Status.FromString(details).message == error.details()
    assert Spool(db).pending() == []


def test_too_large_as_sent_or_as_unpacked(start, db):
    channel = start(max_body_bytes=20_000)
    big = traces(*range(1, 1000))
    assert len(gzip.compress(big.SerializeToString())) < 20_000 < big.ByteSize()
    stub = TraceServiceStub(channel)
    for options in ({}, {"compression": GZIP}):
        error = refused(lambda options=options: stub.Export(big, **options))
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "google.rpc.retryinfo-bin" not in dict(error.trailing_metadata())  # it is not to be sent again
    stub.Export(traces(1))
    assert len(spooled(db)) == 1


def test_a_gzip_bomb_is_not_unpacked(start):
    """A gigabyte of zeros in a megabyte: the limit is met long before it is in memory."""
    bomb = gzip.compress(b"\0" * (16 << 20), 9) * 64
    channel = start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = refused(lambda: channel.unary_unary(EXPORT)(bomb))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert grown < 400 << 10  # KiB; twice the limit of 64 MiB, and what joining takes


def test_a_spool_that_refuses_is_unavailable_with_the_time_to_try_again(start, db, monkeypatch):
    stub = TraceServiceStub(start())

    def full(*_args, **_options):
        raise SpoolError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "write", full)
        error = refused(lambda: stub.Export(traces(1)))
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    assert "the disk is full" in error.details()
    metadata = dict(error.trailing_metadata())
    status = Status.FromString(metadata["grpc-status-details-bin"])
    told = RetryInfo()
    assert status.details[0].Unpack(told)
    assert told.retry_delay.seconds >= 1
    assert RetryInfo.FromString(metadata["google.rpc.retryinfo-bin"]) == told
    stub.Export(traces(1))
    assert len(spooled(db)) == 1


def test_too_much_at_once_is_resource_exhausted_with_the_time_to_try_again(start, db, monkeypatch):
    monkeypatch.setattr("loopscope.collector._intake._MAX_WAITING_BYTES", 1000)
    error = refused(lambda: TraceServiceStub(start()).Export(traces(*range(1, 100))))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "google.rpc.retryinfo-bin" in dict(error.trailing_metadata())


def test_other_methods_are_unimplemented(start):
    channel = start()
    for method in (
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        "/opentelemetry.proto.collector.trace.v1.TraceService/Import",
        "/",
    ):
        error = refused(lambda method=method: channel.unary_unary(method)(b""))
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED
    error = refused(lambda: channel.unary_unary(EXPORT)(b"x" * 500, compression=grpc.Compression.Deflate))
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "shown", [None, "", "s3cret", "Basic s3cret", "Bearer", "Bearer wrong", "Bearer s3cret2"]
)
def test_without_the_token_nothing_is_taken(start, db, shown):
    metadata = None if shown is None else [("authorization", shown)]
    stub = TraceServiceStub(start(token="s3cret"))
    assert refused(lambda: stub.Export(traces(1), metadata=metadata)).code() == (
        grpc.StatusCode.UNAUTHENTICATED
    )
    twice = [("authorization", "Bearer wrong"), ("authorization", "Bearer s3cret")]
    assert refused(lambda: stub.Export(traces(1), metadata=twice)).code() == grpc.StatusCode.UNAUTHENTICATED
    assert Spool(db).pending() == []
    stub.Export(traces(1), metadata=[("authorization", "Bearer s3cret")])
    assert len(spooled(db)) == 1


@pytest.mark.parametrize("option", [False, True])
def test_content_is_left_out_before_anything_is_written(start, db, option):
    secret = spans_payload({"span": 1, "end": 2, "attributes": {"input.value": "secret"}})
    start(capture_content=option).unary_unary(EXPORT)(secret)
    assert [b"secret" in path.read_bytes() for path in Spool(db).pending()] == [option]


def test_a_port_in_use_is_one_clear_line(db, capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LoopscopeError) as found:
            GrpcReceiver(Intake(db), port=port)
    assert str(port) in str(found.value)
    assert "--otlp-grpc-port" in str(found.value)
    assert "\n" not in str(found.value)
    assert capfd.readouterr() == ("", "")


def test_two_of_them_do_not_share_a_port(db):
    with GrpcReceiver(Intake(db), port=0) as first, pytest.raises(LoopscopeError, match="--otlp-grpc-port"):
        GrpcReceiver(Intake(db), port=first.port)


def test_a_stop_waits_for_what_is_under_way(db, monkeypatch):
    gate, entered = threading.Event(), threading.Event()
    write = Spool.write

    def slow(spool, payloads, **options):
        entered.set()
        gate.wait()
        return write(spool, payloads, **options)

    monkeypatch.setattr(Spool, "write", slow)
    receiver = GrpcReceiver(Intake(db), port=0)
    receiver.start()
    with grpc.insecure_channel(receiver.address.removeprefix("http://")) as channel:
        answer = TraceServiceStub(channel).Export.future(traces(1))
        entered.wait()
        stopping = threading.Thread(target=receiver.stop)
        stopping.start()
        gate.set()
        answer.result()
        stopping.join()
    assert len(spooled(db)) == 1


def test_grpc_and_http_share_a_segment(db, monkeypatch):
    """While one request is on its way to the disk, those of both receivers gather."""
    gate, entered = threading.Event(), threading.Event()
    write = Spool.write

    def slow(spool, payloads, **options):
        entered.set()
        gate.wait()
        return write(spool, payloads, **options)

    monkeypatch.setattr(Spool, "write", slow)
    intake = Intake(db)
    arrived = threading.Semaphore(0)
    submit = intake._commits.submit

    def counted(*arguments):
        future = submit(*arguments)
        arrived.release()
        return future

    monkeypatch.setattr(intake._commits, "submit", counted)

    def by_http(number: int) -> int:
        async def ask() -> int:
            transport = httpx.ASGITransport(http_app(intake, loopback_only=True))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                headers = {"content-type": "application/x-protobuf"}
                body = traces(number).SerializeToString()
                return (await client.post("/v1/traces", content=body, headers=headers)).status_code

        return asyncio.run(ask())

    with (
        GrpcReceiver(intake, port=0) as receiver,
        grpc.insecure_channel(receiver.address.removeprefix("http://")) as channel,
        ThreadPoolExecutor(4) as pool,
    ):
        stub = TraceServiceStub(channel)
        first = stub.Export.future(traces(1))
        entered.wait()
        others = [stub.Export.future(traces(number)) for number in range(2, 6)]
        posted = [pool.submit(by_http, number) for number in range(6, 10)]
        for _ in range(9):
            arrived.acquire()
        assert spooled(db) == []
        gate.set()
        for answer in (first, *others):
            answer.result()
        assert [answer.result() for answer in posted] == [200] * 4
    assert [len(read_segment(path).payloads) for path in Spool(db).pending()] == [1, 8]


def test_the_exporter_of_the_sdk(db):
    with GrpcReceiver(Intake(db), port=0) as receiver:
        exporter = OTLPSpanExporter(endpoint=receiver.address, insecure=True, compression=GZIP)
        made = provider(BatchSpanProcessor(exporter))
        for number in range(700):
            call(made.get_tracer("agent"), number)
        assert made.force_flush()
        ids = sorted(int(found.attributes["gen_ai.tool.call.id"][5:]) for found in spooled(db))
        assert ids == list(range(700))
        made.shutdown()


def test_http_alone_needs_no_grpcio(db, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    otlp_app(db)
    with pytest.raises(LoopscopeError, match="grpcio"):
        GrpcReceiver(Intake(db), port=0)
