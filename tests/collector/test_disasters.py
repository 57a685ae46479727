"""Full disks, files that vanish, programs that hold the database: the agent goes on, the rest arrives.

What the kernel says is real where a process can bring it about (a limit of the file size, a deleted folder, a
small file system); a refused write is put in its place elsewhere.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import resource
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from starlette.testclient import TestClient
from store_tools import count, derive, spans_payload

from loopscope.collector import (
    DuckDBSpanExporter,
    DuckDBSpanProcessor,
    Folder,
    Spool,
    Store,
    examine,
    fold,
    otlp_app,
)
from loopscope.collector import _spool as spool_module
from loopscope.guard import StoreError


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "t.duckdb", timeout=5)


@pytest.fixture
def agent(store) -> Iterator[Agent]:
    made = Agent(store.path, queue=50)
    yield made
    made.provider.shutdown()


class Agent:
    """An agent in this process, with a processor that loses patience quickly."""

    def __init__(self, path: Path, queue: int = 8192) -> None:
        self.processor = DuckDBSpanProcessor(path, first_delay=0.0, delay=0.01, max_queue_size=queue)
        resource = Resource.create({"service.name": "bot"})
        self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.provider.add_span_processor(self.processor)
        self.said = 0

    def ended(self) -> None:
        """Wait for the thread, which tries once more after a shutdown."""
        thread = self.processor._thread
        assert thread is not None
        thread.join(10)
        assert not thread.is_alive()

    def call(self, times: int = 1) -> None:
        tracer = self.provider.get_tracer("agent")
        for _ in range(times):
            self.said += 1
            with tracer.start_as_current_span("execute_tool look") as span:
                span.set_attribute("gen_ai.operation.name", "execute_tool")
                span.set_attribute("gen_ai.tool.name", "look")
                span.set_attribute("gen_ai.tool.call.id", f"call_{self.said}")
                span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"n": self.said}))
                span.set_attribute("gen_ai.tool.call.result", "nothing")


def calls(store: Store) -> list[int]:
    """The numbers of the calls in the database."""
    with store.lease() as con:
        return sorted(
            int(call_id.removeprefix("call_"))
            for (call_id,) in con.execute("SELECT call_id FROM tool_calls").fetchall()
        )


def lost(store: Store) -> int:
    """What writers say they lost; doctor must say the same."""
    with store.lease() as con:
        (number,) = con.execute("SELECT coalesce(sum(value), 0)::BIGINT FROM drop_counters").fetchall()[0]
    report = examine(store.path)
    assert sum(drop.value for drop in report.drops) == number
    assert any(f"lost {number} spans" in line for line in report.problems) == bool(number)
    return number


def until(condition: Callable[[], object]) -> None:
    pause = threading.Event()
    while not condition():
        pause.wait(0.005)


# -- the spool cannot be written ------------------------------------------------------------------


@contextmanager
def refused(monkeypatch, number: int) -> Iterator[None]:
    """No file can be made or written in the spool."""
    real = os.open

    def no(path, flags, *rest, **options):
        if flags & os.O_CREAT and ".spool" in str(path):
            raise OSError(number, os.strerror(number))
        return real(path, flags, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(spool_module.os, "open", no)
        yield


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
def test_while_the_spool_refuses_spans_wait_and_the_rest_is_counted(
    agent, store, monkeypatch, caplog, number
):
    agent.call(3)
    assert agent.provider.force_flush()
    with refused(monkeypatch, number):
        agent.call(1)
        assert agent.provider.force_flush() is False
        agent.call(200)  # more than the queue takes: nobody waits
        assert agent.provider.force_flush() is False
        assert os.strerror(number) in caplog.text
    agent.call(1)
    until(agent.provider.force_flush)
    fold(store)
    kept = calls(store)
    assert len(kept) + lost(store) == agent.said == 205
    assert kept[:3] == [1, 2, 3]
    assert len(kept) >= 3 + 50
    agent.provider.shutdown()
    assert files(store) == []


def files(store: Store) -> list[Path]:
    """What lies in the spool, but for the mark of those who wait for the database."""
    found = Spool(store.path).path.iterdir()
    return [path for path in found if path.is_file() and path.name != ".waiting"]


@pytest.mark.parametrize("queue", [50, 5])
def test_what_an_agent_cannot_write_at_its_end_is_counted(store, monkeypatch, queue):
    agent = Agent(store.path, queue=queue)
    agent.call(3)
    assert agent.provider.force_flush()
    with refused(monkeypatch, errno.ENOSPC):
        agent.call(20)
        agent.provider.shutdown()
        agent.ended()
    fold(store)
    assert calls(store) == [1, 2, 3]
    assert lost(store) == 20
    assert files(store) == []
    fold(store)
    assert lost(store) == 20


def test_the_number_finds_a_place_in_a_spool_that_was_made_again(store, monkeypatch):
    agent = Agent(store.path)
    agent.call(1)
    assert agent.provider.force_flush()
    fold(store)
    shutil.rmtree(Spool(store.path).path)
    agent.call(1)
    assert agent.provider.force_flush()
    with refused(monkeypatch, errno.ENOSPC):
        agent.call(7)
        agent.provider.shutdown()
        agent.ended()
    fold(store)
    assert (calls(store), lost(store)) == ([1, 2], 7)


def test_what_was_given_up_and_is_written_after_all_is_not_counted(store, monkeypatch):
    agent = Agent(store.path)
    agent.call(3)
    assert agent.provider.force_flush()
    with refused(monkeypatch, errno.ENOSPC):
        agent.call(20)
        for _ in range(2):
            agent.processor._at_exit()  # handlers that run later may shut down, or record more
            fold(store)
    agent.call(1)
    agent.provider.shutdown()
    fold(store)
    assert calls(store) == list(range(1, 25))
    assert lost(store) == 0
    assert files(store) == []


def test_an_exporter_counts_what_the_spool_refused(store, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    agent = Agent.__new__(Agent)
    agent.provider = TracerProvider(shutdown_on_exit=False)
    agent.provider.add_span_processor(SimpleSpanProcessor(DuckDBSpanExporter(store.path)))
    agent.said = 0
    agent.call(2)
    with refused(monkeypatch, errno.ENOSPC):
        agent.call(3)
    agent.call(1)
    agent.provider.shutdown()
    assert calls(store) == [1, 2, 6]
    assert lost(store) == 3
    assert files(store) == []


def test_an_exporter_counts_what_it_could_not_write_at_its_end(store, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    agent = Agent.__new__(Agent)
    agent.provider = TracerProvider(shutdown_on_exit=False)
    agent.provider.add_span_processor(SimpleSpanProcessor(DuckDBSpanExporter(store.path)))
    agent.said = 0
    agent.call(1)
    with refused(monkeypatch, errno.ENOSPC):
        agent.call(3)
        agent.provider.shutdown()
    fold(store)
    assert calls(store) == [1]
    assert lost(store) == 3


def test_a_receiver_says_503_until_the_spool_can_be_written_again(store, monkeypatch):
    body = spans_payload({"span": 1, "start": 1, "end": 2})
    headers = {"content-type": "application/x-protobuf"}
    with TestClient(otlp_app(store.path), base_url="http://localhost") as client:
        with refused(monkeypatch, errno.ENOSPC):
            answer = client.post("/v1/traces", content=body, headers=headers)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert b"No space left" in answer.content
        assert client.post("/v1/traces", content=body, headers=headers).status_code == 200
    fold(store, derive=derive)
    assert count(store, "span_rows") == 1
    report = examine(store.path)
    assert [(drop.name, drop.source, drop.value) for drop in report.drops] == [
        ("refused_requests", "OTLP receiver", 1)
    ]
    assert any("refused 1 request" in line for line in report.problems)


def run(code: str, folder: Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "LOOPSCOPE_"))},
        **options,
    )


AGENT = """
import json, logging, time
import loopscope.collector._processor as p
p.EXIT_SECONDS = 0.5
from loopscope.collector import instrument
logging.basicConfig()
tracer = instrument("t.duckdb", service_name="bot").get_tracer("agent")
started, slowest = time.monotonic(), 0.0
for number in range(1, 301):
    before = time.monotonic()
    with tracer.start_as_current_span("execute_tool look") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "look")
        span.set_attribute("gen_ai.tool.call.id", f"call_{number}")
        span.set_attribute("gen_ai.tool.call.arguments", "{}")
        span.set_attribute("gen_ai.tool.call.result", "x" * 1000)
