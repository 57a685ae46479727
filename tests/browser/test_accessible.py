"""On pages and in what opens: texts can be read, controls have a name and are reached by keyboard."""

from __future__ import annotations

import pytest

from loopscope.collector import Store, import_paths
from loopscope.guard import GuardPolicy
from loopscope.replay import analyse_requests, find_incidents
from loopscope.sample_traces import files

from .contrast import faint_texts

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.browser

PLACES = ("incidents", "incident", "tuning", "requests", "request", "traces", "run")

# Controls in sight, each with a number; those without a name. Controls of one group (tabs, a choice of
# several) are one stop of the Tab key: arrows lead on from there. Tables and pictures have keys of their own.
CONTROLS = """() => {
    const SKIP = '[data-testid="stDataFrame"], .modebar, [disabled], [aria-disabled="true"]';
    const wanted = 'button, a[href], input, select, textarea, summary, [role="slider"], [role="tab"]';
    const main = document.querySelector('[data-testid="stMain"]');
    const nameless = [], stops = [], groups = new Map();
    for (const node of main.querySelectorAll(wanted)) {
        const box = node.getBoundingClientRect();
        if (!box.width || !box.height || node.closest(SKIP) || node.type === 'file') continue;
        if (getComputedStyle(node).visibility === 'hidden') continue;
        const named = [node.getAttribute('aria-label'), node.innerText, node.title, node.placeholder]
            .concat((node.getAttribute('aria-labelledby') ?? '').split(' ')
                .map(id => id && document.getElementById(id)?.innerText))
            .concat([...(node.labels ?? [])].map(label => label.innerText || label.ariaLabel));
        const name = named.find(text => text?.trim());
        if (!name) nameless.push(node.outerHTML.slice(0, 160));
        if (node.tabIndex >= 0 && node.type !== 'radio') {
            const group = node.closest('[role="toolbar"], [role="radiogroup"], [role="tablist"]') ?? node;
            if (!groups.has(group)) {
                groups.set(group, stops.length);
                stops.push(name?.trim().slice(0, 40));
            }
            node.dataset.stop = groups.get(group);
        }
    }
    return {nameless, stops};
}"""


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    db = tmp_path_factory.mktemp("accessible") / "samples.duckdb"
    import_paths(db, files())
    return serve(db)


@pytest.fixture(scope="module")
def links(server) -> dict[str, str]:
    """Where each place is."""
    with Store(server.db).lease() as con:
        worst = find_incidents(con)[0]
        refused = analyse_requests(con, GuardPolicy(), passed=False).requests
    # The one with two kinds of repair shows most.
    request = next(one for one in refused if len(one.repairs) == 2)
    return {name: name for name in PLACES} | {
        "incident": f"incidents?incident={worst.key}",
        "tuning": "tuning?nudge=2&block=4",
        "request": f"requests?request={request.trace_id}-{request.span_id}",
        "run": f"traces?run={worst.run_id}",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_the_contrast_that_reading_takes(server, links, visit, scheme):
    tab = visit(server, scheme=scheme)
    assert faint_texts(tab, links) == {place: {} for place in PLACES}


@pytest.mark.parametrize("place", ["", "incident", "requests", "request", "run"])
def test_controls_have_names_and_the_tab_key_reaches_all_of_them(server, links, visit, place):
    tab = visit(server)
    tab.open(links.get(place, place))
    tab.page.get_by_text("Follow new data").click()  # nothing is drawn anew meanwhile
    tab.settled()
    found = tab.page.evaluate(CONTROLS)
    assert found["nameless"] == []
    assert found["stops"]
    reached = set()
    for _ in range(4 * len(found["stops"]) + 60):
        tab.page.keyboard.press("Tab")
        stop = tab.page.evaluate("document.activeElement.dataset.stop")
        if stop is not None:
            reached.add(int(stop))
        if len(reached) == len(found["stops"]):
            break
    assert [name for number, name in enumerate(found["stops"]) if number not in reached] == []


def test_tables_offer_no_download_that_a_spreadsheet_would_run(server, visit):
    tab = visit(server)
    tab.open("incidents")
    table = tab.page.locator(".st-key-incidents_table").get_by_test_id("stDataFrame")
    table.scroll_into_view_if_needed()
    table.hover()
    tools = tab.page.locator(".st-key-incidents_table").get_by_test_id("stElementToolbarButton")
    tools.first.wait_for()
    assert "CSV" not in " ".join(one.inner_html() for one in tools.all())
