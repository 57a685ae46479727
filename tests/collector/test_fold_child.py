"""A server's fold with its decoding in a child process: the same tables, and no harm when the child dies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest
from store_tools import copy_spool, count, dump, put_segment, span_id, spans_payload

from loopscope.collector import (
    Folder,
    Spool,
    Store,
    _fold,
    _folder,
    decode_logs,
    decode_traces,
    derive_trace,
    fold,
)
from loopscope.collector._agent_child import AgentChild, import_paths
from loopscope.collector._batch import Decoders
from loopscope.collector._build import Limits, Plan
from loopscope.collector._child import ChildBench
from loopscope.collector._fold import Pace
from loopscope.collector._stored import TraceState, load
from loopscope.guard import StoreError


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "t.duckdb")


@pytest.fixture
def server(store, monkeypatch):
    """A server's folder that takes a child for everything."""
    monkeypatch.setattr(_folder, "_CHILD_BYTES", 1)
    folder = Folder(store, role="server", max_records=4)
    yield folder
    folder.retire()


def tool(span, *, trace=1, **attributes):
    fields = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", **attributes}
    return {"trace": trace, "span": span, "start": 1_000 + span, "end": 2_000 + span, "attributes": fields}


def fill(spool, segments=12):
    for n in range(segments):
        spans = [
            tool(2 * n + k + 1, trace=n % 3 + 1, **{"gen_ai.tool.call.result": "r" * 400}) for k in (0, 1)
        ]
        payloads = [("traces", spans_payload(span)) for span in spans]
        put_segment(spool, payloads, received_ns=n + 1, name=f"{n:03d}-h-1", meta={"dropped_spans": 1})


def test_the_tables_are_the_same_as_without_a_child(store, server, tmp_path):
    source = Spool(tmp_path / "source.duckdb")
    fill(source)
    (source.path / "004-bad.seg").write_bytes(b"garbage")
    put_segment(source, [("traces", b"\xff\xff")], received_ns=5, name="005-worse")
    plain = Store(tmp_path / "plain.duckdb")
    for spool in (Spool(plain.path), Spool(store.path)):
        copy_spool(source, spool)
    expected = fold(plain)
    assert server.try_fold() == expected
    assert server._child is not None
    assert dump(store) == dump(plain)
    assert Spool(store.path).quarantined() == Spool(plain.path).quarantined()
    assert expected.quarantined == 2


class EagerBench(_fold.LocalBench):
    """Derives what it took at once, as a child does while its parent is busy."""

    def taken(self):
        outline = super().taken()
        self.derive_ahead()
        return outline


@pytest.mark.parametrize("seed", range(6))
def test_what_is_derived_ahead_makes_the_same_tables(store, tmp_path, seed):
    """Traces that end in their batch, go on in later ones, come again corrected, or share a session."""
    chance = random.Random(seed)
    source = Spool(tmp_path / "source.duckdb")
    for n in range(30):
        trace = chance.choice([n + 1, n + 1, chance.randrange(1, 31)])
        session = {"gen_ai.conversation.id": f"c{n % 2}"} if trace % 5 == 0 else {}
        spans = [
            tool(
                chance.randrange(1, 12), trace=trace, **{"gen_ai.tool.call.result": f"r{n}" * 200}, **session
            )
            for _ in range(3)
        ]
        payloads = [("traces", spans_payload(span)) for span in spans]
        put_segment(source, payloads, received_ns=n + 1, name=f"{n:03d}-h-1")
    plain = Store(tmp_path / "plain.duckdb")
    derived = {"plain": 0, "ahead": 0}
    results = []
    for name, target in (("plain", plain), ("ahead", store)):

        def derive(spans, logs, *, name=name, **options):
            derived[name] += 1
            return derive_trace(spans, logs, **options)

        copy_spool(source, Spool(target.path))
        spool = Spool(target.path)
        kind = EagerBench if name == "ahead" else _fold.LocalBench
        bench = kind(spool, derive, Decoders(decode_traces, decode_logs))
        options = {"limits": Limits(1 << 20, 9), "pace": Pace(), "settle": True, "stop": lambda: False}
        results.append(_fold.fold_with(bench, target, spool, **options))
    assert results[0] == results[1]
    assert dump(store) == dump(plain)
    assert derived["ahead"] >= derived["plain"]


def test_what_was_derived_ahead_is_not_derived_again(store):
    spool = Spool(store.path)
    for n in range(12):
        spool.write([("traces", spans_payload(tool(1, trace=n + 1), tool(2, trace=n + 1)))])
    when = []
    bench = EagerBench(
        spool,
        lambda spans, logs: (when.append(len(spans)), derive_trace(spans, logs))[1],
        Decoders(decode_traces, decode_logs),
    )
    for batch in range(3):
        bench.ask(Limits(1 << 20, 8))
        outline = bench.taken()
        assert when == [2] * 4 * (batch + 1)
        groups = [[trace_id] for trace_id in sorted(outline.touched())]
        plan = Plan(whole=[TraceState(name) for (name,) in groups], groups=groups)
        with store.lease() as con:
            changes = bench.build(outline.number, plan, load(con, [], [], []), {})
        assert when == [2] * 4 * (batch + 1)
        assert changes.calls.num_rows == 8


