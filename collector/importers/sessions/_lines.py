"""Session files line by line: a bad line is left out and counted, the others come in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from .._report import SkipList

__all__ = ["Entry", "Line", "Lines", "parse_line"]

_CHUNK = 1 << 20
# The longest line, in bytes. Python needs up to 20 times as much for what is in it.
MAX_LINE = 64 << 20
_BOM = b"\xef\xbb\xbf"


class Entry(Protocol):
    """A value of a file, and where it stood."""

    @property
    def value(self) -> Any: ...
    @property
    def where(self) -> str: ...
    @property
    def array(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Line:
    """An object or list that stands on a line."""

    value: Any
    number: int  # from 1
    array: int | None = None

    @property
    def where(self) -> str:
        return f"line {self.number}"


class Lines:
    """The objects of a file in JSON lines. `read(size)` gives the next bytes, b'' at the end."""

    def __init__(self, read: Callable[[int], bytes], skipped: SkipList) -> None:
        self._read = read
        self._skipped = skipped
        self.good = 0
        self.bad = 0

    def __iter__(self) -> Iterator[Line]:
        number = 0
        for raw in self._raw():
            number += 1
            if raw is None:
                self._skip(number, f"longer than {MAX_LINE >> 20} MiB")
                continue
            if not raw.strip():
                continue
            value = parse_line(raw)
            if isinstance(value, dict | list):
                self.good += 1
                yield Line(value, number)
            else:
                self._skip(number, value or "neither an object nor a list")

    def _skip(self, number: int, why: str) -> None:
        self.bad += 1
        self._skipped.add(f"line {number}", why)

    def _raw(self) -> Iterator[bytes | None]:
        """Every line without its end; None for one that is too long to be held."""
        held: list[bytes] = []
        size = 0
        while data := self._read(_CHUNK):
            *whole, rest = data.split(b"\n")
            for piece in whole:
                yield None if size + len(piece) > MAX_LINE else b"".join([*held, piece])
                held, size = [], 0
            size += len(rest)
            if size <= MAX_LINE:
                held.append(rest)
            else:
                held = []
        if size:
            yield None if size > MAX_LINE else b"".join(held)


def parse_line(raw: bytes) -> dict[str, Any] | list[Any] | str | None:
    """The object or list on a line; a text says why it is not JSON; None: another value."""
    try:
        value = json.loads(raw.removeprefix(_BOM).decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"not UTF-8 text ({error.reason})"
    except json.JSONDecodeError as error:
        return f"not valid JSON ({error.msg.lower().removesuffix(' at')}): cut off or damaged"
    except RecursionError:
        return "nested too deeply to be read"
    except ValueError:
        return "holds a number too long to be read"
    return value if isinstance(value, dict | list) else None
