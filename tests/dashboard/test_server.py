"""The one-process server, as a process: receiver, folding, pages, and how it starts and ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from starlette import websockets
from starlette.responses import PlainTextResponse

from loopscope.collector import DuckDBSpanProcessor, Spool, Store, fold
from loopscope.dashboard import _server, serve
from loopscope.dashboard._access import TokenOnly
from loopscope.guard import LoopscopeError, StoreVersionError

SERVER = """
import sys
{before}
from loopscope.dashboard import serve
from loopscope.guard import LoopscopeError
try:
    sys.exit(serve("traces.duckdb", port=0, otlp_http_port=0, {options}dashboard={dashboard}))
except LoopscopeError as error:
    sys.exit(f"refused: {{error}}")
"""


class Server:
    """A server process in a folder, and where it listens."""

    def __init__(self, folder: Path, *, dashboard: bool = False, before: str = "", options: str = "") -> None:
        self.db = folder / "traces.duckdb"
        home = folder / "home"
        known = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("STREAMLIT_", "LOOPSCOPE_"))
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER.format(dashboard=dashboard, before=before, options=options)],
            cwd=folder,
            env=known | {"HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.told: list[str] = []
        for line in self.process.stdout:
            self.told.append(line.rstrip())
            if "Ctrl-C" in line:
                break

    def url(self, what: str) -> str:
        found = (re.search(r"http://\S+", line) for line in self.told if line.startswith(f"  {what}"))
        return next(found)[0]

    def end(self, number: int = signal.SIGTERM) -> str:
        """Stop it; what it wrote to standard error."""
        self.process.send_signal(number)
        try:
            return self.process.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.fixture
def start(tmp_path) -> Iterator:
    servers = []

    def make(**options) -> Server:
        servers.append(Server(tmp_path, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.process.kill()
        server.process.communicate()


def calls(processor, count: int) -> TracerProvider:
    """An agent that calls one tool `count` times, still running."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("agent")
    for number in range(count):
        with tracer.start_as_current_span("execute_tool search_docs") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "search_docs")
            span.set_attribute("gen_ai.tool.call.id", f"call_{number}")
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"query": "refund policy"}))
            span.set_attribute("gen_ai.tool.call.result", "No documents found")
    return provider


def recorded(db: Path) -> int:
    with Store(db).lease() as con:
        return con.execute("SELECT count(*) FROM tool_calls").fetchall()[0][0]


def _until(condition) -> None:
    pause = threading.Event()
    while not condition():
        pause.wait(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(start, number):
    server = start()
    assert server.end(number) == ""
    assert server.process.returncode == 0
    assert recorded(server.db) == 0  # the database exists from the start


def test_spans_sent_by_otlp_become_calls(start):
    server = start()
    provider = calls(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{server.url('OTLP')}/v1/traces")), 8)
    assert provider.force_flush()
    _until(lambda: recorded(server.db) == 8)
    provider.shutdown()
    assert server.end() == ""


def test_an_agent_with_the_processor_beside_it(start, tmp_path):
    """The same file the whole time: calls are in while the agent runs, nothing fails on either side."""
    server = start()
    processor = DuckDBSpanProcessor(server.db)
    provider = calls(processor, 8)
    assert provider.force_flush()
    _until(lambda: recorded(server.db) == 8)  # by the server, which is elected
    provider.shutdown()
    assert Spool(server.db).pending() == []
    assert server.end() == ""
    assert recorded(server.db) == 8


def test_what_was_sent_last_survives_the_end(start):
    server = start()
    url = f"{server.url('OTLP')}/v1/traces"
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "x", "endTimeUnixNano": "2"}
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    assert httpx.post(url, json=body).status_code == 200
    assert server.end() == ""
    fold(Store(server.db))  # where the server had no time for it
    with Store(server.db).lease() as con:
        assert con.execute("SELECT name FROM spans").fetchall() == [("x",)]


def test_kill_9_loses_no_acknowledged_span(start):
    server = start()
    url = f"{server.url('OTLP')}/v1/traces"
    acknowledged: list[str] = []
    lock, enough = threading.Lock(), threading.Semaphore(0)

    def send(sender: int) -> None:
        with httpx.Client() as client:
            for number in range(1, 1 << 20):
                name = f"{sender}-{number}"
                span = {"traceId": f"{sender:032x}", "spanId": f"{number:016x}", "name": name}
                body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
                try:
                    status = client.post(url, json=body).status_code
                except httpx.HTTPError:
                    return
                assert status == 200
                with lock:
                    acknowledged.append(name)
                enough.release()

    senders = [threading.Thread(target=send, args=(sender,)) for sender in range(1, 5)]
    for sender in senders:
        sender.start()
    for _ in range(100):
        enough.acquire()
    server.process.kill()
    for sender in senders:
        sender.join()
    fold(Store(server.db))
    with Store(server.db).lease() as con:
        names = [name for (name,) in con.execute("SELECT name FROM spans").fetchall()]
    assert set(acknowledged) <= set(names)
    assert len(names) == len(set(names))
    assert Spool(server.db).quarantined() == []


def test_two_servers_on_one_file_share_the_work(start):
    first, second = start(), start()
    url = f"{second.url('OTLP')}/v1/traces"
    provider = calls(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)), 3)
    assert provider.force_flush()
    _until(lambda: recorded(first.db) == 3)
    assert first.end() == ""
    provider = calls(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)), 3)
    assert provider.force_flush()
    _until(lambda: recorded(second.db) == 6)  # the second one folds now
    assert second.end() == ""


