"""The work of the fold that needs no database: decoding batches, deriving traces, making rows.

A `Workbench` does it, in this process or, for a server's backlog, in a child (see `_child.py`). What goes in
and out is plain data and Arrow tables.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..guard import FINGERPRINT_VERSION
from ._batch import Batch, Decoders, Drop, Feed, newer
from ._contents import Contents, Packer, clean_text
from ._records import Derived, LogRecord, SpanRecord
from ._rows import (
    CALL_COLUMNS,
    LOG_COLUMNS,
    REQUEST_COLUMNS,
    SPAN_COLUMNS,
    Resources,
    arrow_table,
    call_row,
    log_key,
    log_row,
    request_row,
    row_keys,
    span_row,
)
from ._session_ids import trace_of_log, unit_of_log, unit_of_span
from ._spool import Spool
from ._stored import Stored, TraceState
from .dialects.mcp import mcp_session_of

__all__ = ["Changes", "Derive", "Limits", "Outline", "Plan", "Refused", "Workbench", "first_line", "named"]

Row = tuple[Any, ...]
Derive = Callable[..., Derived]  # (spans, logs, *, mcp_sessions=…), see derive_trace
_BATCHES_TO_A_RELEASE = 8
_MOST_SESSIONS = 1_000  # MCP sessions remembered of a trace


class Refused(Exception):  # noqa: N818
    """Something of a batch can be stored in no way; the message says what."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a batch may get."""

    size: int  # bytes of payload
    records: int


@dataclass(slots=True)
class Outline:
    """What the database has to be asked about a batch."""

    number: int
    size: int
    spans: list[tuple[str, str]]  # (trace_id, span_id)
    logs: list[tuple[int, int, str | None]]  # (log_key, time_ns, the trace it counts in)
    units: dict[str, set[str]]  # sessions of traces, see _session_ids.py
    mcp_sessions: dict[str, set[str]]  # that traces name
    ended: set[str]  # traces whose root ended
    segments: list[Path]  # those whose last payload is in the batch
    sources: list[Path]
    bad: list[tuple[Path, str]]
    drops: list[Drop]
    refused: str | None  # why the batch cannot be stored

    def __bool__(self) -> bool:
        return bool(self.sources or self.bad)

    def touched(self) -> set[str]:
        """The traces it has records of."""
        traces = {trace_id for trace_id, _ in self.spans}
        traces.update(trace_id for _, _, trace_id in self.logs if trace_id is not None)
        return traces

    def forget(self, names: set[str]) -> None:
        """Leave these segments alone. Their records stay in the batch: they only replace themselves."""
        self.segments = [path for path in self.segments if path.name not in names]
        self.drops = [drop for drop in self.drops if drop.segment not in names]


@dataclass(slots=True)
class Plan:
    """Which traces a round derives."""

    whole: list[TraceState] = field(default_factory=list)
    groups: list[list[str]] = field(default_factory=list)  # those traces, as they are derived together
    known_mcp_sessions: set[str] = field(default_factory=set)  # that more than one trace names
    later: dict[str, TraceState] = field(default_factory=dict)  # touched, but only noted as stale
    known: set[str] = field(default_factory=set)  # those of both that the database knows
    left_over: bool = False  # there are more to derive right after this round
    stale: bool = False  # traces wait for derivation after this round, for whatever reason


@dataclass(slots=True)
class Changes:
    """What a transaction of the fold does."""

    contents: pa.Table  # hash, check_hash, text: all that the rows below refer to
    spans: pa.Table
    logs: pa.Table
    old_spans: list[tuple[str, str, int]]  # (trace_id, span_id, start_ns) of versions that go
    old_logs: list[tuple[int, int]]  # (log_key, time_ns)
    calls: pa.Table
    requests: pa.Table
    derived_before: list[TraceState]  # traces that had calls or requests
    traces: list[TraceState]  # the new states
    known_traces: set[str]  # those of them that have a row already
    seconds: dict[str, float]  # what deriving a trace took
    segments: list[str] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.segments or self.spans.num_rows or self.logs.num_rows or self.traces)


@dataclass(slots=True)
class _Rows:
    """What traces were derived into."""

    calls: dict[tuple[str, str, int], Row] = field(default_factory=dict)
    requests: dict[tuple[str, str], Row] = field(default_factory=dict)
    error: str | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class _Packed:
    """A decoded batch and its rows."""

    batch: Batch
    contents: Contents
    ahead: dict[str, _Rows] = field(default_factory=dict)  # of traces that were derived when it was taken
    span_rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    log_rows: dict[int, Row] = field(default_factory=dict)


