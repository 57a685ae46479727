"""What the sanitizer and the lint answer with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._words import ErrorClass, MessageFormat, RepairKind

__all__ = ["Repair", "SanitizeResult", "Violation"]


@dataclass(frozen=True, slots=True)
class Repair:
    """One change to a history."""

    kind: RepairKind
    message_index: int  # in the input: the message that was changed, dropped, moved, or got a stub
    call_id: str | None
    detail: str  # what was done and why, one plain sentence; content of the history is cut to a stated size


@dataclass(frozen=True, slots=True)
class SanitizeResult:
    """A repaired history.

    `messages` holds the caller's own objects wherever nothing changed. `origins` says for each message of
    the output which one of the input it comes from (None: made by a repair).
    """

    messages: list[Any]
    repairs: tuple[Repair, ...]
    format: MessageFormat
    origins: tuple[int | None, ...]

    @property
    def changed(self) -> bool:
        return bool(self.repairs)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of a provider that a history breaks: it would answer HTTP 400."""

    error_class: ErrorClass
    rule: str  # the name of the rule, see `ProviderRules`
    message_index: int
    call_id: str | None
    detail: str
