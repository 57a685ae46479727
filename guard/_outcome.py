"""What became of a call: success, refused arguments, or a failed tool."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Classification", "ErrorKind", "Outcome", "OutcomeFacts", "classify_outcome"]


class Outcome(StrEnum):
    """How a call ended, as far as the guard cares."""

    SUCCESS = "success"
    SCHEMA_ERROR = "schema_error"
    GENERAL_TOOL_ERROR = "general_tool_error"


class ErrorKind(StrEnum):
    """What a failed call failed of."""

    VALIDATION = "validation"
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    NETWORK = "network"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    DENIED = "denied"
    CANCELLED = "cancelled"
    TOOL_FAILURE = "tool_failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OutcomeFacts:
    """What a recording says about the end of a call; None is "not recorded"."""

    failed: bool | None = None
    result: str | None = None
    error_text: str | None = None
    error_type: str | None = None
    jsonrpc_code: int | None = None
    http_status: int | None = None


@dataclass(frozen=True, slots=True)
class Classification:
    """The outcome of a call; `kind` only for failures, `http_status` where one is known."""

    outcome: Outcome | None
    kind: ErrorKind | None = None
    http_status: int | None = None


def classify_outcome(facts: OutcomeFacts) -> Classification:
    if facts.failed is True:
        return Classification(Outcome.GENERAL_TOOL_ERROR, ErrorKind.UNKNOWN, facts.http_status)
    if facts.failed is None and facts.result is None:
        return Classification(None)
    return Classification(Outcome.SUCCESS)
