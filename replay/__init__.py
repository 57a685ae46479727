"""The rules re-run over the store: verdicts, sweeps, incidents, error kinds, reports.

Every function takes a leased DuckDB cursor (`Store.lease()`), only reads, and gives plain frozen
data. `Filters` choose what is reported and never change a verdict.
"""

from ._coverage import coverage, filter_options
from ._detail import incident_detail
from ._engine import VerdictChanges, call_verdicts, verdict_changes
from ._errors import error_breakdown
from ._filters import ALL, FilterOptions, Filters
from ._incidents import find_incidents
from ._overview import overview
from ._requests import failed_requests
from ._sweep import SweepRow, sweep
from ._totals import ReplayResult, replay, totals
from ._types import (
    SCHEMA_VERSION,
    Change,
    Coverage,
    DialectCoverage,
    ErrorBreakdown,
    ErrorBucket,
    ErrorCell,
    ErrorGroup,
    FailedRequest,
    FailedRequests,
    Figures,
    Incident,
    IncidentCall,
    IncidentDetail,
    IncidentKind,
    NamedCount,
    NotCountedReason,
    Overview,
    RunInfo,
    TextChange,
    TimeBucket,
    Totals,
)
from .reports import FORMATS, report
from .requests import (
    BrokenRequest,
    Cause,
    CauseEvent,
    ClassCounts,
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
    analyse_requests,
    request_history,
)

__all__ = [
    "ALL",
    "FORMATS",
    "SCHEMA_VERSION",
    "BrokenRequest",
    "Cause",
    "CauseEvent",
    "Change",
    "ClassCounts",
    "Coverage",
    "DialectCoverage",
    "ErrorBreakdown",
    "ErrorBucket",
    "ErrorCell",
    "ErrorGroup",
    "FailedRequest",
    "FailedRequests",
    "Figures",
    "FilterOptions",
    "Filters",
    "HistoryMessage",
    "HistoryPart",
    "HistoryRepair",
    "HistoryViolation",
    "Incident",
    "IncidentCall",
    "IncidentDetail",
    "IncidentKind",
    "JudgedRequest",
    "NamedCount",
    "NotCountedReason",
    "Overview",
    "ProviderRisk",
    "ReplayResult",
    "RequestAnalysis",
    "RequestCoverage",
    "RequestDialectCoverage",
    "RequestHistory",
    "RequestTotals",
    "RequestVerdict",
    "RunInfo",
    "SweepRow",
    "TextChange",
    "TimeBucket",
    "Totals",
    "VerdictChanges",
    "analyse_requests",
    "call_verdicts",
    "coverage",
    "error_breakdown",
    "failed_requests",
    "filter_options",
    "find_incidents",
    "incident_detail",
    "overview",
    "replay",
    "report",
    "request_history",
    "sweep",
    "totals",
    "verdict_changes",
]
