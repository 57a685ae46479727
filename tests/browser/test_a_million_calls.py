"""Every page on a store of a million calls: it stands, it is small, and it works as on the samples."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=60_000)
pytestmark = pytest.mark.browser

CALLS = 1_000_000
PAGES = ("Overview", "Incidents", "Tuning", "Errors", "Requests", "Traces", "Import & health")
MOST = 5_000_000  # bytes that one page may send
ROW, HEADER = 35, 36  # of tables, pixels


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "big_store.py"
    spec = importlib.util.spec_from_file_location("big_store", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    db = tmp_path_factory.mktemp("million") / "million.duckdb"
    module.make_store(db, CALLS)
    yield serve(db)
    db.unlink()  # half a gigabyte


@pytest.fixture
def tab(server, visit):
    return visit(server)


def sent_to(tab) -> list[int]:
    """Bytes that the server sends to this tab from now on, scripts and fonts left out."""
    sent = [0]
    wire = tab.page.context.new_cdp_session(tab.page)
    wire.send("Network.enable")

    def add(event) -> None:
        sent[0] += len(event["response"]["payloadData"])

    wire.on("Network.webSocketFrameReceived", add)
    return sent


def open_first_row(tab, table: str) -> None:
    """Click the first cell of a table's first row."""
    grid = tab.page.locator(f".st-key-{table}_table").get_by_test_id("stDataFrame")
    grid.locator("canvas").first.wait_for()
    tab.settled()
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    assert box
    tab.page.mouse.click(box["x"] + 32, box["y"] + HEADER + ROW / 2)


def test_every_page_stands_and_none_sends_much(tab):
    sent = sent_to(tab)
    tab.open()
    for name in PAGES:
        tab.go(name)
        assert tab.sentence().strip()
        tab.check()
        assert 0 < sent[0] < MOST, name
        sent[0] = 0


def test_all_calls_are_counted(tab):
    tab.open()
    expect(tab.figure("Tool calls")).to_have_text("1,000,000")
    assert "of 25,000 runs" in tab.sentence()


def test_the_worst_incident_opens(tab):
    tab.open("incidents")
    open_first_row(tab, "incidents")
    tab.page.wait_for_url(re.compile(r"incident=[0-9a-f]+"))
    tab.page.locator(".st-key-call_detail").wait_for()
    tab.settled()
    assert "got the same answer each time" in tab.sentence()


def test_a_slider_moves_the_figures_and_a_filter_narrows_them(tab):
    tab.open("tuning")
    figure = tab.figure("Runs ended")
    before = figure.inner_text()
    handle = tab.page.locator(".st-key-block").get_by_role("slider")
    handle.focus()
    for _ in range(7):
        tab.page.keyboard.press("ArrowRight")
    tab.page.locator(".st-key-sentence", has_text="block 12").wait_for()
    tab.settled()
    assert figure.inner_text() != before
    tab.open("tuning?block=12&tool=no_such_tool")
    tab.says("Nothing matches this filter")


def test_a_run_opens_from_the_list(tab):
    tab.open("traces")
    open_first_row(tab, "runs")
    tab.page.wait_for_url(re.compile(r"run="))
    tab.page.locator(".st-key-spans_table").wait_for()
    tab.settled()
    assert "40 calls" in tab.sentence()
