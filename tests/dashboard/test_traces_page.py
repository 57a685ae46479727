"""The page of whole runs without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from loopscope.collector import Store, import_paths
from loopscope.dashboard import _data, _traces_link, _traces_table, _waterfall
from loopscope.dashboard._traces_words import short_id
from loopscope.guard import GuardPolicy
from loopscope.replay.traces import RunSort, list_runs, span_tree
from loopscope.sample_traces import files

APP = Path(_data.__file__).with_name("app.py")
POLICY = GuardPolicy()

Open = Callable[..., AppTest]


@pytest.mark.parametrize(
    ("run_id", "short"),
    [
        ("conversation:chat-70211", "chat-70211"),
        ("mcp_session:9f0c3a1b22334455", "9f0c3a1b2233"),
        (f"{'eeda9147' * 4}/17bb3caac7542a40", "eeda9147/17bb"),
        (f"{'eeda9147' * 4}/57d955d54f775bd5", "eeda9147/57d9"),
        ("f858889f7cbcb405af47902239faf478", "f858889f7cbc"),
        ("a/b", "a/b"),
    ],
)
def test_short_ids_tell_runs_apart(run_id, short):
    assert short_id(run_id) == short


@pytest.fixture(scope="module")
def samples_db(tmp_path_factory) -> Path:
    db = tmp_path_factory.mktemp("runs") / "samples.duckdb"
    import_paths(db, files())
    return db


@pytest.fixture(scope="module")
def worst(samples_db) -> str:
    """The run with most repeated calls."""
    with Store(samples_db).lease() as con:
        return list_runs(con, POLICY, sort=RunSort.REPEATS, limit=1).rows[0].run_id


@pytest.fixture
def visit(monkeypatch) -> Iterator[Open]:
    monkeypatch.delenv("LOOPSCOPE_POLICY", raising=False)

    def go(db: Path, **parameters: str) -> AppTest:
        monkeypatch.setenv("LOOPSCOPE_DB", str(db))
        app = AppTest.from_file(APP, default_timeout=60)
        for name, value in parameters.items():
            app.query_params[name] = value
        app.run()
        return app.switch_page("app_pages/traces.py").run()

    st.cache_data.clear()
    st.cache_resource.clear()
    yield go
    st.cache_data.clear()
    st.cache_resource.clear()


def texts(app: AppTest) -> str:
    parts = (*app.text, *app.markdown, *app.caption, *app.code, *app.subheader)
    return "\n".join(str(part.value) for part in parts)


def well(app: AppTest) -> None:
    assert not app.exception
    assert "This cannot be shown" not in texts(app)


def test_the_list_says_how_many_and_which_is_first(samples_db, visit):
    app = visit(samples_db)
    well(app)
    with Store(samples_db).lease() as con:
        found = list_runs(con, POLICY, limit=1)
    figures = {metric.label: metric.value for metric in app.metric}
    assert figures["Runs"] == f"{found.total:,}"
    assert figures["Runs with an incident"] == f"{found.with_incidents:,}"
    assert app.text[0].value.startswith(f"{found.total:,} runs in all time, {found.with_incidents:,} of them")
    assert len(app.dataframe[0].value) == min(25, found.total)


def test_the_list_in_another_order_and_by_id(samples_db, visit, worst):
    app = visit(samples_db, sort="Most repeats")
    repeats = app.dataframe[0].value["repeats"].tolist()
    assert repeats == sorted(repeats, reverse=True)
    assert app.dataframe[0].value["run"][0] == worst
    app = visit(samples_db, find=worst[:12])
    well(app)
    assert all(run.startswith(worst[:12]) for run in app.dataframe[0].value["run"])
    app = visit(samples_db, find="zzz **bold**")
    well(app)
    assert (
        "No run, trace or session in all time has an id that begins with zzz **bold**." in app.text[0].value
    )


def test_the_second_page_of_the_list(samples_db, visit, monkeypatch):
    monkeypatch.setattr(_traces_table, "_ROWS", 10)
    app = visit(samples_db)
    first = app.dataframe[0].value["run"].tolist()
    app.number_input(key="runs_page").set_value(2).run()
    well(app)
    second = app.dataframe[0].value["run"].tolist()
    assert second
    assert "Runs 11 to 20 of" in texts(app)
    assert not set(first) & set(second)


@pytest.mark.parametrize("view", ["Spans", "Messages", "Calls", "Logs", "Facts"])
def test_every_part_of_a_run_under_its_own_link(samples_db, visit, worst, view):
    app = visit(samples_db, run=worst, view=view)
    well(app)
    assert app.text[0].value.endswith(".")
    assert len(app.metric) == 6
    assert app.tabs[("Spans", "Messages", "Calls", "Logs", "Facts").index(view)].label == view


def test_the_spans_of_a_run_are_lines_with_bars(samples_db, visit, worst):
    app = visit(samples_db, run=worst)
    shown = app.dataframe[0].value
    with Store(samples_db).lease() as con:
        tree = span_tree(con, worst, POLICY)
    assert f"{len(shown):,} lines of {tree.total:,} spans" in texts(app)
    assert all(bar.startswith("data:image/svg+xml") for bar in shown["bar"])
    assert any("■ block" in verdicts for verdicts in shown["verdict"])


def test_bars_hold_nothing_out_of_the_trace(samples_db, worst):
    with Store(samples_db).lease() as con:
        tree = span_tree(con, worst, POLICY)
    for place in range(len(tree.spans.names)):
        tree.spans.names[place] = '<script>alert("x")</script>'
    tree.spans.labels.clear()
    for window in (tree.window(), tree.window(fold=True, limit=5), tree.find("script")):
        for row in window.rows:
            assert "script" not in _waterfall.bar(row, window)
            assert "script" in row.name


def test_a_link_to_a_span_selects_it(samples_db, visit, worst):
    with Store(samples_db).lease() as con:
        tree = span_tree(con, worst, POLICY)
    place = tree.spans.kinds.index("call")
    app = visit(samples_db, run=worst, span=tree.key(place))
    well(app)
    shown = texts(app)
    assert f"**Call** `{tree.name(place)}`" in shown
    assert "equal in a row" in shown
    assert "Arguments (" in shown


def test_a_trace_id_leads_to_its_run(samples_db, visit, worst):
    trace = worst.partition("/")[0]
    app = visit(samples_db, run=trace)
    well(app)
    assert "not in this database" not in app.text[0].value


def test_an_unknown_run_says_so(samples_db, visit):
    app = visit(samples_db, run="no such run")
    well(app)
    assert app.text[0].value == "That run is not in this database."


def test_what_was_not_recorded_says_which_setting_records_it(samples_db, visit):
    with Store(samples_db).lease() as con:
        found = con.execute(
            "SELECT run_id FROM llm_request_rows GROUP BY run_id HAVING count(input_parts) = 0 ORDER BY "
            "1 LIMIT 1"
        ).fetchall()
    app = visit(samples_db, run=found[0][0], view="Messages")
    well(app)
    assert "messages not recorded" in texts(app)
    assert any("were not recorded" in one.label for one in app.expander)


def test_an_empty_store_teaches(tmp_path, visit):
    app = visit(tmp_path / "empty.duckdb")
    well(app)
    assert f"loopscope import PATH… --db {tmp_path}/empty.duckdb\n" in texts(app)


def test_addresses_of_runs_are_encoded():
    address = _traces_link.run_url("conversation:a b&c=d/<x>", "t/s")
    assert address == "/traces?run=conversation%3Aa+b%26c%3Dd%2F%3Cx%3E&span=t%2Fs"


@pytest.mark.parametrize("view", ["Spans", "Facts"])
def test_the_way_back_leads_to_the_list(samples_db, visit, worst, view):
    app = visit(samples_db, run=worst, view=view)
    app.button(key="back").click().run()
    well(app)
    assert " runs in all time" in app.text[0].value
    assert "run" not in app.query_params
