"""Agents as processes of their own: how they end, fork, die, and share a database."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from loopscope.collector import Spool, Store, fold

AGENT = """
import json, os, sys
from loopscope.collector import DuckDBSpanExporter, DuckDBSpanProcessor, instrument
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

# An exit takes no longer than it needs; on a machine with forty times too much to do that is more than usual.
import loopscope.collector._agent_child as starting
import loopscope.collector._exporter as e
import loopscope.collector._processor as p
starting._START_SECONDS, e.EXIT_SECONDS, p.EXIT_SECONDS = 600.0, 120.0, 120.0

def calls(tracer, count, first=0):
    for number in range(first, first + count):
        with tracer.start_as_current_span("execute_tool search_docs") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "search_docs")
            span.set_attribute("gen_ai.tool.call.id", f"call_{number}")
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"query": "refund policy"}))
            span.set_attribute("gen_ai.tool.call.result", "No documents found")

def say(word):
    sys.stdout.write(word + "\\n")
    sys.stdout.flush()
"""

WITH_PROCESSOR = """
provider = TracerProvider()
provider.add_span_processor(DuckDBSpanProcessor("traces.duckdb"))
tracer = provider.get_tracer("agent")
"""
RUN = """
with tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
    calls(tracer, 8)
"""


@pytest.fixture
def run(tmp_path):
    """Starts an agent script in an empty folder."""
    started = []

    def start(code: str, *, command=(sys.executable,), **environment) -> subprocess.Popen[str]:
        script = tmp_path / f"agent{len(started)}.py"
        script.write_text(AGENT + code, encoding="utf-8")
        known = {
            key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "LOOPSCOPE_"))
        }
        process = subprocess.Popen(
            [*command, str(script)],
            cwd=tmp_path,
            env=known | {"OTEL_SERVICE_NAME": "bot"} | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finished(process: subprocess.Popen[str]) -> str:
    """Standard error of an agent that ended well."""
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return errors


def recorded(db: Path) -> list[str]:
    """Call ids in the database, with nothing but DuckDB."""
    with duckdb.connect(str(db), read_only=True) as con:
        return sorted(call_id for (call_id,) in con.execute("SELECT call_id FROM tool_calls").fetchall())


def names(count: int) -> list[str]:
    return sorted(f"call_{number}" for number in range(count))


@pytest.mark.parametrize(
    "setup",
    [
        WITH_PROCESSOR,
        "tracer = instrument('traces.duckdb').get_tracer('agent')",
        "instrument(); instrument('traces.duckdb'); tracer = trace.get_tracer('agent')",
        """
trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
assert instrument() is trace.get_tracer_provider()
tracer = trace.get_tracer('agent')
""",
        """
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(DuckDBSpanExporter("traces.duckdb")))
tracer = provider.get_tracer("agent")
""",
        """
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(DuckDBSpanExporter()))
tracer = provider.get_tracer("agent")
""",
    ],
)
def test_after_exit_the_database_holds_every_call(run, tmp_path, setup):
    assert finished(run(setup + RUN)) == ""
    db = tmp_path / "traces.duckdb"
    assert recorded(db) == names(8)
    assert Spool(db).pending() == []
    with duckdb.connect(str(db), read_only=True) as con:
        (facts,) = con.execute(
            "SELECT DISTINCT tool_name, arguments, result, outcome, service_name, run_source FROM tool_calls"
        ).fetchall()
        assert facts == (
            "search_docs",
            '{"query": "refund policy"}',
            "No documents found",
            "success",
            "bot",
            "agent_span",
        )
        assert con.execute("SELECT max(seq), count(DISTINCT run_id) FROM tool_calls").fetchall() == [(8, 1)]


@pytest.mark.parametrize(
    "ending", ["raise SystemExit(0)", "os.chdir('/')", "provider.shutdown(); provider.shutdown()"]
)
def test_ways_to_end(run, tmp_path, ending):
    finished(run(WITH_PROCESSOR + RUN + ending))
    assert recorded(tmp_path / "traces.duckdb") == names(8)


def test_an_agent_that_fails_is_recorded_too(run, tmp_path):
    process = run(WITH_PROCESSOR + RUN + "raise RuntimeError('the agent broke')")
    assert "the agent broke" in process.communicate()[1]
    assert recorded(tmp_path / "traces.duckdb") == names(8)


def test_without_a_line_of_code(run, tmp_path):
    """OTEL_TRACES_EXPORTER=loopscope, through opentelemetry-instrument where it is installed."""
    environment = {
        "OTEL_TRACES_EXPORTER": "loopscope",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "LOOPSCOPE_DB": "named.duckdb",
    }
    code = "tracer = trace.get_tracer('agent')" + RUN
    distribution = ("opentelemetry.distro", "opentelemetry.instrumentation")
    if all(importlib.util.find_spec(name) for name in distribution):
        start = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
        command = (sys.executable, "-c", start, sys.executable)  # what opentelemetry-instrument does
        process = run(code, command=command, **environment)
    else:
        # What the distribution's configurator is made of.
        configure = (
            "from opentelemetry.sdk._configuration import _OTelSDKConfigurator\n"
            "_OTelSDKConfigurator().configure(auto_instrumentation_version='0')\n"
        )
        process = run(configure + code, **environment)
    finished(process)
    assert recorded(tmp_path / "named.duckdb") == names(8)


def test_kill_9_loses_nothing_that_was_flushed(run, tmp_path):
    process = run(
        WITH_PROCESSOR
        + """
