"""Changes to a policy that the recorded runs speak for, with their evidence and what they would have done.

Everything takes a leased DuckDB cursor and only reads.
"""

from ._change import accept, changed
from ._suggest import suggest, suggestion_report
from ._types import Effect, Example, Fact, HarmLimit, Suggestion, SuggestionKind, SuggestionReport

__all__ = [
    "Effect",
    "Example",
    "Fact",
    "HarmLimit",
    "Suggestion",
    "SuggestionKind",
    "SuggestionReport",
    "accept",
    "changed",
    "suggest",
    "suggestion_report",
]
