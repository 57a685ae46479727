"""A run's spans as a tree that can be opened and closed, looked at through a window of rows and of time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ._types import SpanKind, SpanRow, SpanWindow

__all__ = ["BUCKETS", "FOLDED_FROM", "UNFOLDED", "SpanTree", "Spans", "build"]

FOLDED_FROM = 5
"""So many equal siblings are folded into one line, in a tree of more than `UNFOLDED` spans."""
UNFOLDED = 200
_ROWS_AT_FIRST = 100  # levels are open at first as long as the whole has no more lines than this
BUCKETS = 110
"""Parts of the window's width in which the pieces of a folded group are told apart."""

_STRENGTH = ("block", "nudge", "after_block", "not_counted", "allow")
_BITS = {action: 1 << at for at, action in enumerate(_STRENGTH)}


@dataclass(slots=True, eq=False)
class Spans:
    """Spans as columns, first started first; `place` finds one by trace and span id."""

    trace_ids: list[str] = field(default_factory=list)
    span_ids: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # -1: none
    names: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int | None] = field(default_factory=list)
    failed: list[bool] = field(default_factory=list)
    kinds: list[SpanKind] = field(default_factory=list)
    run_ids: list[str | None] = field(default_factory=list)
    verdicts: list[tuple[str, int, bool] | None] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)  # tools of calls
    unrecorded: set[int] = field(default_factory=set)  # without a span of their own
    place: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(
        self, key: tuple[str, str], parent: int, name: str, start: int, end: int | None, *, recorded: bool
    ) -> int:
        """Add one behind the others; gives its place."""
        at = len(self.starts)
        self.trace_ids.append(key[0])
        self.span_ids.append(key[1])
        self.parents.append(parent)
        self.names.append(name)
        self.starts.append(start)
        self.ends.append(end)
        self.failed.append(False)
        self.kinds.append("other")
        self.run_ids.append(None)
        self.verdicts.append(None)
        self.place[key] = at
        if not recorded:
            self.unrecorded.add(at)
        return at


