"""What every recorder shares: a tracer provider that collects spans, and the way they are written.

    recording = Recording("helpdesk_search_loop", service="helpdesk-bot", version="2.3.0")
    ... instrument the framework with recording.provider, run the agent ...
    recording.write()
"""

from __future__ import annotations

import base64
import random
import threading
import time
from collections.abc import Sequence
from typing import Any

from _writing import write_requests
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator

_ID_KEYS = {"traceId", "spanId", "parentSpanId"}


class SeededIds(IdGenerator):
    """Trace and span ids that are the same whenever the story is recorded again."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128) or 1

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64) or 1


class _Collector(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self._lock = threading.Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._lock:
            self.spans.extend(spans)
        return SpanExportResult.SUCCESS


class Recording:
    """One sample file in the making."""

    def __init__(self, name: str, *, service: str, version: str, attach: bool = True) -> None:
        self.name = name
        self._collector = _Collector()
        self._random = random.Random(name)
        self.processor = SimpleSpanProcessor(self._collector)
        # Long runs in a flattened dialect need more than the SDK's 128 attributes a span.
        self.provider = TracerProvider(
            resource=Resource.create({
                "service.name": service,
                "service.version": version,
                "deployment.environment.name": "production",
            }),
            id_generator=SeededIds(name),
            span_limits=SpanLimits(max_span_attributes=10_000),
        )
        if attach:  # some SDKs attach the processor themselves
            self.provider.add_span_processor(self.processor)

    def work(self, low: float = 0.03, high: float = 0.18) -> None:
        """What a tool calls to take a believable time."""
        time.sleep(self._random.uniform(low, high))

    def write(self) -> None:
        """Writes `<name>.jsonl`: one request per trace, in the order in which the traces began."""
        by_trace: dict[int, list[ReadableSpan]] = {}
        for span in self._collector.spans:
            by_trace.setdefault(span.context.trace_id, []).append(span)
        traces = sorted(by_trace.values(), key=lambda spans: min(s.start_time for s in spans))
        write_requests(
            self.name, [_hex_ids(MessageToDict(encode_spans(t), use_integers_for_enums=True)) for t in traces]
        )


def _hex_ids(value: Any) -> Any:
    """protobuf's JSON writes bytes in base64; OTLP/JSON wants trace and span ids in hex."""
    if isinstance(value, dict):
        return {
            k: base64.b64decode(v).hex() if k in _ID_KEYS and isinstance(v, str) else _hex_ids(v)
            for k, v in value.items()
        }
    return [_hex_ids(v) for v in value] if isinstance(value, list) else value
