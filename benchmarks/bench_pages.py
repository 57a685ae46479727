"""How long the pages of a big store take in a real browser.

    python benchmarks/bench_pages.py [--calls 1000000] [--db FILE] [--only cold loads filters knobs]
    python benchmarks/bench_pages.py --live [--db FILE] [--seconds 40] [--rate 5000]

The store is that of big_store.py, served by `loopscope serve` in a process of its own; the browser is
Chromium. Times run from the click (or the opened address) to the page that stands: its script has run, and
no part of it waits to be replaced. The baseline of each line is the same step on the sample traces, a store
of some hundred calls, in the same run: what is above it is what a million calls cost. CPU seconds are those
of the server's process, all threads; on a machine that has other work they move less than what passed.
What a knob changes shows in parts: the sentence and the figures come first, at "first s".
Each line is printed when its step is done. A step that is not done after --patience seconds says so, and the
next one begins.

Bytes are what the server sent for the page: WebSocket messages before compression, and what was fetched
beside them. Scripts, fonts and styles are not in it: the browser keeps these, and they are said once.

--live: while spans come in over OTLP/HTTP (bodies made beforehand), loads of pages, and the time from the end
of a span to the page that shows its incident.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _memory import memory_of
from big_store import make_store
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as BrowserError

from loopscope.collector import import_paths
from loopscope.sample_traces import files

_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
_CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MEGABYTE = 1e6
_MOST = 5 * _MEGABYTE
_PARTS = ("cold", "loads", "filters", "knobs")
_COLUMNS = " " * 43 + "first s passed s  limit   CPU s  samples s   ratio  sent kB"
_PAGES = {
    "Overview": "",
    "Incidents": "incidents",
    "Tuning": "tuning",
    "Errors": "errors",
    "Requests": "requests",
    "Traces": "traces",
    "Import & health": "health",
}

# A page stands when its script has run and nothing on it waits to be replaced. `before`: what it said when
# the step began, for steps that change something that it says.
_STANDS = """(before) => {
    const app = document.querySelector('[data-testid="stApp"]');
    if (!app || app.getAttribute('data-test-script-state') !== 'notRunning'
        || app.getAttribute('data-test-connection-state') !== 'CONNECTED') return false;
    if (!document.querySelector('.st-key-filterbar, .st-key-problem, .st-key-busy')) return false;
    if (document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]')) return false;
    return before === null || before !== SAID;
}"""
_SAID = """[...document.querySelectorAll(
    '.st-key-sentence, [data-testid="stMetricValue"], [data-testid="stCode"] code'
)].map(one => one.textContent).join('|')"""
_STANDS = _STANDS.replace("SAID", _SAID)


# -- the server ----------------------------------------------------------------------------------


@dataclass
class Server:
    """A running `loopscope serve`."""

    url: str
    receiver: str
    process: subprocess.Popen[str]

    def cpu(self) -> float:
        """CPU seconds so far, of all its threads and of its processes that have ended."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")

    def peak(self) -> float:
        """The most memory so far, in MB."""
        return memory_of(self.process.pid, "VmHWM") / 1e6


@contextmanager
def served(db: Path, patience: float) -> Iterator[Server]:
    """A server on free ports."""
    options = ("--db", str(db), "--port", "0", "--otlp-http-port", "0", "--otlp-grpc-port", "0")
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "loopscope.cli", "serve", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert process.stdout is not None
    late = threading.Timer(patience, process.kill)
    late.start()
    try:
        found: dict[str, str] = {}
        for line in process.stdout:
            match = re.search(r"(dashboard|OTLP/HTTP)\s+(http://\S+)", line)
            if match:
                found[match[1]] = match[2]
            if len(found) == 2:
                break
        else:
            raise SystemExit(f"the server ended before it said its addresses (or took {patience:.0f} s)")
        late.cancel()
        yield Server(found["dashboard"], found["OTLP/HTTP"], process)
    finally:
        late.cancel()
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


# -- the browser ---------------------------------------------------------------------------------


