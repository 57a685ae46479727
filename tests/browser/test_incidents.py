"""Incidents in a real browser: faults, filters, labelling by key, links, and a second browser beside it."""

from __future__ import annotations

import re

import pytest

from loopscope.collector import Store, import_paths
from loopscope.replay import find_incidents, read_labels, set_label, weak_labels
from loopscope.sample_traces import files

from .hostile import MARKS, write_hostile_trace

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    db = tmp_path_factory.mktemp("incidents") / "samples.duckdb"
    db.with_suffix(".links.toml").write_text(
        'Jaeger = "http://127.0.0.1:9/trace/{trace_id}"\nSessions = "http://127.0.0.1:9/s/{session_id}"\n'
    )
    import_paths(db, files())
    return serve(db)


@pytest.fixture
def incidents(server):
    """The incidents, worst first; without labels when the test begins."""
    with Store(server.db).write() as con:
        con.execute("DELETE FROM labels")
    with Store(server.db).lease() as con:
        return find_incidents(con)


def labels(server) -> dict[str, tuple[str, str | None]]:
    with Store(server.db).lease() as con:
        return {key: (label.verdict.value, label.note) for key, label in read_labels(con).items()}


def labelled(tab, server, wanted: dict[str, tuple[str, str | None]]) -> None:
    """Wait until these are the labels."""
    for _ in range(100):
        if labels(server) == wanted:
            return
        tab.page.wait_for_timeout(200)
    assert labels(server) == wanted


def open_row(tab, table: str, row: int = 0) -> None:
    """Click Open in a row of a table."""
    grid = tab.page.locator(f".st-key-{table}_table").get_by_test_id("stDataFrame")
    grid.locator("canvas").first.wait_for()
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    assert box
    tab.page.mouse.click(box["x"] + 32, box["y"] + 52 + 35 * row)


def at(tab, key: str) -> None:
    """Wait until an incident is open."""
    tab.page.wait_for_url(re.compile(f"incident={key}"))
    tab.page.locator(f".st-key-label_unsure_{key}").wait_for()
    tab.settled()


def press(tab, key: str) -> None:
    """A key for the page, not for a field."""
    tab.page.locator("h1").click()
    tab.page.keyboard.press(key)


def test_unlabelled_ones_are_labelled_one_after_the_other_by_key(server, visit, incidents):
    tab = visit(server)
    tab.open("incidents")
    tab.page.get_by_test_id("stMain").get_by_role("button", name="○ unlabelled").click()
    tab.page.wait_for_url(re.compile("label="))
    tab.settled()
    open_row(tab, "incidents")
    at(tab, incidents[0].key)
    tab.settled()
    for number, verdict in ((0, "true_loop"), (1, "polling"), (2, "unsure")):
        press(tab, {"true_loop": "1", "polling": "2", "unsure": "5"}[verdict])
        at(tab, incidents[number + 1].key)
    assert labels(server) == {
        incidents[0].key: ("true_loop", None),
        incidents[1].key: ("polling", None),
        incidents[2].key: ("unsure", None),
    }
    press(tab, "z")  # takes the last one back, and shows it
    at(tab, incidents[2].key)
    tab.says("Taken back")
    assert incidents[2].key not in labels(server)
    # The list has them no more, and the filter is still in the address.
    tab.page.get_by_role("button", name="All incidents").click()
    expect(tab.figure("Incidents")).to_have_text(str(len(incidents) - 2))
    assert "label=" in tab.page.url


def test_keys_walk_through_the_list_and_typing_a_note_presses_nothing(server, visit, incidents):
    tab = visit(server)
    tab.open(f"incidents?incident={incidents[0].key}")
    tab.page.locator(".st-key-call_detail").wait_for()
    press(tab, "j")
    at(tab, incidents[1].key)
    press(tab, "k")
    at(tab, incidents[0].key)
    note = tab.page.get_by_role("textbox", name="Note")
    note.fill("")
    note.press_sequentially("1j2k")
    tab.page.locator(f".st-key-label_polling_{incidents[0].key} button").first.click()
    tab.page.locator(".st-key-label_said").get_by_text("Labelled ◔ polling.").wait_for()
    assert labels(server) == {incidents[0].key: ("polling", "1j2k")}
    assert incidents[0].key in tab.page.url
    note.fill("waits for the pod")
    note.press("Enter")
    labelled(tab, server, {incidents[0].key: ("polling", "waits for the pod")})
    tab.settled()
    with tab.page.expect_download() as started:
        tab.page.get_by_role("button", name="Markdown", exact=True).click()
    report = started.value.path().read_text(encoding="utf-8")
    assert "waits for the pod" in report
    assert "polling" in report
    tab.page.get_by_role("button", name="Take off").click()
    tab.says("Took off")
    assert labels(server) == {}


def test_a_suggestion_is_marked_as_one_and_accepted_with_one_click(server, visit, incidents):
    with Store(server.db).lease() as con:
        weak = weak_labels(con)[0]
    tab = visit(server)
    tab.open(f"incidents?incident={weak.key}")
    tab.says("The recording suggests")
    assert labels(server) == {}
    tab.page.get_by_role("button", name="Accept").click()
    tab.page.locator(".st-key-label_said").get_by_text("Labelled").wait_for()
    assert labels(server) == {weak.key: (weak.verdict.value, None)}
    assert tab.page.locator(".st-key-suggestion").count() == 0


