"""A short soak: agents that are killed, a server, commands, on one file. See benchmarks/soak_writers.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from loopscope.collector import Spool, Store


@pytest.fixture(scope="module")
def soaking() -> ModuleType:
    """The script, which does the same with eight agents for a minute."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "soak_writers.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("forked", [False, True])
def test_nothing_is_lost_or_doubled(soaking, tmp_path, forked):
    figures = soaking.soak(tmp_path / "t.duckdb", agents=2, seconds=4, forked=forked, dashboard=not forked)
    assert (figures.lost, figures.doubled, figures.failed_reads, figures.trouble) == ([], [], [], [])
    assert figures.sound
    assert figures.kills >= 2
    assert figures.stored >= figures.acknowledged > 0
    assert bool(figures.pages) is not forked


def test_losses_and_doubles_would_be_seen(soaking, tmp_path):
    soak = soaking.Soak(tmp_path / "t.duckdb", agents=2, forked=False, dashboard=False, seed=1)
    Spool(soak.db).prepare()
    (Spool(soak.db).path / "bad.seg").write_bytes(b"garbage")
    with Store(soak.db).lease() as con:
        for position in (0, 1):
            con.execute(
                "INSERT INTO tool_call_rows (trace_id, span_id, position, run_id, run_source, tool_name,"
                " call_id, start_ns, fingerprint_version, content_state, dialect)"
                " VALUES ('t', 's', ?, 'r', 'trace', 'look', 'a0l1-1', 0, 1, 'full', 'otel_genai')",
                [position],
            )
    soak.agents[0].acknowledged += ["a0l1-1", "a0l1-2"]
    soak.agents[1].trouble.append("agent a1l1 ended by itself with 1")
    soak.figures.reads = 1
    soak._settle()
    figures = soak.figures
    assert figures.lost == ["a0l1-2"]
    assert figures.doubled == ["a0l1-1"]
    assert len(figures.trouble) == 2
    assert not figures.sound
