"""How a span says that it failed: status, flags, exception events, error attributes, words in a message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._attributes import as_int, as_text, first_int
from ._records import LogRecord, SpanRecord
from .dialects import Shape
from .dialects._names import ERROR_TYPE, HTTP_STATUS, OUTCOME_FAILED

__all__ = ["Failure", "failure_of", "http_status_in", "is_quiet", "jsonrpc_code"]

_JSONRPC_CODE = ("rpc.response.status_code", "rpc.jsonrpc.error_code", ERROR_TYPE)
_EXCEPTION_EVENTS = frozenset(
    {"exception", "gen_ai.client.operation.exception", "gen_ai.execute_tool.exception"}
)
# Say that something failed, not what.
_VAGUE_TYPES = frozenset({"_OTHER", "tool_error", "Error", "Exception", "error", "ERROR", "exception"})
_CLASS_NAME = re.compile(
    r"(?:Error: )?([A-Za-z_][\w.]{0,200}?(?:Error|Exception|Timeout|Exit|Interrupt))\b(?=[:( -])"
)
_TRACEBACK = "Traceback (most recent call last)"
_REPR = re.compile(r"""[A-Za-z_][\w.]*\((['"])(.*)\1,?\)""", re.DOTALL)


@dataclass(slots=True)
class Failure:
    """What one span says about its own failure."""

    failed: bool | None  # None: status unset and no flag
    explicit: bool  # by the source's own flag, which beats everything else
    error_type: str | None = None
    text: str | None = None
    jsonrpc_code: int | None = None
    http_status: int | None = None


def is_quiet(span: SpanRecord, shape: Shape, logs: Sequence[LogRecord] = ()) -> bool:
    """Is the status all that a span says about how it ended, and no error?"""
    return shape.silent and not span.events and not logs and span.status_code != 2


def failure_of(span: SpanRecord, shape: Shape, logs: Sequence[LogRecord] = ()) -> Failure:
    """Everything a span of this shape and its log records say about how it ended."""
    if is_quiet(span, shape, logs):
        return Failure(False if span.status_code == 1 else None, False)
    attributes = span.attributes
    own = attributes.get(OUTCOME_FAILED)
    flag = own if isinstance(own, bool) else None
    if flag is None and shape.flags:
        flag = _flag(attributes, shape)
    error_type = attributes.get(ERROR_TYPE)
    if span.status_code == 2 or error_type is not None:
        failed: bool | None = True
    elif flag is not None:
        failed = flag
    else:
        failed = False if span.status_code == 1 else None
    if isinstance(own, bool):
        failed = own
    if failed is not True and not span.events and not logs:
        return Failure(failed, isinstance(own, bool), http_status=_http_status(attributes))
    exception_type, message = _exception(span, logs)
    if failed is not True:
        # Handled, or a status set too early: the caller knows whether there was a result all the same.
        return Failure(failed, isinstance(own, bool), exception_type, message, None, _http_status(attributes))
    text = message or _clean(span.status_message) or _error_attribute(attributes)
    return Failure(
        True,
        isinstance(own, bool),
        _error_type(exception_type, as_text(error_type), span.status_message or text),
        text,
        jsonrpc_code(attributes),
        _http_status(attributes),
    )


def _flag(attributes: dict[str, Any], shape: Shape) -> bool | None:
    found: bool | None = None
    for key, values in shape.flags:
        value = attributes[key]
        if value is not None:
            said = values.get(str(value)[:32].lower())
            if said:
                return True
            if said is False:
                found = False
    return found


def _exception(span: SpanRecord, logs: Sequence[LogRecord]) -> tuple[str | None, str | None]:
    """Type and message of the first exception recorded on the span or in its logs."""
    for attributes in (
        *(event.attributes for event in span.events if event.name in _EXCEPTION_EVENTS),
        *(log.attributes for log in logs if log.event_name in _EXCEPTION_EVENTS),
    ):
        kind = as_text(attributes.get("exception.type"))
        message = attributes.get("exception.message")
        text = _clean(message) if isinstance(message, str) else None
        if kind is not None or text is not None:
            return kind or "Exception", text
    return None, None


def _error_type(exception_type: str | None, error_type: str | None, text: str | None) -> str | None:
    """The most telling name: exception's full name, the attribute, a class name at the start of the text."""
    if error_type is not None and error_type.startswith("<class '"):
        error_type = error_type[len("<class '") :].removesuffix("'>")
    vague = None
    for name in (exception_type, error_type):
        if name is not None:
            if name not in _VAGUE_TYPES:
                return name
            vague = vague or name
    if text:
        match = _CLASS_NAME.match(text[:300])
        if match and match[1] not in _VAGUE_TYPES:
            return match[1]
    return error_type or vague


def is_vague(error_type: str | None) -> bool:
    """Does an error type say no more than that there was an error?"""
    return error_type is None or error_type in _VAGUE_TYPES


def _clean(message: str | None) -> str | None:
    """A message without the traceback some instrumentations glue to it; None for an empty one."""
    if not message or message.isspace():
        return None
    head, found, _ = message.partition(_TRACEBACK)
    if not found or not head or head.isspace():
        return message
    head = head.rstrip()
    match = _REPR.fullmatch(head)  # LangChain callbacks: repr(error) + traceback
    return match[2] if match else head


def _error_attribute(attributes: dict[str, Any]) -> str | None:
    for key in ("error.message", "exception.message", "error", "langfuse.observation.status_message"):
        value = attributes.get(key)
        if isinstance(value, str) and value and not value.isspace():
            return value
    return None


def _http_status(attributes: dict[str, Any]) -> int | None:
    number = first_int(attributes, HTTP_STATUS)
    return number if number is not None and 100 <= number <= 599 else None


def jsonrpc_code(attributes: dict[str, Any]) -> int | None:
    """A JSON-RPC error code: -32768 to -32000."""
    for key in _JSONRPC_CODE:
        number = as_int(attributes.get(key))
        if number is not None and -32768 <= number <= -32000:
            return number
    return None


# -- HTTP status of a refused LLM request, which most dialects write only in words ---------------------

_STATUS_IN_TEXT = re.compile(
    r"\b(?:Error code|status_code|status code|status|HTTP(?:/[\d.]+)?(?: error)?|StatusCode)"
    r"['\"]?\s*[:=]?\s*([45]\d\d)\b"
    r"|\b([45]\d\d) (?:Bad Request|Unauthorized|Forbidden|Not Found|Unprocessable|Too Many Requests|"
    r"Internal Server Error|Bad Gateway|Service Unavailable)"
    r"|\bINVALID_ARGUMENT: ?([45]\d\d)",
    re.IGNORECASE,
)
_STATUS_OF_NAME = (
    ("BadRequestError", 400),
    ("InvalidRequestError", 400),
    ("invalid_request_error", 400),
    ("INVALID_ARGUMENT", 400),
    ("ModelRequestRejectedError", 400),
    # Providers' own words about calls and results that do not fit together: always a 400.
    ("Duplicate value for 'tool_call_id'", 400),
    ("`tool_use` ids must be unique", 400),
    ("must be followed by tool messages responding to", 400),
    ("No tool output found for function call", 400),
    ("unexpected `tool_use_id` found in `tool_result`", 400),
    ("AuthenticationError", 401),
    ("PermissionDeniedError", 403),
    ("NotFoundError", 404),
    ("UnprocessableEntityError", 422),
    ("RateLimitError", 429),
    ("InternalServerError", 500),
    ("ServiceUnavailableError", 503),
    ("OverloadedError", 529),
    ("overloaded_error", 529),
)


def http_status_in(error_type: str | None, text: str | None) -> int | None:
    """The HTTP status that the words of a failed LLM request name, None where they name none."""
    if error_type is not None and error_type.isdigit() and len(error_type) == 3:
        number = int(error_type)
        if 400 <= number <= 599:
            return number
    start = (text or "")[:2000]
    match = _STATUS_IN_TEXT.search(start)
    if match:
        return int(match[1] or match[2] or match[3])
    for name, status in _STATUS_OF_NAME:
        if (error_type and name in error_type) or name in start:
            return status
    return None
