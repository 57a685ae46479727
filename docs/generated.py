"""How a page of docs/ that is written from the code is written, and checked."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(target: Path, text: str, source: str) -> int:
    """Write the page; with `--check` say, with exit code 1, that it is not what `source` says."""
    if "--check" in sys.argv[1:]:
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            print(f"{target.name} is not what {source} says: run `make docs`", file=sys.stderr)  # noqa: T201
            return 1
        return 0
    target.write_text(text, encoding="utf-8")
    return 0
