"""The requests page in a real browser: causes open, histories stand before and after, text is text."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from loopscope.collector import import_paths
from loopscope.dashboard._request_tables import TALL

from .hostile import MARKS
from .refusals import write_refusals
from .test_pages import clean

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def refusals(serve, tmp_path_factory):
    """(server, place of each request)."""
    folder = tmp_path_factory.mktemp("refusals")
    file, places = write_refusals(folder)
    import_paths(folder / "refusals.duckdb", [file])
    return serve(folder / "refusals.duckdb"), places


def open_row(tab, table: str, row: int = 0, height: int = 35) -> None:
    """Click Open in a row of a table."""
    grid = tab.page.locator(f".st-key-{table}_table").get_by_test_id("stDataFrame")
    grid.locator("canvas").first.wait_for()
    grid.click(position={"x": 32, "y": 35 + height * row + height // 2})
    tab.page.wait_for_url(re.compile(r"request=[0-9a-f]+-[0-9a-f]+"))
    tab.page.locator(".st-key-facts").wait_for()
    tab.settled()


def download(tab, label: str) -> str:
    """The text of a file that a button gives."""
    with tab.page.expect_download() as started:
        tab.page.get_by_role("button", name=label, exact=True).click()
    return started.value.path().read_text(encoding="utf-8")


def test_a_cause_opens_under_a_link_of_its_own(refusals, visit):
    server, _ = refusals
    tab = visit(server)
    tab.open("requests")
    assert tab.sentence().startswith("9 of 13 requests were refused over tool calls and results")
    open_row(tab, "causes", 6, height=TALL)
    sentence = tab.sentence()
    assert sentence.startswith("Refused by OpenAI over: call id used twice")
    tab.says("3 requests with this fault")
    tab.page.locator(".st-key-same_fault").get_by_text("The other 2 requests").click()
    first = tab.page.url
    open_row(tab, "same_fault")
    tab.page.wait_for_url(lambda url: url != first)
    tab.settled()
    assert tab.sentence() == sentence
    again = visit(server)
    again.open(tab.page.url.removeprefix(server.url + "/"))
    assert again.sentence() == sentence
    tab.page.get_by_role("button", name="All requests").click()
    tab.page.locator(".st-key-causes_table").wait_for()
    tab.page.wait_for_url(re.compile(r"/requests$"))


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (400, "dark")])
def test_a_history_stands_before_and_after(refusals, visit, width, scheme):
    server, places = refusals
    tab = visit(server, width=width, scheme=scheme)
    tab.open(f"requests?request={places['cut']}")
    shown = tab.page.locator(".st-key-history")
    for mark in ("↕ moved here", "+ made", "↕ moved away"):
        expect(shown.get_by_text(mark, exact=True)).to_have_count(1)
    made, away = (shown.get_by_text(text).bounding_box() for text in ("+ made", "↕ moved away"))
    if width > 1000:  # side by side: what is recorded left, what is repaired right
        assert away["x"] + 200 < made["x"]
    else:
        assert abs(away["x"] - made["x"]) < 20
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    lines = tab.page.get_by_test_id("stCode").filter(has_text="sanitize").locator("pre")
    expect(lines).to_have_count(2)
    assert all(one.evaluate("pre => pre.scrollWidth <= pre.clientWidth") for one in lines.all())
    repaired, recorded = (json.loads(download(tab, label)) for label in ("Repaired history", "As recorded"))
    assert [one["role"] for one in recorded] == ["user", "assistant", "user", "tool"]
    assert [one["role"] for one in repaired] == ["user", "assistant", "tool", "tool", "user"]
    assert [one.get("tool_call_id") for one in repaired][2:4] == ["call_make", "call_test"]


def test_a_long_history_shows_what_is_around_the_repair(refusals, visit):
    server, places = refusals
    tab = visit(server)
    tab.open(f"requests?request={places['long']}")
    tab.says("47 messages left out")
    lines = tab.page.locator(".st-key-history").get_by_test_id("stExpander")
    expect(lines).to_have_count(5)
    tab.page.get_by_text("All messages").click()
    expect(lines).to_have_count(52)
    tab.settled()
    assert len(json.loads(download(tab, "Repaired history"))) == 52


def test_another_providers_rules_are_in_the_link(refusals, visit):
    server, places = refusals
    tab = visit(server)
    tab.open(f"requests?request={places['doubled']}")
    tab.page.get_by_role("combobox").nth(1).click()
    tab.page.get_by_role("option", name="Mistral AI").click()
    tab.page.locator(".st-key-sentence", has_text="Mistral AI would refuse").wait_for()
    tab.settled()
    assert "rules=mistral" in tab.page.url
    again = visit(server)
    again.open(tab.page.url.removeprefix(server.url + "/"))
    assert again.sentence() == tab.sentence()


def test_a_provider_at_risk_opens_a_sample_under_its_rules(refusals, visit):
    tab = visit(refusals[0])
    tab.open("requests")
    open_row(tab, "risks")
    assert tab.sentence().startswith("This request succeeded; Mistral AI would refuse its history")
    assert "rules=mistral" in tab.page.url


def test_the_analysis_comes_as_json_and_csv(refusals, visit):
    server, places = refusals
    tab = visit(server)
    tab.open("requests")
    found = json.loads(download(tab, "JSON"))
    assert found["schema_version"] == 1
    assert (found["totals"]["failed"], found["totals"]["latent"], found["totals"]["broken"]) == (10, 2, 1)
    rows = list(csv.DictReader(io.StringIO(download(tab, "CSV"))))
    assert {f"{row['trace_id']}-{row['span_id']}" for row in rows} >= {places["cut"], places["hostile"]}
    assert next(row for row in rows if row["http_status"] == "429")["verdict"] == ""


def test_hostile_messages_are_text(refusals, visit):
    server, places = refusals
    tab = visit(server)
    tab.open("requests")
    clean(tab)
    tab.open(f"requests?request={places['hostile']}")
    clean(tab)
    shown = tab.page.locator(".st-key-history")
    expect(shown.get_by_text(MARKS[0]).filter(visible=True).first).to_be_visible()
    tab.page.get_by_text("As JSON", exact=True).click()
    expect(shown.get_by_text('"role"').filter(visible=True).first).to_be_visible()
    tab.settled()
    clean(tab)
    for line in shown.get_by_test_id("stExpander").all():
        line.locator("summary").click()
    expect(shown.get_by_text("As recorded, and kept").last).to_be_visible()
    clean(tab)