"""


def test_a_limit_of_the_file_size_stops_writing_and_no_agent(store):
    """The kernel refuses every segment and the database: all 300 calls are told as not written."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = run(AGENT, store.path.parent, preexec_fn=limit)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "300 spans could not be written" in done.stderr
    assert Spool(store.path).pending() == []
    assert list(Spool(store.path).path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 24 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "loopscope-test", str(place)]
    if os.geteuid() or shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_full_for_a_while(small_disk):
    store = Store(small_disk / "t.duckdb")
    agent = Agent(store.path, queue=50)
    agent.call(5)
    assert agent.provider.force_flush()
    fold(store)
    agent.processor._folds.finish(5)  # from here on nobody folds but this test
    agent.call(1)
    assert agent.provider.force_flush()  # in the spool when the disk fills up
    large = {"tool": "t", "result": os.urandom(400_000).hex()}
    Spool(store.path).write([("traces", spans_payload({"span": 1, "end": 9, "attributes": large}))])
    with (small_disk / "other").open("wb", buffering=0) as other:
        with pytest.raises(OSError, match="No space left"):
            _fill(other)
        agent.call(100)
        assert agent.provider.force_flush() is False
        with pytest.raises(StoreError) as caught:
            fold(store)
        assert "\n" not in str(caught.value)
        report = examine(store.path)
        assert any("disk" in line for line in report.problems)
        other.truncate(0)
    until(agent.provider.force_flush)
    agent.provider.shutdown()
    fold(store)
    assert len(calls(store)) + lost(store) == 106
    assert calls(store)[:6] == [1, 2, 3, 4, 5, 6]
    assert Spool(store.path).quarantined() == []


