"""One fsync for all requests that arrived meanwhile.

A segment costs about two fsyncs whatever its size. While one is written, requests gather; they
then go into the next one together. A lone request waits for nothing.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ._spool import Signal, Spool

__all__ = ["GroupCommit", "OverloadedError"]

_SEGMENT_BYTES = 16 << 20


class OverloadedError(Exception):
    """More bytes wait for the disk than may be held in memory."""


@dataclass(slots=True)
class _Waiting:
    signal: Signal
    payload: bytes
    rejected: int  # records of the request that cannot be kept
    done: Future[None] = field(default_factory=Future)


class GroupCommit:
    """Writes payloads to the spool, for any number of threads and event loops.

    Args:
        spool: where to.
        max_waiting_bytes: beyond it `submit` raises OverloadedError at once.
    """

    def __init__(self, spool: Spool, max_waiting_bytes: int) -> None:
        self._spool = spool
        self._max_waiting_bytes = max_waiting_bytes
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._refused = 0  # requests, since the segment before
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="loopscope-spool")
        self._last: Future[None] | None = None  # the writer's present run; None: it has nothing to do

    def submit(self, signal: Signal, payload: bytes, rejected: int = 0) -> Future[None]:
        """A future that is done when the payload is durable, or holds what `Spool.write` raised.

        `rejected` records of the request were left out; they are counted once the rest is durable.
        Raises OverloadedError.
        """
        item = _Waiting(signal, payload, rejected)
        item.done.set_running_or_notify_cancel()  # from here on it cannot be called back
        with self._lock:
            if self._waiting and self._bytes + len(payload) > self._max_waiting_bytes:
                self._refused += 1
                raise OverloadedError
            self._waiting.append(item)
            self._bytes += len(payload)
            if self._last is None:
                self._last = self._writer.submit(self._write_all)
        return item.done

    def close(self) -> None:
        """Wait for what is being written."""
        with self._lock:
            last = self._last
        if last is not None:
            last.result()

    def _write_all(self) -> None:
        while group := self._next_group():
            trouble: Exception | None = None
            refused = self._refused
            try:
                self._spool.write([(item.signal, item.payload) for item in group], meta=_meta(group, refused))
            except Exception as error:  # noqa: BLE001  each request is told
                trouble = error
            with self._lock:
                self._refused += -refused if trouble is None else len(group)
                self._bytes -= sum(len(item.payload) for item in group)
            for item in group:
                if trouble is None:
                    item.done.set_result(None)
                else:
                    item.done.set_exception(trouble)

    def _next_group(self) -> list[_Waiting]:
        size = count = 0
        with self._lock:
            for item in self._waiting:
                if count and size + len(item.payload) > _SEGMENT_BYTES:
                    break
                size += len(item.payload)
                count += 1
            group, self._waiting = self._waiting[:count], self._waiting[count:]
            if not group:
                self._last = None
        return group


def _meta(group: list[_Waiting], refused: int) -> dict[str, Any]:
    """What a segment says beside its payloads; the counts end up in the database (see `Spool.write`)."""
    meta: dict[str, Any] = {"writer": "receiver", "service": "OTLP receiver"}
    if refused:
        meta["refused_requests"] = refused
    for signal, name in (("traces", "dropped_spans"), ("logs", "dropped_logs")):
        if rejected := sum(item.rejected for item in group if item.signal == signal):
            meta[name] = rejected
    return meta
