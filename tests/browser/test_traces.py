"""Whole runs in a real browser: the list, one run, 45,000 spans, hostile text."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import duckdb
import pytest

from loopscope.collector import import_paths
from loopscope.collector._schema import create_schema
from loopscope.sample_traces import files

from .hostile import MARKS, write_hostile_trace

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)
pytestmark = pytest.mark.browser

MEGABYTE = 1_000_000
ROW, HEADER = 35, 36  # of tables, pixels


@pytest.fixture(scope="module")
def samples_server(serve, tmp_path_factory):
    db = tmp_path_factory.mktemp("runs") / "samples.duckdb"
    import_paths(db, files())
    return serve(db)


def big_run():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "big_run.py"
    spec = importlib.util.spec_from_file_location("big_run", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def big_server(serve, tmp_path_factory):
    db = tmp_path_factory.mktemp("big") / "big.duckdb"
    con = duckdb.connect(str(db))
    create_schema(con)
    big_run().add_run(con, 45_000)
    con.close()
    return serve(db)


def grid(tab, name: str):
    """Where a table is, once it is drawn."""
    found = tab.page.locator(f".st-key-{name}_table").get_by_test_id("stDataFrame")
    found.locator("canvas").first.wait_for()
    found.scroll_into_view_if_needed()
    box = found.bounding_box()
    assert box
    return box


def click(tab, name: str, row: int, x: int) -> None:
    """Click a cell: the row counts from 0, x in pixels from the left."""
    box = grid(tab, name)
    tab.page.mouse.click(box["x"] + x, box["y"] + HEADER + ROW * row + ROW // 2)


FOLD, SELECT = 33 + 20, 16  # where they are in the table of spans


def test_from_the_list_to_a_span_and_back(samples_server, visit):
    tab = visit(samples_server)
    tab.open("traces?sort=Most+repeats")
    assert "with most repeated calls" in tab.sentence()
    click(tab, "runs", 0, 32)
    tab.page.wait_for_url(re.compile(r"run="))
    tab.page.locator(".st-key-spans_table").wait_for()
    tab.settled()
    assert "incident" in tab.sentence()
    click(tab, "spans", 1, SELECT)
    tab.page.locator(".st-key-span_detail").wait_for()
    tab.page.wait_for_url(re.compile(r"span="))
    tab.settled()
    for part, says in (
        ("Messages", "Request 1"),
        ("Calls", "In the order in which the guard counts them"),
        ("Logs", "og records"),
        ("Facts", "Tune with this run"),
    ):
        tab.page.get_by_role("tab", name=part).click()
        tab.says(says)
        tab.settled()
        tab.page.wait_for_url(re.compile(f"view={part}"))
    link = tab.page.url
    tab.page.get_by_role("button", name="All runs").click()
    tab.page.locator(".st-key-runs_table").wait_for()
    tab.settled()
    assert "run=" not in tab.page.url
    other = visit(samples_server)
    other.page.goto(link.replace("view=Facts", "view=Spans"))
    other.page.locator(".st-key-span_detail").wait_for()
    other.settled()


def test_a_run_is_found_by_the_beginning_of_its_id(samples_server, visit):
    tab = visit(samples_server)
    tab.open("traces")
    box = tab.page.get_by_label("Find by id")
    box.fill("no such id <b>")
    box.press("Enter")
    tab.page.locator(".st-key-sentence", has_text="begins with no such id <b>").wait_for()


def test_the_messages_show_a_call_beside_its_result_and_verdict(samples_server, visit):
    tab = visit(samples_server)
    tab.open("traces?sort=Most+repeats")
    click(tab, "runs", 0, 32)
    tab.page.wait_for_url(re.compile(r"run="))
    tab.page.locator(".st-key-spans_table").wait_for()
    tab.settled()
    tab.page.get_by_role("tab", name="Calls").click()
    tab.page.locator(".st-key-run_calls_table").wait_for()
    tab.settled()
    click(tab, "run_calls", 2, SELECT)
    detail = tab.page.locator(".st-key-call_detail")
    detail.wait_for()
    expect(detail).to_contain_text("in a row")
    detail.get_by_role("button", name="Show among the spans").click()
    tab.page.locator(".st-key-span_detail").wait_for()
    tab.settled()


def test_45_000_spans_are_folded_opened_and_selected_for_little(big_server, visit):
    tab = visit(big_server)
    sent = [0]
    tab.page.on(
        "websocket",
        lambda socket: socket.on("framereceived", lambda data: sent.__setitem__(0, sent[0] + len(data))),
    )
    tab.open(f"traces?run={big_run().RUN}")
    tab.says("lines of 45,051 spans")
    assert 0 < sent[0] < MEGABYTE
    assert "17,000 calls" in tab.sentence()
    before = sent[0]
    click(tab, "spans", 3, FOLD)
    tab.says("Lines 1 to 100 of 2,177")
    tab.settled()
    assert sent[0] - before < MEGABYTE
    click(tab, "spans", 5, SELECT)
    tab.page.locator(".st-key-span_detail").wait_for()
    tab.settled()
    selected = tab.page.url
    assert "span=" in selected
    click(tab, "spans", 3, FOLD)  # closed again: the selected line is gone
    tab.says("11 lines of 45,051 spans")
    tab.page.locator(".st-key-span_detail").wait_for(state="detached")
    tab.page.locator(".st-key-spans_choices").get_by_text("Nudge or block").click()
    tab.says("3 spans of 45,051 spans")
    tab.settled()
    assert sent[0] < 3 * MEGABYTE
    other = visit(big_server)
    other.page.goto(selected)
    other.page.locator(".st-key-span_detail").wait_for()
    other.says("Lines 1 to 100 of 2,177")
    other.settled()


def test_a_part_of_the_time_by_keyboard(big_server, visit):
    tab = visit(big_server)
    tab.open(f"traces?run={big_run().RUN}")
    handle = tab.page.locator(".st-key-spans_time").get_by_role("slider").last
    handle.focus()
    tab.page.keyboard.press("Home")
    for _ in range(3):
        tab.page.keyboard.press("ArrowRight")
    tab.page.get_by_text(re.compile(r"of 2 h 13 min")).first.wait_for()
    tab.settled()


@pytest.mark.parametrize("width", [400, 1440])
def test_hostile_text_stays_text_in_every_part_of_a_run(serve, visit, tmp_path_factory, width):
    folder = tmp_path_factory.mktemp("hostile")
    import_paths(folder / "hostile.duckdb", [write_hostile_trace(folder)])
    tab = visit(serve(folder / "hostile.duckdb"), width=width)
    tab.open("traces")
    run = f"{'ab' * 16}/{'cd' * 8}"
    for path in (
        f"traces?run={run}",
        f"traces?run={run}&span={'ab' * 16}/{1:016x}",
        f"traces?run={run}&span={'ab' * 16}/{'ef' * 8}",
        f"traces?run={run}&view=Messages",
        f"traces?run={run}&view=Calls",
        f"traces?run={run}&view=Facts",
    ):
        tab.open(path)
        assert tab.sentence().strip()
        assert tab.page.evaluate("window.pwned") is None
        assert (
            tab.page.locator(
                "[data-testid=stMain] iframe, [data-testid=stMain] a[href^='javascript']"
            ).count()
            == 0
        )
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        tab.check()
    tab.open(f"traces?run={run}&span={'ab' * 16}/{1:016x}")
    tab.page.locator(".st-key-span_detail").wait_for()
    expect(tab.page.locator(".st-key-span_detail")).to_contain_text(MARKS[0])


def test_an_empty_store_and_an_unknown_run(serve, visit, tmp_path):
    tab = visit(serve(tmp_path / "empty.duckdb"))
    tab.open("traces")
    tab.says("loopscope import")
    tab.open("traces?run=nothing")
    tab.says("That run is not in this database.")
    tab.page.get_by_role("button", name="All runs").click()
    tab.says("loopscope import")
