"""A policy held against recorded runs, for CI: limits, JUnit XML, a Markdown summary.

Text of a trace may hold anything; in every format it is shown as text and bounded. The same store,
policy and limits give the same bytes.
"""

from ._judge import check
from ._junit import check_junit
from ._summary import SUMMARY_LIMIT, check_summary
from ._types import CheckedCall, CheckedRun, CheckResult, CheckStatus, Limit, Limits
from ._words import HEADLINES, check_sentence, verdict_of

__all__ = [
    "HEADLINES",
    "SUMMARY_LIMIT",
    "CheckResult",
    "CheckStatus",
    "CheckedCall",
    "CheckedRun",
    "Limit",
    "Limits",
    "check",
    "check_junit",
    "check_sentence",
    "check_summary",
    "verdict_of",
]
