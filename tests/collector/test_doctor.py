"""Facts about a database: what is wrong is said, what is right is not made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from store_tools import derive, spans_payload

from loopscope.collector import Folder, Spool, Store, examine, fold


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "t.duckdb")


def put(store, *spans, service="svc", **meta):
    return Spool(store.path).write([("traces", spans_payload(*spans, service=service))], meta=meta)


def call(span, *, end=2_000, **attributes):
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