class Workbench:
    """Takes batches from a spool and turns them into changes.

    One batch is worked on while the next one is taken; older ones are forgotten.
    """

    def __init__(self, spool: Spool, derive: Derive, decoders: Decoders) -> None:
        self._feed = Feed(spool, decoders)
        self._derive = derive
        self._connected: set[str] = set()  # traces of the last batch that belong to a session
        self._useful = True  # whether most that was derived ahead of the last batch could be used
        self._batches: dict[int, _Packed] = {}
        self._count = 0

    def take(self, limits: Limits) -> Outline:
        """The next batch. A false one: the spool is empty."""
        self._batches = {number: old for number, old in self._batches.items() if number == self._count}
        batch = Batch()
        while not batch:
            self._feed.refill()
            if self._feed.exhausted:
                break
            batch = self._feed.take(limits.size, limits.records)
        self._count += 1
        if self._count % _BATCHES_TO_A_RELEASE == 0:
            pa.default_memory_pool().release_unused()  # of a large backlog it would keep more and more
        refused = None
        try:
            self._batches[self._count] = _pack(batch, {})
        except Exception as error:  # noqa: BLE001
            refused = named(error)
        units, sessions, homes = _connections(batch)
        self._connected = units.keys() | sessions.keys()
        return Outline(
            number=self._count,
            size=batch.size,
            spans=list(batch.spans),
            logs=[(key, log.time_ns, homes[key]) for key, log in batch.logs.items()],
            units=units,
            mcp_sessions=sessions,
            ended={
                s.trace_id for s in batch.spans.values() if s.parent_span_id is None and s.end_ns is not None
            },
            segments=batch.segments,
            sources=batch.sources,
            bad=batch.bad,
            drops=batch.drops,
            refused=refused,
        )

    def build(self, number: int, plan: Plan, stored: Stored, taken: dict[int, int]) -> Changes:
        """What storing batch `number` changes.

        `taken` are keys that other texts have in the database, with their checks.

        Raises:
            Refused: a row cannot be made.
        """
        if taken:
            self._batches[number] = _pack(self._batches[number].batch, taken)
        packed = self._batches[number]
        try:
            builder = _Builder(packed, plan, self._derive)
            changes = builder.build(stored)
            if packed.ahead:
                self._useful = 2 * builder.used_ahead >= len(packed.ahead)
            return changes
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise Refused(named(error)) from error

    def derive_ahead(self) -> None:
        """Derive the traces of the batch that was just taken, but for those that belong to a session.

        For a workbench that has nothing else to do until it is known what the database has of them: in a
        backlog that is nothing for most traces.
        """
        packed, before = self._batches.get(self._count), self._batches.get(self._count - 1)
        if packed is None:
            return
        connected = self._connected
        known = set() if before is None else {trace_id for trace_id, _ in before.batch.spans}
        spans: dict[str, list[SpanRecord]] = {}
        logs: dict[str, list[LogRecord]] = {}
        for span in packed.batch.spans.values():
            if span.trace_id not in connected and span.trace_id not in known:
                spans.setdefault(span.trace_id, []).append(span)
        if not self._useful:  # the database knew most of the last ones: find out by one
            spans = dict(list(spans.items())[:1])
        for log in packed.batch.logs.values():
            if log.trace_id in spans:
                logs.setdefault(log.trace_id, []).append(log)
        for trace_id, found in spans.items():
            packed.ahead[trace_id] = _derived(
                self._derive, packed.contents, found, logs.get(trace_id, []), set()
            )

    def finish(self, names: set[str]) -> None:
        """These segments are out of the spool."""
        self._feed.finish(names)

    def requeue(self, paths: list[Path]) -> None:
        """Take these segments again, from their beginning."""
        self._feed.requeue(paths)

    def skip(self, path: Path) -> None:
        """Take no more of a segment."""
        self._feed.skip(path)


def _connections(
    batch: Batch,
) -> tuple[dict[str, set[str]], dict[str, set[str]], dict[int, str | None]]:
    """By trace: the sessions that its records are of, the MCP sessions they name; by log: where it counts."""
    units: dict[str, set[str]] = {}
    sessions: dict[str, set[str]] = {}
    homes: dict[int, str | None] = {}
    for span in batch.spans.values():
        unit = unit_of_span(span)
        if unit is not None:
            units.setdefault(span.trace_id, set()).add(unit)
        session = mcp_session_of(span)
        if session is not None:
            sessions.setdefault(span.trace_id, set()).add(session)
    for key, log in batch.logs.items():
        unit = unit_of_log(log)
        homes[key] = home = log.trace_id or unit
        if unit is not None and home is not None:
            units.setdefault(home, set()).add(unit)
    return units, sessions, homes


