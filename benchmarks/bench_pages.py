"""How long the pages of a big store take in a real browser.

    python benchmarks/bench_pages.py [--calls 1000000] [--db FILE] [--live] [--seconds 40] [--rate 5000]

The store is that of big_store.py, served by `loopscope serve` in a process of its own; the browser is
Chromium. Times run from the click (or the opened address) to the page that stands: its script has run, and
no part of it waits to be replaced. The baseline of each line is the same step on the sample traces, a store
of some hundred calls, in the same run: what is above it is what a million calls cost. CPU seconds are those
of the server's process, all threads; on a machine that has other work they move less than what passed.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from big_store import make_store
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from playwright.sync_api import Browser, Page, sync_playwright

from loopscope.collector import import_paths
from loopscope.sample_traces import files

_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
_CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MEGABYTE = 1e6
_MOST = 5 * _MEGABYTE
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
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+)", status)
        return int(found[1]) / 1e3 if found else 0.0


@contextmanager
def served(db: Path) -> Iterator[Server]:
    """A server on free ports."""
    options = ("--db", str(db), "--port", "0", "--otlp-http-port", "0", "--otlp-grpc-port", "0")
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "loopscope.cli", "serve", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert process.stdout is not None
    try:
        found: dict[str, str] = {}
        for line in process.stdout:
            match = re.search(r"(dashboard|OTLP/HTTP)\s+(http://\S+)", line)
            if match:
                found[match[1]] = match[2]
            if len(found) == 2:
                break
        else:
            raise SystemExit("the server ended")
        yield Server(found["dashboard"], found["OTLP/HTTP"], process)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


# -- the browser ---------------------------------------------------------------------------------


@dataclass
class Tab:
    """A browser tab that counts what it is sent."""

    page: Page
    server: Server
    data: float = 0.0
    fixed: float = 0.0  # scripts, fonts, styles
    faults: list[str] = field(default_factory=list)
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
        self.page.wait_for_function(_STANDS, arg=before, polling="raf")
        if self.page.locator('.st-key-problem, .st-key-busy, [data-testid="stException"]').count():
            self.faults.append(f"{self.page.url}: {self.page.get_by_test_id('stMain').inner_text()[:300]}")

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
def opened(browser: Browser, server: Server) -> Iterator[Tab]:
    """A tab that has kept nothing of earlier visits."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(120_000)
    tab = Tab(page, server)
    tab.listen()
    yield tab
    context.close()
    if tab.faults:
        raise SystemExit("something failed on a page:\n" + "\n".join(tab.faults))


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


Steps = dict[str, Took]


def step(tab: Tab, do: Callable[[], None]) -> Took:
    """Take one step in a tab."""
    cpu, sent, start = tab.server.cpu(), tab.data, time.perf_counter()
    do()
    passed = time.perf_counter() - start
    if os.environ.get("BENCH_TALK"):
        print(f"  {passed:.2f} s  {tab.page.url}", file=sys.stderr, flush=True)
    return Took(passed, tab.server.cpu() - cpu, tab.data - sent)


def first_visits(browser: Browser, db: Path, steps: Steps) -> float:
    """Each page as the first that a new server is asked for. Returns bytes of the scripts, once."""
    fixed = 0.0
    for name, path in _PAGES.items():
        with served(db) as server, opened(browser, server) as tab:
            steps[f"cold load: {name}"] = step(tab, lambda path=path: tab.open(path))
            fixed = max(fixed, tab.fixed)
    return fixed


def visits(browser: Browser, server: Server, steps: Steps) -> None:
    """Loads, page changes, filters and knobs on a server that has run for a while."""
    with opened(browser, server) as tab:
        for path in _PAGES.values():  # what a first visit works out is kept from here on
            tab.open(path)
    with opened(browser, server) as tab:
        tab.open("health")  # the browser has its scripts from here on
        for name, path in _PAGES.items():
            steps[f"load: {name}"] = step(tab, lambda path=path: tab.open(path))
        for name in _PAGES:
            steps[f"page change: to {name}"] = step(tab, lambda name=name: tab.go(name))
        filter_changes(tab, steps)
    with opened(browser, server) as tab:
        knobs(tab, steps)


