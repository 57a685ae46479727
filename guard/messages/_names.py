"""Names of functions that providers take."""

from __future__ import annotations

import re
from functools import lru_cache

from ._formats import Format

__all__ = ["NO_NAME", "legal_name"]

NO_NAME = "invalid_tool_call"
"""What a call is named that has no name, so that its result stays paired."""


def legal_name(form: Format, name: str | None) -> str:
    """The name itself where the format's providers take it, else the nearest one that they do."""
    return _legal(form.name_letters, form.name_limit, name)


@lru_cache(maxsize=4096)
def _legal(letters: str, limit: int, name: str | None) -> str:
    if not name:
        return NO_NAME
    if len(name) <= limit and re.fullmatch(f"[{letters}]+", name):
        return name
    return re.sub(f"[^{letters}]+", "_", name[: 4 * limit]).strip("_")[:limit].strip("_") or NO_NAME
