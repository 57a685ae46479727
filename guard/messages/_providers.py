"""What each provider refuses, in one table, with the public source of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ._words import MessageFormat

__all__ = ["ProviderRules"]


@dataclass(frozen=True, slots=True)
class ProviderRules:
    """The rules of one provider. A rule that is off is one that the provider is not known to enforce."""

    name: str
    formats: tuple[MessageFormat, ...]
    unique_call_ids: Literal["turn", "history"] | None = "turn"
