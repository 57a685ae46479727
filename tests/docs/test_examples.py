"""The Python examples of the README run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
