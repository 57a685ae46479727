"""Many agents on one file, killed again and again: nothing acknowledged is lost, nothing is there twice.

    python benchmarks/soak_writers.py [--agents 8] [--seconds 60] [--forked] [--no-dashboard] [--seed 1]

Every other agent writes by itself (`instrument`, then `force_flush`), the others send OTLP/HTTP to the
server. An agent says which calls were acknowledged: `force_flush` returned True, or the server answered 200.
Each is killed with -9 at a random moment and started again. With `--forked` an agent forks workers after
`instrument()`; sometimes a worker is killed, sometimes the parent first.

Meanwhile a server (with dashboard) folds, a browser's session redraws pages, and commands read. At the end
what was acknowledged is compared with the store. Exit code 1 where a call is lost or there twice, a read
failed, or anything is in quarantine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORKERS = 2  # of a forked agent
CALLS_A_RUN = 40
COMMANDS = (
    ("replay", "--format", "json"),
    ("incidents", "--format", "json"),
    ("query", "SELECT count(*), count(DISTINCT call_id) FROM tool_calls", "--format", "json"),
)


@dataclass
class Figures:
    """What was seen, for the report and the tests."""

    acknowledged: int = 0
    stored: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    reads: int = 0
    pages: int = 0
    slowest_read: float = 0.0  # seconds, of commands
    failed_reads: list[str] = field(default_factory=list)
    kills: int = 0
    trouble: list[str] = field(default_factory=list)  # quarantine, drops, an agent that ended by itself

    @property
    def sound(self) -> bool:
        """Nothing lost, nothing doubled, no read failed, nothing else amiss; and something was done."""
        return bool(self.acknowledged and self.reads) and not (
            self.lost or self.doubled or self.failed_reads or self.trouble
        )


# -- an agent, in a process of its own ------------------------------------------------------------


def agent(db: str, name: str, endpoint: str, workers: int) -> None:
    """Calls tools until it is killed; one line on standard output for every batch that was acknowledged."""
    from loopscope.collector import instrument

    if endpoint:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
        from opentelemetry.sdk.trace.export import SpanExportResult

        class Sender(SpanProcessor):
            """Sends when it is told to, so that it is known which spans an answer acknowledges."""

            def __init__(self) -> None:
                self.waiting: list[Any] = []
                self.exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")

            def on_end(self, span: Any) -> None:
                self.waiting.append(span)

            def force_flush(self, timeout_millis: int = 30_000) -> bool:
                batch, self.waiting = self.waiting, []
                return not batch or self.exporter.export(batch) is SpanExportResult.SUCCESS

        provider = TracerProvider(resource=Resource.create({"service.name": name}), shutdown_on_exit=False)
        provider.add_span_processor(Sender())
    else:
        provider = instrument(db, service_name=name)
    tracer = provider.get_tracer("soak")

    def work(life: str) -> None:
        chance = random.Random(life)
        number = 0
        while True:
            with tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
                for _ in range(CALLS_A_RUN // 10):
                    ids = []
                    for _ in range(chance.randint(1, 19)):
                        number += 1
                        ids.append(f"{life}-{number}")
                        with tracer.start_as_current_span("execute_tool look") as span:
                            span.set_attribute("gen_ai.operation.name", "execute_tool")
                            span.set_attribute("gen_ai.tool.name", "look")
                            span.set_attribute("gen_ai.tool.call.id", ids[-1])
                            span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"n": number % 5}))
                            span.set_attribute("gen_ai.tool.call.result", "x" * chance.randint(0, 3000))
                    if provider.force_flush():
                        # One write of less than a pipe's atomic size: lines of workers do not mix.
                        os.write(1, (" ".join(ids) + "\n").encode())
                    time.sleep(chance.random() * 0.05)

    children: dict[int, int] = {}
    born = 0
    while workers:  # a worker that was killed is replaced
        while len(children) < workers:
            born += 1
            child = os.fork()
            if child == 0:
                work(f"{name}w{born}")
            children[child] = born
            os.write(1, f"worker {child}\n".encode())
        done, _ = os.waitpid(-1, 0)
        children.pop(done, None)
    work(name)


# -- the rest of the crowd ------------------------------------------------------------------------


class Agents:
    """One agent after another in one place: started, killed, started again."""

    def __init__(self, soak: Soak, place: int) -> None:
        self.soak = soak
        self.place = place
        self.chance = random.Random(f"{soak.seed}/{place}")
        self.acknowledged: list[str] = []
        self.kills = 0
        self.trouble: list[str] = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        life = 0
        while not self.soak.over.is_set():
            life += 1
            self._live(f"a{self.place}l{life}")

    def _live(self, name: str) -> None:
        endpoint = self.soak.endpoint if self.place % 2 else ""
        command = [sys.executable, __file__, "--agent", name, "--db", str(self.soak.db)]
        command += ["--endpoint", endpoint, "--workers", str(WORKERS if self.soak.forked else 0)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        workers: list[int] = []
        first = threading.Event()
        reader = threading.Thread(target=self._read, args=(process, lines, workers, first), daemon=True)
        reader.start()
        first.wait(60)  # to be killed while it starts shows nothing
        self.soak.over.wait(self.chance.uniform(0.2, 4.0))
        if process.poll() is not None:
            self.trouble.append(f"agent {name} ended by itself with {process.returncode}")
        elif workers and self.chance.random() < 0.5:
            # A worker alone, then the parent alone; the other workers go on for a moment.
            for pid in (self.chance.choice(workers), process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self.soak.over.wait(self.chance.uniform(0.0, 0.5))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        self.kills += 1
        process.wait()
        reader.join()
        assert process.stderr is not None
        said = process.stderr.read().decode("utf-8", "replace")
        process.stderr.close()
        if "Traceback" in said:
            self.trouble.append(f"agent {name}: {said[-2000:]}")
        while not lines.empty():
            line = lines.get()
            if line.endswith(b"\n"):  # a line that was cut by the death of its writer acknowledges nothing
                self.acknowledged += line.decode().split()

    def _read(
        self,
        process: subprocess.Popen[bytes],
        lines: queue.SimpleQueue[bytes],
        workers: list[int],
        first: threading.Event,
    ) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if line.startswith(b"worker ") and line.endswith(b"\n"):
                    workers.append(int(line.split()[1]))
                else:
                    lines.put(line)
                    first.set()
        first.set()


class Soak:
    """The whole crowd on one database file."""

    def __init__(self, db: Path, *, agents: int, forked: bool, dashboard: bool, seed: int) -> None:
        self.db = db
        self.forked = forked
        self.seed = seed
        self.dashboard = dashboard
        self.over = threading.Event()
        self.endpoint = self.pages = ""
        self.figures = Figures()
        self.agents = [Agents(self, place) for place in range(agents)]
        self._lock = threading.Lock()

    def run(self, seconds: float) -> Figures:
        """Let them all work for so many seconds; what came of it."""
        with self._server():
            readers = [threading.Thread(target=self._commands, daemon=True)]
            if self.dashboard:
                readers.append(threading.Thread(target=self._redraw, daemon=True))
            for thread in (*readers, *(agents.thread for agents in self.agents)):
                thread.start()
            time.sleep(seconds)
            self.over.set()
            for agents in self.agents:
                agents.thread.join()
            for thread in readers:
                thread.join()
        self._settle()
        return self.figures

    @contextlib.contextmanager
    def _server(self) -> Iterator[None]:
        command = [sys.executable, "-m", "loopscope.cli", "serve", "--db", str(self.db), "--port", "0"]
        command += ["--otlp-http-port", "0", "--otlp-grpc-port", "none"]
        command += [] if self.dashboard else ["--no-dashboard"]
        errors = self.db.with_suffix(".server.log")
        with errors.open("wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        try:
            told = ""
            for line in process.stdout:
                told += line
                if "Ctrl-C" in line:
                    break
            for name, kind in (("endpoint", "OTLP/HTTP"), ("pages", "dashboard")):
                if found := re.search(rf"{kind}\s+(http://\S+)", told):
                    setattr(self, name, found[1])
            if not self.endpoint:
                raise SystemExit(f"the server did not start: {told}{errors.read_text()}")
            yield
        finally:
            process.terminate()
            process.communicate()
        said = errors.read_text(encoding="utf-8", errors="replace")
        if process.returncode or "Traceback" in said:
            self.figures.trouble.append(f"the server ended with {process.returncode}: {said[-2000:]}")

    def _failed(self, what: str) -> None:
        with self._lock:
            self.figures.failed_reads.append(what)

    def _commands(self) -> None:
        seen = 0
        while not self.over.is_set():
            for arguments in COMMANDS:
                started = time.monotonic()
                done = subprocess.run(
                    [sys.executable, "-m", "loopscope.cli", *arguments, "--db", str(self.db)],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.figures.reads += 1
                self.figures.slowest_read = max(self.figures.slowest_read, time.monotonic() - started)
                if done.returncode:
                    self._failed(f"{arguments[0]}: {done.stderr[-500:]}")
                elif arguments[0] == "query":
                    calls, distinct = _row(done.stdout)
                    if calls != distinct or calls < seen:
                        self._failed(f"{calls} calls, {distinct} of them distinct, after {seen}")
                    seen = calls

    def _redraw(self) -> None:
        """A browser's part: sessions that load pages, one after another."""
        from websockets.sync.client import connect

        while not self.over.is_set():
            try:
                url = self.pages.replace("http", "ws", 1) + "/_stcore/stream"
                with connect(url, max_size=None, origin=self.pages) as socket:  # type: ignore[arg-type]
                    for page in ("", "incidents", "health"):
                        self._draw(socket, page)
            except Exception as error:  # noqa: BLE001  whatever it is, the read failed
                self._failed(f"page: {type(error).__name__}: {error}")
                self.over.wait(0.5)

    def _draw(self, socket: Any, page: str) -> None:
        from streamlit.proto.BackMsg_pb2 import BackMsg
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        ask = BackMsg()
        ask.rerun_script.page_name = page
        socket.send(ask.SerializeToString())
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            message = ForwardMsg.FromString(socket.recv(timeout=60))
            kind = message.WhichOneof("type")
            if kind == "delta" and message.delta.new_element.WhichOneof("type") == "exception":
                self._failed(f"page {page!r}: {message.delta.new_element.exception.message[:500]}")
            if kind == "delta" and "cannot be shown" in str(message.delta)[:5000]:
                self._failed(f"page {page!r}: {str(message.delta)[:500]}")
            if kind == "page_not_found":
                self._failed(f"no page {page!r}")
            if kind == "script_finished":
                self.figures.pages += 1
                return
        self._failed(f"page {page!r} was not drawn in 60 s")

    def _settle(self) -> None:
        """Fold what waits, and compare."""
        from loopscope.collector import Spool, Store, fold

        figures, store = self.figures, Store(self.db, timeout=60)
        fold(store)
        with store.lease() as con:
            stored = Counter(row[0] for row in con.execute("SELECT call_id FROM tool_calls").fetchall())
            doubles = con.execute(
                "SELECT trace_id || span_id FROM span_rows GROUP BY ALL HAVING count(*) > 1"
            ).fetchall()
            drops = con.execute("SELECT name, source, value FROM drop_counters").fetchall()
            faults = con.execute(
                "SELECT derive_error FROM trace_rows WHERE derive_error IS NOT NULL"
            ).fetchall()
        said = [call for agents in self.agents for call in agents.acknowledged]
        figures.acknowledged = len(said)
        figures.stored = sum(stored.values())
        figures.lost = sorted(set(said) - set(stored))
        figures.doubled = [call for call, times in stored.items() if times > 1] + [row[0] for row in doubles]
        figures.kills = sum(agents.kills for agents in self.agents)
        spool = Spool(self.db)
        figures.trouble += [line for agents in self.agents for line in agents.trouble]
        figures.trouble += [f"quarantined: {name}: {reason}" for name, reason in spool.quarantined()]
        figures.trouble += [f"left in the spool: {path.name}" for path in spool.pending()]
        figures.trouble += [f"dropped: {row}" for row in drops] + [f"not derived: {row[0]}" for row in faults]


