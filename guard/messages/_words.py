"""The words of the sanitizer: what a provider refuses, and what a repair does."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args

__all__ = ["FORMATS", "ErrorClass", "MessageFormat", "RepairKind"]

MessageFormat = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock-converse"]
FORMATS: tuple[MessageFormat, ...] = get_args(MessageFormat)


class ErrorClass(StrEnum):
    """What is wrong with a history, as a provider words it or as `lint_messages` finds it."""

    DUPLICATE_CALL_ID = "duplicate_call_id"
    DUPLICATE_RESULT = "duplicate_result"
    ORPHAN_RESULT = "orphan_result"
    MISSING_RESULT = "missing_result"
    MISPLACED_RESULT = "misplaced_result"
    COUNT_MISMATCH = "count_mismatch"
    EMPTY_TOOL_CALLS = "empty_tool_calls"
    EMPTY_CONTENT = "empty_content"
    ID_FORMAT = "id_format"
    ARGUMENTS_JSON = "arguments_json"
    ROLE_ORDER = "role_order"
    REASONING_PAIRING = "reasoning_pairing"
    REPEATED_CALLS = "repeated_calls"  # the provider refuses loops itself
    OTHER = "other"  # not about calls and results


class RepairKind(StrEnum):
    """What a repair did to a history."""

    DROPPED_DUPLICATE_CALL = "dropped_duplicate_call"
    DROPPED_DUPLICATE_RESULT = "dropped_duplicate_result"
    DROPPED_UNPAIRED_CALL = "dropped_unpaired_call"
    RENAMED_CALL_ID = "renamed_call_id"
    MOVED_RESULT = "moved_result"
    DROPPED_ORPHAN_RESULT = "dropped_orphan_result"
    ADDED_STUB_RESULT = "added_stub_result"
    REMOVED_EMPTY_TOOL_CALLS = "removed_empty_tool_calls"
    FILLED_EMPTY_CONTENT = "filled_empty_content"
    REWROTE_ID = "rewrote_id"
    REPAIRED_ARGUMENTS = "repaired_arguments"
    MERGED_MESSAGES = "merged_messages"
    FIXED_ROLE = "fixed_role"
    DROPPED_UNKNOWN_ROLE = "dropped_unknown_role"
    FIXED_FUNCTION_NAME = "fixed_function_name"
    FIXED_RESULT_NAME = "fixed_result_name"
    DROPPED_REASONING = "dropped_reasoning"  # an item that led to nothing that is still there
