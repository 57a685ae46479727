"""When an agent folds its own spans, and when it leaves that to others."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time

import duckdb
import pytest
from span_tools import call, provider, spooled

from loopscope.collector import DuckDBSpanProcessor, Folder, Spool, Store
from loopscope.collector._agent_fold import AgentFold

LAZY = {"first_delay": 3600.0, "delay": 3600.0}


@pytest.fixture
def db(tmp_path):
    return tmp_path / "traces.duckdb"


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch):
    """A child may take as long to start as a busy machine lets it."""
    monkeypatch.setattr("loopscope.collector._agent_child._START_SECONDS", 600.0)


@pytest.fixture
def processor(db):
    made = DuckDBSpanProcessor(db, **LAZY)
    yield made
    made.shutdown()


def recorded(db) -> int:
    if not db.exists():
        return 0
    with Store(db).lease() as con:
        return con.execute("SELECT count(*) FROM tool_calls").fetchall()[0][0]


def _until(condition) -> None:
    pause = threading.Event()
    while not condition():
        pause.wait(0.005)


def segment(db):
    """One span in the spool, written by somebody."""
    before = set(Spool(db).pending())
    writer = DuckDBSpanProcessor(db, **LAZY)
    writer._folds.wrote = lambda _: None  # and left to somebody else
    call(provider(writer).get_tracer("test"))
    assert writer.force_flush()
    writer._stop = True
    writer._wake.set()
    (path,) = set(Spool(db).pending()) - before
    return path


def test_a_flush_leaves_few_and_young_spans_to_others(db, processor, monkeypatch):
    folds: list[float] = []
    monkeypatch.setattr(processor._folds, "_fold", lambda seconds, **_: folds.append(seconds))
    call(provider(processor).get_tracer("test"))
    assert processor.force_flush()
    processor._folds._look()
    assert len(spooled(db)) == 1
    assert folds == []


def test_when_there_is_much(db, monkeypatch):
    monkeypatch.setattr("loopscope.collector._agent_fold._LARGE_BACKLOG", 1)
    processor = DuckDBSpanProcessor(db, **LAZY)
    call(provider(processor).get_tracer("test"))
    assert processor.force_flush()
    _until(lambda: spooled(db) == [])
    assert recorded(db) == 1
    processor.shutdown()


def test_not_in_the_process_of_the_agent(tmp_path):
    """It never loads DuckDB, which takes 0.2 s and 60 MB, and never holds the file."""
    code = """
        import sys
        from opentelemetry.sdk.trace import TracerProvider
        from loopscope.collector import DuckDBSpanProcessor
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(DuckDBSpanProcessor(sys.argv[1]))
        with provider.get_tracer("test").start_as_current_span("execute_tool search") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "search")
        provider.shutdown()
        assert "duckdb" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "t.duckdb")], check=True)
    assert recorded(tmp_path / "t.duckdb") == 1


def test_the_process_that_folds_brings_no_pandas(db):
    """pyarrow would import it, where it is installed, at the first array."""
    segment(db)
    code = """
        import sys, time
        from loopscope.collector._agent_child import main
        main(sys.argv[1], time.monotonic() + 60.0, settle=True)
        assert "pyarrow" in sys.modules and "duckdb" in sys.modules
        assert "pandas" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(db)], check=True)
    assert recorded(db) == 1


@pytest.mark.parametrize("few", [0, 1 << 20])
def test_a_child_says_what_holds_the_file(db, caplog, monkeypatch, few):
    monkeypatch.setattr("loopscope.collector._agent_fold._FEW_BYTES", few)
    with Store(db).lease():
        pass
    folds = AgentFold(db)
    folds.wrote(segment(db))
    with duckdb.connect(str(db), read_only=True):
        assert folds.finish(0.1) == 1
    assert "is held by" in caplog.text
    monkeypatch.undo()
    assert folds.finish(30.0) == 0


@pytest.mark.parametrize("executable", ["", "/usr/sbin/httpd", "/nowhere/python3"])
def test_in_the_process_of_the_agent_where_there_is_no_other_way(db, monkeypatch, executable):
    monkeypatch.setattr("loopscope.collector._agent_fold._FEW_BYTES", 0)
    monkeypatch.setattr("sys.executable", executable)
    folds = AgentFold(db)
    folds.wrote(segment(db))
    assert folds.finish(30.0) == 0
    assert folds._folder is not None
    assert recorded(db) == 1


def test_in_a_child_where_there_is_much(db, monkeypatch):
    monkeypatch.setattr("loopscope.collector._agent_fold._FEW_BYTES", 0)
    folds = AgentFold(db)
    folds.wrote(segment(db))
    assert folds.finish(30.0) == 0
    assert folds._folder is None
    assert recorded(db) == 1


def test_a_child_that_dies_is_replaced_by_the_agent_itself(db, monkeypatch):
    monkeypatch.setattr("loopscope.collector._agent_fold._FEW_BYTES", 0)
    monkeypatch.setattr("loopscope.collector._agent_child.__name__", "loopscope.collector.no_such_module")
    folds = AgentFold(db)
    folds.wrote(segment(db))
    assert folds.finish(30.0) == 0
    assert recorded(db) == 1


def test_when_nobody_has_for_a_while(db, monkeypatch):
    monkeypatch.setattr("loopscope.collector._agent_fold.UNCLAIMED_AFTER", 0.0)
    processor = DuckDBSpanProcessor(db, first_delay=0.0)
    call(provider(processor).get_tracer("test"))
    _until(lambda: recorded(db) == 1)
    processor.shutdown()


def test_not_while_another_process_is_elected(db):
    server = Folder(Store(db), role="server")
    assert server.elect()
    folds = AgentFold(db)
    folds.wrote(segment(db))
    assert folds.finish(0.1) == 1
    server.try_fold()
    assert folds.finish(0.0) == 0
    assert recorded(db) == 1
    server.retire()


def test_at_the_end_it_takes_what_others_left_along(db):
    segment(db)
    folds = AgentFold(db)
    folds.wrote(segment(db))
    assert folds.finish(30.0) == 0
    assert recorded(db) == 2


def test_whatever_goes_wrong_stays_inside(db, monkeypatch, caplog):
    def broken(*_args, **_options):
        raise RuntimeError("no such luck")

    folds = AgentFold(db)
    folds.wrote(segment(db))
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", "")
        patch.setattr(Folder, "try_fold", broken)
        assert folds.finish(0.1) == 1
    assert "no such luck" in caplog.text
    assert folds.finish(30.0) == 0


def test_the_background_ends_with_finish(db):
    folds = AgentFold(db)
    folds.wrote(segment(db))
    thread = folds._thread
    folds.finish(30.0)
    assert not thread.is_alive()
    folds.wrote(segment(db))  # an exit handler that ran later ended a span
    assert folds._thread is thread
    assert folds.finish(30.0) == 0
    assert recorded(db) == 2


def test_an_idle_agent_looks_for_nothing(db, monkeypatch):
    """No polling without segments: the thread sleeps until it is woken."""
    folds = AgentFold(db)
    path = segment(db)
    folds.wrote(path)
    path.unlink()  # somebody folded it
    looks = []
    monkeypatch.setattr(folds, "_look", lambda: looks.append(time.monotonic()))
    _until(lambda: not folds._mine)
    assert looks == []
    folds.finish(0.0)
