"""What became of a call: success, refused arguments, or a failed tool."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ._envelope import failure_envelope, jsonrpc_code_of, text_of, text_of_result
from ._failures import (
    JSONRPC_SCHEMA_CODES,
    ErrorKind,
    FailureText,
    is_retry_type,
    is_validation_type,
    kind_of_jsonrpc,
    kind_of_status,
    kind_of_text,
    kind_of_type,
    number_of_type,
)

__all__ = ["Classification", "ErrorKind", "Outcome", "OutcomeFacts", "classify_outcome"]


class Outcome(StrEnum):
    """How a call ended, as far as the guard cares."""

    SUCCESS = "success"
    SCHEMA_ERROR = "schema_error"  # the arguments were refused; the same ones will be again
    GENERAL_TOOL_ERROR = "general_tool_error"  # anything else; another try may well succeed


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


def classify_outcome(facts: OutcomeFacts) -> Classification:
    """Say what a call came to. The first rule that applies decides:

    1. Not failed, by status, flag or a failure envelope in the result: success. With the
       status unset, no sign of an error and no result: undecided.
    2. A JSON-RPC code, as an attribute or at the start of the text (`MCP error -32602`):
       -32700, -32600 and -32602 are schema errors, all others general errors.
    3. An HTTP status, as an attribute or at the start of the text (`HTTP 404`): 400 and 422
       are schema errors, all others general errors.
    4. An exception, or the text, by which a framework refuses arguments: a schema error.
    5. A general error.
    """
    envelope = failure_envelope(facts.result)
    if envelope is None:
        if facts.failed is False:
            return _SUCCESS
        if facts.failed is None and not _signs_of_failure(facts):
            return _UNDECIDED if facts.result is None else _SUCCESS

    texts = _failure_texts(facts, envelope)
    type_code, type_status = number_of_type(facts.error_type)

    code = _first(
        facts.jsonrpc_code, type_code, *(text.jsonrpc_code() for text in texts), jsonrpc_code_of(facts.result)
    )
    if code is not None:
        if code in JSONRPC_SCHEMA_CODES:
            return Classification(Outcome.SCHEMA_ERROR, ErrorKind.VALIDATION, facts.http_status)
        kind, status = _kind(facts, texts)
        if kind in (ErrorKind.TOOL_FAILURE, ErrorKind.UNKNOWN):
            kind = kind_of_jsonrpc(code) or ErrorKind.TOOL_FAILURE
        return Classification(Outcome.GENERAL_TOOL_ERROR, kind, facts.http_status or status)

    attribute = facts.http_status if facts.http_status is not None and facts.http_status >= 400 else None
    status = _first(attribute, type_status, *(text.http_status() for text in texts))
    if status is not None:
        outcome = Outcome.SCHEMA_ERROR if status in (400, 422) else Outcome.GENERAL_TOOL_ERROR
        return Classification(outcome, kind_of_status(status), status)

    if _refused(facts.error_type, texts):
        return Classification(Outcome.SCHEMA_ERROR, ErrorKind.VALIDATION, None)
    kind, status = _kind(facts, texts)
    return Classification(Outcome.GENERAL_TOOL_ERROR, kind, status)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _signs_of_failure(facts: OutcomeFacts) -> bool:
    return bool(facts.error_type or facts.error_text) or facts.jsonrpc_code is not None


def _failure_texts(facts: OutcomeFacts, envelope: object | None) -> list[FailureText]:
    said = text_of(envelope) if envelope is not None else text_of_result(facts.result)
    read = (FailureText.read(text) for text in (facts.error_text, said))
    return [text for text in read if text is not None]


def _refused(error_type: str | None, texts: list[FailureText]) -> bool:
    if any(text.refuses_arguments() for text in texts):
        return True
    if any(is_retry_type(name) for name in (error_type, *_types(texts))):
        # Arguments were refused only if the text says so, or if there is no text to say otherwise.
        return not texts
    if is_validation_type(error_type):
        return True
    return any(is_validation_type(name) for text in texts if not text.from_body for name in text.types)


def _types(texts: list[FailureText]) -> list[str]:
    return [name for text in texts for name in text.types]


def _kind(facts: OutcomeFacts, texts: list[FailureText]) -> tuple[ErrorKind, int | None]:
    """The kind of a general error: by type, then by text; and a status that the text names."""
    by_text, status = next(
        ((kind, status) for kind, status in (kind_of_text(text.text) for text in texts) if kind), (None, None)
    )
    by_type = [kind for kind in map(kind_of_type, (facts.error_type, *_types(texts))) if kind is not None]
    for kind in by_type:
        if kind is not ErrorKind.TOOL_FAILURE:
            return kind, status
    if by_text is not None:
        return by_text, status
    return (ErrorKind.TOOL_FAILURE if by_type or texts else ErrorKind.UNKNOWN), status
