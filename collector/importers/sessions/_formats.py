"""Which session format a file is of, and reading it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from .._otlp import Part
from .._report import FormatError, NotATraceError, SkipList
from . import _claude_code, _codex, _gemini, _pi
from ._exchanges import Exchanges
from ._lines import Entry, Lines, parse_line
from ._model import Sink
from ._notations import ANTHROPIC, RESPONSES, tells_anthropic, tells_other, tells_responses

__all__ = ["SESSION_FORMATS", "SessionFormat", "session_format", "tell_lines", "tell_values"]

_HEADS = (64 << 10, 1 << 20, 16 << 20)
# How far to look for what tells a format, where the first lines could be anybody's.
_LOOK_AHEAD = 500
_BAD_LINES = 3
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f]")  # in no text: what looks like lines stands in something else


class _Reader(Protocol):
    known: int  # values that are of the format

    def feed(self, line: Entry) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SessionFormat:
    """One format of session files."""

    name: str
    matches_line: Callable[[dict[str, Any]], bool]  # an object that stands on a line
    matches_file: Callable[[Any], bool]  # the first value of a file that is not JSON lines
    reader: Callable[[Sink, SkipList], _Reader]

    def of_lines(
        self, read: Callable[[int], bytes], skipped: SkipList, path: Path | None = None
    ) -> Iterator[Part]:
        """The requests of a file in JSON lines. A bad line is left out; if all are, FormatError.

        `path`: where the file lies, for formats that spread a session over several.
        """
        lines = Lines(read, skipped)
        yield from self._parts(lines, skipped, path)
        if not lines.good and lines.bad:
            raise FormatError(f"none of its {lines.bad:,} lines can be read", hint="copy or export it again")

    def of_values(self, values: Iterable[Entry], skipped: SkipList) -> Iterator[Part]:
        """The requests of a file of JSON values in any arrangement."""
        yield from self._parts(values, skipped)

    def _parts(self, entries: Iterable[Entry], skipped: SkipList, path: Path | None = None) -> Iterator[Part]:
        sink = Sink()
        reader = self.reader(sink, skipped)
        if path is not None and isinstance(reader, _claude_code.ClaudeCode):
            reader.lies_at(path)
        seen = 0
        for entry in entries:
            seen += 1
            reader.feed(entry)
            yield from sink.take()
        reader.finish()
        yield from sink.take()
        if seen and not reader.known:
            raise NotATraceError(f"nothing in it is of the format {self.name}")
        if seen and not sink.spans:
            skipped.add("the whole file", "no request to a model in it")


SESSION_FORMATS: tuple[SessionFormat, ...] = (
    SessionFormat("claude-code", _claude_code.matches, lambda _: False, _claude_code.ClaudeCode),
    SessionFormat("codex", _codex.matches, lambda _: False, _codex.Codex),
    SessionFormat("gemini-cli", _gemini.matches, _gemini.matches_file, _gemini.Gemini),
    SessionFormat("pi", _pi.matches, lambda _: False, _pi.Pi),
    SessionFormat("anthropic", ANTHROPIC.matches, ANTHROPIC.matches, partial(Exchanges, ANTHROPIC)),
    SessionFormat("openai-responses", RESPONSES.matches, RESPONSES.matches, partial(Exchanges, RESPONSES)),
)
_BY_NAME = {format.name: format for format in SESSION_FORMATS}


def session_format(name: str) -> SessionFormat | None:
    """The format of this name, None for others."""
    return _BY_NAME.get(name)


def tell_lines(peek: Callable[[int], bytes], wanted: SessionFormat | None = None) -> SessionFormat | None:
    """The format of a file in JSON lines, from its first lines; None: not JSON lines, or not ours.

    `wanted`: the one that the user named; then more of the first lines may be bad.
    """
    for size in _HEADS:
        head = peek(size)
        *lines, rest = head.split(b"\n", _LOOK_AHEAD)
        if len(head) < size:
            lines.append(rest)
        if lines or len(head) < size:
            return _tell(lines, _LOOK_AHEAD if wanted is not None else _BAD_LINES)
    return None


def _tell(lines: list[bytes], most_bad: int) -> SessionFormat | None:
    bad = 0
    for raw in lines:
        line = raw.removeprefix(b"\xef\xbb\xbf").strip()
        if not line:
            continue
        # The beginning of a value that is printed over several lines.
        if line.startswith(b"[") or (line.startswith(b"{") and line.endswith((b"{", b"[", b","))):
            return None
        value = parse_line(line)
        if not isinstance(value, dict):
            bad += 1
            if bad > most_bad or _CONTROL.search(line):
                return None
            continue
        for format in SESSION_FORMATS:
            if format.matches_line(value):
                return format
        if tells_other(value) or not ("role" in value or "type" in value):
            return None
    return None


def tell_values(values: list[Any]) -> SessionFormat | None:
    """The format of a file whose first values are these."""
    for format in SESSION_FORMATS:
        if values and format.matches_file(values[0]):
            return format
    # Messages without blocks could be anybody's; a later one tells.
    for value in values[:_LOOK_AHEAD]:
        if tells_other(value):
            return None
        if tells_anthropic(value):
            return _BY_NAME[ANTHROPIC.name]
        if tells_responses(value):
            return _BY_NAME[RESPONSES.name]
    return None
