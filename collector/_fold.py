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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..guard import SpoolError, StoreError
from ._batch import Decoders
from ._build import Changes, Derive, Limits, Outline, Plan, Refused, Workbench, first_line, named
from ._lease import turnstile
from ._records import LogRecord, SpanRecord
from ._spool import Spool
from ._store import Store, counter, grow
from ._stored import Stored, TraceState, folded_names, load, trace_states
from ._write import write_changes

__all__ = ["BATCH_BYTES", "BATCH_RECORDS", "LARGE_TRACE", "Bench", "FoldResult", "Pace", "fold", "fold_with"]

# A batch of 4,000 tool spans (5 MB) holds the file for 100-150 ms; now and then, when DuckDB merges row
# groups, for 200. Of 27 kB requests mostly the new messages are stored, so more bytes fit.
BATCH_RECORDS = 6_000
BATCH_BYTES = 32 << 20
_HOLD_SECONDS = 0.12  # what writing a batch may take: where it takes longer, the next ones are smaller
_BUSY = 4
_SMALLEST = 0.6  # smaller ones would take longer in all, and more of the disk
_FEW_RECORDS, _FEW_BYTES = 1_000, 1 << 20
LARGE_TRACE = 2_000  # spans; larger ones are not derived anew at every fold
_ROUND_SPANS = 16_000  # spans of the traces that one round derives, new and old
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
    bench = LocalBench(spool, derive, Decoders(decode_traces, decode_logs))
    return fold_with(
        bench,
        store,
        spool,
        limits=Limits(max_bytes, max_records),
        pace=pace or Pace(),
        settle=settle,
        stop=stop or (lambda: False),
    )


def fold_with(
    bench: Bench,
    store: Store,
    spool: Spool,
    *,
    limits: Limits,
    pace: Pace,
    settle: bool,
    stop: Callable[[], bool],
) -> FoldResult:
    """`fold`, with a bench that is there already."""
    work = _Fold(store, spool, bench, pace=pace, settle=settle)
    bench.reset()
    try:
        with turnstile(store.path).kept():
            work.run(limits, stop)
    except OSError as error:
        raise SpoolError(f"cannot work on the spool {spool.path}: {error.strerror}") from error
    return work.result


class _Retry(Exception):  # noqa: N818
    """Another fold committed since this round read the database."""


class Bench(Protocol):
    """What a fold needs of a workbench; `ask` begins to take a batch, `taken` gives it."""

    def ask(self, limits: Limits) -> None: ...
    def taken(self) -> Outline: ...
    def build(self, number: int, plan: Plan, stored: Stored, taken: dict[int, int]) -> Changes: ...
    def finish(self, names: set[str]) -> None: ...
    def requeue(self, paths: list[Path]) -> None: ...
    def skip(self, path: Path) -> None: ...
    def reset(self) -> None: ...


class LocalBench(Workbench):
    """A workbench of this process: it takes a batch when the batch is needed."""

    _limits: Limits | None = None

    def ask(self, limits: Limits) -> None:
        self._limits = limits

    def taken(self) -> Outline:
        assert self._limits is not None
        return self.take(self._limits)

    def reset(self) -> None:
        """It is used for one fold only."""


class _Sizes:
    """How large the next batch may be, by what the last ones took to write.

    A fixed size would hold the file too long on a slow or busy machine; always a small one would cost what a
    batch takes whatever is in it, and a partly filled block of the file for each table.
    """

    def __init__(self, first: Limits) -> None:
        self.first = first
        self.scale = 1.0

    def next(self) -> Limits:
        """The limits of the next batch."""
        size, records = int(self.first.size * self.scale), int(self.first.records * self.scale)
        return Limits(
            max(size, min(self.first.size, _FEW_BYTES)), max(records, min(self.first.records, _FEW_RECORDS))
        )

    def took(self, outline: Outline, cpu: float, seconds: float) -> None:
        """Writing a batch took so long, and so much of the processor."""
        limits = self.next()
        full = 2 * outline.size > limits.size or 2 * (len(outline.spans) + len(outline.logs)) > limits.records
        # On a busy machine everything waits; smaller batches would make it busier.
        share = _HOLD_SECONDS / max(cpu, seconds / _BUSY, 1e-3)
        # One hold says little: it waited for a busy disk, or joined groups of rows.
        if full or share < 1:
            self.scale = min(max(self.scale * min(max(share, 0.7), 1.5), _SMALLEST), 1.0)


