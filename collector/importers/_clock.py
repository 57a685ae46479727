"""Times of a conversation's events, recorded or made up, in the order of the log."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

__all__ = ["SYNTHETIC_BASE_NS", "Clock", "parse_time"]

# Where a file says nothing of time, its conversations begin here (2000-01-01T00:00:00Z) and every
# event takes a millisecond. The same for all of them: a time must follow from the content alone, or
# importing a copy from elsewhere would change what is stored.
SYNTHETIC_BASE_NS = 946_684_800_000_000_000
_SYNTHETIC_STEP_NS = 1_000_000
# Two events never share a time, since the order of results is the order of counting. A whole
# microsecond, because the store's timestamps have no finer one.
_LEAST_STEP_NS = 1_000
_LATEST_NS = 7_258_118_400_000_000_000  # the year 2200; what lies beyond is no time


class Clock:
    """Strictly rising times. `recorded`: whether the file itself says when things happened."""

    def __init__(self, begun: int | None, message_times: Iterable[int | None]) -> None:
        """`begun`: when the conversation began, if the file says so; then one time a message or None."""
        known = [time for time in message_times if time is not None]
        self.recorded = bool(known)
        times = known if begun is None else [*known, begun]
        self.now = min(times) if times else SYNTHETIC_BASE_NS
        self.start = self.now

    def tick(self, recorded: int | None = None) -> int:
        """The time of the next event: the recorded one, if it is not before the last event's."""
        step = _LEAST_STEP_NS if self.recorded else _SYNTHETIC_STEP_NS
        self.now = max(self.now + step, recorded or 0)
        return self.now


def parse_time(value: Any) -> int | None:
    """Unix nanoseconds of an ISO 8601 text or a number of (milli-, micro-, nano-) seconds; else None.

    A text without a zone is taken as UTC.
    """
    if isinstance(value, bool) or value is None:
        return None
    nanoseconds: float
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return None
        nanoseconds = _from_number(value)
    elif isinstance(value, str) and len(value) <= 40:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
        nanoseconds = ((elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds) * 1_000
    else:
        return None
    return int(nanoseconds) if 0 < nanoseconds < _LATEST_NS else None


def _from_number(value: float) -> float:
    """Seconds, milliseconds, microseconds or nanoseconds, told apart by their size."""
    for limit, factor in ((1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1_000)):
        if value < limit:
            return value * factor
    return value