def test_an_agent_that_ends_on_a_full_disk(small_disk):
    store = Store(small_disk / "t.duckdb")
    agent = Agent(store.path, queue=50)
    agent.call(5)
    assert agent.provider.force_flush()
    with (small_disk / "other").open("wb", buffering=0) as other:
        with pytest.raises(OSError, match="No space left"):
            _fill(other)
        agent.call(100)
        agent.provider.shutdown()
        agent.ended()
        other.truncate(0)
    fold(store)
    assert calls(store) == [1, 2, 3, 4, 5]
    assert lost(store) == 100


def test_a_disk_that_turns_read_only(small_disk):
    store = Store(small_disk / "t.duckdb")
    agent = Agent(store.path)
    agent.call(1)
    assert agent.provider.force_flush()
    fold(store)
    agent.processor._folds.finish(1)  # nothing of this process is open there

    def remount(how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(small_disk)], check=True)

    until(lambda: _succeeds(lambda: remount("ro")))
    agent.call(2)
    assert agent.provider.force_flush() is False
    remount("rw")
    until(agent.provider.force_flush)
    agent.provider.shutdown()
    assert calls(store) == [1, 2, 3]
    assert lost(store) == 0


def _fill(file: io.FileIO) -> None:
    while file.write(b"x" * 65536):
        pass


def _succeeds(action: Callable[[], None]) -> bool:
    try:
        action()
    except subprocess.CalledProcessError:
        return False
    return True


# -- the spool vanishes ---------------------------------------------------------------------------


def test_the_spool_is_deleted_while_an_agent_runs(agent, store):
    agent.call(2)
    assert agent.provider.force_flush()
    fold(store)
    shutil.rmtree(Spool(store.path).path)
    agent.call(2)
    assert agent.provider.force_flush()
    agent.provider.shutdown()
    assert calls(store) == [1, 2, 3, 4]


