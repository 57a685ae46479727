"""Times, durations, sizes and money as a reader expects them. All times are UTC and say so."""

from __future__ import annotations

from datetime import UTC, datetime

from ..replay import untimed

__all__ = ["ago", "clock", "day", "duration", "instant", "money", "size", "tokens", "when"]

_SECOND = 1_000_000_000


def when(ns: int | None) -> datetime | None:
    """The instant as a datetime without zone, in UTC, as dataframes and Plotly axes want it."""
    if ns is None:
        return None
    seconds, rest = divmod(ns, _SECOND)  # as a float, the last nanosecond of a day is the next day
    return datetime.fromtimestamp(seconds, tz=UTC).replace(microsecond=rest // 1000, tzinfo=None)


def instant(ns: int | None) -> str:
    """The whole instant, to the millisecond: "2025-07-04 14:03:22.120 UTC"."""
    if untimed(ns):
        return "time not recorded"
    moment = when(ns)
    return "unknown" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC"


def clock(ns: int | None) -> str:
    """ "14:03:22 UTC": for what happened today."""
    moment = when(ns)
    return "unknown" if moment is None else f"{moment:%H:%M:%S} UTC"


def day(ns: int | None) -> str:
    """ "2025-07-04"."""
    moment = when(ns)
    return "unknown" if moment is None else f"{moment:%Y-%m-%d}"


def duration(ns: int | float | None) -> str:
    """ "340 ms", "1.2 s", "2 min 5 s", "3 h 20 min", "2 d 4 h"."""
    if ns is None:
        return "unknown"
    seconds = ns / _SECOND
    if seconds < 0.0005:
        return "0 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{round(seconds, 1):g} s" if seconds < 10 else f"{seconds:.0f} s"
    for unit, length, small, part in (("min", 60, "s", 1), ("h", 3600, "min", 60), ("d", 86400, "h", 3600)):
        if seconds < length * (60 if unit == "min" else 24 if unit == "h" else 1e9):
            whole, rest = divmod(round(seconds / part) * part, length)
            rest = int(rest // part)
            return f"{int(whole):,} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{seconds:.0f} s"


def ago(ns: int | None, now: int) -> str:
    """ "just now", "4 min ago", "3 d ago"; the day where it is older than 30 days."""
    if ns is None:
        return "unknown"
    if untimed(ns):
        return "not recorded"
    passed = (now - ns) / _SECOND
    if passed < 5:
        return "just now"
    if passed > 30 * 86400:
        return day(ns)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if passed >= length:
            return f"{int(passed // length)} {unit} ago"
    return "just now"


def tokens(number: int | None) -> str:
    """ "12,400 tokens"; "unknown" where none were recorded."""
    return "unknown" if number is None else f"{number:,} tokens"


def money(dollars: float | None) -> str:
    """ "$0.42"; "unknown" where no cost was recorded."""
    if dollars is None:
        return "unknown"
    return f"${dollars:,.2f}" if dollars >= 0.01 or not dollars else f"${dollars:.4f}"


def size(count: int) -> str:
    """ "812 B", "4.2 kB", "1.3 MB"."""
    value, unit = float(count), "B"
    for bigger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, bigger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
