"""`loopscope prune`: what it says, what it leaves, what it refuses."""

from __future__ import annotations

import json
import shutil

import pytest

from loopscope.cli._prune import cutoff
from loopscope.guard import LoopscopeError

HOUR, NOW = 3_600_000_000_000, 1_800_000_000_000_000_000


@pytest.fixture
def db(samples_db, tmp_path):
    return shutil.copyfile(samples_db, tmp_path / "traces.duckdb")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", NOW - 30 * 24 * HOUR),
        ("12h", NOW - 12 * HOUR),
        ("2 weeks", NOW - 14 * 24 * HOUR),
        ("1 DAY", NOW - 24 * HOUR),
        ("2026-01-31", 1_769_817_600_000_000_000),
        ("2026-01-31T12:00:00+02:00", 1_769_853_600_000_000_000),
    ],
)
def test_ages_and_days(text, expected):
    assert cutoff(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "30", "d", "-3d", "30m", "soon", "2026-13-01", "1e3d"])
def test_what_is_neither(text):
    with pytest.raises(LoopscopeError, match="--older-than"):
        cutoff(text, NOW)


def test_a_dry_run_and_the_real_one(run, db):
    before = json.loads(run("query", "SELECT count(*) AS n FROM spans", "--db", db, "--format", "json").out)
    dry = run("prune", "--db", db, "--older-than", "0h", "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert dry.out.startswith("Would remove")
    assert f"{before[0]['n']:,} spans" in dry.out
    done = run("prune", "--db", db, "--older-than", "0h", "--json")
    found = json.loads(done.out)
    assert (found["spans"], found["dry_run"], found["schema_version"]) == (before[0]["n"], False, 1)
    assert found["bytes_after"] < found["bytes_before"]
    after = run("prune", "--db", db, "--older-than", "0h")
    assert after.out.startswith("Removed")
    assert "0 traces" in after.out
    assert run("replay", "--db", db).code == 0


def test_refusals(run, tmp_path, db):
    for arguments in (
        ["--db", tmp_path / "none.duckdb", "--older-than", "1d"],
        ["--db", db, "--older-than", "x"],
        ["--db", db],
    ):
        refused = run("prune", *arguments)
        assert refused.code == 2
        assert refused.err.count("\n") == 1
