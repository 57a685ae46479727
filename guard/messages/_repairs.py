"""The record of what was repaired, as data and in plain sentences."""

from __future__ import annotations

import json
from typing import Any

from ._model import Message
from ._types import Repair
from ._words import RepairKind

__all__ = ["MAX_QUOTED", "Log"]

MAX_QUOTED = 120
"""Content of a history that a sentence quotes is cut to this many characters."""


class Log:
    """Collects repairs."""

    def __init__(self, repairs: list[Repair] | None = None) -> None:
        self.repairs: list[Repair] = [] if repairs is None else repairs

    def add(self, kind: RepairKind, message: Message, call_id: str | None, detail: str) -> None:
        self.repairs.append(Repair(kind, message.place, call_id, detail))

    @staticmethod
    def cut(content: Any) -> str:
        """Content as one bounded line between quotes."""
        if content is None:
            return "no content"
        text = content
        if not isinstance(text, str):
            try:
                text = json.dumps(_head(content), ensure_ascii=False, default=lambda _: "…")
            except (TypeError, ValueError, RecursionError):
                text = type(content).__name__
        text = " ".join(text[: 4 * MAX_QUOTED].split())
        return f'"{text}"' if len(text) <= MAX_QUOTED else f'"{text[: MAX_QUOTED - 1]}…"'

    @staticmethod
    def quoted(name: str | None) -> str:
        if name is None:
            return "a tool without a name"
        return f'"{name}"' if len(name) <= MAX_QUOTED else f'"{name[: MAX_QUOTED - 1]}…"'


def _head(content: Any) -> Any:
    """As much of a content as a line can show, so that a huge one costs nothing."""
    if isinstance(content, (list, tuple)):
        return [_head(item) for item in content[:3]]
    if isinstance(content, dict):
        return {key: _head(content[key]) for key in list(content)[:8]}
    return content[: 2 * MAX_QUOTED] if isinstance(content, str) else content
