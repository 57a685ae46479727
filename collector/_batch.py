"""A batch: what some segments of the spool say, decoded, the newest version of each record."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..guard import SpoolError
from ._records import COPIED_FROM, LogRecord, SpanRecord
from ._rows import log_key, tidy_log, tidy_span
from ._segment import Segment, Signal
from ._spool import Spool

__all__ = ["Batch", "Decoders", "Drop", "Feed", "newer"]


@dataclass(frozen=True, slots=True)
class Decoders:
    """What turns OTLP bytes into records."""

    traces: Callable[[bytes], list[SpanRecord]]
    logs: Callable[[bytes], list[LogRecord]]


@dataclass(frozen=True, slots=True)
class Drop:
    """A count of things a writer lost since its last segment."""

    segment: str
    name: str
    source: str
    value: int
    at_ns: int


@dataclass(slots=True)
class Batch:
    """Records to be stored together, and what is to happen to their segments afterwards."""

    spans: dict[tuple[str, str], SpanRecord] = field(default_factory=dict)
    logs: dict[int, LogRecord] = field(default_factory=dict)
    segments: list[Path] = field(default_factory=list)  # those whose last payload is in this batch
    sources: list[Path] = field(default_factory=list)  # all segments that have a payload in this batch
    bad: list[tuple[Path, str]] = field(default_factory=list)  # to be quarantined, with the reason
    drops: list[Drop] = field(default_factory=list)
    size: int = 0  # bytes of payload

    def __bool__(self) -> bool:
        return bool(self.sources or self.bad)

    def forget(self, names: set[str]) -> None:
        """Leave these segments alone; their records stay, they only replace themselves."""
        self.segments = [path for path in self.segments if path.name not in names]
        self.drops = [drop for drop in self.drops if drop.segment not in names]

    def add_span(self, span: SpanRecord) -> None:
        """Take a span, unless a newer version of it is here."""
        key = (span.trace_id, span.span_id)
        known = self.spans.get(key)
        if known is None or newer(span, known):
            self.spans[key] = span

    def add_log(self, log: LogRecord) -> None:
        """Take a log record, unless it is here and was received later."""
        key = log_key(log)
        known = self.logs.get(key)
        if known is None or log.received_ns > known.received_ns:
            self.logs[key] = log


def newer(span: SpanRecord, other: SpanRecord) -> bool:
    """Whether `span` replaces `other`, a version of the same span.

    The ended one wins, then what was recorded over what an export copied, then the later received. Two that
    were received in the same nanosecond are ordered by what they say, so that the order in which segments are
    folded never matters.
    """
    mine = (span.end_ns is not None, COPIED_FROM not in span.attributes, span.received_ns)
    theirs = (other.end_ns is not None, COPIED_FROM not in other.attributes, other.received_ns)
    return mine > theirs if mine != theirs else _wording(span) > _wording(other)


def _wording(span: SpanRecord) -> str:
    return json.dumps(asdict(span), sort_keys=True)


class Feed:
    """Cuts the waiting segments into batches of bounded size."""

    def __init__(self, spool: Spool, decoders: Decoders) -> None:
        self._spool = spool
        self._decoders = decoders
        self._paths: deque[Path] = deque()
        self._rest: deque[tuple[Signal, bytes]] = deque()  # payloads of a segment that did not fit
        self._open: tuple[Path, Segment] | None = None
        self._trouble: list[str] = []
        self._taken: set[str] = set()  # names of segments that were taken and may still lie in the spool

    def refill(self) -> None:
        """List the spool again when all that was listed is taken."""
        if not self._paths and self._open is None:
            self._paths.extend(path for path in self._spool.pending() if path.name not in self._taken)

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left of the last listing."""
        return not self._paths and self._open is None

    def finish(self, names: Iterable[str]) -> None:
        """These segments are out of the spool, or may be taken again."""
        self._taken.difference_update(names)

    def requeue(self, paths: Iterable[Path]) -> None:
        """Start again with these segments."""
        again = list(paths)
        names = {path.name for path in again}
        if self._open is not None and self._open[0].name in names:
            self._open = None
            self._rest.clear()
        self._taken.difference_update(names)
        self._paths.extendleft(reversed(again))

    def skip(self, path: Path) -> None:
        """Take no more of a segment."""
        if self._open is not None and self._open[0] == path:
            self._open = None
            self._rest.clear()

    def take(self, max_bytes: int, max_records: int) -> Batch:
        """The next batch: at least one payload, then no more than `max_bytes`; none after `max_records`."""
        batch = Batch()
        while batch.size < max_bytes and len(batch.spans) + len(batch.logs) < max_records:
            if self._open is None and not self._next(batch):
                break
            assert self._open is not None
            path, segment = self._open
            batch.sources.append(path)
            while self._rest:
                full = len(batch.spans) + len(batch.logs) >= max_records
                if batch.size and (full or batch.size + len(self._rest[0][1]) > max_bytes):
                    return batch
                signal, payload = self._rest.popleft()
                batch.size += len(payload)
                self._decode(batch, signal, payload, segment.received_ns)
            self._close(batch, path, segment)
        return batch

    def _next(self, batch: Batch) -> bool:
        while self._paths:
            path = self._paths.popleft()
            self._taken.add(path.name)
            try:
                segment = self._spool.read(path)
            except FileNotFoundError:  # another process folded it
                self._taken.discard(path.name)
                continue
            except SpoolError as error:
                batch.bad.append((path, str(error)))
                continue
            self._open = (path, segment)
            self._rest.extend(segment.payloads)
            self._trouble = []
            return True
        return False

    def _decode(self, batch: Batch, signal: Signal, payload: bytes, received_ns: int) -> None:
        # Whatever a decoder raises, the other payloads go in and the segment is kept for a look.
        try:
            if signal == "traces":
                for span in self._decoders.traces(payload):
                    tidy_span(span, received_ns)
                    batch.add_span(span)
            else:
                for log in self._decoders.logs(payload):
                    tidy_log(log, received_ns)
                    batch.add_log(log)
        except Exception as error:  # noqa: BLE001
            self._trouble.append(f"{type(error).__name__}: {error}")

    def _close(self, batch: Batch, path: Path, segment: Segment) -> None:
        batch.drops += _drops(path, segment)
        if self._trouble:
            batch.bad.append((path, "; ".join(self._trouble[:5])))
        batch.segments.append(path)
        self._open = None


def _drops(path: Path, segment: Segment) -> list[Drop]:
    meta: dict[str, Any] = segment.meta
    pieces = path.name.split("-")
    source = str(meta.get("service") or (f"{pieces[1]}-{pieces[2]}" if len(pieces) > 2 else "unknown"))
    return [
        Drop(path.name, str(name)[:100], source[:200], value, segment.received_ns)
        for name, value in meta.items()
        if str(name).startswith(("dropped", "refused")) and type(value) is int and 0 < value < 2**62
    ]
