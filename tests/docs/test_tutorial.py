"""The README's tutorial: its commands run in their order, and its figures are those of the samples."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from loopscope.collector import Store, import_paths
from loopscope.guard import GuardPolicy
from loopscope.replay import Filters, find_incidents, impact, replay
from loopscope.sample_traces import files

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = TEXT[
    TEXT.index("## From a loop to a guard: a tutorial") : TEXT.index("The rule: equal results in a row")
]
SAID = " ".join(TUTORIAL.split())
COMMANDS = re.findall(r"^    ((?:loopscope|python) .*)$", TUTORIAL, re.MULTILINE)
POLICY = re.findall(r"^```toml\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tutorial")
    import_paths(folder / "demo.duckdb", files())
    return folder


def test_the_commands_run_in_their_order(folder):
    assert len(COMMANDS) == 9
    (folder / "demo.policy.toml").write_text(POLICY, encoding="utf-8")
    for line in COMMANDS:
        program, *arguments = shlex.split(line)
        command = [sys.executable, "-m", "loopscope.cli", *arguments]
        if program == "python":
            command = [sys.executable, str(ROOT / arguments[0]), *arguments[1:]]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == (3 if "examples" in line and "--policy" in line else 0), (line, done.stderr)
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!")


def test_its_figures_are_those_of_the_samples(tmp_path):
    import_paths(tmp_path / "demo.duckdb", files())
    policy = GuardPolicy.from_toml(POLICY)
    with Store(tmp_path / "demo.duckdb").lease() as con:
        worst = find_incidents(con)[0]
        before, after = replay(con, GuardPolicy()).totals, replay(con, policy).totals
        (lost,) = impact(con, GuardPolicy()).lost.calls
        poll = replay(con, policy, Filters(tools=("get_deployment_status",))).totals
    assert worst.key.startswith("2ed27a")
    assert (worst.agent_name, worst.tool_name) == ("oncall", "get_pod")
    assert f"{worst.calls} times and learned nothing new from {worst.repeated_calls} of them" in SAID
    assert worst.sample_result is not None
    assert json.loads(worst.sample_result)["reason"] == "ImagePullBackOff"
    assert worst.input_tokens is not None
    assert worst.output_tokens is not None
    assert f"{worst.input_tokens + worst.output_tokens:,} tokens later" in SAID
    assert (
        f"{before.runs_blocked} of {before.runs} runs ended, {before.calls_avoidable} needless calls spared, "
        f"and {before.calls_lost} useful call lost" in SAID
    )
    assert lost.tool_name == "create_ticket"
    assert f"Now {after.runs_blocked} runs are ended, {after.calls_avoidable} calls spared, none lost" in SAID
    assert after.calls_lost == 0
    assert (poll.calls_nudged, poll.calls_blocked) == (0, 0)
    assert poll.calls == 9


def test_its_pictures_are_there():
    pictures = re.findall(r"!\[[^\]]+\]\((docs/[^)]+)\)", TUTORIAL)
    assert len(pictures) == 3
    assert all((ROOT / picture).is_file() for picture in pictures)