@dataclass(slots=True, eq=False)
class SpanTree:
    """The tree. `children` and what is summed up over everything below a span are lists by place."""

    spans: Spans
    roots: list[int]
    children: dict[int, list[int]]
    inside: list[int]  # spans below
    failed_inside: list[int]
    masks: list[int]  # verdicts on it and below
    lows: list[int]  # first start, it and below
    highs: list[int]  # last end
    total: int  # spans in the tree
    first_ns: int
    last_ns: int
    running: int  # spans without an end
    cut: bool  # there are more spans than were read

    def window(
        self,
        opened: Collection[str] = (),
        closed: Collection[str] = (),
        *,
        since: int | None = None,
        until: int | None = None,
        offset: int = 0,
        limit: int = 100,
        fold: bool | None = None,
        at: str | None = None,
    ) -> SpanWindow:
        """The lines from `offset` on. Some levels are open at first; `opened` and `closed` hold keys of
        other lines.

        `since` and `until` leave what lies at least partly between them. `fold` makes one line of equal
        siblings; by
        default that of a large tree. With `at`, the key of a line, the lines are those of the page that
        has it.
        """
        first = self.first_ns if since is None else since
        last = max(self.last_ns if until is None else until, first + 1)
        walk = _Walk(self, frozenset(opened), frozenset(closed), first, last, self.folds(fold))
        walk.open_levels(_ROWS_AT_FIRST if walk.fold else UNFOLDED)
        lines = walk.lines()
        if at is not None:
            places = (number for number, line in enumerate(lines) if (line.key or self.key(line.place)) == at)
            offset = next(places, offset) // limit * limit
        shown = lines[offset : offset + limit]
        return SpanWindow(tuple(walk.row(line) for line in shown), offset, len(lines), first, last)

    def find(
        self,
        text: str = "",
        *,
        kinds: Collection[SpanKind] = (),
        actions: Collection[str] = (),
        failed: bool = False,
        since: int | None = None,
        until: int | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> SpanWindow:
        """The spans whose name has `text` in it (whatever the case), of these kinds and verdicts, first
        ones first."""
        first = self.first_ns if since is None else since
        last = max(self.last_ns if until is None else until, first + 1)
        walk = _Walk(self, frozenset(), frozenset(), first, last, False)
        spans, wanted = self.spans, text.casefold()
        found: list[_Line] = []
        for place in self._all():
            verdict = spans.verdicts[place]
            if (
                (kinds and spans.kinds[place] not in kinds)
                or (actions and (verdict is None or verdict[0] not in actions))
                or (failed and not spans.failed[place])
                or not walk.touches(place, alone=True)
                or (wanted and wanted not in self.name(place).casefold())
            ):
                continue
            found.append(_Line(0, place, None, "", False))
        found.sort(key=lambda line: (spans.starts[line.place], line.place))
        shown = found[offset : offset + limit]
        return SpanWindow(tuple(walk.row(line, flat=True) for line in shown), offset, len(found), first, last)

    def folds(self, fold: bool | None = None) -> bool:
        """Are equal siblings folded into one line, where nothing else is asked for?"""
        return self.total > UNFOLDED if fold is None else fold

    def name(self, place: int) -> str:
        """What a line says: the tool of a call, else the span's name."""
        return self.spans.labels.get(place) or self.spans.names[place]

    def key(self, place: int) -> str:
        """The key of a span's line."""
        return f"{self.spans.trace_ids[place]}/{self.spans.span_ids[place]}"

    def above(self, key: str) -> list[str]:
        """Keys of the lines that have to be open so that the line of a span is seen."""
        trace_id, _, span_id = key.partition("/")
        place = self.spans.place.get((trace_id, span_id))
        keys: list[str] = []
        seen: set[int] = set()
        while place is not None and place >= 0 and place not in seen:
            seen.add(place)
            parent = self.spans.parents[place]
            siblings = self.children.get(parent, self.roots if parent < 0 else [])
            if sum(self._alike(place, other) for other in siblings) >= FOLDED_FROM:
                keys.append(self.group_key(parent, place))
            if parent >= 0:
                keys.append(self.key(parent))
            place = parent if parent >= 0 else None
        return keys

    def group_key(self, parent: int, place: int) -> str:
        """The key of the line that a span is folded into."""
        above = self.key(parent) if parent >= 0 else ""
        return f"{above}|{self.spans.kinds[place]}|{self.name(place)}"

    def density(self, buckets: int) -> list[dict[str, int]]:
        """How many spans start in each part of the run's time: by verdict, `request`, `other`; `failed`
        beside them."""
        width = max(1, -(-(self.last_ns - self.first_ns + 1) // buckets))
        made: list[dict[str, int]] = [{} for _ in range(buckets)]
        spans = self.spans
        for place in self._all():
            bucket = made[min(buckets - 1, max(0, (spans.starts[place] - self.first_ns) // width))]
            verdict, kind = spans.verdicts[place], spans.kinds[place]
            what = verdict[0] if verdict else "other" if kind == "agent" else kind
            bucket[what] = bucket.get(what, 0) + 1
            if spans.failed[place]:
                bucket["failed"] = bucket.get("failed", 0) + 1
        return made

    def _alike(self, one: int, other: int) -> bool:
        return self.spans.kinds[one] == self.spans.kinds[other] and self.name(one) == self.name(other)

    def _all(self) -> Iterable[int]:
        stack = self.roots[::-1]
        while stack:
            place = stack.pop()
            yield place
            below = self.children.get(place)
            if below:
                stack.extend(reversed(below))


@dataclass(slots=True)
class _Line:
    depth: int
    place: int  # of the span, or of the first of the group
    members: list[int] | None  # of a folded group
    key: str
    open: bool


class _Walk:
    """One look at the tree."""

    def __init__(
        self,
        tree: SpanTree,
        opened: frozenset[str],
        closed: frozenset[str],
        first: int,
        last: int,
        fold: bool,
    ) -> None:
        self.tree, self.opened, self.closed = tree, opened, closed
        self.first, self.last, self.fold = first, last, fold
        self.whole = first <= tree.first_ns and last >= tree.last_ns
        self.at_first: set[str] = set()

    def touches(self, place: int, *, alone: bool = False) -> bool:
        """Does the span, or what is below it, lie at least partly in the window of time?"""
        if self.whole:
            return True
        tree = self.tree
        if alone:
            start, end = tree.spans.starts[place], tree.spans.ends[place]
            return start <= self.last and (tree.last_ns if end is None else end) >= self.first
        return tree.lows[place] <= self.last and tree.highs[place] >= self.first

    def below(self, line: _Line) -> list[_Line]:
        """The lines right below one; equal siblings folded."""
        if line.members is not None:
            return [self._of(line.depth + 1, place) for place in line.members]
        return self.folded(line.place, self.tree.children.get(line.place, ()), line.depth + 1)

    def folded(self, parent: int, places: Sequence[int], depth: int) -> list[_Line]:
        tree = self.tree
        groups: dict[tuple[str, str], list[int]] = {}
        for place in places:
            if self.touches(place):
                groups.setdefault((tree.spans.kinds[place], tree.name(place)), []).append(place)
        lines: list[_Line] = []
        for members in groups.values():
            if self.fold and len(members) >= FOLDED_FROM:
                key = tree.group_key(parent, members[0])
                lines.append(_Line(depth, members[0], members, key, self._open(key)))
            else:
                lines += [self._of(depth, place) for place in members]
        lines.sort(key=lambda line: (tree.spans.starts[line.place], line.place))
        return lines

    def _of(self, depth: int, place: int) -> _Line:
        if place not in self.tree.children:
            return _Line(depth, place, None, "", False)
        key = self.tree.key(place)
        return _Line(depth, place, None, key, self._open(key))

    def _open(self, key: str) -> bool:
        return key not in self.closed and (key in self.opened or key in self.at_first)

    def top(self) -> list[_Line]:
        return self.folded(-1, self.tree.roots, 0)

    def open_levels(self, most: int) -> None:
        """Open level by level, groups left folded, while all of it has at most so many lines."""
        level = self.top()
        lines = len(level)
        if len(level) == 1 and level[0].key:  # the top alone says nothing
            self.at_first.add(level[0].key)
            level = self.below(level[0])
            lines += len(level)
        while level:
            spans = [line for line in level if line.members is None and line.key]
            below = [one for line in spans for one in self.below(line)]
            lines += len(below)
            if not below or lines > most:
                return
            self.at_first |= {line.key for line in spans}
            level = below

    def lines(self) -> list[_Line]:
        """All lines, top down."""
        found: list[_Line] = []
        stack = self.top()[::-1]
        while stack:
            line = stack.pop()
            found.append(line)
            if line.open:
                stack.extend(reversed(self.below(line)))
        return found

    def row(self, line: _Line, *, flat: bool = False) -> SpanRow:
        """What a line shows."""
        tree, spans, place = self.tree, self.tree.spans, line.place
        members = [place] if line.members is None else line.members
        single = line.members is None
        hidden = not line.open and not flat
        ends = [spans.ends[one] for one in members]
        finished = [end for end in ends if end is not None]
        mask = 0
        for one in members:
            verdict = spans.verdicts[one]
            if hidden:
                mask |= tree.masks[one]
            elif verdict is not None:
                mask |= _BITS[verdict[0]]
        verdict = spans.verdicts[place] if single else None
        inside = sum(tree.inside[one] for one in members)
        recorded = single and place not in spans.unrecorded
        return SpanRow(
            key=line.key or tree.key(place),
            depth=line.depth,
            kind=spans.kinds[place],
            name=tree.name(place),
            members=len(members),
            inside=inside,
            start_ns=min(spans.starts[one] for one in members),
            end_ns=None if len(finished) < len(ends) else max(finished),
            busy_ns=sum(max(0, end - start) for end, start in _times(spans, members)),
            failed=sum(spans.failed[one] for one in members),
            failed_inside=sum(tree.failed_inside[one] for one in members),
            actions=tuple(action for action in _STRENGTH if mask & _BITS[action]),
            count=None if verdict is None else verdict[1],
            exact=None if verdict is None else verdict[2],
            foldable=bool(line.key) and not flat,
            open=line.open,
            trace_id=spans.trace_ids[place] if recorded else None,
            span_id=spans.span_ids[place] if recorded else None,
            run_id=spans.run_ids[place] if single else None,
            pieces=self._pieces(members),
        )

    def _pieces(self, members: Sequence[int]) -> tuple[tuple[int, int, str], ...]:
        """Where the members lie: touching ones of one look joined. A stronger look lies above a weaker
        one."""
        spans, width = self.tree.spans, self.last - self.first
        looks: list[str | None] = [None] * BUCKETS
        strength = {
            "": 0,
            "allow": 1,
            "not_counted": 2,
            "after_block": 3,
            "failed": 4,
            "nudge": 5,
            "block": 6,
        }
        for one in members:
            end = spans.ends[one]
            low = (max(spans.starts[one], self.first) - self.first) * BUCKETS // width
            high = (min(self.last if end is None else end, self.last) - self.first) * BUCKETS // width
            low, high = min(max(low, 0), BUCKETS - 1), min(max(high, 0), BUCKETS - 1)
            verdict = spans.verdicts[one]
            look = verdict[0] if verdict else ""
            if spans.failed[one] and look not in ("nudge", "block"):
                look = "failed"
            for bucket in range(low, max(low, high) + 1):
                before = looks[bucket]
                if before is None or strength[look] > strength[before]:
                    looks[bucket] = look
        made: list[tuple[int, int, str]] = []
        for bucket, look in enumerate(looks):
            if look is None:
                continue
            if made and made[-1][1] == bucket - 1 and made[-1][2] == look:
                made[-1] = (made[-1][0], bucket, look)
            else:
                made.append((bucket, bucket, look))
        return tuple(made)


def _times(spans: Spans, members: Iterable[int]) -> Iterable[tuple[int, int]]:
    for one in members:
        end = spans.ends[one]
        if end is not None:
            yield end, spans.starts[one]


def build(spans: Spans, top: int | None, *, cut: bool = False) -> SpanTree:
    """The tree of these spans, or of the one at `top` and what lies below it.

    A span whose parent is not there, itself, or below itself stands at the top: nothing is lost.
    """
    number = len(spans.starts)
    children: dict[int, list[int]] = {}
    roots: list[int] = []
    for place, parent in enumerate(spans.parents):
        if parent < 0 or parent == place:
            roots.append(place)
        else:
            children.setdefault(parent, []).append(place)
    seen = bytearray(number)
    if top is not None:
        # Each span has one parent, so a circle that is reached from here leads through here.
        if spans.parents[top] >= 0 and spans.parents[top] != top:
            children[spans.parents[top]].remove(top)
        order = _walk([top], children, seen)
        children = {place: children[place] for place in order if children.get(place)}
        return _summed(spans, [top], children, order, cut)
    order = _walk(roots, children, seen)
    if len(order) < number:  # circles of parents
        for place in range(number):
            if not seen[place]:
                children[spans.parents[place]].remove(place)
                roots.append(place)
                order += _walk([place], children, seen)
        children = {place: below for place, below in children.items() if below}
    return _summed(spans, roots, children, order, cut)


def _walk(roots: Sequence[int], children: dict[int, list[int]], seen: bytearray) -> list[int]:
    found: list[int] = []
    stack = list(roots)[::-1]
    while stack:
        place = stack.pop()
        if seen[place]:
            continue
        seen[place] = 1
        found.append(place)
        below = children.get(place)
        if below:
            stack.extend(below)
    return found


def _summed(
    spans: Spans, roots: list[int], children: dict[int, list[int]], order: list[int], cut: bool
) -> SpanTree:
    number = len(spans.starts)
    ends = [
        start if end is None else max(start, end) for start, end in zip(spans.starts, spans.ends, strict=True)
    ]
    last = max((ends[place] for place in order), default=0)
    inside, failed_inside = [0] * number, [0] * number
    masks = [0 if verdict is None else _BITS[verdict[0]] for verdict in spans.verdicts]
    lows = list(spans.starts)
    highs = [last if spans.ends[place] is None else ends[place] for place in range(number)]
    for place in reversed(order):  # children before their parents
        below = children.get(place)
        if below:
            for one in below:
                inside[place] += inside[one] + 1
                failed_inside[place] += failed_inside[one] + spans.failed[one]
                masks[place] |= masks[one]
                lows[place] = min(lows[place], lows[one])
                highs[place] = max(highs[place], highs[one])
    return SpanTree(
        spans=spans,
        roots=roots,
        children=children,
        inside=inside,
        failed_inside=failed_inside,
        masks=masks,
        lows=lows,
        highs=highs,
        total=len(order),
        first_ns=min((lows[place] for place in roots), default=0),
        last_ns=last,
        running=sum(spans.ends[place] is None for place in order),
        cut=cut,
    )
