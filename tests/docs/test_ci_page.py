"""The commands of the page on continuous integration run as they stand, with nothing but the base install."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from loopscope.cli import main
from loopscope.guard import GuardPolicy
from loopscope.sample_traces import files

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"(?:\$ |run: )loopscope (check [^#\n]*)", PAGE)
SENTENCE = re.search(r"^Over the limit: .*$", PAGE, re.MULTILINE)

# Whatever an extra brings; the base install has none of it.
EXTRAS = ("starlette", "uvicorn", "grpc", "streamlit", "plotly", "pandas", "genai_prices", "httpx")
WITHOUT_EXTRAS = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from loopscope.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module", name="place")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ci")
    (folder / "traces").mkdir()
    for file in files():
        (folder / "traces" / file.name).write_bytes(file.read_bytes())
    GuardPolicy().to_file(folder / "policy.toml")
    assert main(["import", str(folder / "traces"), "--db", str(folder / "traces.duckdb")]) == 0
    return folder


def test_the_page_has_commands():
    assert len(COMMANDS) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_page(place, command):
    env = {key: value for key, value in os.environ.items() if not key.startswith("LOOPSCOPE_")}
    summary = place / "summary.md"
    args = [part.replace("$GITHUB_STEP_SUMMARY", str(summary)) for part in shlex.split(command)]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *args],
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert SENTENCE is not None
    assert done.stdout.rstrip().splitlines()[-1] == SENTENCE[0]
    if "--summary" in args:
        assert summary.read_text().startswith("## Loopscope check: over the limit\n")
        assert (place / "loops.xml").exists()
