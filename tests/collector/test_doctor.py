"""Facts about a database: what is wrong is said, what is right is not made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from store_tools import derive, spans_payload

from loopscope.collector import Folder, Spool, Store, _doctor, examine, fold
from loopscope.collector.dialects import content_hint


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "t.duckdb")


def put(store, *spans, service: str | None = "svc", **meta):
    return Spool(store.path).write([("traces", spans_payload(*spans, service=service))], meta=meta)


def call(span, *, end: int | None = 2_000, **attributes):
    return {"span": span, "start": 1_000, "end": end, "attributes": {"tool": "t", **attributes}}


def test_nothing_there_is_no_problem_and_makes_nothing(store):
    report = examine(store.path)
    assert (report.exists, report.schema_version, report.problems) == (False, None, [])
    assert report.spool is not None
    assert report.spool.segments == 0
    assert list(store.path.parent.iterdir()) == []


def test_a_healthy_database(store):
    put(store, call(1, arguments="{}", result="r"), call(2, arguments="{}", end=None), service="a")
    put(store, {"span": 3, "start": 5, "end": 9_000}, service=None)
    fold(store, derive=derive)
    report = examine(store.path)
    assert report.problems == []
    assert report.schema_version == report.supported_schema_version
    assert report.size > 0
    assert (report.rows["spans"], report.rows["tool_calls"], report.rows["traces"]) == (3, 2, 1)
    assert [(s.service_name, s.spans, s.last_span_ns) for s in report.services] == [
        (None, 1, 9_000),
        ("a", 2, 2_000),
    ]
    (content,) = report.content
    assert (
        content.dialect,
        content.calls,
        content.calls_without_arguments,
        content.calls_without_result,
    ) == (
        "test",
        2,
        0,
        0,
    )
    assert json.loads(json.dumps(report.to_json()))["rows"]["spans"] == 3


def test_content_that_was_not_recorded_is_counted(store):
    put(store, call(1), call(2), call(3))
    fold(store, derive=derive)
    report = examine(store.path)
    assert (report.content[0].calls, report.content[0].calls_without_arguments) == (3, 3)
    assert report.content[0].calls_without_result == 3
    assert any("no call of dialect test has recorded arguments" in problem for problem in report.problems)


def test_quarantine_losses_and_failed_derivations_are_told(store):
    put(store, call(1, explode=True), dropped_spans=3)
    put(store, call(2), dropped_spans=4)
    Spool(store.path).prepare()
    (Spool(store.path).path / "bad.seg").write_bytes(b"garbage")
    fold(store, derive=derive)
    report = examine(store.path)
    assert report.spool is not None
    assert report.spool.quarantined == [("bad.seg", "bad.seg: not a spool segment")]
    assert [(drop.name, drop.value) for drop in report.drops] == [("dropped_spans", 7)]
    assert report.derive_errors == [("RuntimeError: cannot make sense", 1)]
    text = "\n".join(report.problems)
    assert "1 segment in" in text
    assert "writers lost 7 spans" in text
    assert "1 trace gave no calls" in text


def test_a_backlog_that_nobody_folds(store):
    path = put(store, call(1))
    old = f"{time.time_ns() - 120 * 10**9:020d}" + path.name[20:]
    os.rename(path, path.with_name(old))
    report = examine(store.path)
    assert report.spool is not None
    assert report.spool.segments == 1
    assert report.spool.size == path.with_name(old).stat().st_size
    assert report.spool.oldest_seconds is not None
    assert report.spool.oldest_seconds >= 119
    assert any("nobody folds" in problem for problem in report.problems)


def test_who_folds_is_named(store):
    folder = Folder(store, role="server")
    assert folder.elect()
    report = examine(store.path)
    assert report.folder is not None
    assert f"PID {os.getpid()}" in report.folder
    assert report.folder_role == "server"


def test_who_holds_the_file_is_named(store):
    with store.lease():
        pass
    code = f"""
        import duckdb, sys
        con = duckdb.connect({str(store.path)!r})
        print("held", flush=True)
        sys.stdin.readline()
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        report = examine(store.path, timeout=0.1)
    finally:
        holder.communicate("\n")
    assert report.holder is not None
    assert f"PID {holder.pid}" in report.holder
    assert len(report.problems) == 1
    assert report.rows == {}


@pytest.mark.parametrize(
    "make", [lambda p: p.write_bytes(b"random bytes"), lambda p: p.write_bytes(b""), Path.mkdir]
)
def test_what_is_no_database_is_one_line(store, make):
    make(store.path)
    report = examine(store.path)
    assert len(report.problems) == 1
    assert "\n" not in report.problems[0]
    assert str(store.path) in report.problems[0]


