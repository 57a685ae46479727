"""The notes a guard appends behind a tool's output, and how to take them off again."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ._exceptions import PolicyError
from ._templates import TEMPLATES, check_template, fill, read_template

__all__ = ["ABORT_MARKER", "GUIDANCE_MARKER", "Guidance", "strip_annotation"]

GUIDANCE_MARKER = "[DUPLICATE_CALL_GUIDANCE]"
ABORT_MARKER = "[DUPLICATE_CALL_ABORT]"
_MARKERS_START = "[DUPLICATE_CALL_"

_MAX_NOTE_CHARS = 4_000
_MAX_NOTES = 4  # stacked by guards around guards


@dataclass(frozen=True, slots=True)
class Guidance:
    """The wording of the notes. `{tool_name}` and `{count}` are filled in; `{count}` must be there.

    The marker line in front of a note is the guard's own. By the marker and the number a
    recorded note is told from other text, whatever the wording.

    Raises:
        PolicyError: a text without `{count}`, or one of more than 3,000 characters.
    """

    nudge: str
    block: str

    def __post_init__(self) -> None:
        for name, text in (("nudge", self.nudge), ("block", self.block)):
            check_template(name, text, "{count}", "the number of equal results")

    @classmethod
    def default(cls) -> Guidance:
        """Our own wording."""
        return _default_guidance()

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str]) -> Guidance:
        """Read `nudge.txt` and `block.txt`; for a file that is absent our own wording stays.

        Raises:
            PolicyError: the folder has neither file, or a file cannot be read or used.
        """
        own = cls.default()
        nudge = read_template(os.path.join(folder, "nudge.txt"))
        block = read_template(os.path.join(folder, "block.txt"))
        if nudge is None and block is None:
            raise PolicyError(f"{os.fspath(folder)}: no nudge.txt and no block.txt in this folder")
        try:
            return cls(own.nudge if nudge is None else nudge, own.block if block is None else block)
        except PolicyError as error:
            raise PolicyError(f"{os.fspath(folder)}: {error}") from None

    def nudge_note(self, tool_name: str, count: int) -> str:
        """The note for a call that repeats itself."""
        return f"{GUIDANCE_MARKER}\n" + fill(self.nudge, tool_name, {"count": str(count)})

    def block_note(self, tool_name: str, count: int) -> str:
        """The note for the call that ends a run."""
        return f"{ABORT_MARKER}\n" + fill(self.block, tool_name, {"count": str(count)})


@cache
def _default_guidance() -> Guidance:
    texts = [read_template(os.path.join(TEMPLATES, name)) for name in ("nudge.txt", "block.txt")]
    return Guidance(*(text or "" for text in texts))


def strip_annotation(text: str) -> tuple[str, Literal["nudge", "block"] | None]:
    """Take a recorded guard's note off the end of a result.

    A note is what the guard appends: a blank line, a marker line of its own, and a text of at
    most 4,000 characters that names a number and reaches to the end. Aura's notes have the
    same shape. It is found at the end of plain text, and at the end of the last string in
    JSON text (content blocks), where a block that holds nothing but the note goes as a whole.
    Everything in front of it stays as it was, character by character.

    Returns:
        (the result without notes, "block" or "nudge" or None for what they were)
    """
    found: Literal["nudge", "block"] | None = None
    if _MARKERS_START not in text:  # one look through a long text instead of two
        return text, found
    for _ in range(_MAX_NOTES):
        at = max(text.rfind(GUIDANCE_MARKER), text.rfind(ABORT_MARKER))
        shorter = _cut_plain(text, at) if at >= 0 else None
        if shorter is None and at >= 0:
            shorter = _cut_json(text, at)
        if shorter is None:
            break
        found = "block" if found == "block" or text.startswith(ABORT_MARKER, at) else "nudge"
        text = shorter
    return text, found


def _is_note(note: str) -> bool:
    return len(note) <= _MAX_NOTE_CHARS and re.search(r"\d", note) is not None


def _cut_plain(text: str, at: int) -> str | None:
    if not text.startswith("\n", text.index("]", at) + 1) or not _is_note(text[at:]):
        return None
    if text.endswith("\n\n", 0, at):
        return text[: at - 2]
    # An empty output whose blank line was trimmed on the way.
    return "" if not text[:at].strip() else None


_REST_OF_STRING = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
_SCALAR_MEMBER = r'\s*,\s*"\w{1,40}"\s*:\s*(?:null|true|false|-?\d{1,20}|\{\}|\[\]|"[\w/. -]{0,60}")'
_END_OF_BLOCK = re.compile(rf"(?:{_SCALAR_MEMBER})*\s*\}}")
_ENDS = re.compile(rf"(?:{_SCALAR_MEMBER}|\s*[\]}}])*\s*\Z")
_START_OF_BLOCK = re.compile(
    r'(?P<comma>,\s*)?\{(?:\s*"type"\s*:\s*"text"\s*,)?\s*"(?:text|content)"\s*:\s*"\Z'
)


def _cut_json(text: str, at: int) -> str | None:
    rest = _REST_OF_STRING.match(text, at, at + _MAX_NOTE_CHARS + 1)
    if rest is None or not text.startswith('"', rest.end()) or not _is_note(rest[0]):
        return None
    if not text.startswith("\\n", text.index("]", at) + 1):
        return None
    if text.endswith("\\n\\n", 0, at):
        start, end = at - 4, rest.end()
    else:
        block = _START_OF_BLOCK.search(text, max(0, at - 120), at)
        close = _END_OF_BLOCK.match(text, rest.end() + 1)
        if block is None or close is None:
            return None
        start, end = block.start(), close.end()
    if _ENDS.match(text, end + 1 if text[end] == '"' else end) is None:
        return None
    shorter = text[:start] + text[end:]
    try:
        json.loads(shorter)
    except (ValueError, RecursionError):
        return None
    return shorter
