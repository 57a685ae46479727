"""Helpers of the tests around spans: a provider that collects, and what a spool holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from loopscope.collector import SpanRecord, Spool, decode_logs, decode_traces, read_segment


class Collecting(SpanProcessor):
    """Keeps ended spans."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def provider(*processors: SpanProcessor, **options: Any) -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False, **options)
    for processor in processors:
        made.add_span_processor(processor)
    return made


def call(
    tracer, number: int = 0, *, query: str = "refund policy", result: str = "No documents found"
) -> None:
    """One recorded tool call in the OTel GenAI dialect."""
    with tracer.start_as_current_span("execute_tool search_docs") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "search_docs")
        span.set_attribute("gen_ai.tool.call.id", f"call_{number}")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"query": query}))
        span.set_attribute("gen_ai.tool.call.result", result)


def spooled(db: Path) -> list[SpanRecord]:
    """All spans that wait in the spool, in the order of writing."""
    return [
        span
        for path in Spool(db).pending()
        for signal, payload in read_segment(path).payloads
        if signal == "traces"
        for span in decode_traces(payload)
    ]


def spooled_logs(db: Path) -> list[Any]:
    return [
        record
        for path in Spool(db).pending()
        for signal, payload in read_segment(path).payloads
        if signal == "logs"
        for record in decode_logs(payload)
    ]


def dropped(db: Path) -> int:
    """The lost spans that the segments report."""
    return sum(read_segment(path).meta.get("dropped_spans", 0) for path in Spool(db).pending())