def test_a_fault_opens_to_its_incidents_and_all_are_labelled_at_once(server, visit, incidents):
    by_group: dict[str, list] = {}
    for one in incidents:
        by_group.setdefault(one.group, []).append(one)
    group = next(name for name, members in by_group.items() if len(members) > 1)
    keys = {one.key for one in by_group[group]}
    order = sorted(by_group, key=lambda name: -sum(one.repeated_calls for one in by_group[name]))
    tab = visit(server)
    tab.open("incidents")
    open_row(tab, "fault_list", order.index(group))
    tab.page.wait_for_url(re.compile(f"fault={group}"))
    tab.settled()
    assert "of one fault" in tab.sentence()
    expect(tab.figure("Incidents")).to_have_text(str(len(keys)))
    tab.page.get_by_role("button", name=f"true loop: all {len(keys)}").click()
    tab.says(f"Labelled {len(keys)} incidents")
    assert labels(server) == dict.fromkeys(keys, ("true_loop", None))
    tab.page.get_by_role("button", name="Undo").click()
    tab.says("Taken back")
    assert labels(server) == {}
    tab.page.get_by_role("button", name="All faults").click()
    tab.page.locator(".st-key-fault_list_table").wait_for()
    assert "fault=" not in tab.page.url


def test_another_browser_sees_a_label_and_does_not_disturb_the_one_that_is_being_typed(
    server, visit, incidents, tmp_path
):
    one = visit(server)
    other = visit(server)
    one.open(f"incidents?incident={incidents[0].key}")
    other.open(f"incidents?incident={incidents[0].key}")
    press(one, "1")
    one.page.locator(".st-key-label_said").get_by_text("Labelled").wait_for()
    # It follows by itself.
    other.page.locator(".st-key-label_box").get_by_text("since").wait_for()
    typed = one.page.get_by_role("textbox", name="Note")
    typed.press_sequentially("half a no")
    import_paths(server.db, [write_hostile_trace(tmp_path)])  # what a second browser or command brings in
    other.open("incidents")
    expect(other.figure("Incidents")).not_to_have_text(str(len(incidents)))
    expect(one.page.locator(".st-key-walk")).to_contain_text(f"of {len(incidents) + 2}")
    assert typed.input_value() == "half a no"
    typed.press_sequentially("te")
    typed.press("Enter")
    labelled(one, server, {incidents[0].key: ("true_loop", "half a note")})


def test_filters_and_order_are_in_the_link(server, visit, incidents):
    tab = visit(server)
    tab.open("incidents?ended=unresolved&sort=time+taken")
    unresolved = sorted((one for one in incidents if not one.resolved), key=lambda one: -one.duration_ns)
    expect(tab.figure("Incidents")).to_have_text(str(len(unresolved)))
    assert "The longest" in tab.sentence()
    open_row(tab, "incidents")
    at(tab, unresolved[0].key)
    assert "ended=" in tab.page.url
    assert "sort=" in tab.page.url
    again = visit(server)
    again.open(tab.page.url.removeprefix(server.url + "/"))
    again.says(f"1 of {len(unresolved)}")
    again.settled()
    assert again.sentence() == tab.sentence()
    press(again, "j")
    at(again, unresolved[1].key)


def test_links_lead_to_other_tools(server, visit, incidents):
    tab = visit(server)
    tab.open(f"incidents?incident={incidents[0].key}")
    link = tab.page.get_by_role("link", name="Open in Jaeger")
    assert link.get_attribute("href") == f"http://127.0.0.1:9/trace/{incidents[0].trace_id}"
    sessions = tab.page.get_by_role("link", name="Open in Sessions")
    assert sessions.count() == (1 if incidents[0].session_id else 0)


def test_the_list_comes_as_csv(server, visit, incidents):
    set_label(Store(server.db), incidents[0].key, "polling", "=1+1")
    tab = visit(server)
    tab.open("incidents?kind=loop")
    with Store(server.db).lease() as con:
        found = find_incidents(con)
    with tab.page.expect_download() as started:
        tab.page.get_by_role("button", name="CSV", exact=True).click()
    text = started.value.path().read_text(encoding="utf-8-sig")
    assert text.splitlines()[0].endswith(",label,label_note")
    assert "polling,'=1+1" in text
    assert len(text.splitlines()) == 1 + sum(one.kind == "loop" for one in found)


def test_hostile_notes_are_text(serve, visit, tmp_path):
    import_paths(tmp_path / "hostile.duckdb", [write_hostile_trace(tmp_path)])
    store = Store(tmp_path / "hostile.duckdb")
    with store.lease() as con:
        found = find_incidents(con)
    for one in found:
        set_label(store, one.key, "polling", " ".join(MARKS))
    tab = visit(serve(tmp_path / "hostile.duckdb"))
    for path in (
        "incidents",
        f"incidents?fault={found[0].group}",
        *(f"incidents?incident={one.key}" for one in found),
    ):
        tab.open(path)
        tab.page.get_by_test_id("stMetric").first.wait_for()
        assert tab.page.evaluate("window.pwned === undefined")
        assert tab.page.locator('img[src="x"], img[src*="evil.example"], a[href^="javascript"]').count() == 0
        assert tab.page.locator("strong", has_text="loud").count() == 0
        assert tab.page.locator(".katex").count() == 0


def test_the_first_columns_decide_on_a_narrow_screen(server, visit, incidents):
    tab = visit(server, width=400)
    tab.open(f"incidents?incident={incidents[0].key}")
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 400
    tab.open("incidents")
    open_row(tab, "incidents")
    at(tab, incidents[0].key)