def _row(text: str) -> list[int]:
    """The numbers of the one row that `query --format json` printed."""
    parsed = json.loads(text)
    (row,) = parsed["rows"] if isinstance(parsed, dict) else parsed
    return [int(value) for value in (row.values() if isinstance(row, dict) else row)]


def soak(
    db: Path,
    *,
    agents: int = 8,
    seconds: float = 60,
    forked: bool = False,
    dashboard: bool = True,
    seed: int = 1,
) -> Figures:
    """Run the soak on a fresh database."""
    return Soak(db, agents=agents, forked=forked, dashboard=dashboard, seed=seed).run(seconds)


def main() -> int:
    """Print the figures; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--forked", action="store_true", help="agents fork workers after instrument()")
    parser.add_argument("--dashboard", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=1)
    for name in ("--agent", "--db", "--endpoint"):  # an agent is this script, too
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.agent:
        agent(given.db, given.agent, given.endpoint, given.workers)
    with tempfile.TemporaryDirectory(prefix="loopscope-soak-") as folder:
        figures = soak(
            Path(folder) / "traces.duckdb",
            agents=given.agents,
            seconds=given.seconds,
            forked=given.forked,
            dashboard=given.dashboard,
            seed=given.seed,
        )
    crowd = f"{given.agents} agents{f' with {WORKERS} forked workers each' if given.forked else ''}"
    print(f"{crowd}, {given.seconds:.0f} s, killed {figures.kills} times")
    print(f"calls acknowledged {figures.acknowledged:,}, in the store {figures.stored:,}")
    print(f"acknowledged and lost {len(figures.lost)}, there twice {len(figures.doubled)}")
    reads = f"{figures.reads} commands, {figures.pages} pages"
    reads += f", the slowest command {figures.slowest_read:.1f} s"
    print(f"reads {reads}, failed {len(figures.failed_reads)}")
    for line in (
        *figures.lost[:10],
        *figures.doubled[:10],
        *figures.failed_reads[:10],
        *figures.trouble[:10],
    ):
        print(f"! {line}")
    print("sound" if figures.sound else "NOT sound")
    return 0 if figures.sound else 1


if __name__ == "__main__":
    sys.exit(main())
