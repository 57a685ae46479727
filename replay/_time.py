"""Pieces of time for charts."""

from __future__ import annotations

__all__ = ["bucket_width"]

_SECOND = 1_000_000_000
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
