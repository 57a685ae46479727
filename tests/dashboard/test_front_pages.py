"""Overview, Errors, Import & health and the filter bar, without a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from loopscope.collector import Store, import_paths
from loopscope.dashboard import _circling, _data, _downloads, _drop, _frameworks, _reclassify
from loopscope.guard import GuardPolicy, Outcome, OutcomeRule
from loopscope.replay import Circling, Spent, circling, error_breakdown, find_incidents, overview, untimed
from loopscope.sample_traces import files

APP = Path(_data.__file__).with_name("app.py")
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def samples_db(tmp_path_factory) -> Path:
    db = tmp_path_factory.mktemp("samples") / "samples.duckdb"
    import_paths(db, files())
    return db


@pytest.fixture
def visit(monkeypatch):
    monkeypatch.delenv("LOOPSCOPE_POLICY", raising=False)
    monkeypatch.delenv("LOOPSCOPE_OTLP_HTTP", raising=False)

    def go(db: Path, page: str, **parameters: str) -> AppTest:
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


def transcript(folder: Path, name: str = "chat.jsonl", times: bool = False) -> Path:
    """A conversation with four equal calls; without times unless asked for."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "find it"}]
    for number in range(4):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "search", "arguments": '{"q": 1}'},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "nothing"})
    if times:
        for number, message in enumerate(messages):
            message["timestamp"] = f"2026-01-02T03:04:{number:02}Z"
    path = folder / name
    path.write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")
    return path


# -- what loops now -----------------------------------------------------------------------------------


def test_what_loops_now_is_told_from_what_ended(samples_db):
    with Store(samples_db).lease() as con:
        newest = max((one for one in find_incidents(con) if not one.resolved), key=lambda one: one.last_ns)
        soon = circling(con, GuardPolicy(), now_ns=newest.last_ns + 5 * SECOND)
        late = circling(con, GuardPolicy(), now_ns=newest.last_ns + 3_600 * SECOND + 1)
    assert (soon.going_on, soon.just_ended) == (0, 1)  # its agent span has ended
    assert soon.now[0].incident.key == newest.key
    assert not soon.now[0].goes_on
    assert (late.going_on, late.just_ended, late.now) == (0, 0, ())
    assert late.spent == soon.spent


def test_a_request_within_two_incidents_is_counted_once(samples_db):
    with Store(samples_db).lease() as con:
        spent = circling(con, GuardPolicy(), now_ns=0).spent
        incidents = [one for one in find_incidents(con) if one.kind != "twins"]
        inside = con.execute(
            "SELECT run_id, start_ns, input_tokens, output_tokens, cost FROM llm_request_rows"
        ).fetchall()
    mine = [
        row
        for row in inside
        if any(one.run_id == row[0] and one.first_ns <= row[1] < one.last_ns for one in incidents)
    ]
    assert 0 < spent.requests == len(mine)
    assert spent.input_tokens == sum(row[2] for row in mine)
    assert spent.requests_with_cost == sum(row[4] is not None for row in mine) < spent.requests
    assert not spent.cost_whole


def test_a_run_whose_span_is_open_loops_now_for_an_hour_of_silence_at_most(tmp_path):
    from opentelemetry.sdk.trace import TracerProvider

    from loopscope.collector import DuckDBSpanProcessor, Folder

    db = tmp_path / "live.duckdb"
    provider = TracerProvider()
    processor = DuckDBSpanProcessor(db)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("live")
    run = tracer.start_span(
        "invoke_agent a", attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    )
    from opentelemetry import trace

    with trace.use_span(run, end_on_exit=False):
        for _ in range(4):
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "search",
                "gen_ai.tool.call.arguments": "{}",
                "gen_ai.tool.call.result": "nothing",
            }
            tracer.start_span("execute_tool search", attributes=attributes).end()
    assert processor.force_flush()
    Folder(Store(db), role="cli").try_fold()
    with Store(db).lease() as con:
        (incident,) = find_incidents(con)
        found = circling(con, GuardPolicy(), now_ns=incident.last_ns + 1_800 * SECOND)
        silent = circling(con, GuardPolicy(), now_ns=incident.last_ns + 3_700 * SECOND)
    assert [one.state for one in found.now] == ["running"]
    assert found.going_on == 1
    assert silent.going_on == 0
    said = _circling.said(found, incident.last_ns + 1_800 * SECOND)
    assert said.startswith("Looping now: a / search, 4 calls since ")
    assert said.endswith("(30 min), cost not recorded so far.")
    run.end()
    provider.shutdown()