@dataclass
class Tab:
    """A browser tab that counts what it is sent."""

    page: Page
    server: Server
    data: float = 0.0
    fixed: float = 0.0  # scripts, fonts, styles
    faults: list[str] = field(default_factory=list)  # since the last step
    other: float | None = None  # when the page said something else than before
    _paths: dict[str, str] = field(default_factory=dict)

    def listen(self) -> None:
        wire = self.page.context.new_cdp_session(self.page)
        wire.send("Network.enable")
        wire.on("Network.webSocketFrameReceived", self._message)
        wire.on("Network.responseReceived", self._answer)
        wire.on("Network.loadingFinished", self._loaded)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))

    def _message(self, event: dict[str, Any]) -> None:
        frame = event["response"]
        text = frame["payloadData"]
        self.data += len(base64.b64decode(text)) if frame["opcode"] == 2 else len(text)

    def _answer(self, event: dict[str, Any]) -> None:
        self._paths[event["requestId"]] = event["response"]["url"]

    def _loaded(self, event: dict[str, Any]) -> None:
        path = self._paths.pop(event["requestId"], "")
        size = event["encodedDataLength"]
        if re.search(r"/static/|\.(js|css|woff2?|svg|png)($|\?)", path):
            self.fixed += size
        else:
            self.data += size

    def said(self) -> str:
        """What the page says now."""
        return self.page.evaluate(f"() => {_SAID}")

    def stands(self, before: str | None = None) -> None:
        """Wait until the page stands (and says something else than before)."""
        if before is not None:
            self.page.wait_for_function(f"(before) => before !== {_SAID}", arg=before, polling="raf")
            self.other = time.perf_counter()
        self.page.wait_for_function(_STANDS, arg=before, polling="raf")
        if self.page.locator('.st-key-problem, .st-key-busy, [data-testid="stException"]').count():
            said = " ".join(self.page.get_by_test_id("stMain").inner_text().split())
            self.faults.append(f"{self.page.url}: {said[:300]}")

    def open(self, path: str) -> None:
        """By its address."""
        self.page.goto(f"{self.server.url}/{path}")
        self.stands()

    def go(self, name: str) -> None:
        """By the navigation."""
        self.page.get_by_test_id("stSidebarNav").get_by_role("link", name=name).click()
        self.page.get_by_role("heading", name=name, level=1).wait_for()
        self.stands()


@contextmanager
def opened(browser: Browser, server: Server, patience: float) -> Iterator[Tab]:
    """A tab that has kept nothing of earlier visits."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(patience * 1000)
    tab = Tab(page, server)
    tab.listen()
    try:
        yield tab
    finally:
        context.close()


def chromium() -> str:
    """Path of the browser."""
    named = os.environ.get("LOOPSCOPE_CHROMIUM")
    found = named or next((path for name in _CANDIDATES if (path := shutil.which(name))), None)
    if not found:
        raise SystemExit("no Chromium found (install chromium, or set LOOPSCOPE_CHROMIUM to its path)")
    return found


# -- what is measured ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Took:
    """One step."""

    passed: float
    cpu: float
    sent: float  # bytes
    first: float | None  # seconds until the page said something else


@dataclass
class Steps:
    """Takes steps and prints them, each beside its baseline when there is one."""

    patience: float  # seconds for each
    baseline: dict[str, Took] = field(default_factory=dict)
    live: bool = False
    found: dict[str, Took] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def take(self, name: str, tab: Tab, do: Callable[[], None]) -> bool:
        """Take one step in a tab, and print it. False where it was not done in time."""
        tab.other = None
        cpu, sent, start = tab.server.cpu(), tab.data, time.perf_counter()
        try:
            do()
        except BrowserError as error:
            passed = time.perf_counter() - start
            self._fault(name, f"not done after {passed:.0f} s ({first_line(error)})", tab)
            return False
        finally:
            for fault in tab.faults:
                self._fault(name, fault, tab)
            tab.faults.clear()
        passed, first = time.perf_counter() - start, None if tab.other is None else tab.other - start
        took = Took(passed, tab.server.cpu() - cpu, tab.data - sent, first)
        self.found[name] = took
        self._print(name, took)
        return True

    def _fault(self, name: str, what: str, tab: Tab) -> None:
        self.failed.append(name)
        said = ""
        with suppress(BrowserError):
            said = tab.page.evaluate("() => document.body.innerText").replace("\n", " ")[:120]
        print(f"{name:<42} FAILED: {what}; the page says: {said!r}", flush=True)

    def _print(self, name: str, took: Took) -> None:
        limit, before = 3.0 if self.live else limit_of(name), self.baseline.get(name)
        over = " over" if took.passed > limit else ""
        over += " too much" if took.sent > _MOST else ""
        first = "" if took.first is None else f"{took.first:.2f}"
        base = "" if before is None else f"{before.passed:.2f}"
        ratio = "" if before is None else f"{took.passed / before.passed:.1f} ×"
        print(
            f"{name:<42}{first:>8}{took.passed:>9.2f}{limit:>7.1f}{took.cpu:>8.2f}"
            f"{base:>11}{ratio:>8}{took.sent / 1e3:>9,.0f}{over}",
            flush=True,
        )


def first_line(error: BrowserError) -> str:
    """What a browser's error says, without the log of its attempts."""
    return error.message.splitlines()[0]