def _pack(batch: Batch, taken: dict[int, int]) -> _Packed:
    # Before anything is derived: packing puts right in the records what cannot be stored as it is.
    packed = _Packed(batch, Contents())
    packed.contents.reserve(taken)
    packer, resources = Packer(packed.contents), Resources()
    packed.span_rows = {key: span_row(span, packer, resources) for key, span in batch.spans.items()}
    packed.log_rows = {key: log_row(log, key, packer, resources) for key, log in batch.logs.items()}
    return packed


def _derived(
    derive: Derive, contents: Contents, spans: list[SpanRecord], logs: list[LogRecord], known: set[str]
) -> _Rows:
    """Derive traces that belong together; `known` are MCP sessions that other traces name, too."""
    spans.sort(key=lambda span: (span.start_ns, span.trace_id, span.span_id))
    logs.sort(key=lambda log: (log.time_ns, log_key(log)))
    started = time.perf_counter()
    rows = _Rows()
    try:
        derived = derive(spans, logs, mcp_sessions=known) if known else derive(spans, logs)
        for call in derived.tool_calls:
            key = call.trace_id, call.span_id, call.position
            rows.calls[key] = call_row(call, contents, FINGERPRINT_VERSION)
        for request in derived.llm_requests:
            rows.requests[request.trace_id, request.span_id] = request_row(request, contents)
    except Exception as error:  # noqa: BLE001  the records are stored whatever the derivation makes of them
        rows = _Rows(error=clean_text(named(error))[:500])
    rows.seconds = time.perf_counter() - started
    return rows


