"""DuckDBSpanExporter: for people who bring their own span processor, and for `opentelemetry-instrument`."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ._agent_fold import EXIT_SECONDS, AgentFold
from ._redact_rules import RedactionRules
from ._span_sink import SEGMENT_BYTES, SpanSink, service_name

__all__ = ["DuckDBSpanExporter"]

_logger = logging.getLogger(__name__)


class DuckDBSpanExporter(SpanExporter):
    """Writes spans to the spool of a database; a batch is on the disk when `export` returns.

        provider.add_span_processor(BatchSpanProcessor(DuckDBSpanExporter("traces.duckdb")))

    Without a line of code: `OTEL_TRACES_EXPORTER=loopscope opentelemetry-instrument python agent.py`.

    Args:
        path: the database file. None: `LOOPSCOPE_DB`, else traces.duckdb in the working directory.
        capture_content: whether arguments, results and messages are written. None: as
            `LOOPSCOPE_CAPTURE_CONTENT` says, on by default.
        redaction: values to replace before anything is written. None: as `LOOPSCOPE_REDACT` and its
            relatives say.

    Raises SpoolError where the spool folder cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        capture_content: bool | None = None,
        redaction: RedactionRules | None = None,
    ) -> None:
        self._sink = SpanSink(path, capture_content, redaction)
        self._folds = AgentFold(self._sink.db_path)
        self._closed = False
        self._lost = 0
        self._lost_lock = threading.Lock()
        self._service: str | None = None
        self_ref = weakref.ref(self)

        def after_fork() -> None:
            if exporter := self_ref():
                exporter._after_fork()

        def at_exit() -> None:
            if exporter := self_ref():
                exporter._note_loss()
                exporter._folds.finish(EXIT_SECONDS)

        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=after_fork)
        atexit.register(at_exit)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the batch. FAILURE: the spool refused; the SDK drops the batch, and the loss is counted."""
        if self._closed:
            return SpanExportResult.FAILURE
        try:
            self._export(spans)
        except Exception as error:  # noqa: BLE001  the agent goes on
            _logger.warning("%d spans are lost: %s", len(spans), error)
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Everything exported is on the disk already."""
        return True

    def shutdown(self) -> None:
        """Fold what is left into the database, or let a running server do so; five seconds at most."""
        if self._closed:
            return
        self._closed = True
        try:
            self._note_loss()
            self._sink.reserve.close()
            self._folds.finish(EXIT_SECONDS)
        except Exception:
            _logger.exception("spans could not be folded at the end")

    def _export(self, spans: Sequence[ReadableSpan]) -> None:
        records: list[tuple[ReadableSpan, bytes]] = []
        size = written = 0
        try:
            for position, span in enumerate(spans):
                if body := self._sink.encode(span):
                    records.append((span, body))
                    size += len(body)
                else:
                    self._count(1)
                if records and (size >= SEGMENT_BYTES or position == len(spans) - 1):
                    self._write(records)
                    written += len(records)
                    records, size = [], 0
        except Exception:
            self._count(len(spans) - written)
            raise

    def _write(self, records: Sequence[tuple[ReadableSpan, bytes]]) -> None:
        lost = self._lost
        self._service = service_name(records[0][0])
        segment = self._sink.write(self._sink.request(records), service=self._service, dropped=lost)
        self._count(-lost)
        self._sink.reserve.unsay()
        self._folds.wrote(segment)

    def _note_loss(self) -> None:
        """At the end: what no later segment will tell, it may be."""
        if self._lost:
            self._sink.note_loss(self._lost, self._service)

    def _count(self, lost: int) -> None:
        with self._lost_lock:
            self._lost += lost

    def _after_fork(self) -> None:
        self._lost_lock = threading.Lock()
        self._lost = 0
        self._sink.reserve.forked()
        self._folds.after_fork()
