"""Messages between two processes of this package, over a pair of sockets.

The columns of Arrow tables go beside a message, as they lie in memory: 2 µs a span, pickled 6. They are
received into memory of their own, which goes back to the system with them. Blocks of megabytes between the
small ones of the heap left more and more of it in pieces: 70 MB after a backlog of a million spans.
"""

from __future__ import annotations

import mmap
import pickle
import socket
import struct
from typing import Any

__all__ = ["Talk"]

_SOCKET_BYTES = 4 << 20  # that may be under way: less wakes both sides up more often
_PIECES_AT_ONCE = 512  # systems take 1,024
_ALIGNED = 64  # Arrow's functions want columns to begin at multiples of eight
_COUNT = struct.Struct("<QQ")


class Talk:
    """One end of the pair. Both are to be programs of this package: what comes is unpickled."""

    def __init__(self, end: socket.socket) -> None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        self._end = end

    def close(self) -> None:
        """Let the other side know that nothing comes any more."""
        self._end.close()

    def say(self, message: Any) -> None:
        """Send a message.

        Raises:
            OSError: the other side is gone.
            PicklingError, TypeError, AttributeError: it cannot be sent, and nothing of it was.
        """
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
        columns = [buffer.raw() for buffer in buffers]
        sizes = struct.pack(f"<{len(columns)}Q", *map(len, columns))
        pieces = [memoryview(_COUNT.pack(len(head), len(columns)) + sizes), memoryview(head)]
        for column in columns:
            pieces += [column, memoryview(bytes(-len(column) % _ALIGNED))]
        at = 0
        while at < len(pieces):
            sent = self._end.sendmsg(pieces[at : at + _PIECES_AT_ONCE])
            while at < len(pieces) and sent >= len(pieces[at]):
                sent -= len(pieces[at])
                at += 1
            if sent:
                pieces[at] = pieces[at][sent:]

    def heard(self) -> Any:
        """The next message. Raises EOFError, OSError where the other side is gone."""
        length, count = _COUNT.unpack(self._read(bytearray(_COUNT.size)))
        sizes = struct.unpack(f"<{count}Q", self._read(bytearray(8 * count)))
        head = self._read(bytearray(length))
        whole = sum(size + -size % _ALIGNED for size in sizes)
        columns = self._read(mmap.mmap(-1, whole)) if whole else memoryview(b"")
        buffers = []
        at = 0
        for size in sizes:
            buffers.append(columns[at : at + size])
            at += size + -size % _ALIGNED
        return pickle.loads(head, buffers=buffers)  # noqa: S301  said by this very module

    def _read(self, buffer: bytearray | mmap.mmap) -> memoryview:
        """Fill it."""
        view = memoryview(buffer)
        at = 0
        while at < len(view):
            got = self._end.recv_into(view[at:])
            if not got:
                raise EOFError
            at += got
        return view
