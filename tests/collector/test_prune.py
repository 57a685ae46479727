"""Retention: what is old goes whole, what stays is as if the old had never been there."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_tools import (
    TABLES,
    copy_spool,
    count,
    dump,
    logs_payload,
    put_segment,
    python_env,
    spans_payload,
    trace_id,
)

from loopscope.collector import Folder, Spool, Store, fold, prune
from loopscope.collector import _compact as compacting_module
from loopscope.collector import _prune as pruning
from loopscope.collector._compact import compact
from loopscope.collector._schema import sql_text
from loopscope.collector._store import BLOCK_BYTES
from loopscope.guard import StoreError

DAY = 86_400_000_000_000
NOW = 1_700_000_000_000_000_000
LONG = "x" * 2_000


def tool_span(trace: int, span: int, start: int, **more) -> dict:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.arguments": '{"q": "' + LONG + str(more.pop("text", trace)) + '"}',
        "gen_ai.tool.call.result": "none",
        **more.pop("attributes", {}),
    }
    return {
        "trace": trace,
        "span": span,
        "start": start,
        "end": start + 1_000,
        "attributes": attributes,
        **more,
    }


def put(spool: Spool, name: str, *spans: dict, logs=(), received: int = NOW) -> None:
    payloads: list = [("traces", spans_payload(*spans))] if spans else []
    if logs:
        payloads.append(("logs", logs_payload(*logs)))
    put_segment(spool, payloads, received_ns=received, name=name)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "traces.duckdb")


def traces_of(store: Store) -> set[int]:
    with store.lease() as con:
        return {int(row[0], 16) for row in con.execute("SELECT DISTINCT trace_id FROM spans").fetchall()}


def test_what_ended_before_goes_and_the_rest_stays(store):
    put(
        Spool(store.path),
        "a",
        tool_span(1, 1, NOW - 40 * DAY),
        tool_span(2, 2, NOW - 40 * DAY),
        tool_span(2, 3, NOW - 10 * DAY),  # its trace is not over
        tool_span(3, 4, NOW - 10 * DAY),
        tool_span(4, 5, NOW - 30 * DAY),  # ends a microsecond after the limit
        logs=[
            {"trace": 1, "time": NOW - 40 * DAY, "body": LONG + "1"},
            {"trace": 5, "time": NOW - 40 * DAY, "body": "only a log"},
            {"trace": 6, "time": NOW - DAY, "body": "only a log"},
            {"time": NOW - 40 * DAY, "body": "of no trace, old"},
            {"time": NOW - DAY, "body": "of no trace, new"},
        ],
    )
    fold(store)
    texts = count(store, "contents")
    report = prune(store, NOW - 30 * DAY)
    assert (report.traces, report.spans, report.logs, report.calls) == (2, 1, 3, 1)
    assert report.texts == texts - count(store, "contents") > 0
    assert traces_of(store) == {2, 3, 4}
    with store.lease() as con:
        bodies = con.execute("SELECT body FROM logs ORDER BY time_ns, body").fetchall()
    assert bodies == [('"of no trace, new"',), ('"only a log"',)]
    assert not prune(store, NOW - 30 * DAY)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 59), st.integers(0, 3)), min_size=1, max_size=12))
def test_what_stays_is_as_if_the_old_had_never_been_there(tmp_path_factory, records):
    """The tables after pruning equal those of a database that only ever got the traces that stay."""
    folder = tmp_path_factory.mktemp("prune")
    whole, kept = Store(folder / "whole.duckdb"), Store(folder / "kept.duckdb")
    last: dict[int, int] = {}
    for trace, age, _ in records:
        last[trace] = max(last.get(trace, 0), NOW - age * DAY + 1_000)
    for number, (trace, age, text) in enumerate(records):
        span = tool_span(trace, number + 1, NOW - age * DAY, text=text)
        put(Spool(whole.path), f"{number:03}", span)
        if last[trace] >= NOW - 30 * DAY:
            put(Spool(kept.path), f"{number:03}", span)
    fold(whole)
    with kept.lease():
        pass
    fold(kept)
    report = prune(whole, NOW - 30 * DAY, records_at_once=4, compacting=False)
    assert report.traces == sum(end < NOW - 30 * DAY for end in last.values())
    assert dump(whole) == dump(kept)


@pytest.mark.parametrize("at_once", [1, 1_000])
def test_a_dry_run_counts_and_changes_nothing(store, monkeypatch, at_once):
    monkeypatch.setattr(pruning, "_TEXTS_AT_ONCE", at_once)
    put(
        Spool(store.path),
        "a",
        *(tool_span(trace, trace, NOW - 40 * DAY) for trace in range(1, 6)),
        tool_span(6, 6, NOW),
        tool_span(7, 7, NOW, text=1),  # a text of one that goes
        logs=[
            {"time": NOW - 40 * DAY, "body": LONG + "of no trace, old"},
            {"time": NOW - DAY, "body": LONG + "of no trace, new"},
            {"time": NOW - 40 * DAY, "trace": 2, "body": LONG + "of a trace that goes"},
            {"time": NOW - 40 * DAY, "trace": 6, "body": LONG + "of a trace that stays"},
        ],
    )
    fold(store)
    before, version = dump(store), store.version()
    told = prune(store, NOW - 30 * DAY, dry_run=True, records_at_once=at_once)
    assert dump(store) == before
    assert store.version() == version
    done = prune(store, NOW - 30 * DAY, records_at_once=at_once)
    names = ("traces", "spans", "logs", "calls", "requests", "texts", "quarantined", "traces_kept_for_runs")
    assert [getattr(told, name) for name in names] == [getattr(done, name) for name in names]
    assert (done.traces, done.calls, done.logs) == (5, 5, 2)
    assert done.texts == 6  # four arguments, of spans and their calls alike; two log records


def test_the_file_is_let_go_between_steps(store, monkeypatch):
    put(Spool(store.path), "a", *(tool_span(trace, trace, NOW - 40 * DAY) for trace in range(1, 9)))
    fold(store)
    steps, lease = [], Store.lease

    def counted(self, **options):
        steps.append(options)
        return lease(self, **options)

    monkeypatch.setattr(Store, "lease", counted)
    monkeypatch.setattr(pruning, "_TEXTS_AT_ONCE", 2)
    for dry in (True, False):
        steps.clear()
        prune(store, NOW - 30 * DAY, dry_run=dry, records_at_once=2, compacting=False)
        assert len(steps) >= 1 + 4 + 1 + 4  # the plan, traces, loose logs, texts


def test_a_conversation_goes_on(store):
    """Traces 1, 2 and 3 are linked by conversations, and 3 is new; 4 is a conversation that is over."""

    def chat(trace: int, age: int, *conversations: str) -> list[dict]:
        return [
            tool_span(trace, trace * 10 + n, NOW - age * DAY, attributes={"gen_ai.conversation.id": name})
            for n, name in enumerate(conversations)
        ]

    spans = [
        *chat(1, 50, "a"),
        *chat(2, 45, "a", "b"),
        *chat(3, 1, "b"),
        *chat(4, 50, "c"),
        *chat(5, 49, "c"),
    ]
    put(Spool(store.path), "a", *spans)
    fold(store)
    with store.lease() as con:
        runs = con.execute("SELECT DISTINCT run_id, run_source FROM tool_calls").fetchall()
    assert {source for _, source in runs} == {"conversation"}
    assert len(runs) == 3
    report = prune(store, NOW - 30 * DAY)
    assert traces_of(store) == {1, 2, 3}
    assert report.traces_kept_for_runs == 2
    assert report.traces == 2


@pytest.mark.parametrize("start", [0, 1, 946_684_800_000_000_000, 2**62, NOW + 40 * DAY])
def test_a_time_that_cannot_be_is_that_of_its_coming_in(store, start):
    put(Spool(store.path), "a", tool_span(1, 1, start), received=NOW - DAY)
    put(Spool(store.path), "b", tool_span(2, 2, start), received=NOW - 40 * DAY)
    fold(store)
    assert prune(store, NOW - 30 * DAY).traces == 1
    assert traces_of(store) == {1}


def test_a_span_that_comes_in_meanwhile_keeps_its_trace(store, monkeypatch):
    spool = Spool(store.path)
    put(spool, "a", *(tool_span(trace, trace, NOW - (60 - trace) * DAY) for trace in range(1, 5)))
    fold(store)
    remove, late = pruning._remove, [tool_span(4, 99, NOW)]

    def and_a_late_span(con, step, report):
        remove(con, step, report)
        if late:
            put(spool, "late", late.pop())
            monkeypatch.setattr(pruning, "_remove", remove)

    monkeypatch.setattr(pruning, "_remove", and_a_late_span)
    write = Store.write

    def fold_first(self, **options):
        if spool.pending():  # not inside a transaction of the pruning
            monkeypatch.setattr(Store, "write", write)
            fold(store)
        return write(self, **options)

    monkeypatch.setattr(Store, "write", fold_first)
    report = prune(store, NOW - 30 * DAY, records_at_once=1)
    assert traces_of(store) == {4}
    assert report.traces == 3
    assert count(store, "tool_calls") == 2


def test_old_quarantine_goes_too(store):
    spool = Spool(store.path)
    put(spool, "a", tool_span(1, 1, NOW))
    fold(store)
    for age in (40, 1):
        name = f"{NOW - age * DAY:020d}-host-1-0-{age}"
        spool.prepare()
        (spool.path / f"{name}.seg").write_bytes(b"rubbish")
        spool.quarantine(spool.path / f"{name}.seg", "unreadable")
    assert prune(store, NOW - 30 * DAY, dry_run=True).quarantined == 1
    assert len(spool.quarantined()) == 2
    assert prune(store, NOW - 30 * DAY).quarantined == 1
    assert [name for name, _ in spool.quarantined()] == [f"{NOW - DAY:020d}-host-1-0-1.seg"]
    assert len(list((spool.path / "quarantine").iterdir())) == 2


def test_labels_policies_and_own_tables_stay(store):
    put(Spool(store.path), "a", tool_span(1, 1, NOW - 40 * DAY))
    fold(store)
    with store.write() as con:
        con.execute("INSERT INTO labels VALUES ('k', 'polling', NULL, now()::TIMESTAMP)")
        con.execute("INSERT INTO policies VALUES ('p', 'x', 'h', now()::TIMESTAMP)")
        con.execute("CREATE TABLE mine (a INTEGER PRIMARY KEY)")
        con.execute("INSERT INTO mine VALUES (7)")
        con.execute("CREATE VIEW of_mine AS SELECT a + 1 AS b FROM mine")
    prune(store, NOW)
    with store.lease() as con:
        assert con.execute("SELECT b FROM of_mine").fetchall() == [(8,)]
        assert con.execute("SELECT count(*) FROM labels").fetchall() == [(1,)]
        assert con.execute("SELECT count(*) FROM policies").fetchall() == [(1,)]


# -- the space ------------------------------------------------------------------------------------


def fill(store: Store) -> None:
    texts = [f"{n}" + "".join(chr(97 + (n * k) % 26) for k in range(4_000)) for n in range(700)]
    spans = [tool_span(n + 1, n + 1, NOW - 40 * DAY, text=text) for n, text in enumerate(texts)]
    put(Spool(store.path), "a", *spans, tool_span(9_000, 9_000, NOW))
    fold(store)


def test_the_space_is_given_back(store):
    fill(store)
    store.path.chmod(0o640)
    report = prune(store, NOW - 30 * DAY)
    assert report.not_compacted == ""
    assert report.bytes_after < report.bytes_before * 0.8
    assert report.bytes_after == store.path.stat().st_size
    assert store.path.stat().st_mode & 0o777 == 0o640
    assert {path.name for path in store.path.parent.iterdir()} == {"traces.duckdb", "traces.duckdb.spool"}
    put(Spool(store.path), "b", tool_span(9_001, 9_001, NOW))
    assert fold(store).spans == 1  # it goes on


def test_without_compaction_the_file_stays(store):
    fill(store)
    inode = store.path.stat().st_ino
    assert prune(store, NOW - 30 * DAY, compacting=False).spans == 700
    assert store.path.stat().st_ino == inode


def test_no_space_for_a_copy_is_said(store, monkeypatch):
    fill(store)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10}))
    report = prune(store, NOW - 30 * DAY)
    assert "free disk" in report.not_compacted
    assert report.spans == 700
    with pytest.raises(StoreError, match="free disk"):
        compact(store)


@pytest.mark.parametrize(("compacting", "spared"), [(None, True), (True, False)])
def test_a_server_is_not_kept_waiting_unasked(store, monkeypatch, compacting, spared):
    fill(store)
    inode = store.path.stat().st_ino
    told: list[float] = []
    folder = Folder(store, role="server")
    assert folder.elect()
    monkeypatch.setattr(compacting_module, "_BYTES_A_SECOND", 1)
    report = prune(store, NOW - 30 * DAY, compacting=compacting, announce=told.append)
    folder.retire()
    assert report.spans == 700
    assert (f"server (PID {os.getpid()})" in report.not_compacted) is spared
    assert (store.path.stat().st_ino == inode) is spared
    assert len(told) == (0 if spared else 1)
    assert all(seconds > 100_000 for seconds in told)


def test_a_short_rewriting_does_not_disturb_a_server(store):
    fill(store)
    folder = Folder(store, role="server")
    assert folder.elect()
    report = prune(store, NOW - 30 * DAY, compacting=None)
    folder.retire()
    assert report.not_compacted == ""
    assert report.bytes_after < report.bytes_before


def test_a_file_in_use_is_not_copied(store):
    fill(store)
    before = dump(store)
    impatient = Store(store.path, timeout=0.2)
    with store.lease(), pytest.raises(StoreError, match="not made smaller"):
        compact(impatient)
    assert dump(store) == before


WRITER = """
import sys
from pathlib import Path
from loopscope.collector import Store
store = Store(sys.argv[1], timeout=60)
with store.write() as con:
    con.execute("CREATE TABLE written (n INTEGER)")
