"""The fold: from spool segments to spans, logs, tool calls and LLM requests.

A round takes a bounded batch of segments and goes through it in four steps:

1. decode the batch and keep the newest version of every record        (file not held)
2. read back what the database knows of the traces it touches          (held, reading)
3. decide which records are news, derive the traces from all records   (not held)
4. write everything in one transaction, if no other fold came between  (held, writing)

A small batch goes through all of it in one hold, because opening the file costs more than the work.

Only after the commit are the segments deleted. A crash before it changes nothing; a crash after it leaves
segments whose names are in `folded_segments`, or whose records replace themselves.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyarrow import ArrowException

from ..guard import FINGERPRINT_VERSION, SpoolError, StoreError
from ._batch import Batch, Decoders, Feed, newer
from ._contents import Contents, Packer, clean_text
from ._lease import turnstile
from ._records import Derived, LogRecord, SpanRecord
from ._rows import (
    CALL_COLUMNS,
    REQUEST_COLUMNS,
    Resources,
    call_row,
    log_key,
    log_row,
    request_row,
    span_row,
)
from ._spool import Spool
from ._store import Store, counter, grow
from ._stored import Stored, TraceState, folded_names, load, trace_states
from ._write import Changes, KeysTaken, write_changes

__all__ = ["BATCH_BYTES", "BATCH_RECORDS", "LARGE_TRACE", "FoldResult", "Pace", "fold"]

Row = tuple[Any, ...]
Derive = Callable[[list[SpanRecord], list[LogRecord]], Derived]

# A batch of 4,000 tool spans (5 MB) holds the file for 100-150 ms; now and then, when DuckDB merges row
# groups, for 200. Of 27 kB requests mostly the new messages are stored, so more bytes fit.
BATCH_RECORDS = 4_000
BATCH_BYTES = 16 << 20
LARGE_TRACE = 2_000  # spans; larger ones are not derived anew at every fold
_ROUND_SPANS = 8_000  # spans of the traces that one round derives, new and old
_COST_SHARE = 10  # a large trace is derived again after ten times what it cost the last time
_SMALL_BYTES = 128 << 10  # a batch that is stored in one hold, if
_SMALL_SPANS = 500  # its traces have no more spans than these in the database
_QUIET_TRIES = 3  # rounds lost to other folds before the file is held for a whole round
_MOST_TRIES = 20


@dataclass(slots=True)
class FoldResult:
    """What a fold did.

    `spans` and `logs` count records that were stored (new, or newer versions), `calls` and `requests` those
    that are new or say something else than before.
    """

    segments: int = 0
    spans: int = 0
    logs: int = 0
    calls: int = 0
    requests: int = 0
    quarantined: int = 0

    def __bool__(self) -> bool:
        return bool(self.segments or self.calls or self.requests or self.quarantined)


@dataclass(slots=True)
class Pace:
    """When a large trace is due for derivation again. Keep one between folds of a growing trace."""

    clock: Callable[[], float] = time.monotonic
    due: dict[str, float] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)  # traces whose derivation was put off

    def ripe(self) -> bool:
        """Whether a trace that was put off is due now."""
        return any(self.ready(trace_id) for trace_id in self.waiting)

    def ready(self, trace_id: str) -> bool:
        """Whether enough time went by since the last derivation."""
        return self.clock() >= self.due.get(trace_id, 0.0)

    def took(self, trace_id: str, seconds: float) -> None:
        """A large trace was derived in so many seconds."""
        self.due[trace_id] = self.clock() + seconds * _COST_SHARE
        if len(self.due) > 1000:
            del self.due[next(iter(self.due))]


def fold(
    store: Store,
    spool: Spool | None = None,
    *,
    derive: Derive | None = None,
    decode_traces: Callable[[bytes], list[SpanRecord]] | None = None,
    decode_logs: Callable[[bytes], list[LogRecord]] | None = None,
    max_bytes: int = BATCH_BYTES,
    max_records: int = BATCH_RECORDS,
    pace: Pace | None = None,
    settle: bool = True,
    stop: Callable[[], bool] | None = None,
) -> FoldResult:
    """Fold everything that waits in the spool. Safe to run anywhere, any number of times, at the same time.

    Args:
        spool: the store's own by default.
        derive, decode_traces, decode_logs: replacements for the functions of this package.
        max_bytes, max_records: payload bytes and records per transaction; one payload is never divided.
        pace: remembers when large traces were derived; by default they are paced within this call only.
        settle: derive every trace completely before returning. Without it, traces of more than `LARGE_TRACE`
            spans may be left for a later fold.
        stop: asked between rounds; True ends the fold early.

    Raises:
        StoreBusyError, StoreVersionError, StoreError: the database cannot be used; the segments stay.
        SpoolError: the spool cannot be read.
    """
    if derive is None:
        from ._derive import derive_trace as derive
    if decode_traces is None or decode_logs is None:
        from . import _otlp

        decode_traces = decode_traces or _otlp.decode_traces
        decode_logs = decode_logs or _otlp.decode_logs
    spool = Spool(store.path) if spool is None else spool
    work = _Fold(
        store,
        spool,
        derive=derive,
        decoders=Decoders(decode_traces, decode_logs),
        pace=pace or Pace(),
        settle=settle,
    )
    try:
        work.run(max_bytes, max_records, stop or (lambda: False))
    except OSError as error:
        raise SpoolError(f"cannot work on the spool {spool.path}: {error.strerror}") from error
    return work.result


class _Retry(Exception):  # noqa: N818
    """Another fold committed since this round read the database."""


class _Refused(Exception):  # noqa: N818
    """The database does not take something of the batch."""


@dataclass(slots=True)
class _Plan:
    """Which traces a round derives."""

    whole: list[TraceState] = field(default_factory=list)
    later: dict[str, TraceState] = field(default_factory=dict)  # touched, but only noted as stale
    left_over: bool = False  # there are more to derive right after this round
    stale: bool = False  # traces wait for derivation after this round, for whatever reason


class _Fold:
    def __init__(
        self, store: Store, spool: Spool, *, derive: Derive, decoders: Decoders, pace: Pace, settle: bool
    ) -> None:
        self.store = store
        self.spool = spool
        self.derive = derive
        self.feed = Feed(spool, decoders)
        self.pace = pace
        self.settle = settle
        self.result = FoldResult()
        self.careful = 0  # segments that are still to be taken one by one, after one of them failed
        self.stale = True  # whether traces may wait for derivation; unknown before the first look

    def run(self, max_bytes: int, max_records: int, stop: Callable[[], bool]) -> None:
        left_over = False
        while not stop():
            self.feed.refill()
            batch = self.feed.take(1 if self.careful else max_bytes, max_records)
            if batch:
                self.careful = max(0, self.careful - len(batch.segments) - len(batch.bad))
                left_over |= self.round(batch)
            elif not self.feed.exhausted:
                continue
            elif left_over or (self.settle and self.stale and self.store.path.exists()) or self.pace.ripe():
                left_over = self.round(batch)
                if not left_over:
                    return
            else:
                return

    def round(self, batch: Batch) -> bool:
        """Store a batch; whether traces are left that should be derived now."""
        import duckdb

        try:
            left_over = self._store(batch)
        except duckdb.Error as error:
            raise StoreError(f"cannot fold into {self.store.path}: {_first_line(error)}") from error
        except _Refused as error:
            # Find out which segment it is, and go on without it.
            if not batch.sources:
                raise StoreError(f"cannot fold into {self.store.path}: {error}") from error
            if len(batch.sources) > 1:
                self.feed.requeue(batch.sources)
                self.careful += len(batch.sources)
            else:
                self.feed.skip(batch.sources[0])
                self._quarantine([(batch.sources[0], str(error))])
            return False
        self._quarantine(batch.bad)
        bad = {path.name for path, _ in batch.bad}
        for path in batch.segments:
            if path.name not in bad:
                self.spool.remove(path)
        self.result.segments += len(batch.segments)
        return left_over

    def _quarantine(self, bad: list[tuple[Path, str]]) -> None:
        for path, reason in bad:
            self.spool.quarantine(path, reason)
            self.result.quarantined += 1

    def _store(self, batch: Batch) -> bool:
        taken: dict[int, int] = {}
        gate = turnstile(self.store.path)
        tries = 0
        while True:
            alone = tries >= _QUIET_TRIES
            with self.store.lease() if alone else nullcontext(), gate.writing if alone else nullcontext():
                try:
                    return self._attempt(batch, taken)
                except _Retry:
                    tries += 1
                    if tries > _MOST_TRIES:
                        raise StoreError(f"{self.store.path} is written by others all the time.") from None
                except KeysTaken as found:
                    taken.update(found.stored)

    def _attempt(self, batch: Batch, taken: dict[int, int]) -> bool:
        import duckdb

        contents = Contents()
        contents.reserve(taken)
        packer, resources = Packer(contents), Resources()
        # Packed before anything is derived: packing puts right in the records what cannot be stored.
        try:
            span_rows = {key: span_row(span, packer, resources) for key, span in batch.spans.items()}
            log_rows = {key: log_row(log, key, packer, resources) for key, log in batch.logs.items()}
        except Exception as error:
            raise _Refused(_named(error)) from error

        with ExitStack() as hold:
            con = hold.enter_context(self.store.lease())
            serial = counter(con, "fold_serial")
            done = folded_names(con)
            self._let_go(batch, done)
            states = trace_states(con, _touched(batch))
            plan = self._plan(batch, states)
            self.stale = plan.stale
            known = [state for state in plan.whole if state.trace_id in states]
            stored = load(con, known, _span_keys(batch, plan, states), _log_keys(batch, plan, states))
            if batch.size > _SMALL_BYTES or stored.span_rows.num_rows > _SMALL_SPANS:
                hold.close()

            changes = Changes(contents, segments=[path.name for path in batch.segments], drops=batch.drops)
            changes.known_traces = {state.trace_id for state in known} | (plan.later.keys() & states.keys())
            records = _sort_out(batch, stored, span_rows, log_rows, changes)
            self._derive(records, plan, changes)
            if not (changes.segments or changes.spans or changes.logs or changes.traces):
                return False
            with self.store.write() as con:
                if counter(con, "fold_serial") != serial:
                    raise _Retry
                waiting = {name for name in done if (self.spool.path / name).exists()}
                try:
                    calls, requests = write_changes(con, changes, waiting)
                except duckdb.TransactionException as error:  # somebody of this process wrote without `write`
                    raise _Retry from error
                except (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException) as error:
                    raise _Refused(_named(error)) from error
                except (ArrowException, ValueError, TypeError) as error:
                    raise _Refused(_named(error)) from error
                grow(con, "fold_serial")
        self.result.spans += len(changes.spans)
        self.result.logs += len(changes.logs)
        self.result.calls += calls
        self.result.requests += requests
        return plan.left_over

    def _let_go(self, batch: Batch, done: set[str]) -> None:
        """Segments that somebody else folded between our listing and this lease."""
        gone = {path.name for path in batch.segments if path.name in done or not path.exists()}
        if gone:
            for path in batch.segments:
                if path.name in done:  # its folder died before it could delete it
                    self.spool.remove(path)
            batch.forget(gone)

    # -- deriving -------------------------------------------------------------------------------------

    def _plan(self, batch: Batch, states: dict[str, TraceState]) -> _Plan:
        added: dict[str, int] = dict.fromkeys(_touched(batch), 0)
        ended: set[str] = set()
        for (trace_id, _), span in batch.spans.items():
            added[trace_id] += 1
            if span.parent_span_id is None and span.end_ns is not None:
                ended.add(trace_id)
        last = not batch
        if last:
            added = dict.fromkeys((state.trace_id for state in states.values() if state.stale), 0)
        plan = _Plan()
        used = 0
        sizes = sorted(
            (states[name].spans + more if name in states else more, name) for name, more in added.items()
        )
        for size, trace_id in sizes:
            state = states.get(trace_id) or TraceState(trace_id)
            wait = size > LARGE_TRACE and not (
                (last and self.settle) or trace_id in ended or self.pace.ready(trace_id)
            )
            full = used > 0 and used + size > _ROUND_SPANS
            plan.left_over |= full
            if not wait and not full:
                used += size
                plan.whole.append(state)
            elif not last:
                plan.later[trace_id] = state
        self.pace.waiting.update(plan.later)
        chosen = {state.trace_id for state in plan.whole}
        plan.stale = bool(plan.later) or any(s.stale and s.trace_id not in chosen for s in states.values())
        return plan

    def _derive(self, records: _Records, plan: _Plan, changes: Changes) -> None:
        for before in plan.whole:
            if before.first_derived_ns is not None:
                changes.derived_before.append(before)
            name = before.trace_id
            spans, logs = records.spans.get(name, []), records.logs.get(name, [])
            changes.traces.append(self._derive_one(name, spans, logs, changes))
        for before in plan.later.values():
            changes.traces.append(_put_off(before, records))

    def _derive_one(
        self, trace_id: str, spans: list[SpanRecord], logs: list[LogRecord], changes: Changes
    ) -> TraceState:
        spans.sort(key=lambda span: (span.start_ns, span.span_id))
        logs.sort(key=lambda log: (log.time_ns, log_key(log)))
        state = TraceState(trace_id, spans=len(spans), logs=len(logs))
        if spans:
            state.first_start_ns, state.last_start_ns = spans[0].start_ns, spans[-1].start_ns
        if logs:
            state.first_log_ns, state.last_log_ns = logs[0].time_ns, logs[-1].time_ns
        started = time.perf_counter()
        calls: dict[tuple[str, int], Row] = {}
        requests: dict[str, Row] = {}
        try:
            derived = self.derive(spans, logs)
            for call in derived.tool_calls:
                calls[call.span_id, call.position] = call_row(call, changes.contents, FINGERPRINT_VERSION)
            for request in derived.llm_requests:
                requests[request.span_id] = request_row(request, changes.contents)
        except Exception as error:  # noqa: BLE001  the records are stored whatever the derivation makes of them
            calls, requests = {}, {}
            state.derive_error = clean_text(_named(error))[:500]
        if len(spans) > LARGE_TRACE:
            self.pace.took(trace_id, time.perf_counter() - started)
        self.pace.waiting.discard(trace_id)
        changes.calls += calls.values()
        changes.requests += requests.values()
        times = [row[_CALL_START] for row in calls.values()] + [
            row[_REQUEST_START] for row in requests.values()
        ]
        if times:
            state.first_derived_ns, state.last_derived_ns = min(times), max(times)
        return state


_CALL_START = list(CALL_COLUMNS).index("start_ns")
_REQUEST_START = list(REQUEST_COLUMNS).index("start_ns")


def _touched(batch: Batch) -> set[str]:
    touched = {trace_id for trace_id, _ in batch.spans}
    touched.update(log.trace_id for log in batch.logs.values() if log.trace_id is not None)
    return touched


def _span_keys(batch: Batch, plan: _Plan, states: dict[str, TraceState]) -> list[tuple[str, str, int, int]]:
    keys = []
    for trace_id, span_id in batch.spans:
        state = states.get(trace_id)
        if trace_id in plan.later and state is not None and state.first_start_ns is not None:
            keys.append((trace_id, span_id, state.first_start_ns, state.last_start_ns or 0))
    return keys


def _log_keys(batch: Batch, plan: _Plan, states: dict[str, TraceState]) -> list[tuple[int, int]]:
    return [
        (key, log.time_ns)
        for key, log in batch.logs.items()
        if log.trace_id is None or (log.trace_id in plan.later and log.trace_id in states)
    ]


@dataclass(slots=True)
class _Records:
    """What is true of the traces at hand once the batch is in."""

    spans: dict[str, list[SpanRecord]] = field(default_factory=dict)
    logs: dict[str, list[LogRecord]] = field(default_factory=dict)
    new_spans: Counter[str] = field(default_factory=Counter)  # by trace
    new_logs: Counter[str] = field(default_factory=Counter)


def _sort_out(
    batch: Batch,
    stored: Stored,
    span_rows: dict[tuple[str, str], Row],
    log_rows: dict[int, Row],
    changes: Changes,
) -> _Records:
    """Which records of the batch go in, which of the database go out, and what is true then."""
    records = _Records()
    current_spans, current_logs = stored.records()
    for key, span in batch.spans.items():
        old = current_spans.get(key)
        if old is None:
            records.new_spans[span.trace_id] += 1
        elif newer(span, old):
            changes.old_spans.append((*key, old.start_ns))
        else:
            continue
        current_spans[key] = span
        changes.spans.append(span_rows[key])
    for key, log in batch.logs.items():
        old_log = current_logs.get(key)
        if old_log is None:
            records.new_logs[log.trace_id or ""] += 1
        elif log.received_ns > old_log.received_ns:
            changes.old_logs.append((key, old_log.time_ns))
        else:
            continue
        current_logs[key] = log
        changes.logs.append(log_rows[key])
    for span in current_spans.values():
        records.spans.setdefault(span.trace_id, []).append(span)
    for log in current_logs.values():
        if log.trace_id is not None:
            records.logs.setdefault(log.trace_id, []).append(log)
    return records


def _put_off(before: TraceState, records: _Records) -> TraceState:
    """The state of a trace that is to be derived later. Its bounds may be too wide, never too narrow."""
    name = before.trace_id
    starts = [span.start_ns for span in records.spans.get(name, [])]
    times = [log.time_ns for log in records.logs.get(name, [])]
    return replace(
        before,
        spans=before.spans + records.new_spans[name],
        logs=before.logs + records.new_logs[name],
        first_start_ns=_least([before.first_start_ns, *starts]),
        last_start_ns=_most([before.last_start_ns, *starts]),
        first_log_ns=_least([before.first_log_ns, *times]),
        last_log_ns=_most([before.last_log_ns, *times]),
        stale=True,
    )


def _least(values: list[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: list[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
