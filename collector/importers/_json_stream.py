"""JSON values out of a byte stream, one at a time.

One reader serves JSON lines, objects written back to back (pretty printed or not) and one big
array, whose elements come singly: memory is bounded by the biggest value, not by the file. A big object
that holds its entries in a list, as many exports do, comes once for each entry.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ._report import FormatError

__all__ = ["JsonValue", "json_values"]

# The longest single value, in characters. Python needs up to 20 bytes for each in the worst case.
MAX_VALUE = 64 << 20
_CHUNK = 1 << 20
# An object longer than this is given in pieces, if one of these members is a list: several formats hold
# all that they have in one object, and a piece is the same object with one entry in its list.
_SPLIT_FROM = 16 << 20
_ENTRY_LISTS = frozenset(
    (
        *("samples", "simulations", "data", "runs", "traces", "observations"),
        *("resourceSpans", "resource_spans", "resourceLogs", "resource_logs"),
    )
)
_SPACE = re.compile(r"[ \t\r\n]*")
# An error this near to the end of what was read may only mean that the value goes on.
_NEAR_END = 16
_HALF_ESCAPE = re.compile(r"\\?u?[0-9A-Fa-f]{0,3}")
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value and where it stood."""

    value: Any
    line: int  # from 1: the line on which it begins
    array: int | None  # which top-level array it is an element of, from 1; None: it stands alone
    index: int  # from 1: ordinal inside that array, or among the values that stand alone
    size: int  # characters
    frame: str = ""  # where the text stands that holds it, if it is not the file itself

    @property
    def where(self) -> str:
        if self.frame:
            return self.frame
        return f"entry {self.index} (line {self.line})" if self.array else f"line {self.line}"


def json_values(read: Callable[[int], bytes]) -> Iterator[JsonValue]:
    """The values of a stream. `read(size)` gives the next bytes, b'' at the end.

    Top-level arrays are taken apart. Raises FormatError, with the line, where the text is not UTF-8
    (UTF-16 with a byte order mark is read too), not JSON, cut off, or too deep or too long to read.
    What follows its list of entries is left out of an object that is given in pieces.
    """
    text = _Text(read)
    alone = arrays = 0
    while text.skip_space():
        if text.peek() == "[":
            arrays += 1
            for index, (value, line, size) in enumerate(_elements(text), 1):
                yield JsonValue(value, line, arrays, index, size)
        else:
            alone += 1
            line = text.line
            try:
                value, size = text.value(split=text.peek() == "{")
            except _LongObjectError:
                yield from _pieces(text, alone)
                continue
            text.note_layout(line)
            yield JsonValue(value, line, None, alone, size)


def _pieces(text: _Text, alone: int) -> Iterator[JsonValue]:
    """The object that begins here, once for each entry of its lists; whole if it has none."""
    opened = text.line
    begun = f"the value that begins on line {opened}"
    text.take()
    members: dict[str, Any] = {}
    held = 0
    first, split = True, False
    while True:
        if not text.skip_space():
            raise _cut_off(begun)
        if first and text.peek() == "}":
            break
        first = False
        key, _ = text.value()
        if not isinstance(key, str) or not text.skip_space() or text.peek() != ":":
            raise FormatError(f"not valid JSON (in {begun})", where=f"line {text.line}")
        text.take()
        if not text.skip_space():
            raise _cut_off(begun)
        if key in _ENTRY_LISTS and text.peek() == "[":
            for index, (entry, line, size) in enumerate(_elements(text), 1):
                split = True
                frame = f"{key} {index} (line {line})"
                yield JsonValue({**members, key: [entry]}, line, None, alone, size, frame)
        else:
            members[key], size = text.value()
            held += size
            if held > MAX_VALUE:
                raise _too_long(opened)
        if not text.skip_space():
            raise _cut_off(begun)
        mark = text.peek()
        if mark == "}":
            break
        if mark != ",":
            raise FormatError(f"expected ',' or '}}', found {mark!r} (in {begun})", where=f"line {text.line}")
        text.take()
    text.take()
    if not split:
        yield JsonValue(members, opened, None, alone, held)


def _elements(text: _Text) -> Iterator[tuple[Any, int, int]]:
    opened = text.line
    text.take()
    first = True
    while True:
        if not text.skip_space():
            raise _cut_off(f"a list that begins on line {opened}")
        if first and text.peek() == "]":
            text.take()
            return
        first = False
        line = text.line
        value, size = text.value()
        yield value, line, size
        if not text.skip_space():
            raise _cut_off(f"a list that begins on line {opened}")
        mark = text.peek()
        if mark not in ",]":
            raise FormatError(f"expected ',' or ']' in a list, found {mark!r}", where=f"line {text.line}")
        text.take()
        if mark == "]":
            return


class _LongObjectError(Exception):
    """An object that is long, and not read to its end."""


