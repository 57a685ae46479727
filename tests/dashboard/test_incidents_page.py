"""The incidents page without a browser: filters, faults, labels and the way back, links, answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from loopscope.collector import Store, import_paths
from loopscope.dashboard import _data
from loopscope.dashboard._incident_faults import faults_of, label_state
from loopscope.dashboard._incident_list import ORDERS, Shown
from loopscope.dashboard._labels import LABELS, label_text
from loopscope.guard import GuardPolicy
from loopscope.replay import (
    Incident,
    Label,
    LabelVerdict,
    final_answers,
    find_incidents,
    read_labels,
    report,
    set_label,
    weak_labels,
)
from loopscope.sample_traces import files

APP = Path(_data.__file__).with_name("app.py")
Open = Callable[..., AppTest]


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> Path:
    db = tmp_path_factory.mktemp("incidents") / "samples.duckdb"
    import_paths(db, files())
    return db


@pytest.fixture
def db(imported) -> Path:
    """The samples, without labels."""
    with Store(imported).write() as con:
        con.execute("DELETE FROM labels")
    return imported


@pytest.fixture
def visit(monkeypatch) -> Iterator[Open]:
    """Opens the page, in a session of its own."""
    for name in ("LOOPSCOPE_POLICY", "LOOPSCOPE_OTLP_HTTP", "LOOPSCOPE_LINKS"):
        monkeypatch.delenv(name, raising=False)

    def go(db: Path, **parameters: str) -> AppTest:
        monkeypatch.setenv("LOOPSCOPE_DB", str(db))
        app = AppTest.from_file(APP, default_timeout=60)
        if "label" in parameters:  # of the filter bar, which stands on every page
            app.query_params["label"] = parameters.pop("label")
        app.run()
        app.switch_page("app_pages/incidents.py")
        for name, value in parameters.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        assert "This cannot be shown" not in texts(app)
        return app

    st.cache_data.clear()
    st.cache_resource.clear()
    yield go
    st.cache_data.clear()
    st.cache_resource.clear()


def texts(app: AppTest) -> str:
    parts = (*app.text, *app.markdown, *app.caption, *app.code, *app.subheader)
    return "\n".join(str(part.value) for part in parts)


def figure(app: AppTest, label: str) -> str:
    return next(metric.value for metric in app.metric if metric.label == label)


def incidents(db: Path) -> list[Incident]:
    with Store(db).lease() as con:
        return find_incidents(con)


def labels(db: Path) -> dict[str, Label]:
    with Store(db).lease() as con:
        return read_labels(con)


def wait_well(app: AppTest) -> None:
    assert not app.exception
    assert "This cannot be shown" not in texts(app)


@pytest.mark.parametrize("order", list(ORDERS))
def test_the_sentence_says_what_worst_means(db, visit, order):
    found = incidents(db)
    app = visit(db, sort=ORDERS[order].name)
    said = app.text[0].value
    assert ORDERS[order].worst in said
    value = ORDERS[order].value
    worst = min(found, key=lambda one: (value(one) is None, -(value(one) or 0)))
    assert worst.tool_name in said


def test_filters_narrow_every_figure_and_come_from_the_link(db, visit):
    found = incidents(db)
    app = visit(db, kind="loop", outcome="same answer", ended="unresolved")
    wanted = [one for one in found if (one.kind, one.outcome, one.resolved) == ("loop", "success", False)]
    assert 0 < len(wanted) < len(found)
    assert figure(app, "Incidents") == str(len(wanted))
    assert figure(app, "Calls for nothing") == str(sum(one.repeated_calls for one in wanted))


def test_filters_that_leave_nothing_say_so(db, visit):
    app = visit(db, kind="twin calls", ended="unresolved", outcome="arguments refused")
    assert app.text[0].value == "No incident fits these filters."


def test_labels_narrow_the_list(db, visit):
    first, *rest = incidents(db)
    set_label(Store(db), first.key, "polling")
    assert figure(visit(db, label="unlabelled"), "Incidents") == str(len(rest))
    assert figure(visit(db, label="polling"), "Incidents") == "1"


def test_all_labelled_is_good_news(db, visit):
    for one in incidents(db):
        set_label(Store(db), one.key, "unsure")
    app = visit(db, label="unlabelled")
    assert app.text[0].value == "No incident fits these filters."
    assert "has a label" in app.success[0].value


@pytest.mark.parametrize("verdict", list(LABELS))
def test_a_label_is_written_shown_and_taken_back(db, visit, verdict):
    one = incidents(db)[0]
    app = visit(db, incident=one.key)
    assert "Not labelled yet" in texts(app)
    app.button(key=f"label_{verdict}_{one.key}").click().run()
    wait_well(app)
    assert labels(db)[one.key].verdict == verdict
    assert f"Labelled {label_text(verdict)}." in texts(app)
    app.button(key="label_undo").click().run()
    wait_well(app)
    assert labels(db) == {}
    assert "Taken back" in texts(app)


def test_undo_brings_an_older_label_back_with_its_note(db, visit):
    one = incidents(db)[0]
    set_label(Store(db), one.key, "polling", "was here")
    app = visit(db, incident=one.key)
    app.button(key=f"label_true_loop_{one.key}").click().run()
    app.button(key="label_undo").click().run()
    kept = labels(db)[one.key]
    assert (kept.verdict, kept.note) == (LabelVerdict.POLLING, "was here")


def test_undo_leaves_what_somebody_else_changed_meanwhile(db, visit):
    one = incidents(db)[0]
    app = visit(db, incident=one.key)
    app.button(key=f"label_true_loop_{one.key}").click().run()
    set_label(Store(db), one.key, "polling", "no, it waits")
    app.button(key="label_undo").click().run()
    wait_well(app)
    assert labels(db)[one.key].verdict is LabelVerdict.POLLING
    assert "somebody else" in texts(app)


def test_a_note_goes_with_the_label_and_can_change_later(db, visit):
    one = incidents(db)[0]
    app = visit(db, incident=one.key)
    app.text_input(key=f"note_{one.key}").set_value("first").run()
    assert labels(db) == {}
    app.button(key=f"label_polling_{one.key}").click().run()
    assert labels(db)[one.key].note == "first"
    app.text_input(key=f"note_{one.key}").set_value("second").run()
    wait_well(app)
    assert labels(db)[one.key].note == "second"
    app.text_input(key=f"note_{one.key}").set_value("").run()
    assert labels(db)[one.key].note is None


def test_the_whole_fault_is_labelled_and_taken_back(db, visit):
    found = incidents(db)
    group = next(one.group for one in found if sum(other.group == one.group for other in found) > 1)
    keys = {one.key for one in found if one.group == group}
    one = next(one for one in found if one.group == group)
    app = visit(db, incident=one.key)
    app.button(key=f"label_retry_that_worked_{one.key}").click().run()
    app.button(key=f"label_group_{one.key}").click().run()
    wait_well(app)
    assert {key: label.verdict for key, label in labels(db).items()} == dict.fromkeys(
        keys, LabelVerdict.RETRY_THAT_WORKED
    )
    app.button(key="label_undo").click().run()
    assert set(labels(db)) == {one.key}
    assert figure(visit(db, fault=group), "Incidents") == str(len(keys))


def test_suggestions_are_offered_only_where_nobody_labelled(db, visit):
    with Store(db).lease() as con:
        weak = weak_labels(con)[0]
    app = visit(db, incident=weak.key)
    assert weak.evidence in texts(app)
    app.button(key=f"accept_{weak.key}").click().run()
    wait_well(app)
    assert labels(db)[weak.key].verdict is weak.verdict
    assert weak.evidence not in texts(app)


def test_a_label_opens_the_next_one_only_in_a_list_of_unlabelled_ones(db, visit):
    first, second, *_ = incidents(db)
    app = visit(db, incident=first.key)
    app.button(key=f"label_unsure_{first.key}").click().run()
    assert app.query_params["incident"] == first.key
    app = visit(db, incident=second.key, label="unlabelled")
    app.button(key=f"label_unsure_{second.key}").click().run()
    wait_well(app)
    assert app.query_params["incident"] not in (first.key, second.key)


def test_a_busy_database_while_labelling_is_said_and_nothing_breaks(db, visit, monkeypatch):
    one = incidents(db)[0]
    app = visit(db, incident=one.key)
    from loopscope.guard import StoreBusyError

    def busy(*_args, **_options):
        raise StoreBusyError("process 7 holds the file")

    monkeypatch.setattr("loopscope.dashboard._labels.set_labels", busy)
    app.button(key=f"label_polling_{one.key}").click().run()
    wait_well(app)
    assert "process 7 holds the file" in texts(app)
    assert labels(db) == {}


def test_numbers_of_the_incident_and_of_the_run_are_told_apart(db, visit):
    one = next(one for one in incidents(db) if one.kind == "same_error")
    shown = texts(visit(db, incident=one.key))
    assert "Call 2 of the incident** (#3 of the run)" in shown
    assert "⟦" in shown


def test_the_final_answer_and_the_links(db, visit, monkeypatch):
    with Store(db).lease() as con:
        found = find_incidents(con)
        answers = final_answers(con, [one.run_id for one in found])
    one = next(one for one in found if one.run_id in answers)
    app = visit(db, incident=one.key)
    assert answers[one.run_id][0][:40] in texts(app)
    assert "loopscope serve --link" in texts(app)
    monkeypatch.setenv("LOOPSCOPE_LINKS", "Jaeger=ftp://x.example/{trace_id}")
    assert "A link cannot be used" in texts(visit(db, incident=one.key))


def test_reports_have_the_label_and_the_note(db):
    one, other, *_ = incidents(db)
    set_label(Store(db), one.key, "polling", "=waits *for* it")
    with Store(db).lease() as con:
        policy = GuardPolicy()
        single = json.loads(report(con, one.key, policy, "json"))
        every = json.loads(report(con, None, policy, "json", keys=[other.key, one.key]))
        table = report(con, None, policy, "csv")
        words = report(con, one.key, policy, "md")
        nothing = report(con, other.key, policy, "md")
        page = report(con, None, policy, "html")
    assert (single["incident"]["label"], single["incident"]["label_note"]) == ("polling", "=waits *for* it")
    assert [item["key"] for item in every["incidents"]] == [other.key, one.key]
    assert [item["label"] for item in every["incidents"]] == [None, "polling"]
    assert ",polling,'=waits *for* it" in table
    assert "What a person said it was" in words
    assert "=waits *for* it" in words
    assert "What a person said" not in nothing
    assert "<th>Label</th>" in page


def test_an_empty_store_teaches(tmp_path, visit):
    app = visit(tmp_path / "empty.duckdb", label="unlabelled", sort="cost")
    assert "loopscope import" in texts(app)


# -- the parts ----------------------------------------------------------------------------------------


def made(incident: Incident, **changes: object) -> Incident:
    return replace(incident, **changes)


@pytest.fixture(scope="module")
def one(imported) -> Incident:
    return incidents(imported)[0]


def test_faults_add_up_and_say_what_is_not_recorded(one):
    group = [
        made(one, key="a", run_id="1", repeated_calls=2, input_tokens=None, output_tokens=None, cost=None),
        made(one, key="b", run_id="2", repeated_calls=3, input_tokens=5, output_tokens=None, cost=0.5),
    ]
    other = made(one, key="c", group="other", repeated_calls=4, cost=None)
    faults = faults_of([*group, other], ORDERS["repeats"])
    assert [(fault.group, fault.repeated_calls, fault.runs) for fault in faults] == [
        (one.group, 5, 2),
        ("other", 4, 1),
    ]
    assert (faults[0].tokens, faults[0].cost) == (5, 0.5)
    by_cost = faults_of([other, *group], ORDERS["cost"])
    assert [fault.cost for fault in by_cost] == [0.5, None]


def test_the_label_of_a_fault_says_how_many_it_speaks_for(one):
    group = [made(one, key=key) for key in "abc"]

    def said(**verdicts: str) -> str:
        given = {key: Label(key, LabelVerdict(verdict), None, 0) for key, verdict in verdicts.items()}
        return label_state(group, given)

    assert said() == "○ unlabelled"
    assert said(a="polling") == "◔ polling 1 of 3"
    assert said(a="polling", b="polling", c="polling") == "◔ polling"
    assert said(a="polling", b="unsure") == "mixed: 2 labels, 2 of 3"


def test_neighbours_of_one_that_left_the_list(one):
    a, b, c = (made(one, key=key) for key in "abc")
    shown = Shown((a, b, c), (a, c), {"b": Label("b", LabelVerdict.UNSURE, None, 0)}, ORDERS["repeats"], True)
    assert shown.place("b") == (None, "a", "c")
    assert shown.place("a") == (0, None, "c")
    assert shown.place("c") == (1, "a", None)
    assert shown.place("nowhere") == (None, None, "a")
    assert shown.next_unlabelled("a") == "c"
    assert shown.next_unlabelled("c") == "a"
    assert shown.next_unlabelled("b") == "c"
