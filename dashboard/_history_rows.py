"""A history before and after the repair, line by line: which message became which."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from ..replay import HistoryMessage, HistoryPart, HistoryRepair, RequestHistory

__all__ = ["Gap", "HistoryRow", "folded", "lines_of", "marked", "rows_of"]

_AROUND = 2
"""Untouched messages shown on either side of a touched one."""
_WHOLE = 12
"""A history of so few lines is shown whole."""
_KEPT = "\u00a0\u00a0"
"""Before lines that do not differ. After plain spaces they would be drawn too pale to read."""
_DIFF_LINES = 400
"""SequenceMatcher is quadratic."""


@dataclass(slots=True)
class HistoryRow:
    """One line of the view.

    kind: same, changed, dropped, merged (into another message), moved_away, moved, made. `after` has more
    than one message where the repaired form needs several for what was recorded as one.
    """

    kind: str
    before: HistoryMessage | None
    after: tuple[HistoryMessage, ...]
    repairs: list[HistoryRepair] = field(default_factory=list)
    broken: bool = False  # a rule is broken at the recorded message
    place: int | None = None  # moved: where it stood; moved_away: where it stands now


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that are left out: as recorded, and not touched."""

    messages: int


def rows_of(history: RequestHistory) -> list[HistoryRow]:
    """The lines in the order of the repaired history; what was dropped stands at its old place."""
    before = {message.position: message for message in history.before}
    groups = _groups(history.after, before)
    moved = {repair.origin for repair in history.repairs if repair.kind == "moved_result"}
    anchors = _in_order([None if origin in moved else origin for origin, _ in groups])
    by_origin: dict[int, list[HistoryRepair]] = {}
    for repair in history.repairs:
        by_origin.setdefault(repair.origin, []).append(repair)
    stands = {origin: messages[0].position for origin, messages in groups if origin is not None}
    anchored = {groups[at][0] for at in anchors}
    rows: list[HistoryRow] = []
    left = iter(sorted(before))
    pending = next(left, None)

    def gone(until: int | None) -> None:
        """Lines for recorded messages before `until` that do not stand at their place any more."""
        nonlocal pending
        while pending is not None and (until is None or pending < until):
            if pending not in anchored:
                rows.append(_gone(before[pending], stands.get(pending), by_origin.get(pending, [])))
            pending = next(left, None)

    for at, (origin, messages) in enumerate(groups):
        if at in anchors and origin is not None:
            gone(origin)
            pending = next(left, None) if pending == origin else pending
            changed = any(message.changed for message in messages)
            row = HistoryRow("changed" if changed else "same", before[origin], messages)
            row.repairs = list(by_origin.get(origin, []))
        elif origin is not None:
            row = HistoryRow("moved", None, messages, list(by_origin.get(origin, [])), place=origin)
        else:
            row = HistoryRow("made", None, messages)
        rows.append(row)
    gone(None)
    _give_stubs_their_repairs(rows)
    broken = {violation.position for violation in history.violations_before}
    for row in rows:
        row.broken = row.before is not None and row.before.position in broken
    return rows


def _groups(
    after: Sequence[HistoryMessage], before: dict[int, HistoryMessage]
) -> list[tuple[int | None, tuple[HistoryMessage, ...]]]:
    groups: list[tuple[int | None, tuple[HistoryMessage, ...]]] = []
    for message in after:
        origin = message.origin if message.origin in before else None
        if groups and origin is not None and groups[-1][0] == origin:
            groups[-1] = (origin, (*groups[-1][1], message))
        else:
            groups.append((origin, (message,)))
    return groups


def _in_order(origins: Sequence[int | None]) -> set[int]:
    """Places of a longest run of rising origins: the messages that kept their order."""
    tails: list[int] = []  # place of the last of the best run of each length
    values: list[int] = []
    previous: dict[int, int | None] = {}
    for at, origin in enumerate(origins):
        if origin is None:
            continue
        length = bisect_right(values, origin)
        previous[at] = tails[length - 1] if length else None
        if length < len(tails):
            tails[length], values[length] = at, origin
        else:
            tails.append(at)
            values.append(origin)
    chosen: set[int] = set()
    at = tails[-1] if tails else None
    while at is not None:
        chosen.add(at)
        at = previous[at]
    return chosen


