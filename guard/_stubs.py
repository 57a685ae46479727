"""Stubs: what stands in a history where the result of a call was lost. No tool said it."""

from __future__ import annotations

__all__ = ["STUB_MARKER", "STUB_TEXT", "is_stub_result"]

STUB_MARKER = "[no result recorded]"
"""How the text of a stub begins: the result of a call that has none, which no tool said."""

STUB_TEXT = (
    f"{STUB_MARKER} The call was interrupted, or its result was lost. Whether it took effect is not known."
)

# Ours, and those that other agents write into their histories.
STUB_STARTS = (STUB_MARKER, "[Result unavailable — see context summary above]")


def is_stub_result(text: object) -> bool:
    """Is this text of a result a stub, that is, no outcome of a tool?"""
    return isinstance(text, str) and text[:96].lstrip().startswith(STUB_STARTS)
