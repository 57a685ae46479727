"""One fsync for all requests that arrived meanwhile.

A segment costs about two fsyncs whatever its size. While one is written, requests gather; they
then go into the next one together. A lone request waits for nothing.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from ._spool import Signal, Spool

__all__ = ["GroupCommit", "OverloadedError"]

_SEGMENT_BYTES = 16 << 20


class OverloadedError(Exception):
    """More bytes wait for the disk than may be held in memory."""


@dataclass(slots=True)
class _Waiting:
    signal: Signal
    payload: bytes
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
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="loopscope-spool")
        self._last: Future[None] | None = None  # the writer's present run; None: it has nothing to do

    def submit(self, signal: Signal, payload: bytes) -> Future[None]:
        """A future that is done when the payload is durable, or holds what `Spool.write` raised.

        Raises OverloadedError.
        """
        item = _Waiting(signal, payload)
        item.done.set_running_or_notify_cancel()  # from here on it cannot be called back
        with self._lock:
            if self._waiting and self._bytes + len(payload) > self._max_waiting_bytes:
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
            try:
                self._spool.write(
                    [(item.signal, item.payload) for item in group], meta={"writer": "receiver"}
                )
            except Exception as error:  # noqa: BLE001  each request is told
                trouble = error
            with self._lock:
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