class _Text:
    """A window on the decoded text: `_text[_at:]` is read and not consumed."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._text = ""
        self._at = 0
        self._ended = False
        self._bytes = 0
        self._decoder: codecs.IncrementalDecoder | None = None
        self._json = json.JSONDecoder()
        self._by_line = False
        self.line = 1

    def peek(self) -> str:
        return self._text[self._at]

    def take(self) -> None:
        self._at += 1

    def skip_space(self) -> bool:
        """Go to the next character that is no white space; False at the end of the stream."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._advance(match.end() if match else self._at)
            if self._at < len(self._text):
                return True
            if not self._fill(_CHUNK):
                return False

    def value(self, *, split: bool = False) -> tuple[Any, int]:
        """The value that begins here, and its length.

        Raises _LongObjectError, having consumed nothing, if it may be `split` and is long.
        """
        while True:
            start = self._at
            try:
                value, end = self._json.raw_decode(self._text, start)
            except RecursionError:
                raise FormatError("nested too deeply to be read", where=f"line {self.line}") from None
            except json.JSONDecodeError as error:
                self._check_line(start)
                unfinished = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _NEAR_END
                if unfinished:
                    if split and len(self._text) - start > _SPLIT_FROM:
                        raise _LongObjectError from None
                    if self._grow():
                        continue
                raise self._bad(error, unfinished) from None
            except ValueError:  # an integer with thousands of digits
                raise FormatError("holds a number too long to be read", where=f"line {self.line}") from None
            if end == len(self._text) and self._text[end - 1] not in '}]"' and self._grow():
                continue  # a number that may go on
            self._advance(end)
            return value, end - start

    def note_layout(self, begun: int) -> None:
        """Called after a value that stands alone: one that has its line for itself makes this JSON lines."""
        rest = self._text[self._at : self._at + 2]
        self._by_line = self._by_line or (begun == self.line and rest.startswith(("\n", "\r\n")))

    def _check_line(self, start: int) -> None:
        """In JSON lines a value that is not whole at the end of its line is cut off there.

        Without this the next line could be taken for its continuation. A line of a bracket or two begins
        a value that is printed over several lines.
        """
        end = self._text.find("\n", start)
        if self._by_line and end >= 0 and len(self._text[start:end].rstrip()) > 2:
            raise FormatError(
                "not valid JSON: the line is cut off or damaged",
                where=f"line {self.line}",
                hint="mend or remove it and import again",
            )

    def _grow(self) -> bool:
        held = len(self._text) - self._at
        if held > MAX_VALUE:
            raise _too_long(self.line)
        # Twice as much each time: a value is scanned again from its start, so this keeps it linear.
        return self._fill(max(_CHUNK, held))

    def _fill(self, size: int) -> bool:
        """Read on; False if there is no more. Forgets what was consumed."""
        if self._ended:
            return False
        parts = [self._text[self._at :]]
        self._at = 0
        wanted = size
        while wanted > 0 and not self._ended:
            data = self._read(min(wanted, _CHUNK))
            self._ended = not data
            parts.append(self._decode(data))
            wanted -= len(data)
        before = len(parts[0])
        self._text = "".join(parts)
        return len(self._text) > before

    def _decode(self, data: bytes) -> str:
        if self._decoder is None:
            utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            self._decoder = codecs.getincrementaldecoder("utf-16" if utf16 else "utf-8-sig")()
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise FormatError(
                f"not UTF-8 text ({error.reason})", where=f"near byte {self._bytes + error.start:,}"
            ) from None
        self._bytes += len(data)
        return text

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end

    def _bad(self, error: json.JSONDecodeError, unfinished: bool) -> FormatError:
        if self._ended and unfinished and self._is_cut_off(error):
            return _cut_off(f"the value that begins on line {self.line}")
        line = self.line + self._text.count("\n", self._at, error.pos)
        begun = f", in the value that begins on line {self.line}" if line != self.line else ""
        return FormatError(
            f"not valid JSON ({error.msg.lower().removesuffix(' at')}{begun})",
            where=f"line {line}",
            hint="mend or remove it and import again",
        )

    def _is_cut_off(self, error: json.JSONDecodeError) -> bool:
        rest = self._text[error.pos :].rstrip()
        if not rest or error.msg.startswith("Unterminated"):
            return True
        return _HALF_ESCAPE.fullmatch(rest) is not None or any(word.startswith(rest) for word in _WORDS)


def _too_long(line: int) -> FormatError:
    return FormatError(
        f"one JSON value of more than {MAX_VALUE >> 20} million characters",
        where=f"line {line}",
        hint="write one request or conversation a line (JSON lines)",
    )


def _cut_off(what: str) -> FormatError:
    return FormatError(f"cut off in {what}", where="at the end of the file", hint="copy or export it again")
