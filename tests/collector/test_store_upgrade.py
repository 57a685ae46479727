"""Databases of earlier versions: what is derived otherwise today is derived again, out of what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from store_tools import spans_payload

from loopscope.collector import Spool, Store, _contents, fold
from loopscope.collector._schema import SCHEMA_VERSION

REFUSAL = "Error code: 400 - No tool output found for function call call_a."


def _refused(span: int, trace: int) -> dict:
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "q"}]}])
    event = ("exception", {"exception.type": "openai.BadRequestError", "exception.message": REFUSAL})
    return {
        "trace": trace,
        "span": span,
        "start": 1_000,
        "end": 2_000,
        "status": 2,
        "events": [event],
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages},
    }


@pytest.fixture
def old(tmp_path):
    """A database as version 1 wrote it."""
    new, path = tmp_path / "new.duckdb", tmp_path / "t.duckdb"
    Spool(new).write([("traces", spans_payload(*(_refused(number, number) for number in range(1, 6))))])
    fold(Store(new))
    with duckdb.connect(str(path)) as con:
        con.execute((Path(__file__).parent / "schema_1.sql").read_text(encoding="utf-8"))
        columns = con.execute(
            "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns()"
            " WHERE NOT internal AND column_name NOT IN ('started_at', 'ended_at', 'logged_at')"
            " GROUP BY table_name"
        ).fetchall()
        con.execute(f"ATTACH '{new}' AS new (READ_ONLY)")
        for table, names in columns:
            listed = ", ".join(f'"{name}"' for name in names)
            con.execute(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM new.{table}")
        con.execute("UPDATE meta SET value = '1' WHERE key = 'schema_version'")
        con.execute("UPDATE llm_request_rows SET error_class = NULL")
        assert con.execute("SELECT count(*) FROM trace_rows WHERE stale").fetchall() == [(0,)]
    return path


def _classes(path) -> list:
    with Store(path).lease() as con:
        return con.execute("SELECT DISTINCT error_class FROM llm_requests ORDER BY 1").fetchall()


def test_a_database_of_version_1_is_derived_again(old):
    assert _classes(old) == [(None,)]  # opening it only marks the traces
    with Store(old).lease() as con:
        assert con.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall() == [
            (str(SCHEMA_VERSION),)
        ]
    result = fold(Store(old))
    assert (result.segments, result.quarantined) == (0, 0)
    assert _classes(old) == [("missing_result",)]
    with Store(old).lease() as con:
        assert con.execute("SELECT count(*) FROM trace_rows WHERE stale").fetchall() == [(0,)]
        assert con.execute("SELECT count(*) FROM llm_requests").fetchall() == [(5,)]


def test_new_segments_do_not_wait_for_it(old):
    Spool(old).write([("traces", spans_payload(_refused(9, 9)))])
    fold(Store(old), settle=False)
    assert ("missing_result",) in _classes(old)
    fold(Store(old))
    assert _classes(old) == [("missing_result",)]


def test_a_database_of_version_2_says_from_now_on_what_changes(tmp_path):
    path = tmp_path / "t.duckdb"
    Spool(path).write([("traces", spans_payload(_refused(1, 1), _refused(2, 2)))])
    fold(Store(path))
    with duckdb.connect(str(path)) as con:
        con.execute("ALTER TABLE trace_rows DROP COLUMN changed_in")
        con.execute("DELETE FROM meta WHERE key IN ('store_id', 'removals')")
        con.execute("UPDATE meta SET value = '2' WHERE key = 'schema_version'")
    Spool(path).write([("traces", spans_payload(_refused(3, 2)))])
    fold(Store(path))
    with Store(path).lease() as con:
        columns = con.execute("SELECT spans, changed_in > 0 FROM trace_rows ORDER BY trace_id").fetchall()
        meta = dict(con.execute("SELECT key, value FROM meta").fetchall())
    assert columns == [(1, False), (2, True)]
    assert meta["removals"] == "0"
    assert len(meta["store_id"]) == 36


def test_a_trace_says_in_which_fold_it_changed(tmp_path):
    path = tmp_path / "t.duckdb"

    def changed(*spans):
        Spool(path).write([("traces", spans_payload(*spans))])
        fold(Store(path))
        with Store(path).lease() as con:
            serial = con.execute("SELECT value FROM meta WHERE key = 'fold_serial'").fetchall()[0][0]
            rows = con.execute("SELECT changed_in FROM trace_rows ORDER BY trace_id").fetchall()
        return int(serial), [row[0] for row in rows]

    first, rows = changed(_refused(1, 1), _refused(2, 2))
    assert rows == [first, first]
    second, rows = changed(_refused(3, 2))
    assert second > first
    assert rows == [first, second]


def test_texts_with_checks_of_an_earlier_version_are_found(tmp_path):
    path = tmp_path / "t.duckdb"
    asked = _refused(1, 1)
    asked["attributes"] = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "long " * 100}
    Spool(path).write([("traces", spans_payload(asked))])
    fold(Store(path))

    def texts() -> list[tuple[str, int]]:
        with Store(path).lease() as con:
            return con.execute("SELECT text, check_hash FROM contents ORDER BY text").fetchall()

    before = texts()
    assert all(0 <= check < 1 << 32 for _, check in before)
    whole = {text: _contents._digest(text.encode())[1] for text, _ in before}
    assert whole
    with Store(path).write() as con:  # they stored 64 bits
        for text, check in whole.items():
            con.execute("UPDATE contents SET check_hash = ? WHERE text = ?", [check, text])
    Spool(path).write([("traces", spans_payload({**asked, "trace": 2, "span": 2}))])
    assert fold(Store(path)).spans == 1
    assert dict(texts()) == whole
    assert len(texts()) == len(whole)
