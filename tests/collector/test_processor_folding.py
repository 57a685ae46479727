"""When an agent folds its own spans, and when it leaves that to others."""

from __future__ import annotations

import threading
import time

import duckdb
import pytest
from span_tools import call, provider, spooled

from loopscope.collector import DuckDBSpanProcessor, Folder, Spool, Store, fold
from loopscope.collector._agent_fold import AgentFold

LAZY = {"first_delay": 3600.0, "delay": 3600.0}


@pytest.fixture
def db(tmp_path):
    return tmp_path / "traces.duckdb"


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


def test_after_a_flush(db, processor):
    call(provider(processor).get_tracer("test"))
    assert processor.force_flush()
    _until(lambda: recorded(db) == 1)
    assert spooled(db) == []


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


def test_a_held_file_is_named_and_given_up_on(db, caplog):
    fold(Store(db))
    with Store(db).lease():
        pass
    folds = AgentFold(db)
    folds.wrote(segment(db))
    with duckdb.connect(str(db), read_only=True):  # another configuration: refused even inside of one process
        assert folds.finish(0.1) == 1
    assert "1 segment(s) stay" in caplog.text
    assert "is held by" in caplog.text
    assert folds.finish(30.0) == 0


def test_whatever_goes_wrong_stays_inside(db, monkeypatch, caplog):
    def broken(*_args, **_options):
        raise RuntimeError("no such luck")

    folds = AgentFold(db)
    folds.wrote(segment(db))
    with monkeypatch.context() as patch:
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
    folds.soon()
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
    folds.soon()
    _until(lambda: not folds._mine)
    assert looks == []
    folds.finish(0.0)