number = 0
with tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
    while True:
        calls(tracer, 7, number)
        number += 7
        assert provider.force_flush()
        say(str(number))
        calls(tracer, 1, -1)
"""
    )
    flushed = [int(process.stdout.readline()) for _ in range(20)][-1]
    process.send_signal(signal.SIGKILL)
    rest = process.communicate()[0].split()
    flushed = int(rest[-1]) if rest else flushed
    db = tmp_path / "traces.duckdb"
    fold(Store(db))
    assert set(names(flushed)) <= set(recorded(db))
    with duckdb.connect(str(db), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM spans WHERE end_ns IS NULL").fetchall() == [
            (1,)
        ]  # the run it was in
        assert con.execute("SELECT count(DISTINCT run_id) FROM tool_calls").fetchall() == [(1,)]


def test_a_fork_has_a_queue_of_its_own(run, tmp_path):
    """What was queued before is the parent's to write, once; the child records what it does itself."""
    process = run(
        WITH_PROCESSOR
        + """
calls(tracer, 3)
child = os.fork()
if child == 0:
    calls(tracer, 2, 3)
    assert provider.force_flush()
    os._exit(0)
calls(tracer, 2, 5)
assert os.waitpid(child, 0)[1] == 0
"""
    )
    finished(process)
    db = tmp_path / "traces.duckdb"
    fold(Store(db))
    assert recorded(db) == names(7)


