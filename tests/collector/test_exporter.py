"""DuckDBSpanExporter and instrument()."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from span_tools import Collecting, call, dropped, provider, spooled

from loopscope.collector import DuckDBSpanExporter, DuckDBSpanProcessor, Spool, instrument
from loopscope.collector._instrument import long_run_limits
from loopscope.guard import LoopscopeError, SpoolError


@pytest.fixture
def db(tmp_path):
    return tmp_path / "traces.duckdb"


@pytest.fixture(autouse=True)
def _no_folding(monkeypatch):
    """Segments stay in the spool to be looked at."""
    monkeypatch.setattr("loopscope.collector._agent_fold.AgentFold._fold", lambda *_, **__: None)
    monkeypatch.setattr("loopscope.collector._agent_fold.AgentFold.finish", lambda *_: 0)


def spans(count: int = 1):
    collecting = Collecting()
    tracer = provider(collecting).get_tracer("test")
    for number in range(count):
        call(tracer, number)
    return collecting.spans


def test_a_batch_is_in_the_spool_when_export_returns(db):
    exporter = DuckDBSpanExporter(db)
    assert exporter.export(spans(3)) is SpanExportResult.SUCCESS
    assert [span.attributes["gen_ai.tool.call.id"] for span in spooled(db)] == ["call_0", "call_1", "call_2"]
    assert len(Spool(db).pending()) == 1
    assert exporter.force_flush() is True


@pytest.mark.parametrize("kind", [BatchSpanProcessor, SimpleSpanProcessor])
def test_under_a_processor_of_the_sdk(db, kind):
    made = provider(kind(DuckDBSpanExporter(db)))
    for number in range(5):
        call(made.get_tracer("test"), number)
    made.shutdown()
    assert len(spooled(db)) == 5


def test_large_batches_are_split(db):
    collecting = Collecting()
    tracer = provider(collecting).get_tracer("test")
    for number in range(5):
        call(tracer, number, result="x" * (4 << 20))
    assert DuckDBSpanExporter(db).export(collecting.spans) is SpanExportResult.SUCCESS
    assert (len(spooled(db)), len(Spool(db).pending())) == (5, 3)


def test_an_empty_batch_writes_nothing(db):
    assert DuckDBSpanExporter(db).export([]) is SpanExportResult.SUCCESS
    assert Spool(db).pending() == []


def test_failure_is_said_and_counted(db, monkeypatch, caplog):
    def full(*_args, **_options):
        raise SpoolError("the disk is full")

    exporter = DuckDBSpanExporter(db)
    with monkeypatch.context() as patch:
        patch.setattr(Spool, "write", full)
        assert exporter.export(spans(3)) is SpanExportResult.FAILURE
    assert "3 spans are lost: the disk is full" in caplog.text
    assert exporter.export(spans(1)) is SpanExportResult.SUCCESS
    assert (len(spooled(db)), dropped(db)) == (1, 3)
    assert exporter.export(spans(1)) is SpanExportResult.SUCCESS
    assert (len(spooled(db)), dropped(db)) == (2, 3)


def test_after_shutdown_a_batch_is_refused(db):
    exporter = DuckDBSpanExporter(db)
    exporter.shutdown()
    exporter.shutdown()
    assert exporter.export(spans(1)) is SpanExportResult.FAILURE
    assert spooled(db) == []


def test_where_the_path_comes_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPSCOPE_DB", "from_environment.duckdb")
    for argument, name in [(None, "from_environment.duckdb"), ("argument.duckdb", "argument.duckdb")]:
        DuckDBSpanExporter(argument).export(spans(1))
        assert len(spooled(tmp_path / name)) == 1
    monkeypatch.delenv("LOOPSCOPE_DB")
    DuckDBSpanExporter().export(spans(1))
    assert len(spooled(tmp_path / "traces.duckdb")) == 1


@pytest.mark.parametrize(
    ("argument", "variable", "kept"), [(False, "1", False), (None, "no", False), (None, "1", True)]
)
def test_content_is_left_out_before_anything_is_written(db, monkeypatch, argument, variable, kept):
    monkeypatch.setenv("LOOPSCOPE_CAPTURE_CONTENT", variable)
    DuckDBSpanExporter(db, capture_content=argument).export(spans(1))
    assert [b"refund policy" in path.read_bytes() for path in Spool(db).pending()] == [kept]


def test_the_entry_point_of_the_sdk():
    (found,) = entry_points(group="opentelemetry_traces_exporter", name="loopscope")
    assert found.load() is DuckDBSpanExporter
    assert issubclass(found.load(), SpanExporter)


# -- instrument -----------------------------------------------------------------------------------


@pytest.fixture
def global_provider(monkeypatch):
    """Sets the global provider for one test; None: as in a fresh process."""
    from opentelemetry.util._once import Once

    def use(found):
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", found)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())

    monkeypatch.setattr("loopscope.collector._instrument._attached", {})
    use(None)
    return use


def processors(made: TracerProvider) -> list:
    return [p for p in made._active_span_processor._span_processors if isinstance(p, DuckDBSpanProcessor)]


def test_it_sets_a_provider_where_there_is_none(db, global_provider):
    made = instrument(db, service_name="bot")
    assert trace.get_tracer_provider() is made
    assert made.resource.attributes["service.name"] == "bot"
    with trace.get_tracer("x").start_as_current_span("long") as span:
        for number in range(5000):
            span.set_attribute(f"llm.input_messages.{number}.message.content", "x" * 10)
        for _ in range(500):
            span.add_event("message")
    assert made.force_flush()
    (found,) = spooled(db)
    assert (len(found.attributes), found.dropped_attributes) == (5000, 0)
    assert (len(found.events), found.dropped_events) == (500, 0)
    made.shutdown()


def test_it_attaches_to_the_provider_of_the_application_once(db, global_provider):
    own = provider()
    global_provider(own)
    assert instrument(db) is own
    assert instrument(db) is own
    assert len(processors(own)) == 1
    instrument(db.with_name("other.duckdb"))
    assert len(processors(own)) == 2
    own.shutdown()


def test_twice_is_once_for_its_own_provider_too(db, global_provider):
    made = instrument(db)
    assert instrument(db) is made
    assert len(processors(made)) == 1
    made.shutdown()


def test_a_foreign_provider_is_refused_with_a_way_out(db, global_provider):
    class Foreign(trace.TracerProvider):
        def get_tracer(self, *args, **options):
            return trace.NoOpTracer()

    global_provider(Foreign())
    with pytest.raises(LoopscopeError, match="Foreign, which takes no span processors"):
        instrument(db)


def test_limits_that_the_environment_sets_are_kept(monkeypatch):
    assert (long_run_limits().max_span_attributes, long_run_limits().max_events) == (10_000, 10_000)
    assert long_run_limits().max_span_attribute_length is None
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "77")
    monkeypatch.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "5")
    assert (long_run_limits().max_span_attributes, long_run_limits().max_events) == (77, 5)
    assert long_run_limits().max_event_attributes == 10_000
    monkeypatch.delenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT")
    monkeypatch.setenv("OTEL_ATTRIBUTE_COUNT_LIMIT", "66")
    assert long_run_limits().max_span_attributes == long_run_limits().max_event_attributes == 66
