"""`loopscope export parquet`."""

from __future__ import annotations

import json

import duckdb


def test_export(run, samples_db, tmp_path):
    folder = tmp_path / "out"
    done = run("export", "parquet", folder, "--db", samples_db)
    assert (done.code, done.err) == (0, "")
    counted = json.loads(
        run("query", "SELECT count(*) AS n FROM tool_calls", "--db", samples_db, "--format", "json").out
    )
    calls = counted[0]["n"]
    assert f"{calls:,} tool_calls" in done.out
    assert duckdb.sql(f"SELECT count(*) FROM '{folder}/tool_calls/*/*.parquet'").fetchall() == [(calls,)]
    again = json.loads(run("export", "parquet", folder, "--db", samples_db, "--json").out)
    assert again["rows"]["tool_calls"] == calls
    assert again["files"] == len(list(folder.rglob("*.parquet")))


def test_refusals(run, samples_db, tmp_path):
    (tmp_path / "spans").write_text("mine")
    for arguments in ([tmp_path / "x", "--db", tmp_path / "none.duckdb"], [tmp_path, "--db", samples_db]):
        refused = run("export", "parquet", *arguments)
        assert refused.code == 2
        assert refused.err.count("\n") == 1
    assert run("export").code in {0, 2}
