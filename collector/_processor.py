"""DuckDBSpanProcessor: from an agent's spans to the spool, without the agent noticing.

`on_start` and `on_end` append to a queue, nothing else. A background thread encodes and writes:
100 ms after the first spans, then every 500 ms or 512 spans. `force_flush` returns when the segment is
on the disk.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from ._agent_fold import EXIT_SECONDS, AgentFold
from ._redact_rules import RedactionRules
from ._span_sink import SEGMENT_BYTES, SpanSink, service_name

__all__ = ["DuckDBSpanProcessor"]

_logger = logging.getLogger(__name__)

_SEGMENT_SPANS = 4096
_SPANS_IN_A_ROW = 32  # then the agent's threads get a turn: Python alone would let them wait 5 ms
_FIRST_SPANS = 10  # of a process: shown at once, a newcomer is watching
_MAX_BACKOFF = 5.0

_AGENT_MARKS = {
    "gen_ai.operation.name": frozenset({"invoke_agent", "invoke_workflow"}),
    "openinference.span.kind": frozenset({"AGENT"}),
    "traceloop.span.kind": frozenset({"agent", "workflow"}),
}


@dataclass(frozen=True, slots=True)
class _Segment:
    payload: bytes
    spans: int  # that ended; starts of agents not counted
    service: str | None


class DuckDBSpanProcessor(SpanProcessor):
    """Records spans for Loopscope.

        provider.add_span_processor(DuckDBSpanProcessor("traces.duckdb"))

    Args:
        path: the database file; `<path>.spool/` beside it takes the spans first.
        capture_content: whether arguments, results and messages are written. None: as
            `LOOPSCOPE_CAPTURE_CONTENT` says, on by default.
        redaction: values to replace before anything is written. None: as `LOOPSCOPE_REDACT` and its
            relatives say.
        max_queue_size: spans that may wait for the background thread. Beyond it new spans are dropped
            and counted; the count is logged and written beside the spans that follow.
        first_delay, delay: seconds until the first spans, and later ones, are written.
        batch_size: spans that are written without waiting for the delay.

    Raises SpoolError where the spool folder cannot be used, LoopscopeError for redaction rules that cannot
    be read. After that nothing is ever raised into
    the agent, and nothing blocks it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = "traces.duckdb",
        *,
        capture_content: bool | None = None,
        redaction: RedactionRules | None = None,
        max_queue_size: int = 8192,
        first_delay: float = 0.1,
        delay: float = 0.5,
        batch_size: int = 512,
    ) -> None:
        if max_queue_size < 1 or batch_size < 1:
            raise ValueError("max_queue_size and batch_size must be at least 1")
        if first_delay < 0 or delay < 0:
            raise ValueError("first_delay and delay must not be negative")
        self._max_queue_size = max_queue_size
        self._first_delay = first_delay
        self._delay = delay
        self._batch_size = min(batch_size, max_queue_size)
        self._sink = SpanSink(path, capture_content, redaction)
        self._folds = AgentFold(self._sink.db_path)
        self._closed = False
        self._reset()
        # Weak: the hooks must not keep a processor alive that its provider has let go.
        self_ref = weakref.ref(self)

        def after_fork() -> None:
            if processor := self_ref():
                processor._after_fork()

        def at_exit() -> None:
            if processor := self_ref():
                processor._at_exit()

        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=after_fork)
        # Beside the provider's own handler: not every provider has one (shutdown_on_exit=False).
        atexit.register(at_exit)

    def _reset(self) -> None:
        self._queue: deque[ReadableSpan] = deque()
        self._started: deque[Span] = deque(maxlen=self._max_queue_size)
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._wake = threading.Event()  # there is work
        self._hurry = threading.Event()  # do not wait for more
        self._idle = True  # the thread sleeps until it is woken
        self._stop = False
        self._ending = False  # from now on a failure to write may be the last one
        self._flushed = threading.Condition()
        self._flush_asked = self._flush_answered = 0
        self._flush_ok = True
        self._unwritten: _Segment | None = None  # encoded, refused by the disk
        self._service: str | None = None
        self._failing = False
        self._backoff = self._delay
        self._dropped_lock = threading.Lock()
        self._dropped = 0  # not yet written into a segment's meta
        self._losing = False
        self._written = 0

    # -- on the agent's threads -------------------------------------------------------------------

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Remember the span: if it turns out to be an agent's, its start is written at once."""
        self._started.append(span)
        if self._idle:
            # A run begins where no parent is in this process; other starts wait for the next round.
            parent = span.parent
            if parent is None or parent.is_remote:
                self._signal()

    def on_end(self, span: ReadableSpan) -> None:
        """Queue an ended span; dropped and counted where the queue is full."""
        context = span.context
        if context is None or not context.trace_flags & 1:
            return
        queue = self._queue
        waiting = len(queue)
        if waiting >= self._max_queue_size or self._closed:
            self._drop(1)
            return
        queue.append(span)
        if self._idle:
            self._signal()
        elif waiting + 1 >= self._batch_size and not self._hurry.is_set():
            self._hurry.set()

    def force_flush(self, timeout_millis: int | None = 30_000) -> bool:
        """Write everything that ended before this call.

        True: it is on the disk. False: it took longer than `timeout_millis`, or the spool could not be
        written; then it is tried again in the background.
        """
        timeout = None if timeout_millis is None else timeout_millis / 1000
        try:
            done = self._flush(timeout)
        except Exception:
            _logger.exception("flush failed")
            return False
        return done

    def shutdown(self, timeout_millis: int = 30_000) -> None:
        """Write what is left and fold it into the database (or let a running server do so).

        Bounded by `timeout_millis`; of that, folding gets five seconds at most. Spans that end later
        are dropped.
        """
        if self._closed:
            return
        self._closed = True
        self._finish(timeout_millis / 1000)
        self._stop = True
        self._hurry.set()
        self._wake.set()

    # -- internals --------------------------------------------------------------------------------

    def _drop(self, count: int) -> None:
        with self._dropped_lock:
            self._dropped += count
            starts = not self._losing
            self._losing = True
        if starts:
            if self._closed:
                _logger.warning("a span ended after shutdown and is dropped, as are those after it")
            else:
                _logger.warning("%d spans wait to be written, new ones are dropped", self._max_queue_size)

    def _signal(self) -> None:
        """Wake the background thread; start it where there is none (first span, or after a fork)."""
        self._idle = False
        self._wake.set()
        if self._thread is None:
            self._start_thread()

    def _start_thread(self) -> bool:
        with self._start_lock:
            if self._thread is not None:
                return self._thread.is_alive()
            thread = threading.Thread(target=self._run, name="loopscope-spans", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down: flush writes from the calling thread
                return False
            self._thread = thread
        _call_at_child_exit(self)
        return True

    def _run(self) -> None:
        while not self._stop:
            try:
                self._round()
            except Exception:
                _logger.exception("the background thread goes on after an error")
                time.sleep(self._delay)
        self._sink.reserve.close()

    def _round(self) -> None:
        """Wait for spans, wait a little for more, write them all, answer flushes."""
        self._wake.clear()
        self._idle = True  # before the look at the queue: what comes after it finds us idle and wakes us
        if not (self._queue or self._started or self._flush_asked > self._flush_answered or self._stop):
            self._wake.wait()
        self._idle = False
        asked = self._flush_asked
        if asked == self._flush_answered and not self._stop and len(self._queue) < self._batch_size:
            self._hurry.wait(self._window())
        self._hurry.clear()
        asked = self._flush_asked
        done = self._drain()
        with self._flushed:
            self._flush_answered, self._flush_ok = asked, done
            self._flushed.notify_all()

    def _window(self) -> float:
        if self._failing:
            return self._backoff
        return self._first_delay if self._written < _FIRST_SPANS else self._delay

    def _flush(self, timeout: float | None) -> bool:
        if not (self._queue or self._started or self._unwritten or self._thread):
            return True
        if not self._start_thread():
            return self._drain(timeout)
        with self._flushed:
            self._flush_asked += 1
            ticket = self._flush_asked
            self._idle = False
            self._wake.set()
            self._hurry.set()
            answered = self._flushed.wait_for(lambda: self._flush_answered >= ticket, timeout)
            return answered and self._flush_ok

    def _drain(self, timeout: float | None = None) -> bool:
        """Write everything queued. False: the disk refused, and it is kept for the next try."""
        if not self._write_lock.acquire(timeout=-1 if timeout is None else timeout):
            return False
        try:
            while (segment := self._unwritten or self._next_segment()) is not None:
                with self._dropped_lock:
                    dropped = self._dropped
                try:
                    path = self._sink.write(segment.payload, service=segment.service, dropped=dropped)
                except Exception as error:  # noqa: BLE001  whatever the disk says, the agent goes on
                    self._unwritten = segment
                    self._note_failure(error)
                    if self._ending:
                        self._note_loss()
                    return False
                self._unwritten = None
                self._written += segment.spans
                self._note_success(dropped)
                self._folds.wrote(path)
            self._sink.reserve.unsay()
            return True
        finally:
            self._write_lock.release()

    def _next_segment(self) -> _Segment | None:
        """Take from the queues and encode what fits one segment; None where there is nothing to write."""
        records: list[tuple[ReadableSpan, bytes]] = []
        size = spans = lost = 0
        for span, attributes in self._take_agents():
            if body := self._sink.encode(span, attributes):
                records.append((span, body))
                size += len(body)
        while size < SEGMENT_BYTES and spans < _SEGMENT_SPANS:
            try:
                span = self._queue.popleft()
            except IndexError:
                break
            spans += 1
            if spans % _SPANS_IN_A_ROW == 0:
                time.sleep(0)
            if body := self._sink.encode(span):
                records.append((span, body))
                size += len(body)
            else:
                lost += 1
        if lost:
            with self._dropped_lock:
                self._dropped += lost
        # At the end an empty segment may have to carry the count of lost spans.
        if not records and not (self._dropped and self._closed and self._service):
            return None
        if records:
            self._service = service_name(records[0][0])
        return _Segment(self._sink.request(records), spans - lost, self._service)

    def _take_agents(self) -> list[tuple[Span, dict[str, Any]]]:
        """The agents' spans among those that started and still run."""
        agents = []
        for _ in range(len(self._started)):
            try:
                span = self._started.popleft()
            except IndexError:
                break
            if span.end_time is None and span.get_span_context().trace_flags & 1:
                attributes = _snapshot(span)
                if any(attributes.get(key) in marks for key, marks in _AGENT_MARKS.items()):
                    agents.append((span, attributes))
        return agents

    def _note_failure(self, error: Exception) -> None:
        if not self._failing:
            _logger.warning("cannot write spans: %s. They are kept in memory and tried again", error)
        self._backoff = min(self._backoff * 2, _MAX_BACKOFF) if self._failing else max(self._delay, 0.1)
        self._failing = True

    def _note_success(self, dropped: int) -> None:
        if self._failing:
            _logger.warning("spans are written again")
            self._failing = False
        with self._dropped_lock:
            self._dropped -= dropped
            ends = self._losing and not self._dropped and not self._closed
            if ends:
                self._losing = False
        if ends:
            _logger.warning("%d spans were dropped; from here on they are recorded again", dropped)

    def _finish(self, seconds: float) -> None:
        """Write, then fold, within `seconds`."""
        deadline = time.monotonic() + seconds
        self._ending = True
        try:
            if self._flush(seconds):
                self._sink.reserve.close()
            else:
                waiting = self._waiting()
                if waiting:
                    _logger.warning("%d spans could not be written to %s", waiting, self._sink.spool.path)
            self._folds.finish(min(EXIT_SECONDS, max(deadline - time.monotonic(), 0)))
        except Exception:
            _logger.exception("spans could not be written or folded at the end")

    def _waiting(self) -> int:
        return len(self._queue) + (self._unwritten.spans if self._unwritten else 0)

    def _note_loss(self) -> None:
        """What is lost if this was the last try; one that succeeds unsays it."""
        if self._unwritten is not None:
            self._sink.note_loss(self._waiting() + self._dropped, self._unwritten.service)

    def _at_exit(self) -> None:
        # No shutdown: handlers that run later may still end spans, and the provider's shuts down.
        if not self._closed:
            self._finish(2 * EXIT_SECONDS)

    def _after_fork(self) -> None:
        """In a child: its parent writes what is queued; locks may be held by threads that are gone."""
        self._reset()
        self._sink.reserve.forked()
        self._folds.after_fork()


def _snapshot(span: Span) -> dict[str, Any]:
    """A copy of a running span's attributes, which the agent may be changing."""
    attributes: Mapping[str, Any] = span.attributes or {}
    for _ in range(3):
        try:
            return dict(attributes)
        except (RuntimeError, KeyError):
            continue
    return {}


def _call_at_child_exit(processor: DuckDBSpanProcessor) -> None:
    """Children of multiprocessing leave by os._exit, without exit handlers: use its own."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(processor, DuckDBSpanProcessor._at_exit, args=(processor,), exitpriority=0)
