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
    the output which one of the input it comes from (None: made by a repair); `sources` all that are in it, or
    is empty where no messages were merged.
    """

    messages: list[Any]
    repairs: tuple[Repair, ...]
    format: MessageFormat
    origins: tuple[int | None, ...]
    sources: tuple[tuple[int, ...], ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.repairs)

    def position_of(self, index: int) -> int | None:
        """Where in the output the message of this index of the input is; None where it was dropped."""
        if not self.sources:
            return self.origins.index(index) if index in self.origins else None
        return next((at for at, indices in enumerate(self.sources) if index in indices), None)

    def cursor(self, stored: int) -> int:
        """How many messages of the output are behind a host that had stored the first `stored` of the input.

        It points at the first message that holds anything not stored yet; so nothing is lost, and a
        message merged from both sides is stored again.
        """
        for at, origin in enumerate(self.origins):
            last = max(self.sources[at], default=None) if self.sources else origin
            if last is not None and last >= stored:
                return at
        return len(self.origins)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of a provider that a history breaks: it would answer HTTP 400."""

    error_class: ErrorClass
    rule: str  # the name of the rule, see `ProviderRules`
    message_index: int
    call_id: str | None
    detail: str