def filter_changes(tab: Tab, steps: Steps) -> None:
    """Choose one tool on the overview, then open the other pages under that filter."""
    tab.open("")
    tab.page.get_by_role("button", name="Filter").click()
    tab.page.get_by_role("combobox", name="Tool").click()
    option = tab.page.get_by_role("option").nth(1)  # the first one is "all"
    option.wait_for()

    def choose() -> None:
        before = tab.said()
        option.click()
        tab.stands(before)

    steps["filter change: Overview, one tool"] = step(tab, choose)
    tab.page.keyboard.press("Escape")
    for name in list(_PAGES)[1:]:
        if name != "Tuning":
            steps[f"filtered anew: {name}"] = step(tab, lambda name=name: tab.go(name))


def knobs(tab: Tab, steps: Steps) -> None:
    """The tuning page's knobs: what they change is what the page says."""
    tab.open("tuning")

    def changed(do: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            before = tab.said()
            do()
            tab.stands(before)

        return run

    def press(slider: str, key: str) -> Callable[[], None]:
        handle = tab.page.locator(f".st-key-{slider}").get_by_role("slider")
        handle.focus()
        return changed(lambda: tab.page.keyboard.press(key))

    for number in range(3):
        steps[f"slider: block at {6 + number}"] = step(tab, press("block", "ArrowRight"))
    steps["slider: nudge at 2"] = step(tab, press("nudge", "ArrowLeft"))
    box = tab.page.locator(".st-key-exempt").get_by_role("combobox")
    box.click()
    option = tab.page.get_by_role("option").nth(1)
    option.wait_for()
    steps["knob: a tool left alone"] = step(tab, changed(option.click))
    tab.page.keyboard.press("Escape")
    general = tab.page.locator(".st-key-general label").first
    steps["knob: failed calls count"] = step(tab, changed(general.click))
    steps["slider: block at 9, then"] = step(tab, press("block", "ArrowRight"))
    for name, draft in drafts().items():
        tab.open(f"tuning?draft={draft}&nudge=3&block=6")
        steps[name] = step(tab, press("block", "ArrowRight"))


def drafts() -> dict[str, str]:
    """Drafts that differ from the saved policy in more than thresholds; a link opens them."""
    from loopscope.dashboard._knobs_draft import link_value
    from loopscope.guard import GuardPolicy, ToolPolicy

    return {
        f"slider, {name}": link_value(policy)
        for name, policy in {
            "a tool with its own thresholds": GuardPolicy(tools={"tool1": ToolPolicy(2, 9)}),
            "counted by trace": GuardPolicy(scope="trace"),
            "a tool that resets": GuardPolicy(tools={"tool1": ToolPolicy(resets=True)}),
        }.items()
    }


def limit_of(name: str) -> float:
    """Seconds that design allows for a step on an idle machine."""
    if name.startswith("cold load"):
        return 4.0
    return 0.5 if name.startswith(("slider", "knob: a tool")) else 2.0


def table(found: Steps, baseline: Steps) -> None:
    """Print the steps beside their baseline."""
    print(f"{'':<42}{'passed s':>9}{'limit':>7}{'CPU s':>8}{'samples s':>11}{'ratio':>8}{'sent kB':>9}")
    for name, took in found.items():
        limit, before = limit_of(name), baseline.get(name)
        over = " over" if took.passed > limit else ""
        over += " too much" if took.sent > _MOST else ""
        base = "" if before is None else f"{before.passed:.2f}"
        ratio = "" if before is None else f"{took.passed / before.passed:.1f} ×"
        print(
            f"{name:<42}{took.passed:>9.2f}{limit:>7.1f}{took.cpu:>8.2f}"
            f"{base:>11}{ratio:>8}{took.sent / 1e3:>9,.0f}{over}",
            flush=True,
        )


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
    with urllib.request.urlopen(request) as answer:
        answer.read()


class Sender(threading.Thread):
    """Sends so many spans a second until it is told to end."""

    def __init__(self, server: Server, rate: int) -> None:
        super().__init__(daemon=True)
        self._server, self._bodies, self._pause = server, Bodies(500), 500 / rate
        self._end = threading.Event()
        self.sent, self.behind = 0, 0.0

    def run(self) -> None:
        start = time.monotonic()
        while not self._end.is_set():
            post(self._server, self._bodies.next())
            self.sent += self._bodies.spans
            due = start + self.sent / self._bodies.spans * self._pause
            self.behind = max(0.0, time.monotonic() - due)
            self._end.wait(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        self._end.set()
        self.join()


def loop(number: int) -> bytes:
    """A run that asked the same four times, and got the same."""
    trace = b"\x02" + os.urandom(15)
    same = [(trace, os.urandom(8), "probe", f'{{"probe": {number}}}', "nothing new here") for _ in range(4)]
    return export(same, agent=f"probe-{number}")


def live(browser: Browser, server: Server, seconds: float, rate: int) -> None:
    """Loads of pages and the way of a new incident to the page, while spans come in."""
    with opened(browser, server) as tab:
        for path in _PAGES.values():
            tab.open(path)
    sender = Sender(server, rate)
    cpu, begun = server.cpu(), time.perf_counter()
    sender.start()
    print(f"\nwhile {rate:,} spans/s come in")
    try:
        with opened(browser, server) as tab:
            print(f"{'':<42}{'passed s':>9}{'limit':>7}")
            for name, path in _PAGES.items():
                took = step(tab, lambda path=path: tab.open(path))
                over = " over" if took.passed > 3 else ""
                print(f"{'load: ' + name:<42}{took.passed:>9.2f}{3.0:>7.1f}{over}", flush=True)
            for path, label in (("", "Runs with a loop"), ("incidents", "Incidents")):
                tab.open(path)
                shown: list[float] = []
                number = 0
                until = time.perf_counter() + seconds / 4
                while not shown or time.perf_counter() < until:
                    number += 1
                    shown.append(seen_after(tab, server, label, number))
                    time.sleep(0.3)
                late = max(shown)
                middle = sorted(shown)[len(shown) // 2]
                print(
                    f"{f'a new incident, to {label}':<42}{middle:>9.2f}{2.0:>7.1f}"
                    f"  the last of {len(shown)} after {late:.2f} s{' over' if late > 2 else ''}",
                    flush=True,
                )
    finally:
        sender.end()
    passed = time.perf_counter() - begun
    busy = (server.cpu() - cpu) / passed
    print(
        f"{sender.sent:,} spans in {passed:.0f} s: {sender.sent / passed:,.0f} spans/s,"
        f" the sender {sender.behind:.1f} s behind; {busy:.0%} of one CPU; peak {server.peak():,.0f} MB"
    )


def seen_after(tab: Tab, server: Server, label: str, number: int) -> float:
    """Seconds from the end of an incident's last call to the page that counts it."""
    value = tab.page.get_by_test_id("stMetric").filter(has_text=label).first.get_by_test_id("stMetricValue")
    before = value.inner_text()
    start = time.perf_counter()
    post(server, loop(number))
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
    parser.add_argument("--db", type=Path, help="a store that is there already; it is copied for --live")
    parser.add_argument("--live", action="store_true", help="loads and new incidents while spans come in")
    parser.add_argument("--seconds", type=float, default=40.0, help="of --live")
    parser.add_argument("--rate", type=int, default=5_000, help="spans a second of --live")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as engine:
        folder = Path(name)
        db = options.db
        if db is None:
            start = time.perf_counter()
            db = folder / "big.duckdb"
            make_store(db, options.calls)
            print(f"{options.calls:,} calls made in {time.perf_counter() - start:.0f} s", flush=True)
        browser = engine.chromium.launch(executable_path=chromium(), args=list(_ARGUMENTS))
        if options.live:
            own = folder / "live.duckdb"
            shutil.copyfile(db, own)
            with served(own) as server:
                live(browser, server, options.seconds, options.rate)
            return
        samples, baseline, found = folder / "samples.duckdb", Steps(), Steps()
        import_paths(samples, files())
        with served(samples) as server:
            visits(browser, server, baseline)
        try:
            fixed = first_visits(browser, db, found)
            with served(db) as server:
                visits(browser, server, found)
                peak = server.peak()
        finally:  # what was measured before something failed
            table(found, baseline)
        print(
            f"the server's peak memory {peak:,.0f} MB;"
            f" scripts, fonts and styles {fixed / _MEGABYTE:.1f} MB, once"
        )
        browser.close()


if __name__ == "__main__":
    main()