def test_the_spool_is_deleted_again_and_again_under_a_server(store):
    """Nothing but what lay in it is lost: what comes after is taken in, and nobody falls over."""
    stop = threading.Event()
    server = threading.Thread(
        target=Folder(store, role="server", derive=derive).run, args=(stop,), kwargs={"interval": 0.001}
    )
    server.start()
    spool = Spool(store.path)
    for number in range(1, 40):
        spool.write([("traces", spans_payload({"trace": number, "span": number, "end": 9}))])
        if number % 4 == 0:
            shutil.rmtree(spool.path, ignore_errors=True)
    until(lambda: not spool.pending())
    spool.write([("traces", spans_payload({"trace": 99, "span": 99, "end": 9}))])
    until(lambda: not spool.pending())
    stop.set()
    server.join()
    with store.lease() as con:
        assert con.execute("SELECT count(*) FROM span_rows WHERE span_id LIKE '%63'").fetchall() == [(1,)]


# -- the database vanishes ------------------------------------------------------------------------


def test_the_database_is_deleted_while_an_agent_runs(agent, store):
    agent.call(2)
    assert agent.provider.force_flush()
    until(lambda: fold(store) is not None and calls(store) == [1, 2])
    before = store.version()
    store.path.unlink()
    agent.call(2)
    assert agent.provider.force_flush()
    agent.provider.shutdown()
    assert calls(store) == [3, 4]
    assert store.version() != before  # or a reader's cache would show the deleted one


def test_everything_is_deleted_while_a_server_runs(store):
    """As `rm -r traces.duckdb*` does: database, log, lock and spool."""
    stop = threading.Event()
    folder = Folder(store, role="server", derive=derive)
    server = threading.Thread(target=folder.run, args=(stop,), kwargs={"interval": 0.005})
    server.start()
    spool = Spool(store.path)
    for number in (1, 2):
        spool.write([("traces", spans_payload({"trace": number, "span": number, "end": 9}))])
        until(lambda: not spool.pending())
        if number == 1:
            for path in store.path.parent.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert count(store, "span_rows") == 1
    until(lambda: Path(f"{store.path}.lock").exists())
    assert Folder(store).try_fold() is None  # the server holds the lock that is there now
    stop.set()
    server.join()


def test_what_went_into_a_deleted_file_is_folded_again(store):
    """The file goes between the commit and the deletion of the segments."""
    with store.lease():
        pass
    Spool(store.path).write([("traces", spans_payload({"span": 1, "end": 9}))])

    def delete_and_derive(*records):
        store.path.unlink()
        return derive(*records)

    with pytest.raises(StoreError, match="was deleted or replaced while"):
        fold(store, derive=delete_and_derive)
    assert len(Spool(store.path).pending()) == 1
    assert fold(store, derive=derive).spans == 1
    assert count(store, "span_rows") == 1


def test_who_comes_to_a_deleted_file_waits_for_those_inside_and_gets_the_new_one(store):
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with store.write() as con:
            con.execute("INSERT INTO policies VALUES ('p', '', '', TIMESTAMP '2026-01-01')")
            inside.set()
            leave.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(30)
    store.path.unlink()
    with pytest.raises(StoreError, match="though deleted"), store.lease(timeout=0.05):
        pass
    leave.set()
    assert count(store, "policies") == 0
    holder.join()
    assert count(store, "policies") == 0
    assert store.path.exists()


LEAVES_A_LOG = """
import os, duckdb
con = duckdb.connect({!r})
con.execute("CREATE TABLE t (i INTEGER)")
os._exit(0)
"""


def test_the_log_of_a_deleted_database_does_not_spoil_the_new_one(store):
    """The process that had it open was killed, then somebody deleted the database file alone."""
    assert run(LEAVES_A_LOG.format(str(store.path)), store.path.parent).returncode == 0
    log = Path(f"{store.path}.wal")
    assert log.stat().st_size > 0
    store.path.unlink()
    Spool(store.path).write([("traces", spans_payload({"span": 1, "end": 9}))])
    assert fold(store, derive=derive).spans == 1
    assert Path(f"{log}.orphan").exists()
    assert count(store, "span_rows") == 1


