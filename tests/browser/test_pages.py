"""The pages as a user meets them, in a real browser."""

from __future__ import annotations

import json
import re
import urllib.request

import pytest

from loopscope.collector import import_paths
from loopscope.sample_traces import files

from .hostile import MARKS, write_hostile_trace

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)
pytestmark = pytest.mark.browser

PAGES = ("Overview", "Incidents", "Tuning", "Errors", "Requests", "Traces", "Import & health")
PATHS = ("", "incidents", "tuning", "errors", "requests", "traces", "health")


# Choices of which a part is out of sight: they wrap.
CUT_OFF = """() => [...document.querySelectorAll('[data-testid="stButtonGroup"] button')]
    .filter(one => one.getBoundingClientRect().right > innerWidth).map(one => one.innerText)"""


@pytest.fixture(scope="module")
def samples_server(serve, tmp_path_factory):
    db = tmp_path_factory.mktemp("samples") / "samples.duckdb"
    report = import_paths(db, files())
    assert report.totals.calls > 100
    return serve(db)


@pytest.fixture(scope="module")
def empty_server(serve, tmp_path_factory):
    return serve(tmp_path_factory.mktemp("empty") / "empty.duckdb")


@pytest.fixture(scope="module")
def hostile_server(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    import_paths(folder / "hostile.duckdb", [write_hostile_trace(folder)])
    return serve(folder / "hostile.duckdb")


def number(tab, label: str) -> int:
    """The value of a figure by its label."""
    return int(tab.figure(label).inner_text().replace(",", ""))


def open_first_incident(tab) -> None:
    """Click Open in the first row of the table of incidents."""
    grid = tab.page.locator(".st-key-incidents_table").get_by_test_id("stDataFrame")
    grid.locator("canvas").first.wait_for()
    tab.settled()
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    assert box
    tab.page.mouse.click(box["x"] + 32, box["y"] + 52)
    tab.page.wait_for_url(re.compile(r"incident=[0-9a-f]+"))
    tab.page.locator(".st-key-call_detail").wait_for()
    tab.settled()


def test_every_page_stands_on_the_samples(samples_server, visit):
    tab = visit(samples_server)
    tab.open()
    for name in PAGES:
        tab.go(name)
        assert tab.sentence().strip()
        assert tab.page.get_by_test_id("stMetric").count() >= 4
        tab.check()


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (400, "dark"), (1440, "dark")])
def test_every_page_by_its_own_link_and_nothing_sticks_out(samples_server, visit, width, scheme):
    tab = visit(samples_server, width=width, scheme=scheme)
    for path in PATHS:
        tab.open(path)
        assert tab.sentence().strip()
        wide = tab.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        assert tab.page.evaluate(CUT_OFF) == []
        tab.check()


def test_there_is_no_deploy_button_and_what_waits_stands_still(samples_server, visit):
    tab = visit(samples_server)
    tab.open()
    assert tab.page.get_by_test_id("stAppDeployButton").count() == 0
    moves = """testid => {
        const place = document.createElement('div');
        place.dataset.testid = testid;
        place.style.animation = '1s infinite shimmer';
        document.body.append(place);
        return getComputedStyle(place).animationName;
    }"""
    assert tab.page.evaluate(moves, "stSkeleton") == "none"
    assert tab.page.evaluate(moves, "stOther") == "shimmer"


def test_a_slider_changes_the_counts(samples_server, visit):
    tab = visit(samples_server)
    tab.open("tuning")
    before = {label: number(tab, label) for label in ("Runs ended", "Calls spared")}
    assert before["Runs ended"] > 0
    handle = tab.page.locator(".st-key-block").get_by_role("slider")
    handle.focus()
    for _ in range(8):
        tab.page.keyboard.press("ArrowRight")
    tab.page.locator(".st-key-sentence", has_text="block 13").wait_for()
    tab.settled()
    assert number(tab, "Runs ended") < before["Runs ended"]
    assert number(tab, "Calls spared") < before["Calls spared"]
    assert "block=13" in tab.page.url
    assert "Against the default policy" in tab.sentence()
    tab.page.locator(".st-key-changes_table").wait_for()  # the runs whose verdict changes


def test_the_sliders_keep_apart_and_a_cell_sets_them(samples_server, visit):
    tab = visit(samples_server)
    tab.open("tuning")
    handle = tab.page.locator(".st-key-nudge").get_by_role("slider")
    handle.focus()
    for _ in range(4):
        tab.page.keyboard.press("ArrowRight")
    tab.page.locator(".st-key-sentence", has_text="nudge 7, block 8").wait_for()
    tab.settled()
    tab.says("Block moved to 8")
    tab.settled()
    tab.page.locator(".st-key-threshold_map .stPlotlyChart path.point").first.click(force=True)
    tab.page.locator(".st-key-sentence", has_text="nudge 2, block 3").wait_for()
    tab.settled()


