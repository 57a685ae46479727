"""How fast the fold is, how long it holds the database, how many bytes a span takes.

    python benchmarks/bench_fold.py [--spans 40000] [--requests 1000] [--samples 75] [--child]
    python benchmarks/bench_fold.py --only tools --spans 1000000      # memory of a large backlog
    python benchmarks/bench_fold.py --only agents --spans 100000      # bytes on the disk; 1.3 GB of spool

Loads, each in a process of its own, which has its own peak memory: tool spans of about 1.3 kB, and small
folds into that database; those half and half (by bytes) with LLM requests of 27 kB, of growing histories;
agent traces of 41 spans with messages of 1.5 kB; the import of an Inspect log whose samples have results of
400 kB and repeat them in every request. The baseline, from the same run, is decoding the same segments and
doing nothing with them; for the import, json.loads of each sample. Ratios are of CPU time. Bytes in the
database, free blocks of the file included, stand beside those of the same spans as OTLP JSON, and by table.
With --child (Linux) the two processes of a server are told apart: the one that takes longer bounds what two
cores can do.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from _disk import disk_by_table
from _memory import peak_memory
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from loopscope.collector import Folder, Spool, Store, decode_traces, fold, import_paths, read_segment
from loopscope.collector._child import ChildBench
from loopscope.collector._lease import turnstile

WORDS = (
    "the",
    "agent",
    "read",
    "a",
    "page",
    "of",
    "results",
    "and",
    "asked",
    "for",
    "another",
    "one",
    "because",
)
START = 1_790_000_000_000_000_000


def words(chance: random.Random, size: int) -> str:
    """Text of about `size` characters that compresses as prose does."""
    out = []
    length = 0
    while length < size:
        word = chance.choice(WORDS) + (str(chance.randrange(10_000)) if chance.random() < 0.3 else "")
        out.append(word)
        length += len(word) + 1
    return " ".join(out)


class Writer:
    """Collects spans into requests of 512 and writes them to a spool, one segment each."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.chance = random.Random(1)
        self.spans = 0
        self.bytes = 0
        self.traces = 0
        self._begin()

    def _begin(self) -> None:
        self._waiting = 0
        self._request = ExportTraceServiceRequest()
        group = self._request.resource_spans.add()
        group.resource.attributes.append(KeyValue(key="service.name", value=AnyValue(string_value="bench")))
        self._scope = group.scope_spans.add()

    def span(
        self, trace: int, name: str, at_ns: int, attributes: dict[str, str | int], parent: bytes = b""
    ) -> bytes:
        span = self._scope.spans.add()
        span.trace_id = trace.to_bytes(16, "big")
        span.span_id = self.chance.randbytes(8)
        span.parent_span_id = parent
        span.name = name
        span.kind = 1
        span.start_time_unix_nano = START + at_ns
        span.end_time_unix_nano = START + at_ns + 50_000_000
        for key, value in attributes.items():
            any_value = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
            span.attributes.append(KeyValue(key=key, value=any_value))
        self.spans += 1
        self._waiting += sum(len(value) for value in attributes.values() if isinstance(value, str))
        if len(self._scope.spans) >= 512 or self._waiting > 8 << 20:
            self.flush()
        return span.span_id

    def flush(self) -> None:
        if self._scope.spans:
            data = self._request.SerializeToString()
            self.bytes += len(data)
            self.spool.write([("traces", data)])
            self._begin()

    def tool(self, trace: int, at_ns: int, parent: bytes = b"", size: int = 1_000) -> None:
        result = words(self.chance, size - 250)
        self.span(
            trace,
            "execute_tool search",
            at_ns,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": self.chance.choice(["search", "read_file", "fetch_url"]),
                "gen_ai.tool.call.id": self.chance.randbytes(12).hex(),
                "gen_ai.tool.call.arguments": json.dumps({"query": words(self.chance, 150), "limit": 10}),
                "gen_ai.tool.call.result": result,
                "gen_ai.agent.name": "researcher",
            },
            parent,
        )

    def request(self, trace: int, at_ns: int, history: list[str], parent: bytes = b"") -> None:
        self.span(
            trace,
            "chat m",
            at_ns,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "m",
                "gen_ai.usage.input_tokens": 1000,
                "gen_ai.input.messages": "[" + ", ".join(history[:-1]) + "]",
                "gen_ai.output.messages": "[" + history[-1] + "]",
            },
            parent,
        )

    def message(self, role: str, size: int) -> str:
        return json.dumps({"role": role, "parts": [{"type": "text", "content": words(self.chance, size)}]})


