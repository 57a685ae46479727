"""A real Chromium on a real server, each on a port of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue

import pytest

# The first is Chromium without the windows around its pages, which take a sixth of a visit's CPU time.
_CANDIDATES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_START_SECONDS = 60

# A link that leads straight to a page makes Streamlit look for its server under that path first. The
# browser reports the two answers it gets there as errors; they are how Streamlit finds its way.
_FINDING_THE_WAY = re.compile(r"/[\w-]+/_stcore/(health|host-config)$")


def chromium() -> str:
    """Path of the browser; skips where there is none."""
    named = os.environ.get("LOOPSCOPE_CHROMIUM")
    found = named or next((path for name in _CANDIDATES if (path := shutil.which(name))), None)
    if not found:
        pytest.skip("no Chromium found (install chromium, or set LOOPSCOPE_CHROMIUM to its path)")
    return found


# Playwright keeps an event loop running in this thread: it must end before other tests want their own.
@pytest.fixture(scope="module")
def browser() -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium()
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield browser
        browser.close()


@dataclass
class Server:
    """A running `loopscope serve`."""

    url: str
    receiver: str
    db: Path
    process: subprocess.Popen[str]
    lines: list[str]


@pytest.fixture(scope="module")
def serve(serve_at) -> Callable[[Path], Server]:
    """Starts servers, each on free ports."""
    return lambda db: serve_at(db, 0)


@pytest.fixture(scope="module")
def serve_at() -> Iterator[Callable[[Path, int], Server]]:
    """Starts servers on a port for pages; all of them end with the module."""
    running: list[subprocess.Popen[str]] = []

    def start(db: Path, port: int) -> Server:
        options = ("--db", str(db), "--port", str(port), "--otlp-http-port", "0", "--otlp-grpc-port", "0")
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "loopscope.cli", "serve", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
        running.append(process)
        lines: list[str] = []
        arrived: Queue[str] = Queue()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                arrived.put(line)

        threading.Thread(target=read, daemon=True).start()
        found: dict[str, str] = {}
        while len(found) < 2:
            try:
                line = arrived.get(timeout=_START_SECONDS)
            except Empty:
                process.kill()
                raise AssertionError(f"the server said no address: {''.join(lines)}") from None
            match = re.search(r"(dashboard|OTLP/HTTP)\s+(http://\S+)", line)
            if match:
                found[match[1]] = match[2]
        return Server(found["dashboard"], found["OTLP/HTTP"], db, process, lines)

    yield start
    for process in running:
        process.terminate()
    for process in running:
        process.wait(timeout=20)
        if process.stdout is not None:
            process.stdout.close()


@dataclass
class Visit:
    """A browser tab that remembers what went wrong in it."""

    page: object
    base: str
    faults: list[str] = field(default_factory=list)

    def open(self, path: str = "") -> None:
        """Go to a page and wait until it stands."""
        self.page.goto(f"{self.base}/{path}")
        self.settled()

    def settled(self) -> None:
        """Wait until the script has run and nothing on the page is about to change.

        For a moment: what the page has just been told to do reaches the server and comes back first.
        """
        self.page.evaluate("window.settledSince = undefined")
        self.page.wait_for_function(
            """() => {
                const app = document.querySelector('[data-testid="stApp"]');
                const still = app && app.getAttribute('data-test-script-state') === 'notRunning'
                    && app.getAttribute('data-test-connection-state') === 'CONNECTED'
                    && document.querySelector('.st-key-filterbar, .st-key-problem, .st-key-busy')
                    && !document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]');
                if (!still) window.settledSince = undefined;
                else window.settledSince ??= performance.now();
                return still && performance.now() - window.settledSince > 150;
            }"""
        )

    def go(self, name: str) -> None:
        """Click a page of the navigation."""
        self.page.get_by_test_id("stSidebarNav").get_by_role("link", name=name).click()
        heading = self.page.get_by_role("heading", name=name, level=1)
        heading.wait_for()
        self.settled()

    def says(self, text: str) -> None:
        """Wait until the main part of the page says something."""
        self.page.get_by_test_id("stMain").filter(has_text=text).wait_for()

    def figure(self, label: str):
        """The place of a figure's value."""
        metric = self.page.get_by_test_id("stMetric").filter(has_text=label).first
        return metric.get_by_test_id("stMetricValue")

    def sentence(self) -> str:
        """The sentence that the page begins with."""
        return self.page.locator(".st-key-sentence").first.inner_text()

    def check(self) -> None:
        """Nothing failed in this tab so far."""
        assert self.faults == []
        assert self.page.get_by_test_id("stException").count() == 0
        assert self.page.locator(".st-key-problem").count() == 0


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Visit]]:
    """Opens tabs on a server; every tab is checked for faults at the end of the test."""
    tabs: list[Visit] = []
    contexts = []

    def begin(server: Server, *, width: int = 1440, scheme: str = "light") -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 1000}, color_scheme=scheme, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # a shared machine may be slow; nothing waits longer than it must
        tab = Visit(page, server.url)
        tabs.append(tab)

        def heard(message) -> None:
            if message.type == "error" and not _FINDING_THE_WAY.search(message.location.get("url", "")):
                tab.faults.append(f"console: {message.text} ({message.location.get('url')})")

        def asked(request) -> None:
            ours = (server.url, server.url.replace("http", "ws", 1), "data:", "blob:", "file:")
            if not request.url.startswith(ours):
                tab.faults.append(f"left the machine: {request.url}")

        page.on("console", heard)
        page.on("pageerror", lambda error: tab.faults.append(f"page error: {error}"))
        page.on("request", asked)
        page.on("dialog", lambda dialog: (tab.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return tab

    yield begin
    for tab in tabs:
        tab.check()
    for context in contexts:
        context.close()
