"""Histories of messages: made whole before a provider refuses them."""

from ._formats import STUB_MARKER, Format, detect_format, format_of, is_stub_result
from ._model import Call, Message, Other, Result
from ._provider_errors import ErrorPosition, ProviderError, classify_provider_error
from ._sanitize import EMPTY_TURN, sanitize_messages, sanitize_parsed
from ._types import Repair, SanitizeResult, Violation
from ._words import FORMATS, ErrorClass, MessageFormat, RepairKind

__all__ = [
    "EMPTY_TURN",
    "FORMATS",
    "STUB_MARKER",
    "Call",
    "ErrorClass",
    "ErrorPosition",
    "Format",
    "Message",
    "MessageFormat",
    "Other",
    "ProviderError",
    "Repair",
    "RepairKind",
    "Result",
    "SanitizeResult",
    "Violation",
    "classify_provider_error",
    "detect_format",
    "format_of",
    "is_stub_result",
    "sanitize_messages",
    "sanitize_parsed",
]
