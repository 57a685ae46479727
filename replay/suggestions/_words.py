"""Words that several kinds of suggestions share."""

from __future__ import annotations

from collections.abc import Sequence

from .._text import visible

__all__ = ["listed", "quoted", "thin"]

_NAMED = 3  # names in a list before the rest is a number
_THIN = 3  # runs that are too few to be sure


def quoted(name: str) -> str:
    """The name of a tool or key on one line, bounded."""
    shown = visible(name)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"


def listed(names: Sequence[str], word: str) -> str:
    """ "a", "a or b", "a, b, c or 2 more"."""
    shown = [quoted(name) for name in names]
    if len(shown) > _NAMED + 1:
        shown = [*shown[:_NAMED], f"{len(shown) - _NAMED:,} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"


def thin(runs: int) -> str | None:
    """A warning where what was seen was seen in few runs."""
    if runs >= _THIN:
        return None
    if runs == 1:
        return "Seen in one run only: it may say more of that run than of the tool."
    return f"Seen in {runs} runs only."
