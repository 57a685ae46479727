"""What the processor writes is what the SDK's own OTLP encoder would write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from span_tools import Collecting, provider

from loopscope.collector import decode_traces
from loopscope.collector._sdk_encode import encode_request, encode_span

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
_scalars = st.one_of(
    _text,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
)
_values = st.one_of(_scalars, st.lists(_text, max_size=4), st.lists(st.integers(-5, 5), max_size=4))
_attributes = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1), _values, max_size=6
)


def encoded(*spans: ReadableSpan) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(encode_request([(span, encode_span(span)) for span in spans]))


def _record(draw: st.DrawFn) -> list[ReadableSpan]:
    collecting = Collecting()
    limits = SpanLimits(max_span_attributes=draw(st.sampled_from([2, 1000])), max_events=2, max_links=2)
    made = provider(collecting, resource=Resource(draw(_attributes)), span_limits=limits)
    for _ in range(draw(st.integers(1, 3))):
        tracer = made.get_tracer(draw(st.sampled_from(["a", "b"])), draw(st.sampled_from(["", "1.2"])))
        remote = SpanContext(1 << 100 | 7, 9, True, TraceFlags(1), TraceState([("k", "v")]))
        links = [Link(remote, draw(_attributes)) for _ in range(draw(st.integers(0, 3)))]
        with tracer.start_as_current_span(
            draw(_text), kind=draw(st.sampled_from(list(SpanKind))), attributes=draw(_attributes), links=links
        ) as span:
            for _ in range(draw(st.integers(0, 3))):
                span.add_event(draw(_text), draw(_attributes))
            if draw(st.booleans()):
                span.set_status(StatusCode.ERROR, draw(_text))
            with tracer.start_as_current_span("child"):
                pass
    return collecting.spans


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_equals_the_encoder_of_the_sdk(data):
    spans = _record(data.draw)
    assert encoded(*spans) == encode_spans(spans)


def test_structured_values_equal_too():
    span = _span(
        {"m": {"a": [1, "x", {"b": None}], "c": b"\0\1"}, "n": -1, "t": (True, False), "e": {}, "l": []}
    )
    assert encoded(span) == encode_spans([span])


def test_spans_of_one_resource_and_scope_share_them():
    scope = InstrumentationScope("s", "1", "https://example.invalid/schema", {"k": "v"})
    resource = Resource({"service.name": "x"}, "https://example.invalid/resource")
    spans = [_span({"n": n}, resource=resource, instrumentation_scope=scope) for n in range(3)]
    request = encoded(*spans)
    assert request == encode_spans(spans)
    assert len(request.resource_spans) == 1
    assert len(request.resource_spans[0].scope_spans[0].spans) == 3


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("half \ud83d", "half �"),
        ("pair \ud83d\ude00", "pair \U0001f600"),
    ],
)
def test_surrogates_cost_no_text(text, kept):
    (record,) = decode_traces(encoded(_span({"plain": text, "list": [text]}, name=text)).SerializeToString())
    assert record.attributes == {"plain": kept, "list": [kept]}
    assert record.name == kept


def test_values_that_otlp_cannot_carry_become_text():
    (record,) = decode_traces(encoded(_span({"big": 2**70, "odd": {1}})).SerializeToString())
    assert record.attributes == {"big": str(2**70), "odd": "{1}"}


def test_deep_values_stay_readable():
    deep: object = "end"
    for _ in range(80):
        deep = [deep]
    (record,) = decode_traces(encoded(_span({"deep": deep})).SerializeToString())
    assert "end" in str(record.attributes["deep"])


def test_the_record_of_a_running_span_has_no_end():
    span = _span({"late": 1}, end_time=20, status=Status(StatusCode.ERROR, "x"))
    body = encode_span(span, {"early": 1})
    (record,) = decode_traces(encode_request([(span, body)]))
    assert (record.end_ns, record.status_code, record.attributes) == (None, 0, {"early": 1})
    assert record.start_ns == 10


def _span(attributes, *, name="span", end_time=20, **options) -> ReadableSpan:
    context = SpanContext(0xA1, 0xB2, False, TraceFlags(1))
    options.setdefault("resource", Resource({}))
    return ReadableSpan(name, context, attributes=attributes, start_time=10, end_time=end_time, **options)
