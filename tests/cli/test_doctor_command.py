"""`loopscope doctor`: exit codes, both formats, and that hostile names stay text."""

from __future__ import annotations

import json
import os

import pytest

from loopscope.collector import Spool, Store, import_paths
from loopscope.sample_traces import files


@pytest.fixture
def db(tmp_path):
    made = tmp_path / "own.duckdb"
    import_paths(made, files()[:1])
    return made


def test_nothing_amiss(run, db):
    ran = run("doctor", "--db", db)
    assert ran.code == 0, ran.out
    assert "Nothing needs attention." in ran.out
    assert "folded by" in ran.out
    facts = json.loads(run("doctor", "--db", db, "--format", "json").out)
    assert facts == json.loads(run("doctor", "--db", db, "--json").out) | {
        key: facts[key] for key in ("examined_ns", "disk_free")
    }
    assert (facts["report_version"], facts["problems"]) == (1, [])
    assert {"holder", "folder", "spool", "drops", "content", "runs", "tables"} <= facts.keys()


def test_what_needs_attention_is_told_with_exit_code_1(run, db):
    spool = Spool(db)
    spool.quarantine(spool.write([("traces", b"")]), "\x1b[31mcut short")
    with Store(db).write() as con:
        con.execute("INSERT INTO drop_counters VALUES ('dropped_spans', 'sh\x1b[31mop', 7, 0)")
    ran = run("doctor", "--db", db)
    assert ran.code == 1
    assert "\x1b[31m" not in ran.out
    assert "cut short" in ran.out
    assert "! writers lost 7 spans" in ran.out
    ran = run("doctor", "--db", db, "--format", "json")
    assert ran.code == 1
    facts = json.loads(ran.out)
    assert len(facts["problems"]) == 2
    assert facts["spool"]["quarantined"][0][1] == "\x1b[31mcut short"


def test_the_setting_that_records_content_is_shown(run, samples_db):
    ran = run("doctor", "--db", samples_db)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in ran.out


def test_a_damaged_database(run, db):
    os.truncate(db, db.stat().st_size // 3)
    ran = run("doctor", "--db", db)
    assert ran.code == 1
    assert "! " in ran.out
    ran = run("replay", "--db", db)
    assert ran.code == 2
    assert len(ran.err.strip().splitlines()) == 1
    assert "is damaged" in ran.err