def test_runs_of_one_call_without_an_agent_span_are_told(store):
    for number in range(1, 8):
        payload = spans_payload(call(number, arguments="{}", result="r") | {"trace": number}, service="lone")
        Spool(store.path).write([("traces", payload)])
    pair = (call(number, arguments="{}", result="r") | {"trace": 9} for number in (21, 22))
    put(store, *pair, service="paired")
    fold(store, derive=derive)
    report = examine(store.path)
    assert [(one.service_name, one.run_source, one.runs, one.runs_of_one_call) for one in report.runs] == [
        ("lone", "trace", 7, 7),
        ("paired", "trace", 1, 0),
    ]
    assert any("of lone hold one call only" in line for line in report.problems)
    assert not any("paired" in line for line in report.problems)


@pytest.mark.parametrize(("lone", "told"), [(4, False), (5, True)])
def test_few_runs_of_one_call_say_nothing(store, lone, told):
    for number in range(1, lone + 1):
        payload = spans_payload(call(number, arguments="{}", result="r") | {"trace": number})
        Spool(store.path).write([("traces", payload)])
    fold(store, derive=derive)
    assert any("one call only" in line for line in examine(store.path).problems) is told


def test_a_clock_that_is_ahead_is_told(store):
    now = time.time_ns()
    put(store, call(1, arguments="{}", end=now + 90 * 10**9), service="early")
    put(store, call(2, arguments="{}", end=now - 90 * 10**9), service="right")
    fold(store, derive=derive)
    report = examine(store.path)
    ahead = {one.service_name: one.ahead_seconds for one in report.services}
    assert 80 < ahead["early"] <= 90
    assert ahead["right"] == 0
    assert [line for line in report.problems if "clock" in line] == [
        line for line in report.problems if "early" in line
    ]


def test_a_clock_that_was_set_back_is_told(store, monkeypatch):
    put(store, call(1, arguments="{}"))
    fold(store, derive=derive)
    earlier = time.time_ns() - 3600 * 10**9
    monkeypatch.setattr(_doctor.time, "time_ns", lambda: earlier)
    assert any("set back" in line for line in examine(store.path).problems)


def test_what_takes_the_disk(store):
    put(store, *(call(n, arguments="{}", result=os.urandom(20_000).hex()) for n in range(1, 40)))
    fold(store, derive=derive)
    report = examine(store.path)
    sizes = {one.table: one.size for one in report.tables}
    assert next(iter(sizes)) == "contents"
    assert 39 * 20_000 < sizes["contents"] <= report.size
    assert report.disk_free is not None
    assert report.disk_free > 0


def test_a_disk_that_is_nearly_full_is_told(store, monkeypatch):
    put(store, call(1, arguments="{}"))
    fold(store, derive=derive)
    monkeypatch.setattr(_doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=3_000_000))
    (problem,) = examine(store.path).problems
    assert "3.0 MB left" in problem


def test_a_spool_that_cannot_be_written_is_told(store, monkeypatch):
    put(store, call(1, arguments="{}"))
    fold(store, derive=derive)
    monkeypatch.setattr(_doctor.os, "access", lambda path, mode: False)
    (problem,) = examine(store.path).problems
    assert "cannot be written" in problem


def test_a_newer_format_is_told(store):
    with store.lease() as con:
        con.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    report = examine(store.path)
    assert (report.schema_version, report.newer_format) == (99, True)
    assert len(report.problems) == 1
    assert "newer Loopscope" in report.problems[0]


def test_the_setting_that_records_what_is_missing_is_named(store):
    payload = spans_payload(
        {
            "span": 1,
            "start": 1,
            "end": 2,
            "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"},
        }
    )
    Spool(store.path).write([("traces", payload)])
    fold(store)
    report = examine(store.path)
    (content,) = report.content
    assert content.hint == content_hint("otel_genai")
    assert content.hint
    assert any(content.hint in line for line in report.problems)


def test_what_receivers_refused_is_told_apart_from_what_writers_lost(store):
    put(store, call(1, arguments="{}"), service="OTLP receiver", refused_requests=2, dropped_spans=3)
    fold(store, derive=derive)
    report = examine(store.path)
    assert {(drop.name, drop.value) for drop in report.drops} == {
        ("refused_requests", 2),
        ("dropped_spans", 3),
    }
    assert any("refused 2 requests" in line for line in report.problems)
    assert any("lost 3 spans" in line for line in report.problems)


def test_who_holds_the_file_for_a_moment_is_named_and_no_problem(store):
    with store.lease():
        pass
    code = f"""
        import duckdb, time
        con = duckdb.connect({str(store.path)!r})
        print("held", flush=True)
        time.sleep(0.3)
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    report = examine(store.path, timeout=60)
    holder.communicate()
    assert report.problems == []
    assert report.holder is not None
    assert f"PID {holder.pid}" in report.holder