def first_visits(browser: Browser, db: Path, steps: Steps) -> None:
    """Each page as the first that a new server is asked for. Says the bytes of the scripts, once."""
    fixed = 0.0
    for name, path in _PAGES.items():
        with served(db, steps.patience) as server, opened(browser, server, steps.patience) as tab:
            steps.take(f"cold load: {name}", tab, lambda path=path: tab.open(path))
            fixed = max(fixed, tab.fixed)
    print(f"scripts, fonts and styles {fixed / _MEGABYTE:.1f} MB, once", flush=True)


def visits(browser: Browser, server: Server, steps: Steps, parts: Collection[str]) -> None:
    """Loads, page changes, filters and knobs on a server that has run for a while."""
    with opened(browser, server, steps.patience) as tab:
        for name, path in _PAGES.items():  # what a first visit works out is kept from here on
            steps.take(f"first load: {name}", tab, lambda path=path: tab.open(path))
    if not {"loads", "filters"}.isdisjoint(parts):
        with opened(browser, server, steps.patience) as tab:
            if "loads" in parts:
                loads(tab, steps)
            if "filters" in parts:
                filter_changes(tab, steps)
    if "knobs" in parts:
        with opened(browser, server, steps.patience) as tab:
            knobs(tab, steps)


def loads(tab: Tab, steps: Steps) -> None:
    """Addresses opened anew, and pages chosen in the navigation."""
    steps.take("load: health, for the scripts", tab, lambda: tab.open("health"))
    for name, path in _PAGES.items():
        steps.take(f"load: {name}", tab, lambda path=path: tab.open(path))
    for name in _PAGES:
        steps.take(f"page change: to {name}", tab, lambda name=name: tab.go(name))


def filter_changes(tab: Tab, steps: Steps) -> None:
    """Choose one tool on the overview, then open the other pages under that filter."""

    def choose() -> None:
        before = tab.said()
        option.click()
        tab.stands(before)

    try:
        tab.open("")
        tab.page.get_by_role("button", name="Filter").click()
        tab.page.get_by_role("combobox", name="Tool").click()
        option = tab.page.get_by_role("option").nth(1)  # the first one is "all"
        option.wait_for()
    except BrowserError as error:
        print(f"no filter could be chosen: {first_line(error)}", flush=True)
        steps.failed.append("filter change")
        return
    steps.take("filter change: Overview, one tool", tab, choose)
    tab.page.keyboard.press("Escape")
    for name in list(_PAGES)[1:]:
        if name != "Tuning":
            steps.take(f"filtered anew: {name}", tab, lambda name=name: tab.go(name))


def knobs(tab: Tab, steps: Steps) -> None:
    """The tuning page's knobs: what they change is what the page says."""

    def take(name: str, do: Callable[[], None]) -> None:
        def run() -> None:
            before = tab.said()
            do()
            tab.stands(before)

        steps.take(name, tab, run)

    def press(slider: str, key: str) -> Callable[[], None]:
        def do() -> None:
            tab.page.locator(f".st-key-{slider}").get_by_role("slider").press(key)

        return do

    option = tab.page.get_by_role("option").nth(1)

    def list_tools() -> None:
        tab.page.locator(".st-key-exempt").get_by_role("combobox").click()
        option.wait_for()

    steps.take("load: health, for the knobs' scripts", tab, lambda: tab.open("health"))
    if not steps.take("load: Tuning, for its knobs", tab, lambda: tab.open("tuning")):
        return
    for number in range(3):
        take(f"slider: block at {6 + number}", press("block", "ArrowRight"))
    take("slider: nudge at 2", press("nudge", "ArrowLeft"))
    if steps.take("to list the tools", tab, list_tools):
        take("knob: a tool left alone", option.click)
    tab.page.keyboard.press("Escape")
    take("knob: failed calls count", tab.page.locator(".st-key-general label").first.click)
    take("slider: block at 9, then", press("block", "ArrowRight"))
    for name, draft in drafts().items():
        address = f"tuning?draft={draft}&nudge=3&block=6"
        if steps.take(f"knob: {name}", tab, lambda address=address: tab.open(address)):
            take(f"slider, {name}", press("block", "ArrowRight"))


