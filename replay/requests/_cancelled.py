"""Requests that nobody refused: whoever asked did not wait for the answer."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...guard import ErrorKind
from ...guard._error_kinds import kind_of_text, kind_of_type
from ...guard.messages._words import ErrorClass
from .._filters import Filters, request_filter
from .._sql import filtered, rows

if TYPE_CHECKING:
    import duckdb

__all__ = ["CANCELLED", "cancelled_counts", "was_cancelled"]

CANCELLED = "cancelled"
"""Stands where a request that failed has its error class."""

_CLIENT_CLOSED = 499  # the status of a request whose client went away
_KEPT_CHARS = 300  # enough of an error's text
# Of the whole request, at the start of the text: a refusal can speak of a call that was cancelled.
_SAID = re.compile(
    r"\W*(?:error: )?(?:"
    r"(?:\w+\.)*CancelledError\b"
    r"|(?:(?:the |this )?(?:\w+ )?(?:request|operation|stream|generation|response|turn|task|run) "
    r"(?:was |has been )?)?(?:cancell?ed|aborted)\b"
    r"|(?:the )?user (?:cancell?ed|aborted|interrupted)\b"
    r"|(?:\w+ ){0,4}(?:cancell?ed|aborted|interrupted) by (?:the )?user\b)",
    re.IGNORECASE,
)


def was_cancelled(row: dict[str, Any]) -> bool:
    """Was a failed request cancelled, not refused? By its error's type, by its text where that is silent."""
    if row["error_class"] not in (None, ErrorClass.OTHER):
        return False
    return _cancelled(row["http_status"], row["error_type"], (row["error_text"] or "")[:_KEPT_CHARS])


@lru_cache(maxsize=1_000)
def _cancelled(status: int | None, error_type: str | None, text: str) -> bool:
    if status is not None:
        return status == _CLIENT_CLOSED
    kind = kind_of_type(error_type)
    if kind is not None:
        return kind is ErrorKind.CANCELLED
    return kind_of_text(text)[0] in (None, ErrorKind.CANCELLED) and _SAID.match(text) is not None


def cancelled_counts(con: duckdb.DuckDBPyConnection, filters: Filters) -> list[dict[str, Any]]:
    """Cancelled requests: `requests` and `without_messages` of them, by `http_status` and words."""
    condition, params = request_filter(filters, "q")
    statement = filtered("request_cancelled", condition, "error_texts")
    found = rows(con, statement, {**params, "text_limit": _KEPT_CHARS})
    return [row for row in found if was_cancelled(row)]