class _Fold:
    def __init__(self, store: Store, spool: Spool, bench: Bench, *, pace: Pace, settle: bool) -> None:
        self.store = store
        self.spool = spool
        self.bench = bench
        self.pace = pace
        self.settle = settle
        self.result = FoldResult()
        self.careful = 0  # segments that are still to be taken one by one, after one of them failed
        self.stale = True  # whether traces may wait for derivation; unknown before the first look
        self.sizes = _Sizes(Limits(0, 0))
        self.asked = False

    def run(self, limits: Limits, stop: Callable[[], bool]) -> None:
        self.sizes = _Sizes(limits)
        left_over = False
        while not stop():
            outline = self._next()
            if outline:
                self.careful = max(0, self.careful - len(outline.segments) - len(outline.bad))
                left_over |= self._round(outline)
            elif left_over or (self.settle and self.stale and self.store.path.exists()) or self.pace.ripe():
                left_over = self._round(outline)
                if not left_over:
                    return
            else:
                return

    def _ask(self) -> None:
        if not self.asked:
            self.bench.ask(Limits(1, 1) if self.careful else self.sizes.next())
            self.asked = True

    def _next(self) -> Outline:
        self._ask()
        self.asked = False
        return self.bench.taken()

    def _round(self, outline: Outline) -> bool:
        """Store a batch; whether traces are left that should be derived now."""
        import duckdb

        names = {path.name for path in outline.segments}
        try:
            if outline.refused is not None:
                raise Refused(outline.refused)
            left_over = self._store(outline)
        except duckdb.Error as error:
            raise StoreError(f"cannot fold into {self.store.path}: {first_line(error)}") from error
        except Refused as error:
            # Find out which segment it is, and go on without it.
            if not outline.sources:
                raise StoreError(f"cannot fold into {self.store.path}: {error}") from error
            self._take_apart(outline, str(error))
            return False
        self._quarantine(outline.bad)
        bad = {path.name for path, _ in outline.bad}
        for path in outline.segments:
            if path.name not in bad:
                self.spool.remove(path)
        self.bench.finish(names)
        self.result.segments += len(outline.segments)
        return left_over

    def _take_apart(self, outline: Outline, reason: str) -> None:
        # What was taken after it may hold the end of a segment whose beginning is here: it goes back, too.
        sources = list(outline.sources)
        if self.asked:
            sources += [path for path in self._next().sources if path not in sources]
        self._quarantine(outline.bad)
        if len(outline.sources) > 1:
            self.bench.requeue(sources)
            self.careful += len(sources)
            return
        (culprit,) = outline.sources
        self.bench.skip(culprit)
        self._quarantine([(culprit, reason)])
        self.bench.requeue([path for path in sources if path != culprit])

    def _quarantine(self, bad: list[tuple[Path, str]]) -> None:
        for path, reason in bad:
            self.spool.quarantine(path, reason)
            self.result.quarantined += 1
        if bad:
            self.bench.finish({path.name for path, _ in bad})

    def _store(self, outline: Outline) -> bool:
        taken: dict[int, int] = {}
        gate = turnstile(self.store.path)
        tries = 0
        while True:
            alone = tries >= _QUIET_TRIES
            with self.store.lease() if alone else nullcontext(), gate.writing if alone else nullcontext():
                try:
                    return self._attempt(outline, taken)
                except _Retry:
                    tries += 1
                    if tries > _MOST_TRIES:
                        raise StoreError(f"{self.store.path} is written by others all the time.") from None

    def _attempt(self, outline: Outline, taken: dict[int, int]) -> bool:
        with ExitStack() as hold:
            con = hold.enter_context(self.store.lease())
            serial = counter(con, "fold_serial")
            done = folded_names(con)
            self._let_go(outline, done)
            states = trace_states(
                con,
                outline.touched(),
                {unit for units in outline.units.values() for unit in units},
                {name for names in outline.mcp_sessions.values() for name in names},
            )
            plan = self._plan(outline, states)
            self.stale = plan.stale
            known = [state for state in plan.whole if state.trace_id in states]
            stored = load(con, known, _span_keys(outline, plan), _log_keys(outline, plan))
            if outline.size > _SMALL_BYTES or stored.span_rows.num_rows > _SMALL_SPANS:
                hold.close()
            changes = self.bench.build(outline.number, plan, stored, taken)
            changes.segments = [path.name for path in outline.segments]
            changes.drops = outline.drops
            if outline:
                self._ask()  # a child decodes the next batch while this one is written
            if changes:
                calls, requests = self._write(outline, changes, serial, done)
                self.result.calls += calls
                self.result.requests += requests
        self.result.spans += changes.spans.num_rows
        self.result.logs += changes.logs.num_rows
        derived = {state.trace_id: state for state in changes.traces}
        for group in plan.groups:
            self.pace.waiting.difference_update(group)
            if sum(_size(derived[trace_id]) for trace_id in group) > LARGE_TRACE:
                for trace_id in group:
                    self.pace.took(trace_id, changes.seconds[trace_id])
        self.pace.waiting.update(plan.later)
        return plan.left_over

    def _write(self, outline: Outline, changes: Changes, serial: int, done: set[str]) -> tuple[int, int]:
        import duckdb

        gate = turnstile(self.store.path)
        with self.store.write() as con:
            started, cpu = time.perf_counter(), time.process_time()
            if counter(con, "fold_serial") != serial:
                raise _Retry
            waiting = {name for name in done if (self.spool.path / name).exists()}
            try:
                found = write_changes(con, changes, waiting)
            except duckdb.TransactionException as error:  # somebody of this process wrote without `write`
                raise _Retry from error
            except (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException) as error:
                raise Refused(named(error)) from error
            grow(con, "fold_serial")
        self.sizes.took(outline, time.process_time() - cpu, time.perf_counter() - started)
        # The segments are deleted next. What went into a file without a name is nowhere else.
        if not gate.in_place():
            raise StoreError(
                f"{self.store.path} was deleted or replaced while spans were folded into it;"
                " they are still in the spool and are folded again."
            )
        return found

    def _let_go(self, outline: Outline, done: set[str]) -> None:
        """Segments that somebody else folded between our listing and this lease."""
        gone = {path.name for path in outline.segments if path.name in done or not path.exists()}
        if gone:
            for path in outline.segments:
                if path.name in done:  # its folder died before it could delete it
                    self.spool.remove(path)
            outline.forget(gone)

    def _plan(self, outline: Outline, states: dict[str, TraceState]) -> Plan:
        added = dict.fromkeys(outline.touched(), 0)
        for trace_id, _ in outline.spans:
            added[trace_id] += 1
        last = not outline
        if last:
            added = dict.fromkeys((state.trace_id for state in states.values() if state.stale), 0)
        plan = Plan()
        plan.known_mcp_sessions, first = _mcp_sessions(outline, states)
        for trace_id in first:
            added.setdefault(trace_id, 0)
        used = 0
        for size, group in sorted(_groups(outline, states, added)):
            touched = [trace_id for trace_id in group if trace_id in added]
            wait = size > LARGE_TRACE and not (
                (last and self.settle)
                or not outline.ended.isdisjoint(group)
                or all(self.pace.ready(trace_id) for trace_id in touched)
            )
            full = used > 0 and used + size > _ROUND_SPANS
            plan.left_over |= full
            if not wait and not full:
                used += size
                plan.groups.append(group)
                plan.whole += [states.get(trace_id) or TraceState(trace_id) for trace_id in group]
            elif not last:
                for trace_id in touched:
                    plan.later[trace_id] = states.get(trace_id) or TraceState(trace_id)
        chosen = {state.trace_id for state in plan.whole}
        plan.known = (chosen | plan.later.keys()) & states.keys()
        plan.stale = bool(plan.later) or any(s.stale and s.trace_id not in chosen for s in states.values())
        return plan


