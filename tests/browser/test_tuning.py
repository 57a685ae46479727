"""The tuning page in a browser: knobs, suggestions, named policies, rows that open."""

from __future__ import annotations

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from loopscope.collector import import_paths
from loopscope.sample_traces import files

from .hostile import MARKS, write_hostile_trace


@pytest.fixture(scope="module")
def tuning_server(serve, tmp_path_factory):
    db = tmp_path_factory.mktemp("tuning") / "samples.duckdb"
    import_paths(db, files())
    return serve(db)


def draft(tab) -> str:
    """The draft as the page would save it."""
    return tab.page.get_by_test_id("stCode").filter(has_text="nudge_threshold").first.inner_text()


def test_a_knob_in_a_group_changes_the_draft_and_the_link(tuning_server, visit):
    tab = visit(tuning_server)
    tab.open("tuning")
    tab.page.locator(".st-key-group_failed summary").click()
    box = tab.page.get_by_role("spinbutton", name="Block at equal failures")
    box.fill("4")
    box.press("Enter")
    tab.page.get_by_test_id("stCode").filter(has_text="error_block_threshold = 4").wait_for()
    tab.settled()
    assert "draft=" in tab.page.url
    tab.page.reload()
    tab.settled()
    tab.page.get_by_test_id("stCode").filter(has_text="error_block_threshold = 4").wait_for()


def test_a_suggestion_is_accepted_and_undone(tuning_server, visit):
    tab = visit(tuning_server)
    tab.open("tuning")
    tab.page.get_by_role("button", name="Accept").first.click()
    tab.page.get_by_test_id("stCode").filter(has_text="resets = true").wait_for()
    tab.settled()
    tab.page.get_by_role("button", name="Undo").click()
    tab.settled()
    tab.page.get_by_role("button", name="Undo").wait_for(state="hidden")
    assert "resets" not in draft(tab)


def test_suggestions_of_an_older_draft_say_so_and_wait(tuning_server, visit):
    tab = visit(tuning_server)
    tab.open("tuning")
    accept = tab.page.get_by_role("button", name="Accept").first
    accept.wait_for()
    tab.page.locator(".st-key-group_failed summary").click()
    box = tab.page.get_by_role("spinbutton", name="Block at equal failures")
    box.fill("4")
    box.press("Enter")
    tab.page.locator(".st-key-suggestions_for").get_by_text("For an earlier draft").wait_for()
    tab.page.locator(".st-key-rules_for").get_by_text("For an earlier draft").wait_for()
    tab.settled()
    assert accept.is_disabled()
    tab.page.get_by_role("button", name="Look again").click()
    tab.page.locator(".st-key-suggestions_for").get_by_text("For the draft").wait_for()
    tab.settled()
    assert accept.is_enabled()


def test_a_policy_is_kept_under_a_name_and_compared(tuning_server, visit):
    tab = visit(tuning_server)
    tab.open("tuning?block=4")
    name = tab.page.get_by_label("Save the draft under a name")
    name.fill(f"strict {MARKS[0]}")
    name.press("Enter")
    tab.page.get_by_role("button", name="Save as").click()
    tab.page.locator(".st-key-shelf_table").wait_for()
    tab.settled()
    assert tab.page.evaluate("window.pwned === undefined")
    tab.page.locator(".st-key-compare summary").click()
    tab.says("newly spared")
    with tab.page.expect_download() as started:
        tab.page.locator(".st-key-shelf_download button").click()
    assert "block_threshold = 4" in started.value.path().read_text()


def test_every_picture_can_be_chosen(tuning_server, visit):
    tab = visit(tuning_server)
    tab.open("tuning")
    for name, key in (("By block threshold", "later_curve"), ("Where runs leave", "divergence")):
        tab.page.locator(".st-key-picture").get_by_text(name).click()
        tab.page.locator(f".st-key-{key} .js-plotly-plot").wait_for()
    tab.page.locator(".st-key-picture").get_by_text("Precision and recall").click()
    tab.says("No incident is labelled yet")


def test_on_a_phone_the_sliders_come_before_the_effect_and_nothing_is_cut(tuning_server, visit):
    tab = visit(tuning_server, width=400, scheme="dark")
    tab.open("tuning?block=4")
    tab.page.locator(".st-key-threshold_map").wait_for()
    slider = tab.page.locator(".st-key-block").bounding_box()
    figure = tab.page.get_by_test_id("stMetric").first.bounding_box()
    assert slider["y"] < figure["y"]
    cut = tab.page.evaluate(
        """() => [...document.querySelectorAll('[data-testid=stMain] button, [data-testid=stMetric]')]
            .filter(one => one.getBoundingClientRect().width && one.getBoundingClientRect().right > 401)
            .map(one => one.innerText)"""
    )
    assert cut == []


def test_hostile_names_in_every_group(serve, visit, tmp_path):
    import_paths(tmp_path / "hostile.duckdb", [write_hostile_trace(tmp_path)])
    tab = visit(serve(tmp_path / "hostile.duckdb"))
    tab.open("tuning?nudge=2&block=4")
    tab.page.locator(".st-key-shelf, .st-key-save_as_row").first.wait_for()  # the end of the page
    tab.settled()
    tab.page.locator(".st-key-group_tools summary").click()
    tab.settled()
    box = tab.page.locator(".st-key-knob_tool input")
    box.click()
    option = tab.page.get_by_role("option").first
    for _ in range(5):  # a rerun that ends meanwhile closes the list
        box.click()
        try:
            option.wait_for(timeout=3_000)
            break
        except PlaywrightTimeoutError:
            continue
    option.click()
    box = tab.page.get_by_role("combobox", name="Block at", exact=True)
    box.fill("off")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_test_id("stCode").filter(has_text="[tools.").first.wait_for()
    tab.settled()
    page = tab.page
    assert page.evaluate("window.pwned === undefined")
    assert page.locator('img[src="x"], img[src*="evil.example"], a[href^="javascript"]').count() == 0
    tab.check()