@pytest.mark.parametrize(("pause", "expected"), [(0.25, True), (10.0, False)])
def test_a_child_is_for_much_within_some_seconds_too(store, monkeypatch, pause, expected):
    spool = Spool(store.path)
    fill(spool, 1)
    size = sum(path.stat().st_size for path in spool.pending())
    monkeypatch.setattr(_folder, "_CHILD_BYTES", 3 * size)
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time_ns=time.time_ns, sleep=time.sleep)
    monkeypatch.setattr(_folder, "time", clock)
    folder = Folder(store, role="server")
    try:
        for n in range(4):
            if n:
                fill(spool, 1)
            assert folder.try_fold() is not None
            now[0] += pause
        assert (folder._child is not None) is expected
    finally:
        folder.retire()


def test_one_child_serves_many_folds(store, server):
    pids = set()
    for n in range(3):
        Spool(store.path).write([("traces", spans_payload(tool(n + 1)))])
        assert server.try_fold().spans == 1
        pids.add(server._child.pid)
    assert len(pids) == 1
    assert count(store, "tool_call_rows") == 3


def test_a_child_that_dies_is_replaced_and_nothing_is_lost(store, server):
    spool = Spool(store.path)
    spool.write([("traces", spans_payload(tool(1)))])
    assert server.try_fold().segments == 1
    os.kill(server._child.pid, signal.SIGKILL)
    for n in range(2, 8):
        spool.write([("traces", spans_payload(tool(n)))])
    with pytest.raises(StoreError, match="ended with code -9"):
        server.try_fold()
    assert server.try_fold().segments == 6
    assert count(store, "span_rows") == 7


def test_segments_put_back_from_quarantine_are_taken_again(store, server):
    spool = Spool(store.path)
    path = spool.write([("traces", spans_payload(tool(1)))])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert server.try_fold().quarantined == 1
    path.write_bytes(whole)
    assert server.try_fold().spans == 1


def test_what_the_database_refuses_is_told_by_segment(store, server, monkeypatch):
    spool = Spool(store.path)
    fill(spool, 6)
    real = _fold.write_changes
    refused = []

    def fussy(con, changes, waiting):
        if span_id(5) in changes.spans.column("span_id").to_pylist():
            refused.append(changes.segments)
            raise duckdb.ConversionException("not this one")
        return real(con, changes, waiting)

    monkeypatch.setattr(_fold, "write_changes", fussy)
    assert server.try_fold().quarantined == 1
    assert [name for name, _ in spool.quarantined()] == ["002-h-1.seg"]
    assert count(store, "span_rows") == 10
    assert len(refused) >= 2, "once together with others, once alone"
    assert spool.pending() == []


def test_the_child_ends_with_its_parent(store):
    code = f"""
        import sys
        from loopscope.collector._child import ChildBench
        bench = ChildBench({str(store.path)!r})
        bench.reset()
        print(bench.pid, flush=True)
        sys.stdin.readline()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    for _ in range(60_000):
        try:
            os.kill(child, 0)
            with open(f"/proc/{child}/stat", encoding="utf-8") as status:
                if status.read().rsplit(")", 1)[1].split()[0] == "Z":
                    break
        except (ProcessLookupError, FileNotFoundError):
            break
        time.sleep(0.01)
    else:
        pytest.fail("the child lives on")


@pytest.mark.parametrize("kind", ["server", "agent"])
def test_a_child_imports_nothing_that_lies_in_the_working_folder(store, tmp_path, monkeypatch, kind):
    fill(Spool(store.path), 1)
    folder = tmp_path / "somewhere"
    folder.mkdir()
    (folder / "json.py").write_text("open('was_run', 'w').close()\nraise SystemExit('not json')\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", ".")])
    if kind == "agent":
        assert AgentChild(Path(store.path), 60, settle=True).result() == (True, None)
    else:
        bench = ChildBench(store.path)
        try:
            bench.ask(Limits(1 << 20, 2))
            assert len(bench.taken().segments) == 1
        finally:
            bench.close()
    assert not (folder / "was_run").exists()


def test_a_child_imports_from_where_its_parent_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/one"])
    assert import_paths()["PYTHONPATH"] == os.pathsep.join([str(tmp_path), "/one"])


def test_answers_come_to_their_questions_in_any_order(store):
    fill(Spool(store.path), 3)
    bench = ChildBench(store.path)
    try:
        bench.ask(Limits(1 << 20, 2))
        first = bench.taken()
        bench.ask(Limits(1 << 20, 2))
        bench.finish({path.name for path in first.segments})  # said while the batch is not yet fetched,
        assert not bench._answers  # and not waited for
        second = bench.taken()
        assert [path.name for path in first.segments + second.segments] == ["000-h-1.seg", "001-h-1.seg"]
    finally:
        bench.close()


def test_a_small_backlog_needs_no_child(store):
    Spool(store.path).write([("traces", spans_payload(tool(1)))])
    folder = Folder(store, role="server")
    assert folder.try_fold().spans == 1
    assert folder._child is None
    folder.retire()


def test_agents_never_start_a_child(store, monkeypatch):
    monkeypatch.setattr(_folder, "_CHILD_BYTES", 1)
    Spool(store.path).write([("traces", spans_payload(tool(1)))])
    folder = Folder(store, role="agent")
    assert folder.try_fold().spans == 1
    assert folder._child is None


def test_an_idle_child_is_ended(store, server, monkeypatch):
    monkeypatch.setattr(_folder, "_CHILD_IDLE", 0.0)
    Spool(store.path).write([("traces", spans_payload(tool(1)))])
    assert server.try_fold().spans == 1
    child = server._child
    stop = threading.Event()
    stop.set()
    server.run(stop, interval=0.001)
    assert server._child is None
    assert child._process.returncode == 0