print("ready", flush=True)
enough = Path(sys.argv[2])
number = 0
while number < 5 or not enough.exists():
    with store.write() as con:
        con.execute("INSERT INTO written VALUES (?)", [number])
    number += 1
print(number)
"""


def test_nothing_that_others_write_meanwhile_is_lost(store, tmp_path):
    fill(store)
    enough = tmp_path / "enough"
    writers = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store.path), str(enough)],
        env=python_env(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writers.stdout is not None
    assert writers.stdout.readline() == "ready\n"
    done = tries = 0
    patient = Store(store.path, timeout=30)
    while writers.poll() is None:
        try:
            compact(patient)
            done += 1
        except StoreError:
            time.sleep(0.01)
        tries += 1
        if done >= 2 or tries >= 500:
            enough.touch()
    written = int(writers.stdout.read())
    writers.stdout.close()
    assert writers.returncode == 0
    with store.lease() as con:
        assert con.execute("SELECT count(*), count(DISTINCT n) FROM written").fetchall() == [
            (written, written)
        ]
    assert done >= 1
    assert written >= 5


def test_copies_hold_the_same(store):
    fill(store)
    copy_spool(Spool(store.path), Spool(store.path.with_name("other.duckdb")))
    before = dump(store)
    compact(store)
    assert dump(store) == before
    with store.lease() as con:  # what was noted of groups of rows is not so in the copy
        assert con.execute("SELECT key FROM meta WHERE key LIKE 'row_groups%'").fetchall() == []
    assert set(before) == set(TABLES)
    assert trace_id(1) in {row[0] for row in before["span_rows"]}


def test_every_reference_to_a_text_is_known(store):
    with store.lease() as con:
        columns = con.execute(
            "SELECT DISTINCT column_name FROM duckdb_columns() WHERE table_name LIKE '%rows'"
            " AND (column_name LIKE '%\\_parts' ESCAPE '\\' OR column_name LIKE '%\\_content' ESCAPE '\\')"
        ).fetchall()
        unused = pruning._unused_texts(con, 0, 1)
    assert len(columns) >= 8
    for (column,) in columns:
        assert column in unused
        assert column in sql_text("forget_texts.sql")


@pytest.mark.parametrize("at_once", [5, 1_000])
def test_texts_go_in_steps(store, monkeypatch, at_once):
    monkeypatch.setattr(pruning, "_TEXTS_AT_ONCE", at_once)
    put(Spool(store.path), "a", *(tool_span(n, n, NOW - n % 2 * 40 * DAY) for n in range(1, 13)))
    fold(store)
    with store.lease() as con:
        stretches = pruning._stretches(con)
        keys = [key for (key,) in con.execute("SELECT hash FROM contents ORDER BY 1").fetchall()]
    assert [key for low, high in stretches for key in keys if low <= key <= high] == keys
    assert all(sum(low <= key <= high for key in keys) <= at_once for low, high in stretches)
    texts = count(store, "contents")
    report = prune(store, NOW - 30 * DAY, compacting=False)
    assert report.texts == texts - count(store, "contents") == texts // 2


def test_a_file_has_small_blocks_before_and_after_it_is_rewritten(store):
    """A batch leaves a partly filled block per table, so large ones cost a third of the file."""
    put(Spool(store.path), "a", tool_span(1, 1, NOW))
    fold(store)
    sizes = []
    for _ in range(2):
        with store.lease() as con:
            sizes.append(con.execute("SELECT block_size FROM pragma_database_size()").fetchall()[0][0])
        compact(store)
    assert sizes == [BLOCK_BYTES, BLOCK_BYTES]
    with store.lease() as con:
        assert con.execute("SELECT count(*) FROM tool_calls").fetchall() == [(1,)]
