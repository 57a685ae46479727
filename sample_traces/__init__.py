"""Recorded traces of looping and of healthy agents, as package data (what is in each: README.md).

from loopscope.sample_traces import files
import_paths("samples.duckdb", files())
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["files", "stories"]

_FOLDER = Path(__file__).resolve().parent


def files() -> list[Path]:
    """The recordings (OTLP/JSON lines), sorted by name."""
    return sorted(_FOLDER.glob("*.jsonl"))


def stories() -> list[dict[str, Any]]:
    """What each recording holds and what the default policy says of it, in order of time.

    One dict per file of `files()`; the keys are those of stories.json.
    """
    return json.loads((_FOLDER / "stories.json").read_text(encoding="utf-8"))["stories"]