def drafts() -> dict[str, str]:
    """Drafts that differ from the saved policy in more than thresholds; a link opens them."""
    from loopscope.dashboard._knobs_draft import link_value
    from loopscope.guard import GuardPolicy, ToolPolicy

    return {
        name: link_value(policy)
        for name, policy in {
            "a tool's own thresholds": GuardPolicy(tools={"tool1": ToolPolicy(2, 9)}),
            "counted by trace": GuardPolicy(scope="trace"),
            "a tool that resets": GuardPolicy(tools={"tool1": ToolPolicy(resets=True)}),
            "errors block at 4": GuardPolicy(error_block_threshold=4),
            "fingerprints anew": GuardPolicy(metadata_keys={"query"}),
        }.items()
    }


def limit_of(name: str) -> float:
    """Seconds that design allows for a step on an idle machine."""
    if name.startswith(("cold load", "first load")):
        return 4.0
    if name.startswith("knob: fingerprints"):
        return 30.0
    return 0.5 if name.startswith(("slider", "knob: a tool left")) else 2.0


# -- while spans come in -------------------------------------------------------------------------


class Bodies:
    """OTLP requests of finished tool calls. Ids in the first one are marked, and replaced in the others."""

    _TRACE, _SPAN = b"\xfe\xed\xfa\xce\xca\xfe\xbe\xef", b"\xde\xad\xbe\xa7"

    def __init__(self, spans: int, run: int = 40) -> None:
        self.spans = spans
        self._body = export(
            [
                (
                    self._TRACE + struct.pack(">Q", 1 + number // run),
                    self._SPAN + struct.pack(">I", 1 + number),
                    f"tool{number % 12}",
                    f'{{"path": "src/part_{number}.py", "query": "what is {number}"}}',
                    f"result {number} of a search, with some lines of text behind it",
                )
                for number in range(spans)
            ],
            agent="load",
        )
        self._number = 0

    def next(self) -> bytes:
        """A request whose runs and spans are new."""
        self._number += 1
        body = self._body.replace(self._TRACE, b"\x01" + struct.pack(">Q", self._number)[1:])
        return body.replace(self._SPAN, struct.pack(">I", self._number))


def export(calls: list[tuple[bytes, bytes, str, str, str]], agent: str) -> bytes:
    """One OTLP request of tool calls that end now."""
    request = ExportTraceServiceRequest()
    part = request.resource_spans.add()
    said = part.resource.attributes.add()
    said.key, said.value.string_value = "service.name", "load"
    spans = part.scope_spans.add()
    now = time.time_ns()
    for number, (trace, span, tool, arguments, result) in enumerate(calls):
        made = spans.spans.add()
        made.trace_id, made.span_id, made.name = trace, span, f"execute_tool {tool}"
        made.start_time_unix_nano = now - (len(calls) - number + 1) * 1_000_000
        made.end_time_unix_nano = now - (len(calls) - number) * 1_000_000
        for key, value in {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.agent.name": agent,
            "gen_ai.tool.call.id": "call_" + span.hex(),
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.tool.call.result": result,
        }.items():
            attribute = made.attributes.add()
            attribute.key, attribute.value.string_value = key, value
    return request.SerializeToString()


def post(server: Server, body: bytes) -> None:
    """Send it, and wait until it is durable."""
    headers = {"content-type": "application/x-protobuf"}
    request = urllib.request.Request(f"{server.receiver}/v1/traces", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


class Sender(threading.Thread):
    """Sends so many spans a second until it is told to end."""

    def __init__(self, server: Server, rate: int) -> None:
        super().__init__(daemon=True)
        self._server, self._bodies, self._pause = server, Bodies(500), 500 / rate
        self._end = threading.Event()
        self.sent, self.behind, self.problem = 0, 0.0, ""

    def run(self) -> None:
        start = time.monotonic()
        while not self._end.is_set():
            try:
                post(self._server, self._bodies.next())
            except OSError as error:
                self.problem = f"; it gave up: {error}"
                return
            self.sent += self._bodies.spans
            due = start + self.sent / self._bodies.spans * self._pause
            self.behind = max(0.0, time.monotonic() - due)
            self._end.wait(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        self._end.set()
        self.join(60)


def loop(number: int) -> bytes:
    """A run that asked the same four times, and got the same."""
    trace = b"\x02" + os.urandom(15)
    same = [(trace, os.urandom(8), "probe", f'{{"probe": {number}}}', "nothing new here") for _ in range(4)]
    return export(same, agent=f"probe-{number}")


def live(browser: Browser, server: Server, steps: Steps, seconds: float, rate: int) -> None:
    """Loads of pages and the way of a new incident to the page, while spans come in."""
    with opened(browser, server, steps.patience) as tab:
        for name, path in _PAGES.items():
            steps.take(f"first load, before: {name}", tab, lambda path=path: tab.open(path))
    sender = Sender(server, rate)
    cpu, begun = server.cpu(), time.perf_counter()
    sender.start()
    print(f"while {rate:,} spans/s come in", flush=True)
    steps.live = True
    try:
        with opened(browser, server, steps.patience) as tab:
            for name, path in _PAGES.items():
                steps.take(f"load: {name}", tab, lambda path=path: tab.open(path))
            for path, label in (("", "Runs with a loop"), ("incidents", "Incidents")):
                if steps.take(f"to look at {label}", tab, lambda path=path: tab.open(path)):
                    new_incidents(tab, steps, label, seconds / 4)
    finally:
        sender.end()
    passed = time.perf_counter() - begun
    busy = (server.cpu() - cpu) / passed
    print(
        f"{sender.sent:,} spans in {passed:.0f} s: {sender.sent / passed:,.0f} spans/s,"
        f" the sender {sender.behind:.1f} s behind{sender.problem};"
        f" {busy:.0%} of one CPU; peak {server.peak():,.0f} MB"
    )


def new_incidents(tab: Tab, steps: Steps, label: str, seconds: float) -> None:
    """Make incidents for some seconds; how long each takes to show."""
    name, shown = f"a new incident, to {label}", []
    until = time.perf_counter() + seconds
    try:
        while not shown or time.perf_counter() < until:
            shown.append(seen_after(tab, label, len(shown) + 1))
            time.sleep(0.3)
    except (BrowserError, OSError) as error:
        what = first_line(error) if isinstance(error, BrowserError) else str(error)
        print(f"{name:<42} FAILED: number {len(shown) + 1} did not show ({what})", flush=True)
        steps.failed.append(name)
    if shown:
        middle, late = sorted(shown)[len(shown) // 2], max(shown)
        print(
            f"{name:<42}{'':>8}{middle:>9.2f}{2.0:>7.1f}"
            f"  the last of {len(shown)} after {late:.2f} s{' over' if late > 2 else ''}",
            flush=True,
        )


def seen_after(tab: Tab, label: str, number: int) -> float:
    """Seconds from the end of an incident's last call to the page that counts it."""
    value = tab.page.get_by_test_id("stMetric").filter(has_text=label).first.get_by_test_id("stMetricValue")
    before = value.inner_text()
    start = time.perf_counter()
    post(tab.server, loop(number))
    tab.page.wait_for_function(
        """([label, before]) => [...document.querySelectorAll('[data-testid="stMetric"]')].some(one =>
            one.innerText.includes(label)
            && one.querySelector('[data-testid="stMetricValue"]').innerText !== before)""",
        arg=[label, before],
        polling=50,
    )
    return time.perf_counter() - start


def main() -> None:
    """Make the stores, visit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=1_000_000, help="a multiple of 1,000")
    parser.add_argument("--db", type=Path, help="a store that is there already; a copy of it is served")
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=_PARTS, help="parts to measure")
    parser.add_argument("--live", action="store_true", help="loads and new incidents while spans come in")
    parser.add_argument("--seconds", type=float, default=40.0, help="of --live")
    parser.add_argument("--rate", type=int, default=5_000, help="spans a second of --live")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds to wait for one step")
    options = parser.parse_args()
    patience = options.patience
    with tempfile.TemporaryDirectory() as name, sync_playwright() as engine:
        folder = Path(name)
        db = folder / "big.duckdb"
        start = time.perf_counter()
        if options.db:
            shutil.copyfile(options.db, db)
        else:
            make_store(db, options.calls)
        print(f"the store is there after {time.perf_counter() - start:.0f} s", flush=True)
        browser = engine.chromium.launch(executable_path=chromium(), args=list(_ARGUMENTS))
        steps = Steps(patience)
        if options.live:
            print(_COLUMNS, flush=True)
            with served(db, patience) as server:
                live(browser, server, steps, options.seconds, options.rate)
        else:
            samples = folder / "samples.duckdb"
            import_paths(samples, files())
            print(f"\nthe sample traces\n{_COLUMNS}", flush=True)
            with served(samples, patience) as server:
                visits(browser, server, steps, options.only)
            failed = [f"{name} (samples)" for name in steps.failed]
            steps = Steps(patience, baseline=steps.found, failed=failed)
            print(f"\nthe store\n{_COLUMNS}", flush=True)
            if "cold" in options.only:
                first_visits(browser, db, steps)
            with served(db, patience) as server:
                visits(browser, server, steps, options.only)
                print(f"the server's peak memory {server.peak():,.0f} MB", flush=True)
        browser.close()
    if steps.failed:
        raise SystemExit("failed: " + ", ".join(dict.fromkeys(steps.failed)))


if __name__ == "__main__":
    main()