def _groups(
    outline: Outline, states: dict[str, TraceState], added: dict[str, int]
) -> Iterator[tuple[int, list[str]]]:
    """The traces in `added` and those of the same sessions, as they are derived together, with their size."""
    units_of: dict[str, set[str]] = {name: set(units) for name, units in outline.units.items()}
    for state in states.values():
        if state.session_trace is not None:
            units_of.setdefault(state.trace_id, set()).add(state.session_trace)
    members: dict[str, list[str]] = {}
    for trace_id, units in units_of.items():
        for unit in units:
            members.setdefault(unit, []).append(trace_id)
    seen: set[str] = set()
    for trace_id in sorted(added):
        if trace_id in seen:
            continue
        group: list[str] = []
        waiting = [trace_id]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                group.append(name)
                for unit in units_of.get(name, ()):
                    waiting += members.pop(unit, ())
        yield sum(_size(states.get(name)) + added.get(name, 0) for name in group), sorted(group)


def _size(state: TraceState | None) -> int:
    """How much there is to derive of a trace; the logs of a session are its calls."""
    if state is None:
        return 0
    return state.spans + (state.logs if state.session_trace is not None else 0)


def _mcp_sessions(outline: Outline, states: dict[str, TraceState]) -> tuple[set[str], set[str]]:
    """The MCP sessions that several traces name, and the traces that were the first to name one of them.

    Those were derived when nobody else named it; now it is a run.
    """
    holders: dict[str, set[str]] = {}
    for trace_id, sessions in outline.mcp_sessions.items():
        for session in sessions:
            holders.setdefault(session, set()).add(trace_id)
    fresh = set(holders)
    before: dict[str, set[str]] = {}
    for state in states.values():
        for session in state.mcp_sessions or ():
            holders.setdefault(session, set()).add(state.trace_id)
            before.setdefault(session, set()).add(state.trace_id)
    known = {session for session, traces in holders.items() if len(traces) > 1}
    first: set[str] = set()
    for session in known & fresh:
        if len(before.get(session, ())) == 1:
            first |= before[session]
    return known, first


def _span_keys(outline: Outline, plan: Plan) -> list[tuple[str, str, int, int]]:
    keys = []
    for trace_id, span_id in outline.spans:
        state = plan.later.get(trace_id)
        if state is not None and state.first_start_ns is not None and state.last_start_ns is not None:
            keys.append((trace_id, span_id, state.first_start_ns, state.last_start_ns))
    return keys


def _log_keys(outline: Outline, plan: Plan) -> list[tuple[int, int]]:
    return [
        (key, time_ns)
        for key, time_ns, trace_id in outline.logs
        if trace_id is None or (trace_id in plan.later and trace_id in plan.known)
    ]