def _gone(message: HistoryMessage, stands: int | None, repairs: list[HistoryRepair]) -> HistoryRow:
    if stands is not None:
        return HistoryRow("moved_away", message, (), place=stands)
    merged = any(repair.kind == "merged_messages" for repair in repairs)
    return HistoryRow("merged" if merged else "dropped", message, (), repairs)


def _give_stubs_their_repairs(rows: list[HistoryRow]) -> None:
    """A stub is added at the message of its call; it is told at the stub."""
    made = {
        call_id: row for row in rows if row.kind == "made" for one in row.after for call_id in one.results
    }
    for row in rows:
        for repair in list(row.repairs):
            target = made.get(repair.call_id or "") if repair.kind == "added_stub_result" else None
            if target is not None and target is not row:
                row.repairs.remove(repair)
                target.repairs.append(repair)


def folded(rows: Sequence[HistoryRow], *, whole: bool = False) -> list[HistoryRow | Gap]:
    """The lines worth showing: those touched or broken with their neighbours, the first and the last."""
    if whole or len(rows) <= _WHOLE:
        wanted = set(range(len(rows)))
    else:
        wanted = {0, len(rows) - 1}
        for at, row in enumerate(rows):
            if row.kind != "same" or row.broken or row.repairs:
                wanted.update(range(max(0, at - _AROUND), min(len(rows), at + _AROUND + 1)))
    shown: list[HistoryRow | Gap] = []
    skipped, last = 0, -1
    for at, row in enumerate(rows):
        place = row.before.position if row.before is not None else None
        if place is not None and place > last + 1:
            skipped += place - last - 1  # recorded messages that were not given
        last = last if place is None else max(last, place)
        if at in wanted:
            if skipped:
                shown.append(Gap(skipped))
            skipped = 0
            shown.append(row)
        else:
            skipped += 1
    if skipped:
        shown.append(Gap(skipped))
    return shown


# -- what a message says -------------------------------------------------------------------------


def lines_of(messages: Iterable[HistoryMessage], *, as_json: bool = False) -> list[str]:
    """Lines that show a message: its texts, calls and results, or its JSON."""
    lines: list[str] = []
    for message in messages:
        if as_json or not message.parts:
            lines += _json_lines(message.text)
            continue
        spoken = [part for part in message.parts if part.text or part.kind != "text"]
        lines += [line for part in spoken or message.parts for line in _part_lines(part)]
    return lines


def _json_lines(text: str) -> list[str]:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False).splitlines()
    except (ValueError, RecursionError):  # cut, or plain text
        return text.splitlines() or [""]


def _part_lines(part: HistoryPart) -> list[str]:
    said = (part.text or "").splitlines()
    if part.kind == "text":
        return said or ["(empty text)"]
    if part.kind == "call":
        head = f"call {part.name or '(no name)'}   id {part.call_id or '(none)'}"
    elif part.kind == "result":
        head = (
            f"result   id {part.call_id or '(none)'}{'   (a stub: no tool said this)' if part.made else ''}"
        )
    else:
        head = f"({part.kind})"
    return [head, *(f"    {line}" for line in said)]


def marked(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """Two texts with - and + before the lines that differ."""
    if len(before) > _DIFF_LINES or len(after) > _DIFF_LINES:
        return "\n".join(before), "\n".join(after)
    left, right = [], []
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        same = tag == "equal"
        left += [f"{_KEPT if same else '- '}{line}" for line in before[a:b]]
        right += [f"{_KEPT if same else '+ '}{line}" for line in after[c:d]]
    return "\n".join(left), "\n".join(right)
