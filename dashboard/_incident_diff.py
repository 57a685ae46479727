"""Two texts side by side with what differs marked in them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

__all__ = ["CLOSE", "OPEN", "Marked", "marked", "shaped"]

OPEN, CLOSE = "⟦", "⟧"
"""Stand around what differs inside a line."""

_KEPT = "\u00a0\u00a0"
"""Before lines that do not differ: a plain space would make them a diff's context, drawn pale."""
_PARSED = 100_000  # characters that are read as JSON
_LINES = 400  # SequenceMatcher is quadratic
_WORDS = 400  # of one line
_AROUND = 3  # equal lines shown beside one that differs
_LONG_LINE = 4_000
_NEAR = 0.35  # lines that have less in common are shown as replaced, without marks inside
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Marked:
    """Both sides. `hidden`: equal lines left out; `inside`: something is marked inside a line."""

    before: str
    after: str
    hidden: int
    inside: bool


def shaped(text: str) -> str:
    """JSON with a line for each value, so that lines can be compared; any other text as it is."""
    if len(text) <= _PARSED and text.lstrip().startswith(("{", "[")):
        try:
            return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return text


def marked(before: str, after: str, *, whole: bool = False) -> Marked:
    """Lines that differ begin with - or +, and what differs inside them stands in ⟦ ⟧.

    Equal lines far from a difference are left out and counted, unless `whole`.
    """
    old, new = shaped(before).splitlines() or [""], shaped(after).splitlines() or [""]
    head = tail = 0
    most = min(len(old), len(new))
    while head < most and old[head] == new[head]:
        head += 1
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    steps = [("equal", 0, head, 0, head)]
    if len(middle_old) > _LINES or len(middle_new) > _LINES:
        steps.append(("replace", head, len(old) - tail, head, len(new) - tail))
    else:
        matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
        steps += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]
    steps.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    steps = [step for step in steps if step[1] < step[2] or step[3] < step[4]]
    left: list[str] = []
    right: list[str] = []
    hidden, inside = 0, False
    for at, (tag, a, b, c, d) in enumerate(steps):
        if tag == "equal":
            lines, gone = _context(old[a:b], first=at == 0, last=at == len(steps) - 1, whole=whole)
            hidden += gone
            left += lines
            right += lines
            continue
        pairs = _pairs(old[a:b], new[c:d])
        inside = inside or any(OPEN in one or OPEN in other for one, other in pairs)
        left += [f"- {one}" for one, _ in pairs[: b - a]]
        right += [f"+ {other}" for _, other in pairs[: d - c]]
    return Marked("\n".join(left), "\n".join(right), hidden, inside)


def _context(lines: list[str], *, first: bool, last: bool, whole: bool) -> tuple[list[str], int]:
    before = 0 if first else _AROUND  # after the difference that came before
    after = 0 if last else _AROUND
    gone = len(lines) - before - after
    if whole or gone <= 1:
        return [_KEPT + line for line in lines], 0
    note = f"{_KEPT}… {gone:,} equal lines"
    return [
        *(_KEPT + line for line in lines[:before]),
        note,
        *(_KEPT + line for line in lines[len(lines) - after :]),
    ], gone


def _pairs(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    """Lines beside each other, the shorter side filled up; alike ones with marks inside."""
    size = max(len(old), len(new))
    if len(old) != len(new) or size > 50:
        return [(old[at] if at < len(old) else "", new[at] if at < len(new) else "") for at in range(size)]
    return [_words(one, other) for one, other in zip(old, new, strict=True)]


def _words(one: str, other: str) -> tuple[str, str]:
    if len(one) > _LONG_LINE or len(other) > _LONG_LINE:
        return _ends(one, other)
    old, new = _WORD.findall(one), _WORD.findall(other)
    if len(old) > _WORDS or len(new) > _WORDS:
        return _ends(one, other)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _NEAR:
        return one, other
    left, right = [], []
    for tag, a, b, c, d in matcher.get_opcodes():
        was, now = "".join(old[a:b]), "".join(new[c:d])
        left.append(was if tag == "equal" or not was else f"{OPEN}{was}{CLOSE}")
        right.append(now if tag == "equal" or not now else f"{OPEN}{now}{CLOSE}")
    return "".join(left), "".join(right)


def _ends(one: str, other: str) -> tuple[str, str]:
    """Of long lines, everything between the first and the last difference."""
    most = min(len(one), len(other))
    start = next((at for at in range(most) if one[at] != other[at]), most)
    end = 0
    while end < most - start and one[-1 - end] == other[-1 - end]:
        end += 1

    def around(line: str) -> str:
        middle = line[start : len(line) - end]
        return f"{line[:start]}{OPEN}{middle}{CLOSE}{line[len(line) - end :]}" if middle else line

    return around(one), around(other)
