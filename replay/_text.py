"""Trace text made fit to be shown: nothing hidden, nothing that acts, nothing without end."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["cut", "duration", "name_of", "plural", "utc", "visible", "visible_in_xml"]

# Control characters, lone surrogates, and characters that turn, join, hide or imitate text: bidi controls,
# zero-width characters, line and paragraph separators, tags, variation selectors beyond the emoji's.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)

# What XML 1.0 forbids beside what is unseen.
_NO_XML = re.compile("[\ufffe\uffff]")

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, *, keep: str = "") -> str:
    """The text with everything unseen written as `\\x1b` or `\\u202e`; `keep` names what stays ("\\n\\t")."""

    shown = _UNSEEN.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)
    if shown.isascii():
        return shown
    return _PILED_MARKS.sub(lambda match: match[0][:3] + "".join(map(_escape, match[0][3:])), shown)


def visible_in_xml(text: str, *, keep: str = "") -> str:
    """`visible`, and without the characters that XML forbids. Markup is not escaped."""
    return _NO_XML.sub(lambda match: _escape(match[0]), visible(text, keep=keep))


def _escape(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x1_0000 else f"\\U{number:08x}"


# More marks on one letter than any language needs run over the lines around them.
_PILED_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}"
)


def cut(text: str, limit: int, length: int | None = None) -> tuple[str, str | None]:
    """(text, note): at most `limit` characters, and a note that says so. `length`: of the whole."""
    whole = len(text) if length is None else max(length, len(text))
    shown = text[:limit]
    if len(shown) == whole:
        return shown, None
    return shown, f"cut at {len(shown):,} of {whole:,} characters"


def name_of(name: str | None, otherwise: str, quote: Callable[[str], str] = str, limit: int = 80) -> str:
    """A tool's or agent's name on one line, quoted; or our own words where there is no name."""
    if not name:
        return otherwise
    shown = visible(name)
    return quote(shown if len(shown) <= limit else f"{shown[: limit - 1]}…")


def plural(number: int, one: str, several: str | None = None) -> str:
    """A number and its noun: "1 call", "2 calls"."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


_UNITS = ((86_400, 3_600, "d", "h"), (3_600, 60, "h", "min"), (60, 1, "min", "s"))


def duration(ns: int) -> str:
    """A duration for people: "850 ms", "12.5 s", "4 min 10 s", "2 h 5 min", "3 d 4 h"."""
    ns = max(ns, 0)
    seconds = ns / 1e9
    if seconds < 0.001:
        return f"{ns / 1e3:.0f} µs" if ns else "0 s"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for size, inner, unit, inner_unit in (
        (86_400, 3_600, "d", "h"),
        (3_600, 60, "h", "min"),
        (60, 1, "min", "s"),
    ):
        if whole >= size:
            rest = whole % size // inner
            return f"{whole // size} {unit}" + (f" {rest} {inner_unit}" if rest else "")
    return f"{whole} s"


def utc(ns: int) -> str:
    """An instant as "2026-01-02 03:04:05.678 UTC"."""
    seconds, rest = divmod(ns, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{ns} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03d} UTC"