def tool_spans(writer: Writer, spans: int) -> None:
    for n in range(spans):
        writer.tool(n // 41, n * 1_000_000)
    writer.flush()


def mixed(writer: Writer, requests: int) -> None:
    """Conversations of 36 requests that grow from nothing to 54 kB, and as many bytes of tool spans."""
    trace = 0
    while requests > 0:
        trace += 1
        history = [writer.message("user", 1_400)]
        for turn in range(36):
            history.append(writer.message("assistant", 1_400))
            at = (trace * 1_000 + turn) * 1_000_000
            writer.request(trace, at, history)
            for _ in range(len(history) * 11 // 10):
                writer.tool(trace, at + 500_000)
            requests -= 1
            if requests <= 0:
                break
    writer.flush()


def agent_traces(writer: Writer, spans: int) -> None:
    """Traces of 41 spans: an agent, and 20 turns of a request and a tool call; messages of 1.5 kB."""
    for trace in range(1, spans // 41 + 1):
        at = trace * 100_000_000
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "researcher"}
        root = writer.span(trace, "invoke_agent researcher", at, agent)
        history = [writer.message("user", 1_400)]
        for turn in range(20):
            history.append(writer.message("assistant", 1_400))
            writer.request(trace, at + turn * 2_000_000, history, root)
            writer.tool(trace, at + turn * 2_000_000 + 1_000_000, root)
            history.append(writer.message("tool", 700))
    writer.flush()


class HoldMeter(Store):
    """A store that notes how long its leases last."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.holds: list[float] = []
        self._depth = 0

        self.turns = 0.0  # CPU seconds of opening and closing
        gate = turnstile(path)
        self._open, gate._close = self._counted(self._open), self._counted(gate._close)  # type: ignore[method-assign]

    def lease(self, **options):  # type: ignore[override]
        return self._timed(super().lease(**options))

    def _counted(self, method):
        def counted(*arguments):
            started = time.process_time()
            try:
                return method(*arguments)
            finally:
                self.turns += time.process_time() - started

        return counted

    def _timed(self, lease):
        @contextmanager
        def timed() -> Iterator[object]:
            outer = self._depth == 0
            self._depth += 1
            started = time.perf_counter()
            try:
                with lease as con:
                    yield con
            finally:
                self._depth -= 1
                if outer:
                    self.holds.append(time.perf_counter() - started)

        return timed()


def json_bytes(paths: list[Path], spans: int = 2_000) -> float:
    """Bytes a span of OTLP JSON, by the first spans."""
    size = seen = 0
    for path in paths:
        for _, payload in read_segment(path).payloads:
            request = ExportTraceServiceRequest.FromString(payload)
            seen += sum(len(s.spans) for r in request.resource_spans for s in r.scope_spans)
            size += len(MessageToJson(request, indent=None, ensure_ascii=False).encode())
        if seen >= spans:
            break
    return size / seen


def cpu_of(pid: int) -> float:
    """CPU seconds that a process took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report_holds(holds: list[float]) -> str:
    ordered = sorted(holds)
    pick = [ordered[int(len(ordered) * share)] * 1e3 for share in (0.5, 0.95)]
    return (
        f"holds: {len(ordered)}, p50 {pick[0]:.0f} ms, p95 {pick[1]:.0f} ms, max {ordered[-1] * 1e3:.0f} ms"
    )


def run(
    name: str, folder: Path, fill, amount: int, *, child: bool, profile: cProfile.Profile | None
) -> HoldMeter:
    store = HoldMeter(folder / f"{name}.duckdb")
    spool = Spool(store.path)
    writer = Writer(spool)
    fill(writer, amount)
    paths = spool.pending()
    as_json = json_bytes(paths)
    started = time.process_time()
    for path in paths:
        for _, payload in read_segment(path).payloads:
            decode_traces(payload)
    decoding = time.process_time() - started
    print_memory("before the fold")
    with store.lease():
        pass
    store.holds.clear()
    store.turns = 0.0
    started, cpu = time.perf_counter(), time.process_time()
    server = Folder(store, role="server")
    bench = server._child = ChildBench(store.path) if child else None
    before = 0.0
    if bench is not None:
        bench.reset()  # it is up when it answers: what starting takes is not the fold's
        before = cpu_of(bench.pid)
        started, cpu = time.perf_counter(), time.process_time()
    with profile or nullcontext():
        result = server.try_fold() if child else fold(store)
    assert result is not None
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    split = ""
    if bench is not None:
        childs = cpu_of(bench.pid) - before
        server.retire()
        longer = max(cpu, childs)
        each = [took / result.spans * 1e6 for took in (cpu, childs)]
        split = (
            f"  parent {each[0]:.1f} and child {each[1]:.1f} µs CPU a span:"
            f" on two cores of their own at most {result.spans / longer:,.0f} spans or"
            f" {writer.bytes / 1e6 / longer:.1f} MB a second\n"
        )
        cpu += childs
    turns, holds = store.turns, list(store.holds)
    size = os.path.getsize(store.path)
    megabytes = writer.bytes / 1e6
    print(
        f"{name}: {result.spans} spans, {megabytes:.1f} MB ({writer.bytes / writer.spans:.0f} B a span on the"
        f" wire), {result.calls} calls, {result.requests} requests"
    )
    print(
        f"  fold {seconds:.2f} s, {cpu:.2f} s CPU: {result.spans / cpu:,.0f} spans and"
        f" {megabytes / cpu:.1f} MB a CPU second, {cpu / result.spans * 1e6:.0f} µs a span;"
        f" {cpu / decoding:.1f} x decoding alone"
        f" ({decoding:.2f} s)"
    )
    print(split, end="")
    with store.lease() as con:
        free = con.execute("SELECT free_blocks * block_size FROM pragma_database_size()").fetchall()[0][0]
        by_table = disk_by_table(con, result.spans)
    print(f"  opening and closing the file {turns / result.spans * 1e6:.1f} µs a span")
    print(f"  {report_holds(holds)}")
    derived = result.calls + result.requests
    print(
        f"  {size / result.spans:.0f} B a span in the database, {free / result.spans:.0f} of them free;"
        f" {size / derived:.0f} a call or request, 1/{as_json * writer.spans / size:.1f} of the OTLP JSON"
    )
    print(f"  B a span by table (groups of rows): {by_table}")
    return store


def write_samples(path: Path, samples: int, size: int = 400_000) -> float:
    """An Inspect log: samples of three requests and two results; the CPU seconds json.loads takes."""
    chance = random.Random(3)
    pieces = [words(chance, 400) for _ in range(2_000)]

    def at(seconds: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(START // 10**9 + seconds))

    parsing = 0.0
    with path.open("w") as file:
        about = {"eval_id": "e", "task": "bench", "model": "openai/m", "created": at(0)}
        file.write(f'{{"version": 2, "status": "success", "eval": {json.dumps(about)}, "samples": [')
        for number in range(samples):
            text = json.dumps(_sample(number, at, lambda: " ".join(chance.choices(pieces, k=size // 400))))
            started = time.process_time()
            json.loads(text)
            parsing += time.process_time() - started
            file.write(("," if number else "") + text)
        file.write("]}")
    return parsing


def _sample(number: int, at: Callable[[int], str], result: Callable[[], str]) -> dict[str, object]:
    messages: list[dict[str, object]] = [{"role": "user", "content": f"find it {number}", "id": f"u{number}"}]
    events: list[dict[str, object]] = []
    for turn in range(3):
        key, now = f"{number}-{turn}", number * 100 + turn * 10
        asked = {"function": "read", "arguments": {"path": f"/f{turn}"}, "type": "function", "id": f"c{key}"}
        answer: dict[str, object] = {"role": "assistant", "content": "I look", "id": f"a{key}"}
        if turn < 2:
            answer["tool_calls"] = [asked]
        output = {"model": "openai/m", "choices": [{"message": answer, "stop_reason": "stop"}]}
        model = {"event": "model", "uuid": f"m{key}", "model": "openai/m", "input": list(messages)}
        events.append({**model, "output": output, "timestamp": at(now), "completed": at(now + 3)})
        messages.append(answer)
        if turn < 2:
            text = f"{key} {result()}"
            tool = {"event": "tool", "uuid": f"t{key}", "timestamp": at(now + 4), "completed": at(now + 6)}
            events.append({**asked, **tool, "result": text})
            messages.append({"role": "tool", "content": text, "id": f"r{key}", "tool_call_id": f"c{key}"})
    return {"id": f"s{number}", "epoch": 1, "uuid": f"x{number}", "messages": messages, "events": events}


def large_import(folder: Path, samples: int, profile: cProfile.Profile | None) -> None:
    path, store = folder / "samples.json", folder / "large.duckdb"
    parsing = write_samples(path, samples)
    print_memory("before the import")
    started, cpu = time.perf_counter(), time.process_time()
    with profile or nullcontext():
        report = import_paths(store, [path])
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    megabytes = path.stat().st_size / 1e6
    totals = report.totals
    print(
        f"large: {megabytes:.0f} MB of JSON, {totals.spans} spans, {totals.calls} calls\n"
        f"  import {seconds:.1f} s, {cpu:.1f} s CPU: {megabytes / cpu:.1f} MB a CPU second;"
        f" {cpu / parsing:.1f} x json.loads alone ({parsing:.2f} s); {os.path.getsize(store) / 1e6:.0f} MB in"
        " the database"
    )


def print_memory(when: str) -> None:
    """The most memory this process had so far."""
    print(f"  peak memory {when}: {peak_memory() / 1e6:.0f} MB")


def small_folds(store: HoldMeter, folds: int = 20, spans: int = 500) -> None:
    """Folds of 500 tool spans, half of which belong to traces that are there."""
    spool = Spool(store.path)
    writer = Writer(spool)
    seconds = []
    store.holds.clear()
    for n in range(folds):
        for k in range(spans):
            known = k % 2 == 0
            trace = (n * 7 + k // 50) % 400 if known else 10_000_000 + n * spans + k
            writer.tool(trace, (10_000_000 + n * spans + k) * 1_000_000)
        writer.flush()
        started = time.perf_counter()
        fold(store)
        seconds.append(time.perf_counter() - started)
    seconds.sort()
    print(f"small folds into {store.path.name}: {spans} spans, p50 {seconds[len(seconds) // 2] * 1e3:.0f} ms")
    print(f"  {report_holds(store.holds)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spans", type=int, default=40_000)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--samples", type=int, default=75, help="2.8 MB each")
    parser.add_argument("--only", choices=["tools", "mixed", "agents", "large"])
    parser.add_argument("--child", action="store_true", help="decode in a child process, as a server does")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.only is None:
        for name in ("tools", "mixed", "agents", "large"):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--only", name], check=True)
        return
    profile = cProfile.Profile() if options.profile else None
    folder = Path(tempfile.mkdtemp())
    loads = {
        "tools": (tool_spans, options.spans),
        "mixed": (mixed, options.requests),
        "agents": (agent_traces, options.spans),
    }
    try:
        if options.only == "large":
            large_import(folder, options.samples, profile)
        else:
            fill, amount = loads[options.only]
            store = run(options.only, folder, fill, amount, child=options.child, profile=profile)
            if options.only == "tools":
                print_memory("before the small folds")
                small_folds(store)
        print_memory("at the end")
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
