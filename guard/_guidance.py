"""The notes a guard appends behind a tool's output, and how to take them off again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from ._exceptions import PolicyError

__all__ = ["ABORT_MARKER", "GUIDANCE_MARKER", "Guidance", "strip_annotation"]

GUIDANCE_MARKER = "[DUPLICATE_CALL_GUIDANCE]"
ABORT_MARKER = "[DUPLICATE_CALL_ABORT]"

_TEMPLATES = Path(__file__).parent / "templates"
_PLACEHOLDER = re.compile(r"\{(tool_name|count)\}")


@dataclass(frozen=True, slots=True)
class Guidance:
    """The wording of the notes. `{tool_name}` and `{count}` are filled in.

    The marker line in front of each note is the guard's own, so that a recorded note is
    recognised whatever the wording.
    """

    nudge: str
    block: str

    @classmethod
    def from_folder(cls, folder: str | PathLike[str]) -> Guidance:
        """Read `nudge.txt` and `block.txt`; a file that is absent leaves our own wording.

        Raises:
            PolicyError: the folder holds neither file, or one that cannot be read.
        """
        texts: dict[str, str] = {}
        for name in ("nudge", "block"):
            path = Path(folder) / f"{name}.txt"
            try:
                texts[name] = path.read_text(encoding="utf-8").strip()
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise PolicyError(f"{path}: cannot be read: {error}") from None
        if not texts:
            raise PolicyError(f"{Path(folder)}: no nudge.txt and no block.txt in this folder")
        return cls(**{**_own_texts(), **texts})

    @classmethod
    def default(cls) -> Guidance:
        """Our own wording."""
        return cls(**_own_texts())

    def nudge_note(self, tool_name: str, count: int) -> str:
        """The note for a call that repeats itself."""
        return f"{GUIDANCE_MARKER}\n{_fill(self.nudge, tool_name, count)}"

    def block_note(self, tool_name: str, count: int) -> str:
        """The note for the call that ends a run."""
        return f"{ABORT_MARKER}\n{_fill(self.block, tool_name, count)}"


def _own_texts() -> dict[str, str]:
    return {
        name: (_TEMPLATES / f"{name}.txt").read_text(encoding="utf-8").strip() for name in ("nudge", "block")
    }


def _fill(template: str, tool_name: str, count: int) -> str:
    values = {"tool_name": tool_name, "count": str(count)}
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def strip_annotation(text: str) -> tuple[str, Literal["nudge", "block"] | None]:
    """Take a guard's note off the end of a recorded result: (result, what the note was)."""
    at = max(text.rfind(GUIDANCE_MARKER), text.rfind(ABORT_MARKER))
    if at < 0 or not (at == 0 or text.endswith("\n\n", 0, at)):
        return text, None
    return text[: max(at - 2, 0)], "nudge" if text.startswith(GUIDANCE_MARKER, at) else "block"
