"""Whether an import changed anything: told the same however little of the database is read at once."""

from __future__ import annotations

import json

import pytest

from loopscope.collector import Store, import_paths
from loopscope.collector.importers import _counts


def chat(number: int, turns: int) -> str:
    messages: list[dict[str, object]] = [{"role": "user", "content": f"find {number}"}]
    for turn in range(turns):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": f"text {number} {turn}"})
    return json.dumps({"id": f"t{number}", "messages": messages}) + "\n"


@pytest.mark.parametrize("at_once", [1, 20, 10_000])
def test_what_was_there_is_told(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(_counts, "_RECORDS_AT_ONCE", at_once)
    db = tmp_path / "t.duckdb"
    paths = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for at, path in enumerate(paths):
        path.write_text("".join(chat(at * 10 + number, 3) for number in range(4)))
    first = import_paths(db, paths[:2])
    assert [file.already_there for file in first.files] == [False, False]
    again = import_paths(db, paths)
    assert [file.already_there for file in again.files] == [True, True, False]
    assert [(file.runs, file.calls) for file in again.files] == [(4, 12)] * 3
    with Store(db).write() as con:  # something of the second file's is gone
        gone = "SELECT trace_id FROM tool_calls WHERE result = 'text 12 1'"
        con.execute(f"DELETE FROM span_rows WHERE trace_id IN ({gone}) AND name LIKE 'execute_tool%'")
    third = import_paths(db, paths)
    assert [file.already_there for file in third.files] == [True, False, True]
