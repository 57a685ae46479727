"""LLM requests re-judged: refusals, what the sanitizer would have done, and what came before them.

Everything takes a leased DuckDB cursor and only reads.
"""

from ._analysis import analyse_requests
from ._one import request_history
from ._types import (
    BrokenRequest,
    Cause,
    CauseEvent,
    ClassCounts,
    EventKind,
    HistoryMessage,
    HistoryPart,
    HistoryRepair,
    HistoryViolation,
    JudgedRequest,
    ProviderRisk,
    RequestAnalysis,
    RequestCoverage,
    RequestDialectCoverage,
    RequestHistory,
    RequestTotals,
    RequestVerdict,
    Undetermined,
)

__all__ = [
    "BrokenRequest",
    "Cause",
    "CauseEvent",
    "ClassCounts",
    "EventKind",
    "HistoryMessage",
    "HistoryPart",
    "HistoryRepair",
    "HistoryViolation",
    "JudgedRequest",
    "ProviderRisk",
    "RequestAnalysis",
    "RequestCoverage",
    "RequestDialectCoverage",
    "RequestHistory",
    "RequestTotals",
    "RequestVerdict",
    "Undetermined",
    "analyse_requests",
    "request_history",
]
