"""Pages that stand show a new incident, and outlive a restart of the server."""

from __future__ import annotations

import re
import socket

import pytest

from loopscope.collector import import_paths
from loopscope.sample_traces import files

from .test_live import body, send
from .test_pages import number

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=120_000)
pytestmark = pytest.mark.browser

# While nobody listens, the browser itself writes a line for each question that found no server: those that
# Streamlit asks to come back, and ours for the version. Streamlit adds that the server does not answer. No
# code of a page can keep either from the console. These pass, and nothing but these.
AWAY = re.compile(
    r"console: ("
    r"Failed to load resource: net::ERR_(CONNECTION_(REFUSED|RESET|CLOSED)|EMPTY_RESPONSE)"
    r" \(http://\S+/(_stcore/(health|host-config)|_loopscope/version)\)"
    r"|WebSocket connection to 'ws://\S+/_stcore/stream' failed: .*"
    r"|Client Error: (WebSocket onerror|Websocket connection) .*"
    r"|Client Error in reaching server endpoint - No response received when attempting to reach "
    r"\S*/_stcore/(health|host-config) .*"
    r"|Streamlit server is not responding\. Are you connected to the internet\? .*"
    r")$",
    re.DOTALL,
)


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    db = tmp_path_factory.mktemp("follow") / "live.duckdb"
    import_paths(db, files())
    return serve(db)


def test_a_new_incident_is_counted_without_a_reload(server, visit):
    overview, incidents, narrowed = visit(server), visit(server), visit(server)
    overview.open()
    incidents.open("incidents")
    narrowed.open("incidents?tool=get_pod")
    loops, known = number(overview, "Runs with a loop"), number(incidents, "Incidents")
    few = narrowed.figure("Incidents").inner_text()
    send(server, body(1, 4, same=True))
    expect(overview.figure("Runs with a loop")).to_have_text(f"{loops + 1:,}")
    expect(incidents.figure("Incidents")).to_have_text(f"{known + 1:,}")
    expect(narrowed.figure("Incidents")).to_have_text(few)
    assert "tool=get_pod" in narrowed.page.url


def test_a_page_that_stands_outlives_a_restart_of_the_server(serve_at, visit, tmp_path):
    import_paths(tmp_path / "again.duckdb", files())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    first = serve_at(tmp_path / "again.duckdb", port)
    tab = visit(first)
    tab.open("tuning?nudge=2&block=9")
    assert "nudge 2, block 9" in tab.sentence()
    first.process.terminate()
    assert first.process.wait(timeout=60) == 0
    tab.page.wait_for_function(
        """() => document.querySelector('[data-testid="stApp"]')
            .getAttribute('data-test-connection-state') !== 'CONNECTED'"""
    )
    assert "nudge 2, block 9" in tab.sentence()  # it can still be read
    second = serve_at(tmp_path / "again.duckdb", port)
    tab.settled()
    assert "nudge 2, block 9" in tab.sentence()
    runs = re.search(r"of ([\d,]+) runs", tab.sentence())
    assert runs
    send(second, body(4, 4, same=True))
    more = f"of {int(runs[1].replace(',', '')) + 1:,} runs"
    expect(tab.page.locator(".st-key-sentence").first).to_contain_text(more)
    tab.faults[:] = [fault for fault in tab.faults if not AWAY.match(fault)]
    tab.go("Overview")
