"""Pieces of time for charts."""

from __future__ import annotations

__all__ = ["TIMED_FROM", "bucket_width", "untimed"]

_SECOND = 1_000_000_000

_MADE_UP_FROM = 946_684_800 * _SECOND
"""Where a source says nothing of time, importers let its conversations begin here: 2000-01-01."""

TIMED_FROM = _MADE_UP_FROM + 86_400 * _SECOND
"""What starts before, on the day of the made-up times, has no recorded time."""


def untimed(ns: int | None) -> bool:
    """Whether a time was made up by an importer because the source recorded none."""
    return ns is not None and _MADE_UP_FROM <= ns < TIMED_FROM


_STEPS = [
    *(step * _SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * 60 * _SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * 3_600 * _SECOND for step in (1, 2, 3, 6, 12)),
    *(step * 86_400 * _SECOND for step in (1, 2, 7, 14, 28, 56, 112, 364)),
]


def bucket_width(first_ns: int, last_ns: int, buckets: int) -> tuple[int, int]:
    """(origin, width): round pieces of time, in UTC, of which at most about `buckets` cover the span."""
    span = max(last_ns - first_ns, 1)
    wanted = span / max(buckets, 1)
    width = next((step for step in _STEPS if step >= wanted), None)
    if width is None:
        width = -(-span // (max(buckets, 1) * _STEPS[-1])) * _STEPS[-1]
    return first_ns // width * width, width
