"""`loopscope demo` beside servers that have its ports already."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from loopscope.cli import _demo


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def started(monkeypatch) -> list[dict]:
    """What the server was started with; nothing is imported and nothing listens."""
    calls: list[dict] = []
    monkeypatch.setattr(_demo, "import_and_show", lambda *_: None)
    monkeypatch.setattr(_demo, "run", lambda db, **options: calls.append(options))
    return calls


def test_ports_that_are_taken_give_way_to_free_ones(run, started, taken):
    done = run("demo", "--otlp-http-port", taken, "--otlp-grpc-port", taken)
    assert done.code == 0
    (options,) = started
    assert (options["otlp_http_port"], options["otlp_grpc_port"]) == (0, 0)
    for what in ("OTLP/HTTP", "OTLP/gRPC"):
        assert f"Port {taken} is taken; the {what} receiver of this demo takes a free one." in done.out


def test_ports_that_are_free_are_taken_as_given(run, started):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    done = run("demo", "--otlp-http-port", 0, "--otlp-grpc-port", port)
    assert ("is taken" in done.out, started[0]["otlp_grpc_port"]) == (False, port)


@pytest.mark.parametrize("none", ["none", "0"])
def test_no_grpc_is_no_grpc(run, started, none):
    run("demo", "--otlp-http-port", 0, "--otlp-grpc-port", none)
    assert started[0]["otlp_grpc_port"] is None
