"""`loopscope demo` beside servers that have its ports already."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from loopscope.cli import _demo
from loopscope.sample_traces import files


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def started(monkeypatch, tmp_path) -> list[dict]:
    """What the server was started with; nothing is imported and nothing listens."""
    monkeypatch.chdir(tmp_path)
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


def test_recordings_of_ones_own_are_not_mixed_with_the_samples(run, started, tmp_path):
    db = tmp_path / "own.duckdb"
    (tmp_path / "chat.json").write_text(
        '[{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]'
    )
    assert run("import", tmp_path / "chat.json", "--db", db).code == 0
    ran = run("demo", "--db", db, "--otlp-http-port", 0)
    assert ran.code == 2
    assert len(ran.err.strip().splitlines()) == 1
    assert "own.duckdb holds recordings of your own" in ran.err
    assert started == []


def test_a_demo_goes_on_with_what_was_sent_to_it(run, started, tmp_path):
    """Samples are there already: whatever else lies beside them came to the demo."""
    db = tmp_path / "demo.duckdb"
    (tmp_path / "chat.json").write_text(
        '[{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]'
    )
    assert run("import", files()[0], tmp_path / "chat.json", "--db", db).code == 0
    assert run("demo", "--db", db, "--otlp-http-port", 0, "--otlp-grpc-port", "none").code == 0
    assert len(started) == 1
