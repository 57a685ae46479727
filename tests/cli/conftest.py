"""One imported database for all command tests, and a way to run a command as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopscope.cli import main
from loopscope.sample_traces import files


@dataclass
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch):
    """Run `loopscope ARGS` in this process."""
    monkeypatch.delenv("LOOPSCOPE_DB", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*args: object) -> Ran:
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


@pytest.fixture
def shell(tmp_path):
    """Run `loopscope ARGS` in a process of its own, in an empty folder."""

    def call(*args: object) -> Ran:
        env = {k: v for k, v in os.environ.items() if not k.startswith("LOOPSCOPE_")}
        done = subprocess.run(
            [sys.executable, "-m", "loopscope.cli", *map(str, args)],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture(scope="session")
def samples_db(tmp_path_factory) -> Path:
    """A database with the sample traces; tests only read it."""
    from loopscope.collector import import_paths

    db = tmp_path_factory.mktemp("samples") / "samples.duckdb"
    report = import_paths(db, files())
    assert report.ok, report.errors
    return db