def test_nothing_loops_and_what_just_ended_are_said():
    assert _circling.said(Circling((), 0, 0, Spent(), 0), 0) == "Nothing is looping now."
    assert "1 run ended in a loop" in _circling.said(Circling((), 0, 1, Spent(), 0), 0)


def test_the_cost_of_no_request_is_nothing_and_an_unrecorded_one_is_unknown():
    assert _circling.money_of(Spent()) == "$0"
    assert _circling.money_of(Spent(requests=3)) == "unknown"
    assert _circling.money_of(Spent(requests=3, requests_with_cost=1, cost=0.5)) == "$0.50"


def test_the_overview_says_what_loops_and_what_it_cost(samples_db, visit):
    app = visit(samples_db, "overview")
    assert not app.exception
    assert app.text[0].value.startswith("Nothing is looping now.")
    assert {"Calls in incidents", "Tokens", "Cost", "Calls spared by a block"} <= {
        one.label for one in app.metric
    }


# -- times that were made up --------------------------------------------------------------------------


def test_made_up_times_stay_off_the_axes(tmp_path):
    db = tmp_path / "mixed.duckdb"
    import_paths(db, [transcript(tmp_path), transcript(tmp_path, "timed.jsonl", times=True)])
    with Store(db).lease() as con:
        seen = overview(con, GuardPolicy())
        first = con.execute("SELECT min(start_ns) FROM tool_call_rows").fetchone()
        errors = error_breakdown(con)
    assert first is not None
    assert untimed(first[0])
    assert seen.figures.calls == 8
    assert seen.calls_untimed == 4
    assert seen.bucket_ns < 60 * SECOND
    assert sum(one.allow + one.nudge + one.block for one in seen.buckets) == 4
    assert errors.calls_untimed == 0


def test_a_store_without_times_has_no_axis_and_says_so(tmp_path, visit):
    db = tmp_path / "old.duckdb"
    import_paths(db, [transcript(tmp_path)])
    app = visit(db, "overview")
    assert not app.exception
    assert any("4 calls without a recorded time" in one.value for one in app.caption)


# -- errors -------------------------------------------------------------------------------------------


def test_errors_by_agent_and_model_add_up(samples_db):
    with Store(samples_db).lease() as con:
        seen = error_breakdown(con)
    assert seen.failed > 0
    assert sum(one.calls for one in seen.by_agent) == seen.failed
    assert sum(one.calls for one in seen.by_model) == seen.failed
    assert {one.name for one in seen.by_model} > {None} or all(one.name for one in seen.by_model)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("HTTP 404 while fetching <arg>", "HTTP 404 while fetching"),
        ("<id>: a.b (c) <n>", r": a\.b \(c\)"),
        ("<arg>", ""),
        ("two\nlines of text", "lines of text"),
    ],
)
def test_the_pattern_of_a_text_is_its_longest_constant_part(text, pattern):
    assert _reclassify.pattern_for(text) == pattern


def test_every_text_of_the_samples_gives_a_pattern_that_finds_it(samples_db):
    with Store(samples_db).lease() as con:
        groups = error_breakdown(con).groups
    assert groups
    for group in groups:
        assert group.text is not None
        rule = OutcomeRule(outcome=Outcome.SCHEMA_ERROR, text_pattern=_reclassify.pattern_for(group.text))
        assert rule._pattern is not None
        assert all(rule._pattern.search(sample) for sample in group.samples)


