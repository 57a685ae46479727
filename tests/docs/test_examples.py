"""The Python examples of the README, and the agent that needs no model, run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from loopscope.collector import Store
from loopscope.guard import GuardPolicy

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples() -> list[str]:
    return BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(examples())))
def test_readme_example_runs(number, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", examples()[number]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_readme_has_examples():
    assert len(examples()) >= 2


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "oncall_agent.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_example_agent_is_stopped_by_a_saved_policy_and_not_without(tmp_path):
    free = run("--db", "t.duckdb", folder=tmp_path)
    assert (free.returncode, free.stderr) == (0, "")
    assert free.stdout.endswith("Ended by itself after 17 calls.\n")
    GuardPolicy(nudge_threshold=3, block_threshold=5).to_file(tmp_path / "t.policy.toml")
    held = run("--db", "t.duckdb", "--policy", "t.policy.toml", folder=tmp_path)
    assert held.stderr == ""
    assert held.returncode == 3
    assert held.stdout.endswith(
        "Stopped by the guard after 10 calls: loop_blocked\n"
    )  # 5 of a poll, 5 of a loop
    with Store(tmp_path / "t.duckdb").lease() as con:
        found = con.execute(
            "SELECT count(*), count(DISTINCT run_id), count(recorded_verdict) FROM tool_calls"
        ).fetchone()
    assert found == (27, 2, 3)  # two nudges and the block are on record
