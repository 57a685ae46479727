"""Histories of messages: made whole before a provider refuses them."""

from ._formats import STUB_MARKER, Format, detect_format, format_of, is_stub_result
from ._lint import lint_messages, lint_parsed, refusing_providers, violations_of
from ._model import Call, Message, Other, Result
from ._provider_errors import ErrorPosition, ProviderError, classify_provider_error
from ._provider_names import known_provider_rules, provider_rules
from ._providers import PROVIDERS, ProviderRules
from ._repair import repair_messages
from ._rules import PAIRING_CLASSES, Rule, rule_class, rule_text
from ._sanitize import EMPTY_TURN, sanitize_messages, sanitize_parsed
from ._scan import Finding, HistoryScan
from ._types import Repair, SanitizeResult, Violation
from ._words import FORMATS, ErrorClass, MessageFormat, RepairKind

__all__ = [
    "EMPTY_TURN",
    "FORMATS",
    "PAIRING_CLASSES",
    "PROVIDERS",
    "STUB_MARKER",
    "Call",
    "ErrorClass",
    "ErrorPosition",
    "Finding",
    "Format",
    "HistoryScan",
    "Message",
    "MessageFormat",
    "Other",
    "ProviderError",
    "ProviderRules",
    "Repair",
    "RepairKind",
    "Result",
    "Rule",
    "SanitizeResult",
    "Violation",
    "classify_provider_error",
    "detect_format",
    "format_of",
    "is_stub_result",
    "known_provider_rules",
    "lint_messages",
    "lint_parsed",
    "provider_rules",
    "refusing_providers",
    "repair_messages",
    "rule_class",
    "rule_text",
    "sanitize_messages",
    "sanitize_parsed",
    "violations_of",
]