def test_a_fork_before_the_first_span(run, tmp_path):
    """As servers with pre-forked workers do."""
    process = run(
        WITH_PROCESSOR
        + """
children = []
for worker in range(3):
    child = os.fork()
    if child == 0:
        calls(tracer, 2, 2 * worker)
        provider.shutdown()
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""
    )
    finished(process)
    assert recorded(tmp_path / "traces.duckdb") == names(6)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_need_no_flush(run, tmp_path, method):
    """They leave without exit handlers."""
    process = run(
        f"""
import multiprocessing

def work(first):
    provider = TracerProvider()
    provider.add_span_processor(DuckDBSpanProcessor("traces.duckdb"))
    calls(provider.get_tracer("agent"), 2, first)

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    children = [context.Process(target=work, args=(2 * n,)) for n in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
"""
    )
    finished(process)
    db = tmp_path / "traces.duckdb"
    fold(Store(db))
    assert recorded(db) == names(4)


def test_a_database_that_somebody_holds_fails_and_delays_nobody_for_long(run, tmp_path):
    db = tmp_path / "traces.duckdb"
    with Store(db).lease():
        pass
    with duckdb.connect(str(db)):
        short = "p.EXIT_SECONDS = 0.3\n"
        errors = finished(run(short + WITH_PROCESSOR + RUN))
    assert "stay in" in errors
    assert str(os.getpid()) in errors  # who holds it
    assert Spool(db).pending() != []
    fold(Store(db))
    assert recorded(db) == names(8)


def test_an_exit_in_the_middle_of_a_fold(run, tmp_path):
    """The background thread is inside of DuckDB when the agent ends: it must come out first."""
    impatient = "p.EXIT_SECONDS = 0.0\n"
    slow = """
import threading, duckdb
from loopscope.collector import Folder

inside = threading.Event()

def try_fold(folder, **_):
    inside.set()
    duckdb.connect().execute("SELECT sum(i * j) FROM range(20000) a(i), range(20000) b(j)").fetchall()

Folder.try_fold = try_fold
import loopscope.collector._agent_fold as a; a.UNCLAIMED_AFTER = 0.0
slow_to_free = [{} for _ in range(1_000_000)]  # the interpreter is still ending when the query is done
calls(tracer, 8)
assert provider.force_flush()
inside.wait()
"""
    errors = finished(run(impatient + WITH_PROCESSOR + slow))
    assert "terminate" not in errors
    db = tmp_path / "traces.duckdb"
    fold(Store(db))
    assert recorded(db) == names(8)


def test_an_exit_in_the_middle_of_a_fold_for_an_exporter_that_is_gone(run, tmp_path):
    """Its thread lives on; nobody but the exit handlers of the module can end it."""
    code = """
import gc, threading, weakref, duckdb
from loopscope.collector import Folder
import loopscope.collector._agent_fold as a

inside = threading.Event()

def try_fold(folder, **_):
    inside.set()
    duckdb.connect().execute("SELECT sum(i * j) FROM range(20000) a(i), range(20000) b(j)").fetchall()

Folder.try_fold = try_fold
a.UNCLAIMED_AFTER = 0.0
provider = TracerProvider(shutdown_on_exit=False)
exporter = DuckDBSpanExporter("traces.duckdb")
gone = weakref.ref(exporter)
provider.add_span_processor(SimpleSpanProcessor(exporter))
calls(provider.get_tracer("agent"), 1)
del provider, exporter
gc.collect()
assert gone() is None
inside.wait()
slow_to_free = [{} for _ in range(1_000_000)]
sys.exit(3)
"""
    process = run(code)
    assert process.communicate()[1] == ""
    assert process.returncode == 3


def test_an_exit_while_threads_use_the_database(run, tmp_path):
    """What takes long is interrupted; nobody gets in any more but the thread that ends the process."""
    code = """
import atexit, threading

@atexit.register  # before the store is imported: called after it closed the file
def last():
    with store.lease() as con:
        say(str(con.execute("SELECT count(*) FROM labels").fetchall()))

from loopscope.collector import Store
from loopscope.guard import StoreError

store = Store("traces.duckdb")
inside = threading.Barrier(3)

def query():
    with store.write() as con:
        con.execute("INSERT INTO labels VALUES ('half', 'polling', NULL, now()::TIMESTAMP)")
        inside.wait()
        con.execute("SELECT sum(i * j) FROM range(2000000) a(i), range(2000000) b(j)").fetchall()

def come_and_go():
    inside.wait()
    try:
        while True:
            with store.lease() as con:
                con.execute("SELECT count(*) FROM spans").fetchall()
    except StoreError as error:
        assert "is ending" in str(error)

for work in (query, come_and_go):
    threading.Thread(target=work, daemon=True).start()
inside.wait()
slow_to_free = [{} for _ in range(1_000_000)]
sys.exit(3)
"""
    process = run(code)
    said, errors = process.communicate()
    assert "terminate" not in errors
    assert "InterruptException" in errors  # of the thread with the long query
    assert said == "[(0,)]\n"
    assert process.returncode == 3


def test_an_agent_does_not_fold_while_another_process_is_elected(run, tmp_path):
    """A server that folds: the agent waits for it, and leaves as soon as it is done."""
    from loopscope.collector import Folder

    db = tmp_path / "traces.duckdb"
    folder = Folder(Store(db), role="server")
    assert folder.elect()
    process = run(WITH_PROCESSOR + RUN + "provider.force_flush(); say('flushed')")
    assert process.stdout.readline() == "flushed\n"
    assert not db.exists()
    while process.poll() is None:
        if folder.spool.pending():
            folder.try_fold()
    assert finished(process) == ""
    folder.retire()
    assert recorded(db) == names(8)


def test_many_agents_and_a_reader_on_one_file(run, tmp_path):
    db = tmp_path / "traces.duckdb"
    agents = [run(WITH_PROCESSOR + f"calls(tracer, 50, {50 * n})") for n in range(4)]
    store, seen = Store(db), 0
    while any(agent.poll() is None for agent in agents):
        with store.lease() as con:
            ((count,),) = con.execute("SELECT count(*) FROM tool_calls").fetchall()
        assert count >= seen
        seen = count
    for agent in agents:
        finished(agent)
    fold(store)
    assert recorded(db) == names(200)


def test_what_an_import_costs():
    """The processor brings neither DuckDB nor a web server into an agent before they are needed."""
    code = (
        "import sys, json; from loopscope.collector import DuckDBSpanProcessor, instrument;"
        "heavy = ('duckdb', 'pyarrow', 'starlette', 'uvicorn', 'streamlit');"
        "print(json.dumps([name for name in heavy if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == []
