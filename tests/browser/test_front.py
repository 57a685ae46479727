"""Overview, Errors, Import & health and the filter bar, as a user meets them."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from loopscope.collector import import_paths
from loopscope.sample_traces import files

from .contrast import faint_texts

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def samples_server(serve, tmp_path_factory):
    db = tmp_path_factory.mktemp("samples") / "samples.duckdb"
    import_paths(db, files())
    return serve(db)


def test_dropped_files_come_in_and_are_told_one_by_one(serve, visit, tmp_path):
    tab = visit(serve(tmp_path / "fresh.duckdb"))
    tab.open("health")
    broken = tmp_path / "<img src=x onerror=pwned>.json"
    broken.write_text('{"a": 1', encoding="utf-8")
    three = [str(path) for path in sorted(files())[:3]]
    tab.page.locator('input[type="file"]').set_input_files([*three, str(broken)])
    report = tab.page.locator(".st-key-drop_report")
    report.wait_for()
    expect(report).to_contain_text("3 of 4 files")
    tab.page.get_by_text("Calls with content").wait_for()
    tab.go("Overview")
    assert int(tab.figure("Tool calls").inner_text()) > 0
    tab.go("Import & health")  # the report stays until more is dropped
    tab.page.locator(".st-key-drop_report").get_by_role("button", name="Drop more").click()
    expect(tab.page.locator('input[type="file"]')).to_have_count(1)


def test_reclassify_moves_failures_and_the_tuning_page_has_the_draft(samples_server, visit):
    tab = visit(samples_server)
    tab.open("errors")
    tab.page.get_by_text("Reclassify: count these failures in another way").click()
    button = tab.page.get_by_role("button", name="Add to the draft policy")
    button.click()
    tab.page.get_by_text("In the draft.").wait_for()
    tab.page.locator(".st-key-error_sample").get_by_role("link", name="See what it changes").click()
    tab.page.get_by_role("heading", name="Tuning", level=1).wait_for()
    tab.settled()
    assert "Against the default policy" in tab.sentence() or "ends as many runs" in tab.sentence()
    expect(tab.page.get_by_test_id("stMain")).to_contain_text("outcome_rules")


def test_errors_are_downloaded_as_a_table_and_as_data(samples_server, visit):
    tab = visit(samples_server)
    tab.open("errors?kinds_by=agent")
    downloads = tab.page.locator(".st-key-errors_downloads")
    with tab.page.expect_download() as started:
        downloads.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(started.value.path()).read_text(encoding="utf-8"))))
    assert sum(int(row["calls"]) for row in rows) == int(tab.figure("Failed calls").inner_text())
    with tab.page.expect_download() as started:
        downloads.get_by_role("button", name="JSON").click()
    data = json.loads(Path(started.value.path()).read_text(encoding="utf-8"))
    assert data["failed"] == sum(one["calls"] for one in data["by_model"])


def test_a_chart_is_taken_along_as_a_picture(samples_server, visit):
    tab = visit(samples_server)
    tab.open()
    chart = tab.page.locator(".st-key-calls_over_time").first
    chart.hover()
    with tab.page.expect_download() as started:
        chart.locator('[data-title="Download plot as a PNG"]').click()
    assert started.value.suggested_filename == "loopscope-calls-over-time.png"
    assert Path(started.value.path()).read_bytes().startswith(b"\x89PNG")


def test_a_link_with_a_label_opens_the_same_view_and_clears(samples_server, visit):
    tab = visit(samples_server)
    tab.open("incidents?label=true+loop")
    expect(tab.page.locator(".st-key-filterbar")).to_contain_text("true loop")
    tab.page.get_by_role("button", name="Clear", exact=True).click()
    tab.page.wait_for_url(re.compile(r"incidents(?!.*label=)"))
    tab.settled()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_the_contrast_that_reading_takes(samples_server, visit, scheme):
    tab = visit(samples_server, scheme=scheme)
    links = {"overview": "", "errors": "errors", "health": "health"}
    assert faint_texts(tab, links) == {"overview": {}, "errors": {}, "health": {}}


def test_the_filter_bar_and_the_navigation_are_reached_by_keyboard(samples_server, visit):
    tab = visit(samples_server)
    tab.open()
    reached = []
    for _ in range(25):
        tab.page.keyboard.press("Tab")
        reached.append(
            tab.page.evaluate(
                "(document.activeElement.innerText || document.activeElement.ariaLabel || '').trim()"
            )
        )
    seen = " | ".join(reached)
    for name in ("Incidents", "Tuning", "Import & health", "Filter"):
        assert name in seen
