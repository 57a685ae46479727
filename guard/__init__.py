"""The rules: which call repeats another, what came of it, and what a guard does about it.

    from loopscope.guard import DuplicateCallGuard, GuardPolicy, Outcome

    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=3, block_threshold=5))
    verdict = guard.observe(
        tool_name="read_file", arguments={"path": "a"}, output="…", outcome=Outcome.SUCCESS
    )

No third-party import and no input or output but the policy file and the templates.
"""

from typing import TYPE_CHECKING, Any

from ._canonical import (
    DEFAULT_METADATA_KEYS,
    FINGERPRINT_VERSION,
    canonical_arguments,
    fingerprint,
    result_hash,
    scope_key,
)
from ._exceptions import (
    ImportFileError,
    LoopscopeError,
    NotFoundError,
    OtlpDecodeError,
    PolicyError,
    SpoolError,
    StoreBusyError,
    StoreError,
    StoreVersionError,
)
from ._guard import Action, DuplicateCallGuard, Escalation, Verdict
from ._guidance import ABORT_MARKER, GUIDANCE_MARKER, Guidance, strip_annotation
from ._outcome import Classification, ErrorKind, Outcome, OutcomeFacts, classify_outcome
from ._outcome_rules import OutcomeRule
from ._override import Decision, OverrideAction, OverrideMessages, ReasonedOverrideGuard
from ._policy import INHERIT, GuardPolicy, Thresholds, ToolPolicy, ToolRules
from ._policy_words import describe_changes
from ._recorded import RecordedCall
from ._stubs import STUB_MARKER, is_stub_result

if TYPE_CHECKING:
    from .messages import (
        FORMATS,
        PROVIDERS,
        ErrorClass,
        ErrorPosition,
        ProviderError,
        ProviderRules,
        Repair,
        RepairKind,
        SanitizeResult,
        Violation,
        classify_provider_error,
        detect_format,
        lint_messages,
        provider_rules,
        repair_messages,
        sanitize_messages,
    )

__all__ = [
    "ABORT_MARKER",
    "DEFAULT_METADATA_KEYS",
    "FINGERPRINT_VERSION",
    "FORMATS",
    "GUIDANCE_MARKER",
    "INHERIT",
    "PROVIDERS",
    "STUB_MARKER",
    "Action",
    "Classification",
    "Decision",
    "DuplicateCallGuard",
    "ErrorClass",
    "ErrorKind",
    "ErrorPosition",
    "Escalation",
    "GuardPolicy",
    "Guidance",
    "ImportFileError",
    "LoopscopeError",
    "NotFoundError",
    "OtlpDecodeError",
    "Outcome",
    "OutcomeFacts",
    "OutcomeRule",
    "OverrideAction",
    "OverrideMessages",
    "PolicyError",
    "ProviderError",
    "ProviderRules",
    "ReasonedOverrideGuard",
    "RecordedCall",
    "Repair",
    "RepairKind",
    "SanitizeResult",
    "SpoolError",
    "StoreBusyError",
    "StoreError",
    "StoreVersionError",
    "Thresholds",
    "ToolPolicy",
    "ToolRules",
    "Verdict",
    "Violation",
    "canonical_arguments",
    "classify_outcome",
    "classify_provider_error",
    "describe_changes",
    "detect_format",
    "fingerprint",
    "is_stub_result",
    "lint_messages",
    "provider_rules",
    "repair_messages",
    "result_hash",
    "sanitize_messages",
    "scope_key",
    "strip_annotation",
]


def __getattr__(name: str) -> Any:
    """What is about message histories is imported when it is asked for: a guard does not need it."""
    if name in __all__:
        from . import messages

        value = globals()[name] = getattr(messages, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
