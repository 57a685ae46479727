"""The Parquet export: what the views say, a folder per day, replaced cleanly."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from store_tools import logs_payload, put_segment, spans_payload
from test_prune import DAY, LONG, NOW, tool_span

from loopscope.collector import Spool, Store, export_parquet, fold, prune
from loopscope.collector import _export as exporting
from loopscope.guard import StoreError

VIEWS = ("tool_calls", "llm_requests", "spans", "logs")
MESSAGES = json.dumps([{"role": "user", "parts": [{"type": "text", "content": LONG}]}] * 2)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "traces.duckdb")
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": MESSAGES,
        "gen_ai.usage.input_tokens": 5,
    }
    spans = [
        *(tool_span(n, n, NOW - n * DAY // 2) for n in range(1, 8)),
        {"trace": 20, "span": 20, "start": NOW, "end": NOW + 5, "attributes": chat},
        tool_span(30, 30, 0),
        tool_span(31, 31, 2**63 - 1 - 2_000),
        {**tool_span(32, 32, NOW), "end": None},
    ]
    logs = [{"time": NOW, "body": LONG}, {"trace": 7, "time": NOW - 3 * DAY, "body": {"a": [1, None]}}]
    payloads = [("traces", spans_payload(*spans)), ("logs", logs_payload(*logs))]
    put_segment(Spool(store.path), payloads, received_ns=NOW, name="a")
    fold(store)
    return store


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def rows_of(con, source: str) -> list[tuple]:
    return con.execute(f"SELECT * FROM {source} ORDER BY ALL").fetchall()


def test_it_holds_what_the_views_say(store, tmp_path):
    folder = tmp_path / "out" / "deep"
    steps: list[tuple[int, int]] = []
    report = export_parquet(store, folder, progress=lambda *step: steps.append(step))
    assert report.rows == {"tool_calls": 10, "llm_requests": 1, "spans": 11, "logs": 2}
    assert len(steps) == report.files
    with store.lease() as con:
        for view in VIEWS:
            parquet = f"read_parquet('{folder}/{view}/*/*.parquet', hive_partitioning = false)"
            assert rows_of(con, parquet) == rows_of(con, view)
            described = "SELECT column_name, column_type FROM (DESCRIBE FROM {})"
            assert (
                con.execute(described.format(parquet)).fetchall()
                == con.execute(described.format(view)).fetchall()
            )
            at = "logged_at" if view == "logs" else "started_at"
            wrong = con.execute(
                f"SELECT count(*) FROM read_parquet('{folder}/{view}/**/*.parquet', hive_partitioning = true)"
                f" WHERE day <> {at}::DATE"
            ).fetchall()
            assert wrong == [(0,)]
    assert {"1970-01-01", "2262-04-11", "2023-11-14"} <= report.days
    assert report.size == sum((folder / name).stat().st_size for name in files(folder) if name[0] != "_")
    note = json.loads((folder / "_loopscope.json").read_text())
    assert note["rows"] == report.rows


def test_other_readers(store, tmp_path):
    """pyarrow reads what DuckDB wrote: lists of texts, nulls, microseconds in UTC."""
    export_parquet(store, tmp_path / "out")
    (file,) = (tmp_path / "out" / "llm_requests").rglob("*.parquet")
    table = pq.ParquetFile(file).read()
    assert len(table.column("input_messages").to_pylist()[0]) == 2
    assert LONG in table.column("input_messages").to_pylist()[0][0]
    assert table.column("cost").to_pylist() == [None]
    assert str(table.schema.field("started_at").type) == "timestamp[us]"
    everything = pq.read_table(tmp_path / "out" / "tool_calls")
    assert everything.num_rows == 10
    assert "day" in everything.column_names


def test_again_is_the_same_and_pruned_days_go(store, tmp_path):
    folder = tmp_path / "out"
    first = export_parquet(store, folder)
    names = files(folder)
    second = export_parquet(store, folder)
    assert (first.rows, first.days) == (second.rows, second.days)
    assert files(folder) == names
    prune(store, NOW - 2 * DAY, compacting=False)
    third = export_parquet(store, folder)
    assert third.days < first.days
    assert {name.split("day=")[1][:10] for name in files(folder) if "day=" in name} == third.days
    found = duckdb.sql(f"SELECT count(*) FROM '{folder}/tool_calls/*/*.parquet'").fetchall()
    with store.lease() as con:
        assert con.execute("SELECT count(*) FROM tool_calls").fetchall() == found
    assert sorted(path.name for path in folder.iterdir()) == sorted({"_loopscope.json", *third.rows})


@pytest.mark.parametrize("fails", ["writing", "placing"])
def test_a_failed_export_leaves_the_one_before(store, tmp_path, monkeypatch, fails):
    folder = tmp_path / "out"
    export_parquet(store, folder)
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    if fails == "writing":
        write, left = exporting._write_day, iter(range(3))

        def break_off(*arguments):
            if next(left, None) is None:
                raise OSError(28, "No space left on device")
            write(*arguments)

        monkeypatch.setattr(exporting, "_write_day", break_off)
    else:
        rename = os.rename

        def refuse(source, target):
            if Path(target) == folder / "spans" and "old" not in str(source):
                raise OSError(13, "Permission denied")
            rename(source, target)

        monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(StoreError, match="cannot write the export"):
        export_parquet(store, folder)
    assert {name: (folder / name).read_bytes() for name in files(folder)} == before
    assert not list(folder.glob(".export-*"))


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_other_peoples_folders_are_not_replaced(store, tmp_path, what):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")  # does not disturb
    if what == "file":
        (folder / "spans").write_text("mine")
    elif what == "folder":
        (folder / "spans").mkdir()
        (folder / "spans" / "mine.txt").write_text("mine")
    else:
        (tmp_path / "elsewhere" / "day=1").mkdir(parents=True)
        (folder / "spans").symlink_to(tmp_path / "elsewhere")
    before = files(tmp_path)
    with pytest.raises(StoreError, match="holds other things"):
        export_parquet(store, folder)
    assert files(tmp_path) == before
    if (folder / "spans").is_dir() and not (folder / "spans").is_symlink():
        shutil.rmtree(folder / "spans")
    else:
        (folder / "spans").unlink()
    export_parquet(store, folder)
    assert (folder / "mine.txt").read_text() == "mine"


def test_a_folder_that_is_a_file(store, tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(StoreError, match="out"):
        export_parquet(store, tmp_path / "out")


def test_an_empty_store(tmp_path):
    store = Store(tmp_path / "traces.duckdb")
    with store.lease():
        pass
    report = export_parquet(store, tmp_path / "o'ut")
    assert (report.rows, report.files) == ({}, 0)
    assert files(tmp_path / "o'ut") == {"_loopscope.json"}


def test_a_quote_in_the_name_of_the_folder(store, tmp_path):
    assert export_parquet(store, tmp_path / "o'ut").rows["spans"] == 11
