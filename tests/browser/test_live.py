"""Pages while data comes in, and while another process holds the database."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import urllib.request

import pytest

from loopscope.collector import import_paths
from loopscope.sample_traces import files

from .test_pages import PAGES, number

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=120_000)
pytestmark = pytest.mark.browser

BEGIN = 1_795_000_000_000_000_000
SECOND = 1_000_000_000

_HOLD = """
import sys, time
import duckdb
while True:
    try:
        held = duckdb.connect(sys.argv[1])
        break
    except duckdb.IOException:
        time.sleep(0.02)
print("held", flush=True)
sys.stdin.readline()
"""


def body(run: int, calls: int, *, same: bool) -> bytes:
    """One OTLP request: a run's calls, all equal or all different."""
    spans = []
    for at in range(calls):
        texts = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search_docs",
            "gen_ai.agent.name": "live-bot",
            "gen_ai.tool.call.arguments": json.dumps({"q": 0 if same else at}),
            "gen_ai.tool.call.result": "nothing" if same else f"answer {at}",
        }
        start = BEGIN + (run * 100 + at) * SECOND
        spans.append(
            {
                "traceId": f"{run + 1:032x}",
                "spanId": f"{run * 100 + at + 1:016x}",
                "name": "execute_tool search_docs",
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(start + SECOND // 2),
                "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in texts.items()],
            }
        )
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def send(server, content: bytes) -> None:
    """To the server's receiver; durable when this returns."""
    request = urllib.request.Request(
        f"{server.receiver}/v1/traces", data=content, headers={"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    db = tmp_path_factory.mktemp("live") / "live.duckdb"
    import_paths(db, files())
    return serve(db)


def test_pages_stand_while_spans_come_in_and_show_all_of_them(server, visit):
    tab = visit(server)
    tab.open()
    calls, loops = number(tab, "Tool calls"), number(tab, "Runs with a loop")
    end, sent = threading.Event(), []

    def stream() -> None:
        while not end.is_set():
            send(server, body(100 + len(sent), 5, same=False))
            sent.append(5)
            end.wait(0.1)

    sender = threading.Thread(target=stream)
    sender.start()
    try:
        for name in PAGES:
            tab.go(name)
            assert tab.sentence().strip()
            tab.check()
    finally:
        end.set()
        sender.join()
    assert sent
    tab.go("Overview")
    expect(tab.figure("Tool calls")).to_have_text(f"{calls + sum(sent):,}")
    assert number(tab, "Runs with a loop") == loops


def test_a_draft_stays_where_it_is_while_the_page_follows(server, visit):
    tab = visit(server)
    tab.open("tuning?nudge=2&block=4")
    runs = re.search(r"of ([\d,]+) runs", tab.sentence())
    assert runs
    send(server, body(2, 3, same=False))
    more = f"of {int(runs[1].replace(',', '')) + 1:,} runs"
    expect(tab.page.locator(".st-key-sentence").first).to_contain_text(more)
    assert "nudge 2, block 4" in tab.sentence()
    assert "nudge=2&block=4" in tab.page.url


def test_another_process_holds_the_database_for_a_while(serve, visit, tmp_path):
    import_paths(tmp_path / "held.duckdb", files())
    server = serve(tmp_path / "held.duckdb")
    standing = visit(server)
    standing.open()
    before = standing.sentence()
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(server.db)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        other = visit(server)
        other.page.goto(f"{server.url}/errors?tool=get_pod")  # a view that was not asked for before
        other.page.locator(".st-key-busy").wait_for()
        assert standing.sentence() == before
        send(server, body(3, 4, same=True))  # is taken all the same
    finally:
        holder.stdin.close()
        assert holder.wait(timeout=60) == 0
        holder.stdout.close()
    other.page.locator(".st-key-sentence").first.wait_for()  # by itself
    other.settled()
    assert other.page.locator(".st-key-busy").count() == 0
    expect(standing.page.locator(".st-key-sentence").first).not_to_have_text(before)
