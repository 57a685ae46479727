"""The pages without a browser: what they say, what they ask of the store, what they do in trouble."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import duckdb
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from loopscope.collector import Spool, Store, import_paths
from loopscope.dashboard import _data
from loopscope.guard import GuardPolicy
from loopscope.replay import find_incidents, replay
from loopscope.sample_traces import files, stories

APP = Path(_data.__file__).with_name("app.py")
PAGES = ("overview", "incidents", "tuning", "errors", "requests", "traces", "health")

Open = Callable[..., AppTest]


@pytest.fixture(scope="module")
def samples_db(tmp_path_factory) -> Path:
    db = tmp_path_factory.mktemp("samples") / "samples.duckdb"
    import_paths(db, files())
    return db


@pytest.fixture
def visit(monkeypatch) -> Iterator[Open]:
    """Opens a page on a database, in a session of its own."""
    monkeypatch.delenv("LOOPSCOPE_POLICY", raising=False)
    monkeypatch.delenv("LOOPSCOPE_OTLP_HTTP", raising=False)
    monkeypatch.setattr(_data, "PATIENCE", 0.3)

    def go(db: Path, page: str = "overview", **parameters: str) -> AppTest:
        monkeypatch.setenv("LOOPSCOPE_DB", str(db))
        app = AppTest.from_file(APP, default_timeout=60)
        for name, value in parameters.items():
            app.query_params[name] = value
        app.run()
        return app if page == "overview" else app.switch_page(f"app_pages/{page}.py").run()

    st.cache_data.clear()
    st.cache_resource.clear()
    yield go
    st.cache_data.clear()
    st.cache_resource.clear()


def figures(app: AppTest) -> dict[str, str]:
    return {metric.label.strip("▲■ "): metric.value for metric in app.metric}


def texts(app: AppTest) -> str:
    parts = (*app.text, *app.markdown, *app.caption, *app.code, *app.subheader)
    return "\n".join(str(part.value) for part in parts)


def well(app: AppTest) -> None:
    """The page stands: no exception, and not the box that tells of one."""
    assert not app.exception
    assert "This cannot be shown" not in texts(app)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_on_the_samples(samples_db, visit, page):
    app = visit(samples_db, page)
    well(app)
    assert len(app.metric) >= 4
    assert app.text[0].value.endswith(".")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_on_an_empty_store_teaches(tmp_path, visit, page):
    app = visit(tmp_path / "empty.duckdb", page)
    well(app)
    assert f"loopscope import PATH… --db {tmp_path}/empty.duckdb\n" in texts(app)


def test_snippets_name_the_database_from_any_folder(tmp_path, visit, monkeypatch):
    (tmp_path / "my agent").mkdir()
    monkeypatch.chdir(tmp_path)
    shown = texts(visit(Path("my agent/empty.duckdb"), "health"))
    path = f"{tmp_path}/my agent/empty.duckdb"
    assert f"--db '{path}'\n" in shown
    assert f'instrument("{path}")' in shown
    assert f'DuckDBSpanProcessor("{path}")' in shown
    assert f"LOOPSCOPE_DB='{path}' " in shown


@pytest.mark.parametrize("asked", ["1", ""])
def test_senders_are_told_of_the_token_where_it_is_asked_for(tmp_path, visit, monkeypatch, asked):
    monkeypatch.setenv("LOOPSCOPE_TOKEN_ASKED", asked)
    shown = texts(visit(tmp_path / "empty.duckdb", "health"))
    assert ("OTEL_EXPORTER_OTLP_HEADERS" in shown) is bool(asked)


def test_the_way_without_code_is_the_documented_one(tmp_path, visit):
    shown = texts(visit(tmp_path / "empty.duckdb", "health"))
    command = (
        "pip install opentelemetry-distro",
        "OTEL_TRACES_EXPORTER=loopscope OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none \\",
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000 \\",
        "    opentelemetry-instrument python agent.py",
    )
    for line in command:
        assert line + "\n" in shown + "\n"


def test_the_tuning_page_shows_what_replay_counts(samples_db, visit):
    with Store(samples_db).lease() as con:
        totals = replay(con, GuardPolicy()).totals
    shown = figures(visit(samples_db, "tuning"))
    counts = {
        "Runs nudged": str(totals.runs_nudged),
        "Runs ended": str(totals.runs_blocked),
        "Calls spared": str(totals.calls_avoidable),
        "Calls lost": str(totals.calls_lost),
    }
    assert {label: shown[label] for label in counts} == counts
    assert totals.runs_blocked == sum(story["at_3_5"]["runs_blocked"] for story in stories())


def test_figures_that_need_it_are_explained(samples_db, visit):
    def helps(page: str) -> dict[str, str]:
        return {metric.label: metric.help for metric in visit(samples_db, page).metric}

    overview, incidents = helps("overview"), helps("incidents")
    assert "twin calls" in overview["Runs with a loop"]
    assert "healthy polls included" in overview["Repeated calls"]
    assert "all but the first" in incidents["Calls for nothing"]
    assert "ended OK" in incidents["Soft failures"]


def test_soft_failures_are_the_unresolved_ones(samples_db, visit):
    with Store(samples_db).lease() as con:
        ended_ok = [one for one in find_incidents(con) if one.soft_failure]
    unresolved = [one for one in ended_ok if not one.resolved]
    assert 0 < len(unresolved) < len(ended_ok)
    assert figures(visit(samples_db, "incidents"))["Soft failures"] == str(len(unresolved))


def test_a_slider_moves_the_figures_and_lists_what_changes(samples_db, visit):
    app = visit(samples_db, "tuning")
    assert "Nothing: the draft is the saved policy. Move a slider." in texts(app)
    before = figures(app)
    app.slider(key="block").set_value(12).run()
    well(app)
    assert int(figures(app)["Runs ended"]) < int(before["Runs ended"])
    assert "Nothing: the draft is the saved policy. Move a slider." not in texts(app)


def test_a_slider_that_would_cross_pushes_the_other_one(samples_db, visit):
    app = visit(samples_db, "tuning")
    app.slider(key="nudge").set_value(9).run()
    assert (app.slider(key="nudge").value, app.slider(key="block").value) == (9, 10)
    assert "Block moved to 10: it has to come after the nudge." in texts(app)
    app.slider(key="block").set_value(4).run()
    assert (app.slider(key="nudge").value, app.slider(key="block").value) == (3, 4)
    well(app)


def test_thresholds_can_be_off(samples_db, visit):
    app = visit(samples_db, "tuning")
    app.toggle(key="block_on").set_value(False).run()
    well(app)
    assert figures(app)["Runs ended"] == "0"
    assert "nudge 3, block off" in app.text[0].value


def test_from_one_run_to_all_runs_takes_it_out_of_the_address(samples_db, visit):
    every = figures(visit(samples_db, "tuning"))
    app = visit(samples_db, "tuning", run="no such run", range="all")
    assert figures(app) != every
    app.button(key="back").click().run()
    well(app)
    assert "run" not in app.query_params
    assert figures(app) == every


def test_a_link_with_crossed_thresholds_is_set_right(samples_db, visit):
    app = visit(samples_db, "tuning", nudge="6", block="4")
    well(app)
    assert "nudge 6, block 7" in app.text[0].value


def test_saving_writes_the_file_that_the_guard_reads(tmp_path, samples_db, visit, monkeypatch):
    policy = tmp_path / "agent.toml"
    app = visit(samples_db, "tuning")
    monkeypatch.setenv("LOOPSCOPE_POLICY", str(policy))
    app.slider(key="nudge").set_value(2).run()
    app.button(key="save").click().run()
    well(app)
    assert GuardPolicy.from_file(policy) == GuardPolicy(nudge_threshold=2)
    assert "This is the saved policy." in app.text[0].value


def test_a_policy_that_cannot_be_read_is_named_and_the_defaults_are_used(
    tmp_path, samples_db, visit, monkeypatch
):
    broken = tmp_path / "broken.toml"
    broken.write_text("nudge_treshold = 3\n")
    monkeypatch.setenv("LOOPSCOPE_POLICY", str(broken))
    app = visit(samples_db)
    well(app)
    assert "The saved policy cannot be read" in texts(app)
    assert str(broken) in texts(app)
    assert "nudge 3, block 5 (defaults; the policy file cannot be read)" in texts(app)


def test_a_policy_that_cannot_be_read_is_repaired_by_saving(tmp_path, samples_db, visit, monkeypatch):
    broken = tmp_path / "broken.toml"
    broken.write_text("nudge_treshold = 3\n")
    app = visit(samples_db, "tuning")
    monkeypatch.setenv("LOOPSCOPE_POLICY", str(broken))
    app.run()
    assert "These are the defaults, in force because the policy file cannot be read." in texts(app)
    assert "Saving replaces the broken file" in texts(app)
    assert not app.button(key="save").disabled
    app.button(key="save").click().run()
    well(app)
    assert GuardPolicy.from_file(broken) == GuardPolicy()
    assert app.text[0].value.endswith("This is the saved policy.")
    assert "nudge 3, block 5 (saved)" in texts(app)


def test_calls_without_content_are_judged_none_of_n_and_the_setting_is_named(tmp_path, visit):
    import_paths(tmp_path / "off.duckdb", [path for path in files() if path.name == "hr_content_off.jsonl"])
    for page in ("overview", "incidents", "tuning", "errors"):
        app = visit(tmp_path / "off.duckdb", page)
        well(app)
        assert any(
            box.label == "The guard could judge 0 of 7 finished calls" and box.proto.expanded
            for box in app.expander
        )
        assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in texts(app)


def test_a_filter_narrows_every_figure_and_an_empty_view_says_so(samples_db, visit):
    everything = int(figures(visit(samples_db))["Tool calls"])
    app = visit(samples_db, tool="get_pod")
    assert 0 < int(figures(app)["Tool calls"]) < everything
    for agent in ("coder", "nobody has this name"):
        app = visit(samples_db, tool="get_pod", agent=agent)
        well(app)
        assert app.text[0].value == "Nothing matches this filter."


def test_an_incident_of_another_database_says_so(samples_db, visit):
    app = visit(samples_db)
    app.query_params["incident"] = "0123456789abcdef"
    app.switch_page("app_pages/incidents.py").run()
    app.query_params["incident"] = "0123456789abcdef"
    app.run()
    well(app)
    assert app.text[0].value == "That incident is not in this database."


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("twins", "The worst are twin calls of "),
        ("same_error", "The worst is a repeated error of "),
        ("retry_storm", "The worst is a retry storm of "),
    ],
)
def test_the_sentence_of_one_incident_is_good_english(samples_db, visit, monkeypatch, kind, said):
    with Store(samples_db).lease() as con:
        one = next(found for found in replay(con, GuardPolicy()).incidents if found.kind == kind)
    monkeypatch.setattr(_data.Reader, "incidents", lambda *_: [one])
    sentence = visit(samples_db, "incidents").text[0].value
    ended = "resolved" if one.resolved else "1 ended its run unresolved"
    assert sentence.startswith(f"1 incident in 1 run, {ended}. {said}")


@pytest.mark.parametrize(
    ("kind", "sort", "said"),
    [
        ("loop", "repeats", "One of the 2 worst is a loop of "),
        ("twins", "repeats", "One of the 2 worst is a case of twin calls of "),
        ("loop", "time taken", "One of the 2 longest is a loop of "),
        ("loop", "tokens", "One of the 2 with the most tokens is a loop of "),
    ],
)
def test_the_worst_of_several_equal_ones_is_said_to_be_one_of_them(
    samples_db, visit, monkeypatch, kind, sort, said
):
    with Store(samples_db).lease() as con:
        one = next(found for found in replay(con, GuardPolicy()).incidents if found.kind == kind)
    twice = [one, dataclasses.replace(one, key="0" * len(one.key))]
    monkeypatch.setattr(_data.Reader, "incidents", lambda *_: twice)
    app = visit(samples_db)
    app.query_params["sort"] = sort
    app.switch_page("app_pages/incidents.py").run()
    well(app)
    assert f". {said}" in app.text[0].value


def test_a_busy_database_says_so_and_offers_to_try_again(samples_db, visit):
    hold = (
        "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(samples_db)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        app = visit(samples_db)
        assert not app.exception
        assert "The database is busy" in texts(app)
    finally:
        holder.communicate("")
    app.button(key="try_again").click().run()
    well(app)
    assert "Runs" in figures(app)


def test_a_database_of_somebody_else_is_refused_in_one_line(tmp_path, visit):
    foreign = tmp_path / "sales.duckdb"
    with duckdb.connect(str(foreign)) as con:
        con.execute("CREATE TABLE sales (amount INTEGER)")
    app = visit(foreign)
    assert not app.exception
    assert "not one of Loopscope's" in texts(app)


@pytest.mark.parametrize("page", PAGES)
def test_a_rerun_opens_the_database_once_at_most_and_not_at_all_for_known_answers(
    samples_db, visit, monkeypatch, page
):
    opened: list[str] = []
    real = Store._open
    monkeypatch.setattr(Store, "_open", lambda self, *rest: opened.append("x") or real(self, *rest))
    app = visit(samples_db)
    opened.clear()
    app.switch_page(f"app_pages/{page}.py").run()
    assert len(opened) <= 1
    opened.clear()
    app.run()
    assert opened == []


def test_time_ranges_narrow_and_name_their_days(samples_db, visit):
    everything = int(figures(visit(samples_db))["Tool calls"])
    app = visit(samples_db)
    app.selectbox(key="range").set_value("1h").run()
    well(app)
    assert app.text[0].value == "Nothing matches this filter."  # the samples were recorded long ago
    app.selectbox(key="range").set_value("days").run()
    well(app)
    app.date_input(key="days").set_value((date(2026, 11, 24), date(2026, 11, 24))).run()
    well(app)
    calls = figures(app)["Tool calls"]
    with Store(samples_db).lease() as con:
        count = "SELECT count(*) FROM tool_call_rows WHERE end_ns IS NOT NULL AND started_at::DATE = ?"
        assert int(calls) == con.execute(count, ["2026-11-24"]).fetchall()[0][0] < everything
    assert "in 2026-11-24 UTC" in texts(app)
    app.button(key="clear_filters").click().run()
    assert int(figures(app)["Tool calls"]) == everything


def test_a_range_compares_with_the_period_before(tmp_path, visit, monkeypatch):
    import_paths(tmp_path / "own.duckdb", files())
    end = 1_795_478_400_000_000_000  # 2026-11-24 00:00:00 UTC, after the first day of the samples
    monkeypatch.setattr(_data, "now_ns", lambda: end + 86_400_000_000_000)
    app = visit(tmp_path / "own.duckdb", range="Last 24 hours")
    well(app)
    deltas = {metric.label: metric.delta for metric in app.metric}
    assert int(deltas["Tool calls"]) != 0


def test_the_health_page_tells_of_quarantine_and_losses(tmp_path, visit):
    db = tmp_path / "own.duckdb"
    import_paths(db, files()[:1])
    folder = tmp_path / "own.duckdb.spool" / "quarantine"
    folder.mkdir(parents=True, exist_ok=True)
    spool = Spool(db)
    bad = spool.write([("traces", b"")])
    spool.quarantine(bad, "<b>cut short</b>")
    with Store(db).write() as con:
        con.execute("INSERT INTO drop_counters VALUES ('dropped_spans', 'shop', 7, 0)")
        con.execute("INSERT INTO drop_counters VALUES ('refused_requests', 'OTLP receiver', 5, 0)")
    app = visit(db, "health")
    well(app)
    assert figures(app)["Quarantined"] == "1"
    assert "1 in quarantine" in app.text[0].value
    tables = [frame.value for frame in app.dataframe]
    assert any("<b>cut short</b>" in table.to_numpy() for table in tables)
    lost = [list(table.iloc[row])[:3] for table in tables for row in range(min(len(table), 2))]
    assert [7, "spans", "shop"] in lost
    assert [5, "refused requests", "OTLP receiver"] in lost
