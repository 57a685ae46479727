"""DuckDBSpanProcessor: what reaches the spool, when, and what happens when the disk does not play along."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from span_tools import call, dropped, provider, spooled

from loopscope.collector import DuckDBSpanProcessor, Spool
from loopscope.guard import SpoolError

# Nothing is written before it is asked for: no test waits for a clock.
LAZY = {"first_delay": 3600.0, "delay": 3600.0}


@pytest.fixture
def db(tmp_path):
    return tmp_path / "traces.duckdb"


@pytest.fixture(autouse=True)
def _no_folding(monkeypatch):
    """Segments stay in the spool to be looked at."""
    monkeypatch.setattr("loopscope.collector._agent_fold.AgentFold._fold", lambda *_, **__: None)
    monkeypatch.setattr("loopscope.collector._agent_fold.AgentFold.finish", lambda *_: 0)


@pytest.fixture
def attach(db):
    """Makes a provider with a processor on `db`; ends its threads after the test."""
    made = []

    def start(**options):
        processor = DuckDBSpanProcessor(db, **(LAZY | options))
        made.append(processor)
        return processor, provider(processor).get_tracer("test")

    yield start
    for processor in made:
        processor.shutdown()


class Disk:
    """Stands between processor and spool: refuses, or makes it wait."""

    def __init__(self, monkeypatch) -> None:
        self.broken = False
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Event()
        write = Spool.write

        def guarded(spool, payloads, **options):
            self.reached.set()
            self.open.wait()
            if self.broken:
                raise SpoolError("the disk is full")
            return write(spool, payloads, **options)

        monkeypatch.setattr(Spool, "write", guarded)


@pytest.fixture
def disk(monkeypatch):
    found = Disk(monkeypatch)
    yield found
    found.broken = False
    found.open.set()


def test_a_flush_returns_when_the_spans_are_in_the_spool(attach, db):
    processor, tracer = attach()
    for number in range(8):
        call(tracer, number)
    assert spooled(db) == []
    assert processor.force_flush() is True
    spans = spooled(db)
    assert [span.attributes["gen_ai.tool.call.id"] for span in spans] == [f"call_{n}" for n in range(8)]
    assert {span.attributes["gen_ai.tool.call.arguments"] for span in spans} == {'{"query": "refund policy"}'}
    assert all(span.end_ns for span in spans)


def test_spans_are_written_without_a_flush(attach, db):
    _, tracer = attach(first_delay=0.0)
    call(tracer)
    _until(lambda: len(spooled(db)) == 1)


def test_a_full_batch_is_written_without_waiting_for_the_delay(attach, db):
    _, tracer = attach(batch_size=4)
    call(tracer)
    for _ in range(8):
        call(tracer)
    _until(lambda: spooled(db) != [])


def test_flushing_nothing_is_done_at_once(attach, db):
    processor, tracer = attach()
    assert processor.force_flush() is True
    call(tracer)
    assert processor.force_flush() is True
    assert processor.force_flush() is True
    assert len(Spool(db).pending()) == 1


def test_spans_that_are_not_sampled_are_left_out(db):
    processor = DuckDBSpanProcessor(db, **LAZY)
    call(provider(processor, sampler=ALWAYS_OFF).get_tracer("test"))
    processor.shutdown()
    assert spooled(db) == []


def test_every_thread_s_spans_arrive_once(attach, db):
    processor, tracer = attach(batch_size=16)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: call(tracer, n), range(400)))
    assert processor.force_flush() is True
    assert sorted(int(span.attributes["gen_ai.tool.call.id"][5:]) for span in spooled(db)) == list(range(400))
    assert dropped(db) == 0


def test_large_spans_are_split_over_segments(attach, db):
    processor, tracer = attach()
    for number in range(5):
        call(tracer, number, result="x" * (4 << 20))
    assert processor.force_flush() is True
    assert len(spooled(db)) == 5
    assert len(Spool(db).pending()) == 3


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"},
        {"openinference.span.kind": "AGENT"},
        {"traceloop.span.kind": "agent"},
        {"traceloop.span.kind": "workflow"},
    ],
)
@pytest.mark.parametrize("at_start", [True, False])
def test_an_agent_s_start_is_written_while_it_runs(attach, db, attributes, at_start):
    processor, tracer = attach()
    with tracer.start_as_current_span("agent", attributes=attributes if at_start else None) as agent:
        if not at_start:
            agent.set_attributes(attributes)  # as decorators do
        call(tracer)
        assert processor.force_flush() is True
        start, tool = spooled(db)
        assert (start.name, start.end_ns, start.attributes) == ("agent", None, attributes)
        assert tool.parent_span_id == start.span_id
        agent.set_attribute("later", 1)
    assert processor.force_flush() is True
    end = spooled(db)[-1]
    assert (end.span_id, end.attributes["later"]) == (start.span_id, 1)
    assert end.end_ns is not None


def test_the_start_of_an_agent_wakes_the_writer(attach, db):
    _, tracer = attach(first_delay=0.0)
    with tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        _until(lambda: [span.end_ns for span in spooled(db)] == [None])


def test_starts_of_other_spans_are_not_written(attach, db):
    processor, tracer = attach()
    with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
        assert processor.force_flush() is True
        assert spooled(db) == []


# -- loss and trouble -----------------------------------------------------------------------------


def _fill_while_the_disk_is_slow(disk, tracer, count: int) -> None:
    """One span is on its way to the disk, `count` more end meanwhile."""
    disk.open.clear()
    call(tracer, 0)
    disk.reached.wait()
    for number in range(1, count + 1):
        call(tracer, number)


def test_what_the_queue_cannot_hold_is_counted_and_said_once(attach, db, disk, caplog):
    processor, tracer = attach(max_queue_size=4, batch_size=1)
    _fill_while_the_disk_is_slow(disk, tracer, 10)
    assert caplog.text.count("new ones are dropped") == 1
    disk.open.set()
    assert processor.force_flush() is True
    assert [span.attributes["gen_ai.tool.call.id"] for span in spooled(db)] == [f"call_{n}" for n in range(5)]
    assert dropped(db) == 6
    assert caplog.text.count("6 spans were dropped") == 1
    call(tracer, 11)
    assert processor.force_flush() is True
    assert (len(spooled(db)), dropped(db)) == (6, 6)


def test_a_loss_that_nothing_follows_is_still_written(attach, db, disk, monkeypatch):
    processor, tracer = attach(max_queue_size=2, batch_size=1)
    _fill_while_the_disk_is_slow(disk, tracer, 2)
    sink = processor._sink
    write, late = sink.write, iter([5])

    def lossy(*args, **options):  # while the last segment is written, more is lost
        processor._drop(next(late, 0))
        return write(*args, **options)

    monkeypatch.setattr(sink, "write", lossy)
    disk.open.set()
    processor.shutdown()
    assert (len(spooled(db)), dropped(db)) == (3, 5)


def test_a_flush_that_takes_too_long_is_false_and_loses_nothing(attach, db, disk):
    processor, tracer = attach()
    disk.open.clear()
    call(tracer)
    assert processor.force_flush(timeout_millis=1) is False
    disk.open.set()
    assert processor.force_flush() is True
    assert len(spooled(db)) == 1


def test_a_disk_that_refuses_makes_flush_false_and_is_tried_again(attach, db, disk, caplog):
    processor, tracer = attach()
    disk.broken = True
    call(tracer, 0)
    assert processor.force_flush() is False
    call(tracer, 1)
    assert processor.force_flush() is False
    assert caplog.text.count("the disk is full") == 1
    disk.broken = False
    assert processor.force_flush() is True
    assert [span.attributes["gen_ai.tool.call.id"] for span in spooled(db)] == ["call_0", "call_1"]
    assert "written again" in caplog.text


def test_a_disk_that_stays_broken_neither_raises_nor_hangs_at_the_end(attach, db, disk, caplog):
    processor, tracer = attach()
    disk.broken = True
    call(tracer)
    processor.shutdown(timeout_millis=2000)
    assert "1 spans could not be written" in caplog.text


def test_nothing_is_raised_after_shutdown(attach, db, caplog):
    processor, tracer = attach()
    call(tracer)
    processor.shutdown()
    processor.shutdown()
    call(tracer)
    call(tracer)
    assert len(spooled(db)) == 1
    assert caplog.text.count("after shutdown") == 1


def test_a_span_that_cannot_be_encoded_costs_only_itself(attach, db, caplog):
    processor, tracer = attach()
    call(tracer, 0)
    with tracer.start_as_current_span("broken") as span:
        span._start_time = -1
    call(tracer, 1)
    assert processor.force_flush() is True
    assert [span.name for span in spooled(db)] == ["execute_tool search_docs"] * 2
    assert dropped(db) == 1
    assert "'broken' cannot be encoded" in caplog.text


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path):
    with pytest.raises(SpoolError, match="no folder"):
        DuckDBSpanProcessor(tmp_path / "absent" / "traces.duckdb")


@pytest.mark.parametrize("options", [{"max_queue_size": 0}, {"batch_size": 0}, {"delay": -1.0}])
def test_impossible_settings_are_refused(db, options):
    with pytest.raises(ValueError, match="must"):
        DuckDBSpanProcessor(db, **options)


# -- content --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "variable", "kept"), [(False, "true", False), (None, "false", False), (True, "false", True)]
)
def test_content_is_left_out_before_anything_is_written(attach, db, monkeypatch, argument, variable, kept):
    monkeypatch.setenv("LOOPSCOPE_CAPTURE_CONTENT", variable)
    processor, tracer = attach(capture_content=argument)
    call(tracer, query="a secret question", result="a secret answer")
    assert processor.force_flush() is True
    (path,) = Spool(db).pending()
    assert (b"secret" in path.read_bytes()) is kept
    (span,) = spooled(db)
    assert ("loopscope.redacted" in span.attributes) is not kept
    assert span.attributes["gen_ai.tool.name"] == "search_docs"


def test_lost_attributes_are_pointed_out_once(db, caplog):
    processor = DuckDBSpanProcessor(db, **LAZY)
    tracer = provider(processor, span_limits=SpanLimits(max_span_attributes=3)).get_tracer("test")
    call(tracer)
    call(tracer)
    processor.shutdown()
    assert caplog.text.count("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000") == 1
    assert [span.dropped_attributes for span in spooled(db)] == [2, 2]


def _until(condition) -> None:
    """Wait for what another thread does; the runner's own limit ends a test that waits in vain."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.005)
