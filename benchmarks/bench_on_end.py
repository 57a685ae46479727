"""What recording costs an agent: `on_end` on its thread, and CPU of its whole process.

Baselines in the same run: the SDK's BatchSpanProcessor with an exporter that does nothing (for the
thread), and with the OTLP/HTTP exporter to a server that does nothing (for the process).

    python benchmarks/bench_on_end.py [--spans 20000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from loopscope.collector import DuckDBSpanProcessor, Folder, Spool, Store

SINK = """
import http.server
class Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
print(server.server_port, flush=True)
server.serve_forever()
"""
CALLS = 40  # of one run
ROOMY = 1 << 20  # no span is dropped


class Nothing(SpanExporter):
    """Exports to nowhere."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Collecting(SpanProcessor):
    """Keeps the spans."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class Served(DuckDBSpanProcessor):
    """Beside a server that folds later: what an agent pays when a server does the folding."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, max_queue_size=ROOMY)
        self._server = Folder(Store(path), role="server")
        self._server.elect()

    def shutdown(self, timeout_millis: int = 0) -> None:
        self.force_flush()
        self._folds.finish(0.0)  # no waiting for a server that will not fold


def tool_call(tracer, number: int) -> None:
    """A span of about 1.3 kB with ten attributes."""
    with tracer.start_as_current_span("execute_tool search_docs") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "search_docs")
        span.set_attribute("gen_ai.tool.type", "function")
        span.set_attribute("gen_ai.tool.call.id", f"call_{number:024}")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"query": f"refund policy {number}" * 4}))
        span.set_attribute("gen_ai.tool.call.result", "No documents found. " * 40)
        span.set_attribute("gen_ai.agent.name", "support")
        span.set_attribute("gen_ai.agent.id", "a-1")
        span.set_attribute("gen_ai.conversation.id", "c-1")
        span.set_attribute("gen_ai.usage.input_tokens", number)


def tracer_of(processor: SpanProcessor):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider.get_tracer("bench")


# -- the agent's thread ---------------------------------------------------------------------------


def on_the_thread(count: int, rounds: int, folder: Path) -> None:
    collecting = Collecting()
    tracer = tracer_of(collecting)
    for number in range(count):
        tool_call(tracer, number)
    print(f"on_end on the agent's thread, µs (medians of {rounds} rounds)")
    for label, spans, pause in [
        ("back to back", collecting.spans, 0.0),
        ("one every ms", collecting.spans[:1000], 0.001),
    ]:
        batch, ours = [], []
        for number in range(rounds):
            batch.append(measure(BatchSpanProcessor(Nothing(), max_queue_size=ROOMY), spans, pause))
            ours.append(measure(Served(folder / f"{label} {number}.duckdb"), spans, pause))
        theirs, own = medians(batch), medians(ours)
        show(f"{label}: BatchSpanProcessor, no-op exporter", theirs)
        show(f"{label}: DuckDBSpanProcessor", own)
        show(f"{label}: ratio", [a / b for a, b in zip(own, theirs, strict=True)])


def measure(processor: SpanProcessor, spans: list[ReadableSpan], pause: float) -> list[float]:
    """Mean, median and 99th percentile of `on_end`, with `pause` seconds of rest between two."""
    clock = time.perf_counter
    taken = []
    for span in spans:
        start = clock()
        processor.on_end(span)
        taken.append((clock() - start) * 1e6)
        if pause:
            time.sleep(pause)
    processor.shutdown()
    taken.sort()
    return [statistics.fmean(taken), taken[len(taken) // 2], taken[len(taken) * 99 // 100]]


def medians(rows: list[list[float]]) -> list[float]:
    return [statistics.median(values) for values in zip(*rows, strict=True)]


def show(label: str, values: list[float]) -> None:
    mean, p50, p99 = values
    print(f"  {label:50} mean {mean:6.2f}  p50 {p50:6.2f}  p99 {p99:6.2f}")


# -- the process ----------------------------------------------------------------------------------


def of_the_process(count: int, rounds: int, folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True) as sink:
        assert sink.stdout is not None
        endpoint = f"http://127.0.0.1:{int(sink.stdout.readline())}/v1/traces"

        def otlp(_: int) -> SpanProcessor:
            return BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint), max_queue_size=ROOMY)

        def served(number: int) -> SpanProcessor:
            return Served(folder / f"served {number}.duckdb")

        def alone(number: int) -> SpanProcessor:
            return DuckDBSpanProcessor(folder / f"alone {number}.duckdb", max_queue_size=ROOMY)

        arms: dict[str, Callable[[int], SpanProcessor]] = {
            "no processor": lambda _: SpanProcessor(),
            "BatchSpanProcessor, OTLP/HTTP exporter": otlp,
            "DuckDBSpanProcessor, a server folds": served,
            "DuckDBSpanProcessor, folds itself": alone,
        }
        found = {name: medians([cpu(make(n), count) for n in range(rounds)]) for name, make in arms.items()}
        sink.terminate()
    print(f"CPU of the agent's process, µs a span, making the span included (median of {rounds} rounds)")
    nothing = found["no processor"][0]
    otlp_cost = found["BatchSpanProcessor, OTLP/HTTP exporter"][0] - nothing
    for name, (own, child) in found.items():
        print(
            f"  {name:50} {own:6.1f}  {(own - nothing) / otlp_cost:5.2f} of the OTLP exporter's"
            + (f"; {child:.1f} more in the process that folds" if child else "")
        )
    size = sum(path.stat().st_size for path in Spool(folder / "served 0.duckdb").pending())
    print(f"bytes a span in the spool: {size / count:.0f}")


def cpu(processor: SpanProcessor, count: int) -> list[float]:
    """CPU microseconds a span, of this process and of those it started.

    A flush every 1,000 spans, so that no exporter may skip work by dropping.
    """
    tracer = tracer_of(processor)
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    start = time.process_time()
    for first in range(0, count, CALLS):
        with tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
            for number in range(first, first + CALLS):
                tool_call(tracer, number)
        if first % 1000 < CALLS:
            processor.force_flush()
    processor.force_flush()
    processor.shutdown()
    own = time.process_time() - start
    children = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
    return [own / count * 1e6, children / count * 1e6]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--spans", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    logging.getLogger("loopscope").setLevel(logging.ERROR)  # segments that stay behind are meant to
    with tempfile.TemporaryDirectory() as folder:
        on_the_thread(arguments.spans, arguments.rounds, Path(folder))
        of_the_process(arguments.spans, arguments.rounds, Path(folder))


if __name__ == "__main__":
    main()
