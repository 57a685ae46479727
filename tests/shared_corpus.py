"""The one door to the optional corpus of public recordings beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent


def corpus(*parts: str) -> Path:
    """Path of a file of the optional corpus; skips the calling test where it is absent.

    The corpus is a folder named `shared` beside the checkout (or `LOOPSCOPE_CORPUS`). What a
    test pins with it is pinned by the project's own data too, so skipping loses no rule.
    """
    base = Path(os.environ.get("LOOPSCOPE_CORPUS") or _ROOT.parent / "shared")
    path = base.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"optional corpus not found: {'/'.join(('shared', *parts))} (set LOOPSCOPE_CORPUS)")
    return path
