"""A report before it has a format: headings, paragraphs, tables, texts.

Our own words are plain `str`. What comes from a trace is `Quoted` or `Code`; the two writers show it as
text whatever it holds. A sentence may hold names between `quote` marks (see `inline`).
"""

from __future__ import annotations

from dataclasses import dataclass

from .._text import cut, visible

__all__ = [
    "SYMBOLS",
    "WORDS",
    "Block",
    "Code",
    "Document",
    "Fields",
    "Heading",
    "Inline",
    "Marks",
    "Paragraph",
    "Quoted",
    "Table",
    "Verdict",
    "inline",
    "quote",
]

_OPEN, _CLOSE = "\x02", "\x03"  # cannot be in a visible text


@dataclass(frozen=True, slots=True)
class Quoted:
    """A short text of a trace, inside a line."""

    text: str
    limit: int = 200

    @property
    def shown(self) -> str:
        """One line with everything unseen made visible, and a note where it is cut."""
        text, note = cut(visible(self.text), self.limit)
        return text if note is None else f"{text}… ({note})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guard would have done about a call."""

    action: str


Inline = str | Quoted | Verdict | tuple["str | Quoted | Verdict", ...]

SYMBOLS = {"allow": "·", "nudge": "▲", "block": "■", "not_counted": "○", "after_block": "□"}
WORDS = {
    "allow": "allowed",
    "nudge": "nudged",
    "block": "blocked",
    "not_counted": "not counted",
    "after_block": "after the block",
}


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: Inline


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: Inline
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and values."""

    rows: tuple[tuple[str, Inline], ...]


@dataclass(frozen=True, slots=True)
class Table:
    header: tuple[str, ...]
    rows: tuple[tuple[Inline, ...], ...]
    numbers: frozenset[int] = frozenset()  # columns that hold figures
    faint: frozenset[int] = frozenset()  # rows that are not the subject


@dataclass(frozen=True, slots=True)
class Marks:
    """One mark per call, in order."""

    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """A text of a trace, with its lines; or a command of ours."""

    text: str
    note: str | None = None


Block = Heading | Paragraph | Fields | Table | Marks | Code


@dataclass(frozen=True, slots=True)
class Document:
    title: str  # with `quote` marks
    blocks: tuple[Block, ...]


def quote(name: str) -> str:
    """Mark a name inside a sentence as a trace's."""
    return f"{_OPEN}{name}{_CLOSE}"


def inline(sentence: str) -> Inline:
    """A sentence with its quoted names taken apart."""
    parts: list[str | Quoted | Verdict] = []
    for piece in sentence.split(_OPEN):
        name, closed, rest = piece.partition(_CLOSE)
        if closed:
            parts.append(Quoted(name))
            piece = rest  # noqa: PLW2901
        if piece:
            parts.append(piece)
    return tuple(parts)
