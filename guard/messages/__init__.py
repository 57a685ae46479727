"""Histories of messages: made whole before a provider refuses them."""

from ._formats import STUB_MARKER, Format, detect_format, format_of, is_stub_result
from ._model import Call, Message, Other, Result
from ._types import Repair, SanitizeResult, Violation
from ._words import FORMATS, ErrorClass, MessageFormat, RepairKind

__all__ = [
    "FORMATS",
    "STUB_MARKER",
    "Call",
    "ErrorClass",
    "Format",
    "Message",
    "MessageFormat",
    "Other",
    "Repair",
    "RepairKind",
    "Result",
    "SanitizeResult",
    "Violation",
    "detect_format",
    "format_of",
    "is_stub_result",
]
