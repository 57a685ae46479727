"""What became of a call: success, refused arguments, or a failed tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ._envelope import failure_envelope

if TYPE_CHECKING:
    from ._outcome_rules import OutcomeRule

__all__ = ["Classification", "ErrorKind", "Outcome", "OutcomeFacts", "classify_outcome", "quiet_outcome"]


class Outcome(StrEnum):
    """How a call ended, as far as the guard cares."""

    SUCCESS = "success"
    SCHEMA_ERROR = "schema_error"  # the arguments were refused; the same ones will be again
    GENERAL_TOOL_ERROR = "general_tool_error"  # anything else; another try may well succeed


class ErrorKind(StrEnum):
    """What a failed call failed of."""

    VALIDATION = "validation"  # the arguments were refused
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"  # the service is there and cannot answer now
    NETWORK = "network"  # the service could not be reached
    AUTH = "auth"  # who asks is not known
    NOT_FOUND = "not_found"
    DENIED = "denied"  # who asks is known and must not
    CANCELLED = "cancelled"
    TOOL_FAILURE = "tool_failure"  # the tool says what went wrong; none of the above
    UNKNOWN = "unknown"  # nothing was recorded but the failure


@dataclass(frozen=True, slots=True)
class OutcomeFacts:
    """What a recording says about the end of a call. None is "not recorded".

    Attributes:
        failed: True for a span with status ERROR or the source's own failure flag, False for
            one that ended well, None where the status is unset and there is no flag.
        result: the result as recorded, text or JSON text.
        error_text: the message of the exception, else of the status.
        error_type: the class of the exception, or `error.type`.
        jsonrpc_code: the code of a JSON-RPC error, where an attribute has it.
        http_status: the status of an HTTP response, where an attribute has it.
    """

    failed: bool | None = None
    result: str | None = None
    error_text: str | None = None
    error_type: str | None = None
    jsonrpc_code: int | None = None
    http_status: int | None = None


@dataclass(frozen=True, slots=True)
class Classification:
    """What a call came to.

    Attributes:
        outcome: None where nothing says how the call ended.
        kind: for failures only.
        http_status: of a failure, where an attribute or the text names one.
    """

    outcome: Outcome | None
    kind: ErrorKind | None = None
    http_status: int | None = None


_SUCCESS = Classification(Outcome.SUCCESS)
_UNDECIDED = Classification(None)


def classify_outcome(
    facts: OutcomeFacts, rules: Sequence[OutcomeRule] = (), tool_name: str | None = None
) -> Classification:
    """Say what a call came to. The first rule that applies decides; `rules` are asked first, in
    their order, about the tool of this name. The built-in rules:

    1. Not failed, by status, flag or a failure envelope in the result: success. With the
       status unset, no sign of an error and no result: undecided.
    2. A JSON-RPC code, as an attribute or at the start of the text (`MCP error -32602`):
       -32700, -32600 and -32602 are schema errors, all others general errors.
    3. An HTTP status, as an attribute or at the start of the text (`HTTP 404`): 400 and 422
       are schema errors, all others general errors.
    4. An exception, or the text, by which a framework refuses arguments: a schema error.
    5. A general error.
    """
    found = _classify(facts)
    if not rules or found.outcome is None:
        return found
    from ._outcome_rules import apply_rules  # needs what only policies with rules need

    return apply_rules(rules, tool_name, facts, found)


def quiet_outcome(failed: bool | None, result: str | None) -> Classification | None:
    """As `classify_outcome` for a call with no type, text or code of an error, and that is not `failed`.

    None where the result tells of a failure: ask `classify_outcome`. Most calls are of this kind, and making
    `OutcomeFacts` would take longer than to decide.
    """
    if failure_envelope(result) is not None:
        return None
    return _UNDECIDED if failed is None and result is None else _SUCCESS


def _classify(facts: OutcomeFacts) -> Classification:
    envelope = failure_envelope(facts.result)
    if envelope is None:
        if facts.failed is False:
            return _SUCCESS
        if facts.failed is None and not _signs_of_failure(facts):
            return _UNDECIDED if facts.result is None else _SUCCESS
    from ._failures import classify_failure  # tables that only failures need

    return classify_failure(facts, envelope)


def _signs_of_failure(facts: OutcomeFacts) -> bool:
    return bool(facts.error_type or facts.error_text) or facts.jsonrpc_code is not None
