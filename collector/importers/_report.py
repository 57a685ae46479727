"""What an import says about each file, and about all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...guard import ImportFileError

__all__ = [
    "MAX_SKIPPED",
    "Counts",
    "FileReport",
    "FormatError",
    "ImportReport",
    "NotATraceError",
    "SkipList",
    "Skipped",
    "printable",
    "shorten",
]

# A hostile file may hold a million bad entries; the first ones tell the story, the rest is a number.
MAX_SKIPPED = 100


class FormatError(Exception):
    """A file is not what it should be. Becomes an ImportFileError once the path is known."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.hint = what, where, hint

    def for_path(self, path: Path) -> ImportFileError:
        """One line: which file, where in it, what is wrong, what to do."""
        place = f"{path}: {self.where}: " if self.where else f"{path}: "
        hint = f"; {self.hint}" if self.hint else ""
        text = f"{place}{self.what}{hint} (nothing of it was imported)"
        return ImportFileError(" ".join(printable(text).split()), path=str(path))


class NotATraceError(FormatError):
    """Nothing says that the file is a trace at all. In a folder such a file is left out, no error."""


class Skipped(NamedTuple):
    """Something of a file that did not come in."""

    where: str  # "line 3, message 7"; a path where a whole file of a folder was left out
    why: str


class SkipList:
    """Collects skips; keeps the first MAX_SKIPPED and counts the others."""

    def __init__(self) -> None:
        self._kept: list[Skipped] = []
        self._more = 0

    def add(self, where: str, why: str) -> None:
        if len(self._kept) < MAX_SKIPPED:
            self._kept.append(Skipped(printable(where), printable(why)))
        else:
            self._more += 1

    def __iter__(self) -> Iterator[Skipped]:
        yield from self._kept
        if self._more:
            yield Skipped("further on", f"{self._more:,} more of the like")


@dataclass(slots=True)
class Counts:
    """Numbers of an import."""

    runs: int = 0  # distinct runs that have a tool call or an LLM request
    calls: int = 0
    requests: int = 0
    spans: int = 0
    logs: int = 0


@dataclass(slots=True)
class FileReport(Counts):
    """What came out of one file.

    `spans` and `logs` are the records in the file. `runs`, `calls` and `requests` are what the
    store holds, once all is folded, for the traces that the file has records of.
    """

    path: Path = field(default_factory=Path)
    format: str | None = None  # what the file was taken for; None: it was not recognised
    skipped: list[Skipped] = field(default_factory=list)
    already_there: bool = False  # the store held all of it before; nothing changed
    error: ImportFileError | None = None  # set: nothing of this file was stored
    trace_ids: frozenset[str] = field(default_factory=frozenset, repr=False)  # hex; of its spans and logs

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(slots=True)
class ImportReport:
    """What `import_paths` did. `totals` count a trace, run or call once, however many files share it."""

    files: list[FileReport] = field(default_factory=list)
    totals: Counts = field(default_factory=Counts)
    skipped: list[Skipped] = field(default_factory=list)  # files of a folder that hold no trace

    @property
    def errors(self) -> list[ImportFileError]:
        """One for each file or folder that could not be imported, in order."""
        return [report.error for report in self.files if report.error is not None]

    @property
    def ok(self) -> bool:
        return not self.errors


def printable(text: str) -> str:
    """Text of a file's making, safe to print on a terminal: control characters become '?'."""
    return "".join(char if char.isprintable() or char == " " else "?" for char in text)


def shorten(values: Iterable[object], limit: int = 5) -> str:
    """A few values for a message: `'a', 'b', …`."""
    shown: list[str] = []
    for value in values:
        if len(shown) == limit:
            shown.append("…")
            break
        shown.append(repr(str(value)[:40]))
    return ", ".join(shown)