def test_without_the_dashboard_it_needs_no_streamlit(start):
    server = start(before="sys.modules['streamlit'] = None")
    assert not any(line.startswith("  dashboard") for line in server.told)
    assert httpx.get(server.url("OTLP")).status_code == 200
    assert server.end() == ""


def test_with_the_dashboard_and_no_streamlit_it_names_the_extra(start):
    server = start(dashboard=True, before="sys.modules['streamlit'] = None")
    errors = server.process.communicate()[1]
    assert "loopscope[dashboard]" in errors
    assert "Traceback" not in errors


def test_the_dashboard(start, tmp_path):
    server = start(dashboard=True)
    url = server.url("dashboard")
    host = url.removeprefix("http://")
    assert httpx.get(f"{url}/_stcore/health").text == "ok"
    page = httpx.get(url)
    assert page.status_code == 200
    assert "<script" in page.text
    assert httpx.get(url, headers={"host": "evil.example"}).status_code == 403
    for origin, status in [(url, b"101"), ("https://evil.example", b"403"), ("null", b"403")]:
        assert handshake(host, origin).split(b" ")[1] == status
    assert server.end() == ""
    assert server.process.returncode == 0
    assert not (tmp_path / "home").exists()  # no credentials, no first-run files


def handshake(host: str, origin: str) -> bytes:
    """Ask for Streamlit's websocket; the first line of the answer."""
    name, port = host.split(":")
    with socket.create_connection((name, int(port))) as sock:
        sock.sendall(
            f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        return sock.makefile("rb").readline()


def test_a_page_that_is_open_does_not_delay_the_end(start):
    server = start(dashboard=True)
    host = server.url("dashboard").removeprefix("http://")
    name, port = host.split(":")
    with socket.create_connection((name, int(port))) as sock:
        sock.sendall(
            f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b"101" in sock.makefile("rb").readline()
        assert server.end() == ""
    assert server.process.returncode == 0


# -- refusals, in this process --------------------------------------------------------------------


def test_a_closed_tab_is_no_news_but_every_other_error_is():
    gone = getattr(websockets, "WebSocketDisconnected", None) or pytest.skip("an older Starlette")
    logger = logging.getLogger("uvicorn.error")

    def told(error: Exception | None) -> bool:
        exc_info = None if error is None else (type(error), error, None)
        record = logger.makeRecord(
            logger.name, logging.ERROR, "", 0, "Exception in ASGI application", (), exc_info
        )
        return bool(logger.filter(record))

    with _server._closed_tabs_unsaid():
        assert [told(one) for one in (gone("gone"), RuntimeError("gone"), None)] == [False, True, True]
    assert told(gone("gone"))


@pytest.mark.parametrize("option", ["port", "otlp_http_port", "otlp_grpc_port"])
def test_a_port_in_use_is_one_clear_line(tmp_path, option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = {"port": 0, "otlp_http_port": 0} | {option: taken.getsockname()[1]}
        with pytest.raises(LoopscopeError) as found:
            serve(tmp_path / "traces.duckdb", **ports)
    assert str(ports[option]) in str(found.value)
    assert f"--{option.replace('_', '-')}" in str(found.value)
    assert "\n" not in str(found.value)


def test_an_address_that_is_not_of_this_machine(tmp_path):
    with pytest.raises(LoopscopeError, match=re.escape("203.0.113.7")):
        serve(tmp_path / "traces.duckdb", host="203.0.113.7", port=0, otlp_http_port=0, dashboard=False)


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database")
    with pytest.raises(StoreVersionError):
        serve(path, port=0, otlp_http_port=0, dashboard=False)
    assert path.read_text() == "not a database"


def test_inside_of_another_program(tmp_path):
    """In a thread, ended by an event."""
    stop, told = threading.Event(), []

    def announce(text: str) -> None:
        told.append(text)
        stop.set()

    db = tmp_path / "traces.duckdb"
    options = {"port": 0, "otlp_http_port": 0, "dashboard": False, "stop": stop, "announce": announce}
    thread = threading.Thread(target=serve, args=(db,), kwargs=options)
    thread.start()
    thread.join()
    assert told[0].startswith(f"Loopscope on {db}")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "203.0.113.7"])
def test_beyond_this_machine_it_needs_a_token(tmp_path, monkeypatch, host):
    monkeypatch.delenv("LOOPSCOPE_TOKEN", raising=False)
    with pytest.raises(LoopscopeError, match="--token") as found:
        serve(tmp_path / "traces.duckdb", host=host, port=0, otlp_http_port=0, dashboard=False)
    assert "\n" not in str(found.value)
    assert not (tmp_path / "traces.duckdb").exists()


@pytest.mark.parametrize("token", ["two words", "schlüssel", "line\nbreak"])
def test_a_token_that_fits_no_header(tmp_path, token):
    with pytest.raises(LoopscopeError, match="the token"):
        serve(tmp_path / "traces.duckdb", token=token, port=0, otlp_http_port=0, dashboard=False)


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_with_a_token_it_listens_beyond_this_machine(tmp_path, monkeypatch, by):
    if by == "variable":
        monkeypatch.setenv("LOOPSCOPE_TOKEN", "s3cret")
    else:
        monkeypatch.delenv("LOOPSCOPE_TOKEN", raising=False)
    stop, told, ready = threading.Event(), [], threading.Event()

    def announce(text: str) -> None:
        told.extend(text.splitlines())
        if text.startswith("Listening"):
            ready.set()

    options = {"host": "0.0.0.0", "port": 0, "otlp_http_port": 0, "otlp_grpc_port": 0, "dashboard": False}
    options |= {"stop": stop, "announce": announce, "token": "s3cret" if by == "argument" else None}
    thread = threading.Thread(target=serve, args=(tmp_path / "traces.duckdb",), kwargs=options)
    thread.start()
    try:
        assert ready.wait(30)
        assert any("can read your traces" in line for line in told)
        assert not any("s3cret" in line for line in told)
        http, grpc = (
            next(line.split()[1] for line in told if f"OTLP/{way}" in line) for way in ("HTTP", "gRPC")
        )
        span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "x", "endTimeUnixNano": "2"}
        body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        assert httpx.post(f"{http}/v1/traces", json=body).status_code == 401
        shown = {"authorization": "Bearer s3cret"}
        assert httpx.post(f"{http}/v1/traces", json=body, headers=shown).status_code == 200
        for headers, count in [({}, 0), (shown, 3)]:
            exporter = GrpcSpanExporter(endpoint=grpc, insecure=True, headers=headers)
            sent = calls(SimpleSpanProcessor(exporter), count or 1)
            sent.shutdown()
        _until(lambda: recorded(tmp_path / "traces.duckdb") == 3)
    finally:
        stop.set()
        thread.join()


