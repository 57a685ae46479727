"""The words of the public cases for what is wrong with a history, as our classes."""

from __future__ import annotations

from loopscope.guard import ErrorClass

CASE_CLASSES = {
    "DUP_TOOL_USE_ID": ErrorClass.DUPLICATE_CALL_ID,
    "DUP_CALL_ID_SAME_TURN": ErrorClass.DUPLICATE_CALL_ID,
    "DUP_TOOL_RESULT": ErrorClass.DUPLICATE_RESULT,
    "ORPHAN_TOOL_RESULT": ErrorClass.ORPHAN_RESULT,
    "MISSING_TOOL_RESULT": ErrorClass.MISSING_RESULT,
    "MISPLACED_TOOL_RESULT": ErrorClass.MISPLACED_RESULT,
    "COUNT_MISMATCH": ErrorClass.COUNT_MISMATCH,
    "EMPTY_TOOL_CALLS": ErrorClass.EMPTY_TOOL_CALLS,
    "EMPTY_ASSISTANT": ErrorClass.EMPTY_CONTENT,
    "EMPTY_ERROR_CONTENT": ErrorClass.EMPTY_CONTENT,
    "BAD_ID": ErrorClass.ID_FORMAT,
    "BAD_ID_FORMAT": ErrorClass.ID_FORMAT,
    "BAD_ARGS_JSON": ErrorClass.ARGUMENTS_JSON,
}
