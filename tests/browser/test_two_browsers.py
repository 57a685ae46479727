"""Two people at one server: one drops files while the other labels, writes a note and reads."""

from __future__ import annotations

import pytest

from loopscope.collector import Store, import_paths
from loopscope.replay import find_incidents, read_labels
from loopscope.sample_traces import files

from .test_incidents import press
from .test_pages import number

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=60_000)
pytestmark = pytest.mark.browser


def counted(db) -> tuple[int, int, int]:
    """Runs, finished calls and incidents that a database holds."""
    with Store(db).lease() as con:
        runs = con.execute("SELECT run_id FROM tool_calls UNION SELECT run_id FROM llm_requests").fetchall()
        calls = con.execute("SELECT count(*) FROM tool_calls WHERE end_ns IS NOT NULL").fetchone()
        assert calls
        return len(runs), calls[0], len(find_incidents(con))


def test_one_drops_files_while_the_other_labels_and_writes_a_note(serve, visit, tmp_path):
    db, whole = tmp_path / "shared.duckdb", tmp_path / "whole.duckdb"
    first = next(path for path in files() if path.name.startswith("helpdesk_search_loop"))
    others = [path for path in sorted(files()) if path != first]
    import_paths(db, [first])
    import_paths(whole, files())
    runs, calls, incidents = counted(whole)
    with Store(db).lease() as con:
        worst = find_incidents(con)[0].key
    server = serve(db)
    dropper, reader = visit(server), visit(server)
    dropper.open("health")
    reader.open(f"incidents?incident={worst}")
    part = reader.page.locator("details", has_text="Facts")
    part.locator("summary").click()
    expect(part).to_have_attribute("open", "")
    note = reader.page.get_by_role("textbox", name="Note")
    note.press_sequentially("the index was")

    dropper.page.locator('input[type="file"]').set_input_files([str(path) for path in others])
    dropper.page.locator(".st-key-drop_progress, .st-key-drop_report").first.wait_for()
    press(reader, "1")  # leaves the field as well, so that the note comes with the label
    said = reader.page.locator(".st-key-label_said")
    said.get_by_text("Labelled").wait_for()
    note.click()
    note.press("End")
    note.press_sequentially(" empty since", delay=60)  # half a second, and pages follow twice in one
    report = dropper.page.locator(".st-key-drop_report")
    report.wait_for()
    expect(report).to_contain_text(f"{len(others)} of {len(others)} files")
    # The reader sees what the other one brought in, and loses nothing by it.
    expect(reader.page.locator(".st-key-walk")).to_contain_text(f"of {incidents} incidents")
    reader.settled()
    assert note.input_value() == "the index was empty since"
    expect(part).to_have_attribute("open", "")
    assert f"incident={worst}" in reader.page.url
    note.press_sequentially(" noon")
    note.press("Enter")
    reader.page.get_by_text("since").first.wait_for()
    reader.settled()

    assert counted(db) == (runs, calls, incidents)
    for tab in (dropper, reader):
        tab.go("Overview")
        assert (number(tab, "Runs"), number(tab, "Tool calls")) == (runs, calls)
        tab.go("Incidents")
        assert number(tab, "Incidents") == incidents
    with Store(db).lease() as con:
        labels = {key: (one.verdict.value, one.note) for key, one in read_labels(con).items()}
    assert labels == {worst: ("true_loop", "the index was empty since noon")}