def test_pages_ask_for_the_token():
    async def page(scope, receive, send) -> None:
        await PlainTextResponse("the page")(scope, receive, send)

    async def ask() -> None:
        app = TokenOnly(page, "s3cret")
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://host:8501"
        ) as client:
            for path, headers in [
                ("/", {}),
                ("/?token=wrong", {}),
                ("/?token=", {}),
                ("/", {"authorization": "Bearer wrong"}),
                ("/", {"authorization": "Basic s3cret"}),
                ("/", {"cookie": "loopscope_access=s3cret"}),
            ]:
                response = await client.get(path, headers=headers)
                assert (response.status_code, "the page" in response.text) == (401, False)
            assert (await client.get("/", headers={"authorization": "bearer s3cret"})).text == "the page"
            let_in = await client.get("http://host:8501//evil.example/incidents?token=s3cret&run=a%20b")
            assert let_in.status_code == 303
            assert let_in.headers["location"] == "/evil.example/incidents?run=a+b"
            assert "s3cret" not in let_in.headers["set-cookie"]
            assert "httponly" in let_in.headers["set-cookie"].lower()
            assert (await client.get("/")).text == "the page"  # by its cookie

    asyncio.run(ask())


def test_a_websocket_without_the_token_is_closed():
    sent = []

    async def nothing(*_) -> None:
        raise AssertionError("let in")

    async def ask() -> None:
        async def receive():
            return {"type": "websocket.connect"}

        async def send(message) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": "/", "query_string": b"token=s3cret", "headers": []}
        await TokenOnly(nothing, "s3cret")(scope, receive, send)

    asyncio.run(ask())
    assert [message["type"] for message in sent] == ["websocket.close"]


# -- OTLP/gRPC ------------------------------------------------------------------------------------


def test_spans_sent_by_grpc_become_calls(start):
    server = start(options="otlp_grpc_port=0, ")
    exporter = GrpcSpanExporter(endpoint=server.url("OTLP/gRPC"), insecure=True)
    provider = calls(BatchSpanProcessor(exporter), 8)
    assert provider.force_flush()
    _until(lambda: recorded(server.db) == 8)
    provider.shutdown()
    assert server.end() == ""
    assert server.process.returncode == 0


def test_without_grpcio_the_rest_runs(start):
    server = start(options="otlp_grpc_port=0, ", before="sys.modules['grpc'] = None")
    (line,) = (line for line in server.told if "OTLP/gRPC" in line)
    assert "grpcio" in line
    assert "loopscope[server]" in line
    assert httpx.get(server.url("OTLP/HTTP")).status_code == 200
    assert server.end() == ""