def test_reclassify_puts_a_rule_into_the_draft(samples_db, visit):
    app = visit(samples_db, "errors")
    assert not app.exception
    app.button(key="reclassify").click().run()
    assert not app.exception
    assert any("In the draft" in one.value for one in app.markdown)
    (rule,) = app.session_state["_draft_rest"].outcome_rules
    assert rule.tool == "schedule_meeting"
    assert rule.outcome is Outcome.GENERAL_TOOL_ERROR


@pytest.mark.parametrize("by", ["agent", "model"])
def test_errors_by_another_name(samples_db, visit, by):
    app = visit(samples_db, "errors", kinds_by=by)
    assert not app.exception


# -- import -------------------------------------------------------------------------------------------


def test_dropped_files_come_in_and_are_told_one_by_one(tmp_path):
    db = tmp_path / "dropped.duckdb"
    good = transcript(tmp_path).read_bytes()
    job = _drop.Job(db, [("../../chat.jsonl", good), ("<b>x</b>.json", b'{"a": 1'), ("chat.jsonl", good)])
    job.run()
    assert job.done
    assert job.problem is None
    assert [row["state"][0] for row in job.rows] == ["✓", "✗", "✓"]
    assert [row["file"] for row in job.rows] == ["../../chat.jsonl", "<b>x</b>.json", "chat.jsonl"]
    assert job.rows[0]["calls"] == 4
    assert "loopscope-drop" not in job.rows[1]["why"]
    assert job.totals == (1, 4, 4)
    assert not (tmp_path.parent / "chat.jsonl").exists()
    again = _drop.Job(db, [("chat.jsonl", good)])
    again.run()
    assert again.rows[0]["state"] == "· already there"


def test_what_became_of_dropped_files_is_said_in_a_line():
    assert _drop.said(2, 0, 1, "1 run") == "1 of 2 files: 1 run"
    assert _drop.said(2, 1, 1, "1 run") == "0 new, 1 already there (1 run), 1 not imported"
    assert _drop.said(2, 1, 0, "3 runs") == "1 new, 1 already there (3 runs in both)"


def test_an_import_that_cannot_be_says_why(tmp_path):
    job = _drop.Job(tmp_path / "no" / "folder.duckdb", [("chat.jsonl", b"{}")])
    job.run()
    assert job.done
    assert job.problem is not None
    assert "folder" in job.problem


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\run.jsonl.gz", "run.jsonl.gz"),
        ("..", "upload"),
        ("a\0b<c>.json", "a_b_c_.json"),
        ("x" * 300 + ".zip", "x" * 116 + ".zip"),
    ],
)
def test_names_of_uploads_are_made_safe(name, safe):
    assert _drop.safe_name(name) == safe


def test_every_framework_has_lines_with_this_servers_places():
    ways = _frameworks.ways('"/a b/t.duckdb"', "'/a b/t.duckdb'", "http://127.0.0.1:9999", "HEADERS=x")
    assert len({way.name for way in ways}) == len(ways) >= 13
    for way in ways:
        text = "\n".join(code for _, code, _ in way.parts)
        assert "t.duckdb" in text or "http://127.0.0.1:9999" in text
        assert way.content.endswith(".")
        for _, code, language in way.parts:
            if language == "python":
                compile(code.replace("[…]", "[]"), way.name, "exec")
            if language == "json":
                json.loads(code)
    codex = next(way for way in ways if way.name == "Codex")
    import tomllib

    assert tomllib.loads(codex.parts[0][1])["otel"]["exporter"]["otlp-http"]["headers"]


# -- filter bar and downloads -------------------------------------------------------------------------


def test_the_label_filter_is_in_the_link(samples_db, visit):
    app = visit(samples_db, "incidents", label="true loop")
    assert not app.exception
    assert app.session_state["_view"].filters.labels == ("true_loop",)
    assert app.session_state["_view"].narrowed


def test_a_csv_is_safe_to_open():
    rows = pd.DataFrame(
        {"a": ["=1+1", "ok", None], "n": [1.0, float("nan"), 3], "t": [pd.Timestamp(0), pd.NaT, None]}
    )
    lines = _downloads.csv_of(rows).splitlines()
    assert lines == ["a,n,t", "'=1+1,1.0,1970-01-01 00:00:00.000", "ok,,", ",3.0,"]
