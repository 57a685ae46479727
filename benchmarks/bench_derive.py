"""How fast are spans decoded and derived?

    python benchmarks/bench_derive.py [--seconds 3]

Two workloads: traces of tool spans of about 1.3 kB, and a half-and-half mix with LLM requests
whose histories grow to about 27 kB on average. Baseline in the same run: protobuf's own parser
over the same bytes, which is the least any reader of OTLP has to do.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from loopscope.collector._derive import derive_trace
from loopscope.collector._otlp import decode_traces

START = 1_760_000_000_000_000_000
CALLS = 40  # tool calls in a trace


def _set(span: Span, **attributes: object) -> None:
    for key, value in attributes.items():
        item = span.attributes.add()
        item.key = key.replace("__", ".")
        if isinstance(value, int):
            item.value.int_value = value
        else:
            item.value.string_value = str(value)


def _span(spans, trace: bytes, number: int, parent: bytes, name: str) -> Span:
    span = spans.add()
    span.trace_id, span.parent_span_id, span.name = trace, parent, name
    span.span_id = number.to_bytes(8, "big")
    span.start_time_unix_nano = START + number * 1_000_000
    span.end_time_unix_nano = span.start_time_unix_nano + 500_000
    return span


def trace(seed: int, *, requests: bool, result_bytes: int = 850, text_bytes: int = 1_100) -> bytes:
    """One trace: an agent, its tool calls, and (with `requests`) the LLM requests between them."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    _set(resource_spans.resource, service__name="bench")  # type: ignore[arg-type]
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "opentelemetry.util.genai.handler"
    trace_id = (seed + 1).to_bytes(16, "big")
    root = _span(scope_spans.spans, trace_id, 1, b"", "invoke_agent support")
    _set(root, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="support")
    root.end_time_unix_nano = START + 10**12
    history = [{"role": "user", "parts": [{"type": "text", "content": "find the refund policy " * 10}]}]
    for number in range(CALLS):
        call_id, arguments = f"call_{seed}_{number}", {"query": f"refund policy {number % 7}", "limit": 10}
        part = {"type": "tool_call", "id": call_id, "name": "search_docs", "arguments": arguments}
        if requests:
            chat = _span(scope_spans.spans, trace_id, 2 * number + 2, root.span_id, "chat m")
            _set(
                chat,
                gen_ai__operation__name="chat",
                gen_ai__provider__name="openai",
                gen_ai__request__model="gpt-4o-mini",
                gen_ai__usage__input_tokens=1000 + number,
                gen_ai__usage__output_tokens=20,
                gen_ai__input__messages=json.dumps(history),
                gen_ai__output__messages=json.dumps([{"role": "assistant", "parts": [part]}]),
            )
        call = _span(scope_spans.spans, trace_id, 2 * number + 3, root.span_id, "execute_tool search_docs")
        result = f"result {number % 7} " + "x" * result_bytes
        _set(
            call,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name="search_docs",
            gen_ai__tool__type="function",
            gen_ai__tool__call__id=call_id,
            gen_ai__agent__name="support",
            gen_ai__tool__call__arguments=json.dumps(arguments),
            gen_ai__tool__call__result=result,
        )
        history.append({"role": "assistant", "parts": [part]})
        answer = {"type": "tool_call_response", "id": call_id, "response": "y" * text_bytes}
        history.append({"role": "tool", "parts": [answer]})
    return request.SerializeToString()


def _rate(payloads: list[bytes], run: Callable[[bytes], object], seconds: float) -> float:
    """Payloads a second of CPU time, the best of three rounds."""
    best = 0.0
    for _ in range(3):
        done, start = 0, time.process_time()
        while (passed := time.process_time() - start) < seconds / 3:
            run(payloads[done % len(payloads)])
            done += 1
        best = max(best, done / passed)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="per measurement")
    seconds = parser.parse_args().seconds
    print(f"{'workload':<14}{'step':<22}{'spans/s':>10}{'MB/s':>8}{'µs/span':>9}{'x baseline time':>17}")
    for name, requests in (("tool spans", False), ("half LLM", True)):
        payloads = [trace(seed, requests=requests) for seed in range(20)]
        spans = len(decode_traces(payloads[0]))
        size = sum(map(len, payloads)) / len(payloads)
        steps: list[tuple[str, Callable[[bytes], object]]] = [
            ("protobuf parser alone", ExportTraceServiceRequest.FromString),
            ("decode_traces", decode_traces),
            ("decode + derive", lambda data: derive_trace(decode_traces(data))),
        ]
        baseline = 0.0
        for step, run in steps:
            rate = _rate(payloads, run, seconds)
            baseline = baseline or rate
            print(
                f"{name:<14}{step:<22}{rate * spans:>10,.0f}{rate * size / 1e6:>8.1f}"
                f"{1e6 / rate / spans:>9.1f}{baseline / rate:>17.1f}"
            )
        print(f"{name:<14}{size / spans:,.0f} bytes a span, {spans} spans a trace\n")


if __name__ == "__main__":
    main()