def test_a_policy_is_saved_and_in_force_everywhere(serve, visit, tmp_path):
    import_paths(tmp_path / "own.duckdb", files())
    tab = visit(serve(tmp_path / "own.duckdb"))
    tab.open("tuning?nudge=2&block=4")
    tab.page.get_by_role("button", name="Save policy").click()
    tab.page.get_by_text("nudge 2, block 4 (saved)").wait_for()
    tab.says("This is the saved policy")
    assert "nudge_threshold = 2" in (tmp_path / "own.policy.toml").read_text()
    tab.go("Overview")
    tab.says("nudge 2, block 4")


def test_an_incident_opens_and_its_report_comes_in_three_formats(samples_server, visit):
    tab = visit(samples_server)
    tab.open("incidents")
    open_first_incident(tab)
    sentence = tab.sentence()
    assert "get_pod" in sentence
    for label, ending in (("Markdown", ".md"), ("HTML", ".html"), ("JSON", ".json")):
        with tab.page.expect_download() as started:
            tab.page.get_by_role("button", name=label, exact=True).click()
        download = started.value
        assert download.suggested_filename.endswith(ending)
        text = download.path().read_text(encoding="utf-8")
        assert "get_pod" in text
        if ending == ".json":
            assert json.loads(text)["schema_version"] == 1
    # The link opens the same view again.
    again = visit(samples_server)
    again.open(tab.page.url.removeprefix(samples_server.url + "/"))
    assert again.sentence() == sentence


def test_a_selected_call_shows_what_changed(samples_server, visit):
    tab = visit(samples_server)
    tab.open("incidents?kind=same+error")
    open_first_incident(tab)
    tab.says("Arguments of call 1")
    tab.says("Lines that differ begin with")


def test_an_unknown_incident_says_so(samples_server, visit):
    tab = visit(samples_server)
    tab.open("incidents?incident=0123456789abcdef")
    assert "not in this database" in tab.sentence()
    tab.page.get_by_role("button", name="All incidents").click()
    tab.page.locator(".st-key-incidents_table").wait_for()
    tab.page.wait_for_url(re.compile(r"/incidents$"))


def test_the_filter_is_in_the_link_and_stays_on_all_pages(samples_server, visit):
    tab = visit(samples_server)
    tab.open()
    everything = tab.figure("Tool calls").inner_text()
    tab.page.get_by_role("button", name="Filter").click()
    tab.page.get_by_role("combobox", name="Tool").click()
    tab.page.get_by_role("option", name="get_pod").click()
    expect(tab.figure("Tool calls")).not_to_have_text(everything)
    narrowed = tab.figure("Tool calls").inner_text()
    assert int(narrowed) < int(everything)
    assert "tool=get_pod" in tab.page.url
    tab.page.keyboard.press("Escape")
    tab.go("Errors")
    assert "tool=get_pod" in tab.page.url
    again = visit(samples_server)
    again.open("?tool=get_pod")
    expect(again.figure("Tool calls")).to_have_text(narrowed)
    again.page.get_by_role("button", name="Clear").click()
    expect(again.figure("Tool calls")).to_have_text(everything)
    assert "tool=" not in again.page.url


def test_an_empty_store_teaches(empty_server, visit):
    tab = visit(empty_server)
    for path in PATHS:
        tab.open(path)
        assert tab.sentence().strip()
        tab.says("loopscope import")
        tab.check()


def test_hostile_text_is_text_on_every_page(hostile_server, visit):
    tab = visit(hostile_server)
    for path in PATHS:
        tab.open(path)
        clean(tab)
    tab.open("incidents")
    open_first_incident(tab)
    clean(tab)
    tab.says(MARKS[0])
    assert "tinted" in tab.sentence()
    with tab.page.expect_download() as started:
        tab.page.get_by_role("button", name="HTML", exact=True).click()
    report = visit(hostile_server)
    report.page.goto(started.value.path().as_uri())
    assert report.page.evaluate("window.pwned === undefined")


def clean(tab) -> None:
    """Nothing that a trace said became an element, a link or a script."""
    page = tab.page
    assert page.evaluate("window.pwned === undefined")
    assert page.locator('img[src="x"], img[src*="evil.example"], a[href^="javascript"]').count() == 0
    assert page.locator('[data-testid="stMain"] iframe').count() == 0
    assert page.locator("strong", has_text="loud").count() == 0
    assert (
        page.locator('[data-testid="stMarkdownColoredText"], .stMarkdownColoredText')
        .filter(has_text="tinted")
        .count()
        == 0
    )
    assert page.locator(".katex").count() == 0
    tab.check()


def test_new_spans_appear_without_a_reload(empty_server, serve, visit, tmp_path):
    server = serve(tmp_path / "live.duckdb")
    tab = visit(server)
    tab.open()
    assert "No call" in tab.sentence()
    request = urllib.request.Request(
        f"{server.receiver}/v1/traces",
        data=write_hostile_trace(tmp_path).read_bytes(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
    expect(tab.figure("Tool calls")).to_have_text("12")
