"""Memory of processes. All figures are bytes; benchmarks print MB of 10^6 bytes."""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path
from typing import Literal

__all__ = ["Meter", "memory_of", "peak_memory"]

_STEP_SECONDS = 0.02
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


def peak_memory() -> int:
    """The most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def memory_of(pid: int, what: Literal["VmRSS", "VmHWM"] = "VmRSS") -> int:
    """Memory of a process now, or ("VmHWM") the most so far; 0 if it is gone. Linux only."""
    try:
        for text in Path(f"/proc/{pid}/status").read_text().splitlines():
            if text.startswith(f"{what}:"):
                return int(text.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Meter:
    """Watches the memory of a process and of all that it started. Linux only."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> int:
        """The most that they held together."""
        self._ended.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._ended.wait(_STEP_SECONDS):
            # Alone, a process says itself what its peak was; together, what is seen counts.
            now = sum(memory_of(pid) for pid in _family(self._pid))
            self._peak = max(self._peak, now, memory_of(self._pid, "VmHWM"))


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                found += map(int, Path(f"/proc/{one}/task/{task}/children").read_text().split())
        except OSError:
            continue
    return found