def test_a_log_of_another_file_is_named(store):
    with store.lease():
        pass
    assert run(LEAVES_A_LOG.format(str(store.path)), store.path.parent).returncode == 0
    assert Path(f"{store.path}.wal").exists()
    store.path.unlink()
    other = Store(store.path.with_name("other.duckdb"))
    with other.lease():
        pass
    os.replace(other.path, store.path)
    with (
        pytest.raises(StoreError, match=r"t\.duckdb\.wal belongs to another database") as caught,
        store.lease(),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert any("Move it away" in line for line in examine(store.path).problems)


# -- the database is damaged ----------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_database_that_was_cut_is_one_line_and_the_spool_goes_into_a_new_one(store, share):
    for number in range(1, 30):
        attributes = {"tool": "t", "result": os.urandom(20_000).hex()}
        payload = spans_payload({"trace": number, "span": number, "end": 9, "attributes": attributes})
        Spool(store.path).write([("traces", payload)])
    fold(store, derive=derive)
    os.truncate(store.path, int(store.path.stat().st_size * share))
    Spool(store.path).write([("traces", spans_payload({"trace": 77, "span": 77, "end": 9}))])
    with pytest.raises(StoreError, match="is damaged") as caught, store.lease() as con:
        con.execute("SELECT * FROM tool_calls").fetchall()
    assert "\n" not in str(caught.value)
    report = examine(store.path)
    assert report.problems
    assert all("\n" not in line for line in report.problems)
    os.replace(store.path, store.path.with_name("damaged.duckdb"))
    assert fold(store, derive=derive).spans == 1
    assert count(store, "span_rows") == 1


# -- another program holds the database -----------------------------------------------------------


@pytest.fixture
def held(store) -> Iterator[Callable[[], None]]:
    """Another program has the database open until the function is called."""
    with store.lease():
        pass
    code = f"""
        import duckdb, sys
        con = duckdb.connect({str(store.path)!r})
        print("held", flush=True)
        sys.stdin.readline()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"

    def let_go() -> None:
        if process.poll() is None:
            process.communicate("\n")

    yield let_go
    let_go()


def test_agent_and_receiver_go_on_while_the_database_is_held_and_all_arrives(agent, store, held, caplog):
    patient = Store(store.path, timeout=0.02)
    stop = threading.Event()
    server = threading.Thread(
        target=Folder(patient, role="server").run, args=(stop,), kwargs={"interval": 0.001}
    )
    server.start()
    body = spans_payload({"trace": 7, "span": 7, "start": 1, "end": 2})
    with TestClient(otlp_app(store.path), base_url="http://localhost") as client:
        answer = client.post("/v1/traces", content=body, headers={"content-type": "application/x-protobuf"})
        assert answer.status_code == 200
    for _ in range(20):
        agent.call(2)
        assert agent.provider.force_flush()
    until(lambda: "is held by" in caplog.text)
    report = examine(store.path, timeout=0.02)
    assert report.holder is not None
    assert report.spool is not None
    assert report.spool.segments >= 20
    held()
    until(lambda: not Spool(store.path).pending())
    stop.set()
    server.join()
    assert calls(store) == list(range(1, 41))
    assert count(store, "span_rows") == 41
    assert sum("is held by" in record.message for record in caplog.records) == 1  # told once, not each try


def test_an_agent_leaves_in_good_time_while_the_database_is_held(store, held):
    done = run(AGENT, store.path.parent, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "stay in" in done.stderr
    assert "Traceback" not in done.stderr
    held()
    fold(store)
    assert calls(store) == list(range(1, 301))


def test_readers_of_a_held_database_get_one_line(store, held):
    with pytest.raises(StoreError, match="is held by PID") as caught, store.lease(timeout=0.02):
        pass
    assert "\n" not in str(caught.value)
    held()
    with duckdb.connect(str(store.path), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM spans").fetchall() == [(0,)]
