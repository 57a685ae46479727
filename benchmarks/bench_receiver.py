"""OTLP ingest by HTTP and gRPC, durable before the answer.

Four client processes against one server process. Baseline in the same run: a server that reads the body and
answers, without looking at it or keeping it.

    python benchmarks/bench_receiver.py [--seconds 5] [--clients 4]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import tempfile
import time
from pathlib import Path

import grpc
import uvicorn
from bench_on_end import Collecting, tool_call, tracer_of
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from loopscope.collector import Folder, Spool, Store, otlp_app
from loopscope.collector._grpc_receiver import GrpcReceiver
from loopscope.collector._intake import Intake

_spawn = multiprocessing.get_context("spawn")


def nothing() -> Starlette:
    async def take(request: Request) -> Response:
        await request.body()
        return Response(b"", media_type="application/x-protobuf")

    return Starlette(routes=[Route("/v1/traces", take, methods=["POST"])])


def run_grpc_server(db: str, port: int, ready) -> None:
    with GrpcReceiver(Intake(db), port=port):
        ready.set()
        time.sleep(3600)


def run_server(db: str | None, folds: bool, port: int, ready) -> None:
    app = nothing() if db is None else otlp_app(db)
    with socket.create_server(("127.0.0.1", port)) as sock:
        if db is not None and folds:
            import threading

            folder = Folder(Store(db), role="server")
            threading.Thread(target=folder.run, args=(threading.Event(),), daemon=True).start()
        ready.set()
        uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none")).run([sock])


def batch(spans: int) -> tuple[bytes, list[bytes]]:
    """A request, and the ids of its spans."""
    collecting = Collecting()
    tracer = tracer_of(collecting)
    for index in range(spans):
        tool_call(tracer, index)
    body = encode_spans(collecting.spans).SerializeToString()
    return body, [span.context.span_id.to_bytes(8, "big") for span in collecting.spans]


def run_grpc_client(port: int, spans: int, seconds: float, number: int, counts) -> None:
    """The same over one channel."""
    body, ids = batch(spans)
    sent = 0
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if spans == 1:
                fresh = os.urandom(8)
                body, ids = body.replace(ids[0], fresh), [fresh]
            export(body)
            sent += spans
    counts[number] = sent


def run_client(port: int, spans: int, seconds: float, number: int, counts) -> None:
    """POST the same batch, with span ids of its own each time, over one connection."""
    body, ids = batch(spans)
    head = (
        f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    sent = 0
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = sock.makefile("rb")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if spans == 1:
                fresh = os.urandom(8)
                body, ids = body.replace(ids[0], fresh), [fresh]
            sock.sendall(head + body)
            status = answers.readline()
            assert b" 200 " in status, status
            length = 0
            while (line := answers.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            answers.read(length)
            sent += spans
    counts[number] = sent


def measure(
    db: Path | None, folds: bool, spans: int, seconds: float, clients: int, by_grpc: bool = False
) -> float:
    """Spans a second, acknowledged."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ready, counts = _spawn.Event(), _spawn.Array("q", clients)
    if by_grpc:
        server = _spawn.Process(target=run_grpc_server, args=(str(db), port, ready))
    else:
        server = _spawn.Process(target=run_server, args=(str(db) if db else None, folds, port, ready))
    server.start()
    ready.wait()
    senders = [
        _spawn.Process(
            target=run_grpc_client if by_grpc else run_client, args=(port, spans, seconds, number, counts)
        )
        for number in range(clients)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    server.kill()
    server.join()
    return sum(counts) / seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--clients", type=int, default=4)
    arguments = options.parse_args()
    for spans in (512, 1):
        print(f"{spans} spans of 1.3 kB a request, {arguments.clients} clients, {arguments.seconds:.0f} s")
        with tempfile.TemporaryDirectory() as folder:
            base = measure(None, False, spans, arguments.seconds, arguments.clients)
            print(f"  {'answers, keeps nothing':40} {base:9.0f} spans/s")
            for label, folds in [
                ("durable", False),
                ("durable, folding in the same process", True),
                ("durable, by gRPC", False),
            ]:
                db = Path(folder) / f"{label}.duckdb"
                rate = measure(
                    db, folds, spans, arguments.seconds, arguments.clients, by_grpc="gRPC" in label
                )
                print(f"  {label:40} {rate:9.0f} spans/s  {rate / base:5.2f} of it")
                if not folds:
                    segments = Spool(db).pending()
                    size = sum(path.stat().st_size for path in segments)
                    print(
                        f"  {'':40} {size / (rate * arguments.seconds):9.0f} bytes a span, "
                        f"{rate * arguments.seconds / spans / len(segments):.1f} requests a segment"
                    )


if __name__ == "__main__":
    main()
