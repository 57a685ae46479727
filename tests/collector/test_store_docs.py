"""docs/store.md says what the store does: its examples run, its columns are the columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from store_tools import derive, spans_payload

from loopscope.collector import Spool, Store, fold

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "store.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "traces.duckdb")
    calls = [{"span": n, "end": 2_000, "attributes": {"tool": "t", "arguments": "{}"}} for n in range(1, 4)]
    request = {"span": 9, "end": 2_000, "attributes": {"messages": '[{"role": "user"}]'}}
    Spool(store.path).write([("traces", spans_payload(*calls, request))])
    fold(store, derive=derive)
    return store


@pytest.mark.parametrize("number", range(len(blocks("sql"))))
def test_sql_examples_run(store, number):
    with store.lease() as con:
        con.execute(blocks("sql")[number]).fetchall()


def test_there_are_examples():
    assert len(blocks("sql")) >= 4


def test_python_examples_run(store, monkeypatch):
    monkeypatch.chdir(store.path.parent)
    for block in blocks("python"):
        names: dict[str, object] = {}
        exec(block, names)
        assert names["rows"] == [("t", 3)]


def documented(section, stop):
    """The names in backquotes of a section that name columns."""
    part = TEXT.split(f"### {section}\n")[1].split(stop)[0]
    return set(re.findall(r"`([a-z_]+)`", part))


@pytest.mark.parametrize(
    ("view", "section", "stop"),
    [
        ("tool_calls", "tool_calls", "### llm_requests"),
        ("llm_requests", "llm_requests", "### spans"),
        ("spans", "spans, logs", "`logs`:"),
        ("logs", "spans, logs", "Numbers that"),
    ],
)
def test_every_column_is_documented(store, view, section, stop):
    with store.lease() as con:
        columns = {row[0] for row in con.execute(f"DESCRIBE {view}").fetchall()}
    assert columns <= documented(section, stop)


def test_every_table_is_documented(store):
    with store.lease() as con:
        names = {
            row[0]
            for row in con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        }
    for name in names:
        assert f"`{name}`" in TEXT