class _Builder:
    """Makes the changes of one round."""

    def __init__(self, packed: _Packed, plan: Plan, derive: Derive) -> None:
        self._packed = packed
        self._plan = plan
        self._derive = derive
        self._calls: list[Row] = []
        self._requests: list[Row] = []
        self._seconds: dict[str, float] = {}
        # What is true of the traces at hand once the batch is in.
        self._spans: dict[str, list[SpanRecord]] = {}
        self._logs: dict[str, list[LogRecord]] = {}
        self._new_spans: Counter[str] = Counter()  # by trace
        self._new_logs: Counter[str] = Counter()
        self._stored: set[str] = set()  # traces that the database has records of
        self.used_ahead = 0  # traces that were derived when the batch was taken

    def build(self, stored: Stored) -> Changes:
        spans, old_spans, logs, old_logs = self._sort_out(stored)
        traces = [state for group in self._plan.groups for state in self._whole(group)]
        traces += [self._put_off(before) for before in self._plan.later.values()]
        used = row_keys(SPAN_COLUMNS, spans) | row_keys(LOG_COLUMNS, logs)
        used |= row_keys(CALL_COLUMNS, self._calls) | row_keys(REQUEST_COLUMNS, self._requests)
        return Changes(
            contents=self._packed.contents.table(used),
            spans=arrow_table(SPAN_COLUMNS, spans),
            logs=arrow_table(LOG_COLUMNS, logs),
            old_spans=old_spans,
            old_logs=old_logs,
            calls=arrow_table(CALL_COLUMNS, self._calls),
            requests=arrow_table(REQUEST_COLUMNS, self._requests),
            derived_before=[state for state in self._plan.whole if state.first_derived_ns is not None],
            traces=traces,
            known_traces=self._plan.known,
            seconds=self._seconds,
        )

    def _sort_out(
        self, stored: Stored
    ) -> tuple[list[Row], list[tuple[str, str, int]], list[Row], list[tuple[int, int]]]:
        """Which records of the batch go in, which of the database go out."""
        current_spans, current_logs = stored.records()
        self._stored = {trace_id for trace_id, _ in current_spans}
        self._stored |= {trace_of_log(log) or "" for log in current_logs.values()}
        packed = self._packed
        spans: list[Row] = []
        logs: list[Row] = []
        old_spans: list[tuple[str, str, int]] = []
        old_logs: list[tuple[int, int]] = []
        for key, span in packed.batch.spans.items():
            old = current_spans.get(key)
            if old is None:
                self._new_spans[span.trace_id] += 1
            elif newer(span, old):
                old_spans.append((*key, old.start_ns))
            else:
                continue
            current_spans[key] = span
            spans.append(packed.span_rows[key])
        for log_id, log in packed.batch.logs.items():
            old_log = current_logs.get(log_id)
            if old_log is None:
                self._new_logs[trace_of_log(log) or ""] += 1
            elif log.received_ns > old_log.received_ns:
                old_logs.append((log_id, old_log.time_ns))
            else:
                continue
            current_logs[log_id] = log
            logs.append(packed.log_rows[log_id])
        for span in current_spans.values():
            self._spans.setdefault(span.trace_id, []).append(span)
        for log in current_logs.values():
            home = trace_of_log(log)
            if home is not None:
                self._logs.setdefault(home, []).append(log)
        return spans, old_spans, logs, old_logs

    def _whole(self, group: list[str]) -> list[TraceState]:
        """Derive traces that belong together; their new states."""
        states = {trace_id: self._state(trace_id) for trace_id in group}
        spans = [span for name in group for span in self._spans.get(name, ())]
        logs = [log for name in group for log in self._logs.get(name, ())]
        shared = self._plan.known_mcp_sessions
        known = {name for state in states.values() for name in state.mcp_sessions or ()} & shared
        ahead = self._packed.ahead.get(group[0]) if len(group) == 1 and not known else None
        if ahead is None or group[0] in self._stored:
            rows = _derived(self._derive, self._packed.contents, spans, logs, known)
        else:
            rows = ahead
            self.used_ahead += 1
        calls, requests = rows.calls, rows.requests
        for state in states.values():
            state.derive_error = rows.error
        self._seconds.update(dict.fromkeys(group, rows.seconds))
        self._calls += calls.values()
        self._requests += requests.values()
        times: dict[str, list[int]] = {}
        for (trace_id, *_), row in calls.items():
            times.setdefault(trace_id, []).append(row[_CALL_START])
        for (trace_id, _), row in requests.items():
            times.setdefault(trace_id, []).append(row[_REQUEST_START])
        for trace_id, starts in times.items():
            state = states[trace_id]
            state.first_derived_ns, state.last_derived_ns = min(starts), max(starts)
        return list(states.values())

    def _state(self, trace_id: str) -> TraceState:
        """What there is of a trace."""
        spans, logs = self._spans.get(trace_id, []), self._logs.get(trace_id, [])
        starts = [span.start_ns for span in spans]
        times = [log.time_ns for log in logs]
        return TraceState(
            trace_id,
            spans=len(spans),
            logs=len(logs),
            first_start_ns=_least(starts),
            last_start_ns=_most(starts),
            first_log_ns=_least(times),
            last_log_ns=_most(times),
            session_trace=_unit(spans, logs),
            mcp_sessions=_sessions(spans),
        )

    def _put_off(self, before: TraceState) -> TraceState:
        """The state of a trace to be derived later. Its bounds may be too wide, never too narrow."""
        name = before.trace_id
        starts = [span.start_ns for span in self._spans.get(name, ())]
        times = [log.time_ns for log in self._logs.get(name, ())]
        return replace(
            before,
            spans=before.spans + self._new_spans[name],
            logs=before.logs + self._new_logs[name],
            first_start_ns=_least([before.first_start_ns, *starts]),
            last_start_ns=_most([before.last_start_ns, *starts]),
            first_log_ns=_least([before.first_log_ns, *times]),
            last_log_ns=_most([before.last_log_ns, *times]),
            stale=True,
            session_trace=_first_unit(
                before.session_trace, _unit(self._spans.get(name, []), self._logs.get(name, []))
            ),
            mcp_sessions=_joined(before.mcp_sessions, _sessions(self._spans.get(name, []))),
        )


_CALL_START = list(CALL_COLUMNS).index("start_ns")
_REQUEST_START = list(REQUEST_COLUMNS).index("start_ns")


def _unit(spans: list[SpanRecord], logs: list[LogRecord]) -> str | None:
    """The session of a trace; the first by name where records are of several."""
    return _first_unit(*(unit_of_span(span) for span in spans), *(unit_of_log(log) for log in logs))


def _first_unit(*units: str | None) -> str | None:
    return min((unit for unit in units if unit is not None), default=None)


def _sessions(spans: list[SpanRecord]) -> list[str] | None:
    """The MCP sessions that spans name."""
    found = {session for span in spans if (session := mcp_session_of(span)) is not None}
    return sorted(found)[:_MOST_SESSIONS] or None


def _joined(before: list[str] | None, more: list[str] | None) -> list[str] | None:
    return sorted({*(before or ()), *(more or ())})[:_MOST_SESSIONS] or None


def _least(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Sequence[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def named(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return str(error).strip().split("\n", 1)[0]
