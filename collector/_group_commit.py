"""One fsync for all requests that arrived meanwhile.

A segment costs about two fsyncs whatever its size. While one is written, requests gather; they
then go into the next one together. A lone request waits for nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ._spool import Signal, Spool

__all__ = ["GroupCommit", "OverloadedError"]

_SEGMENT_BYTES = 16 << 20


class OverloadedError(Exception):
    """More bytes wait for the disk than may be held in memory."""


@dataclass(slots=True)
class _Waiting:
    signal: Signal
    payload: bytes
    done: asyncio.Future[None]


class GroupCommit:
    """Writes payloads to the spool, from one event loop.

    Args:
        spool: where to.
        max_waiting_bytes: beyond it `commit` raises OverloadedError at once.
    """

    def __init__(self, spool: Spool, max_waiting_bytes: int) -> None:
        self._spool = spool
        self._max_waiting_bytes = max_waiting_bytes
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None

    async def commit(self, signal: Signal, payload: bytes) -> None:
        """Return when the payload is durable. Raises what `Spool.write` raised, or OverloadedError."""
        if self._bytes + len(payload) > self._max_waiting_bytes and self._waiting:
            raise OverloadedError
        item = _Waiting(signal, payload, asyncio.get_running_loop().create_future())
        self._waiting.append(item)
        self._bytes += len(payload)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        await item.done

    async def close(self) -> None:
        """Wait for what is being written."""
        if self._writer is not None:
            await self._writer

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                group = self._next_group()
                trouble: Exception | None = None
                try:
                    await asyncio.to_thread(
                        self._spool.write,
                        [(item.signal, item.payload) for item in group],
                        meta={"writer": "receiver"},
                    )
                except Exception as error:  # noqa: BLE001  each request is told
                    trouble = error
                for item in group:
                    self._bytes -= len(item.payload)
                    if item.done.done():
                        continue  # its client has gone
                    if trouble is None:
                        item.done.set_result(None)
                    else:
                        item.done.set_exception(trouble)
        finally:
            self._writer = None

    def _next_group(self) -> list[_Waiting]:
        size = count = 0
        for item in self._waiting:
            if count and size + len(item.payload) > _SEGMENT_BYTES:
                break
            size += len(item.payload)
            count += 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group
