"""The rules that providers enforce on a history, each with its class and one sentence.

Which provider enforces which rule, and where that was seen, stands in `_providers.py`; how a rule is
checked stands in `_scan.py`.
"""

from __future__ import annotations

from enum import StrEnum

from ._words import ErrorClass

__all__ = ["PAIRING_CLASSES", "Rule", "rule_class", "rule_text"]


class Rule(StrEnum):
    """A rule by name. `rule_class` and `rule_text` say what it is about."""

    # Calls and results
    MISSING_RESULT = "missing_result"
    MISSING_SOME_RESULTS = "missing_some_results"
    ORPHAN_RESULT = "orphan_result"
    UNKNOWN_RESULT_ID = "unknown_result_id"
    DUPLICATE_RESULT = "duplicate_result"
    MISPLACED_RESULT = "misplaced_result"
    SPLIT_TURN = "split_turn"
    RESULTS_FIRST = "results_first"
    RESULT_COUNT = "result_count"
    RESULT_NAME = "result_name"
    FAILED_RESULT_EMPTY = "failed_result_empty"
    EMPTY_TOOL_CALLS = "empty_tool_calls"
    # Ids
    UNIQUE_IN_TURN = "unique_in_turn"
    UNIQUE_IN_HISTORY = "unique_in_history"
    BLANK_ID_TWICE = "blank_id_twice"
    ITEM_ID_UNIQUE = "item_id_unique"
    ITEM_ID_PREFIX = "item_id_prefix"
    ID_PRESENT = "id_present"
    ID_SPELLING = "id_spelling"
    ID_MAX_40 = "id_max_40"
    ID_MAX_64 = "id_max_64"
    ID_WORD = "id_word"
    ID_BEDROCK = "id_bedrock"
    ID_MISTRAL = "id_mistral"
    # Arguments
    ARGUMENTS_JSON = "arguments_json"
    ARGUMENTS_BLANK = "arguments_blank"
    ARGUMENTS_OBJECT = "arguments_object"
    # Content
    EMPTY_MESSAGE = "empty_message"
    BLANK_TEXT = "blank_text"
    ASSISTANT_EMPTY = "assistant_empty"
    ASSISTANT_NULL = "assistant_null"
    RESULT_NULL = "result_null"
    CONTENT_PRESENT = "content_present"
    PARTS_PRESENT = "parts_present"
    # Roles
    USER_AFTER_TOOL = "user_after_tool"
    ALTERNATE = "alternate"
    STARTS_WITH_USER = "starts_with_user"
    CALL_TURN_ORDER = "call_turn_order"
    TEMPLATE_ALTERNATION = "template_alternation"
    NEEDS_USER = "needs_user"
    KNOWN_ROLES = "known_roles"
    # Reasoning
    REASONING_FOLLOWED = "reasoning_followed"


_E = ErrorClass
_RULES: dict[Rule, tuple[ErrorClass, str]] = {
    Rule.MISSING_RESULT: (_E.MISSING_RESULT, "a turn that calls tools is followed by their results"),
    Rule.MISSING_SOME_RESULTS: (_E.MISSING_RESULT, "every call of a turn has its result"),
    Rule.ORPHAN_RESULT: (_E.ORPHAN_RESULT, "a result follows a turn that calls tools"),
    Rule.UNKNOWN_RESULT_ID: (_E.ORPHAN_RESULT, "a result names a call of the turn before it"),
    Rule.DUPLICATE_RESULT: (_E.DUPLICATE_RESULT, "a call has one result"),
    Rule.MISPLACED_RESULT: (_E.MISPLACED_RESULT, "results stand directly behind their turn"),
    Rule.SPLIT_TURN: (_E.MISPLACED_RESULT, "no other assistant message stands between a call and its result"),
    Rule.RESULTS_FIRST: (_E.MISPLACED_RESULT, "results come before other content of their message"),
    Rule.RESULT_COUNT: (_E.COUNT_MISMATCH, "there are as many results as calls"),
    Rule.RESULT_NAME: (_E.ORPHAN_RESULT, "a result bears the name of the function that was called"),
    Rule.FAILED_RESULT_EMPTY: (_E.EMPTY_CONTENT, "a result marked as an error has content"),
    Rule.EMPTY_TOOL_CALLS: (_E.EMPTY_TOOL_CALLS, "`tool_calls` is left out rather than empty"),
    Rule.UNIQUE_IN_TURN: (_E.DUPLICATE_CALL_ID, "no two calls of one turn share an id"),
    Rule.UNIQUE_IN_HISTORY: (_E.DUPLICATE_CALL_ID, "no two calls of the whole request share an id"),
    Rule.BLANK_ID_TWICE: (_E.DUPLICATE_CALL_ID, "no two calls of the whole request have a blank id"),
    Rule.ITEM_ID_UNIQUE: (_E.DUPLICATE_CALL_ID, "no two items of the whole request share an item id"),
    Rule.ITEM_ID_PREFIX: (_E.ID_FORMAT, "the item id of a function call begins with `fc`"),
    Rule.ID_PRESENT: (_E.ID_FORMAT, "calls and results have an id"),
    Rule.ID_SPELLING: (_E.ID_FORMAT, "a result spells the id as its call does"),
    Rule.ID_MAX_40: (_E.ID_FORMAT, "ids have at most 40 characters"),
    Rule.ID_MAX_64: (_E.ID_FORMAT, "ids have at most 64 characters"),
    Rule.ID_WORD: (_E.ID_FORMAT, "ids match `^[a-zA-Z0-9_-]+$`"),
    Rule.ID_BEDROCK: (_E.ID_FORMAT, "ids have 1 to 64 characters of `[a-zA-Z0-9_.:-]`"),
    Rule.ID_MISTRAL: (_E.ID_FORMAT, "ids have 9 characters of `[a-zA-Z0-9]`"),
    Rule.ARGUMENTS_JSON: (_E.ARGUMENTS_JSON, "argument text parses as JSON"),
    Rule.ARGUMENTS_BLANK: (_E.ARGUMENTS_JSON, "argument text is not blank"),
    Rule.ARGUMENTS_OBJECT: (_E.ARGUMENTS_JSON, "arguments are a JSON object"),
    Rule.EMPTY_MESSAGE: (_E.EMPTY_CONTENT, "every message but a final assistant message has content"),
    Rule.BLANK_TEXT: (_E.EMPTY_CONTENT, "text blocks are not blank"),
    Rule.ASSISTANT_EMPTY: (_E.EMPTY_CONTENT, "an assistant message has text or calls"),
    Rule.ASSISTANT_NULL: (
        _E.EMPTY_CONTENT,
        "the content of an assistant message is null only beside calls",
    ),
    Rule.RESULT_NULL: (_E.EMPTY_CONTENT, "the content of a result is not null"),
    Rule.CONTENT_PRESENT: (_E.EMPTY_CONTENT, "the content of a message is never null, not even beside calls"),
    Rule.PARTS_PRESENT: (_E.EMPTY_CONTENT, "every message has a part"),
    Rule.USER_AFTER_TOOL: (_E.ROLE_ORDER, "an assistant message stands between a result and a user message"),
    Rule.ALTERNATE: (_E.ROLE_ORDER, "user and assistant messages alternate"),
    Rule.STARTS_WITH_USER: (_E.ROLE_ORDER, "the first message is a user's"),
    Rule.CALL_TURN_ORDER: (
        _E.ROLE_ORDER,
        "a turn that calls tools comes directly after a user turn or after results",
    ),
    Rule.TEMPLATE_ALTERNATION: (
        _E.ROLE_ORDER,
        "user and assistant messages alternate, calls and results left aside, a user's first",
    ),
    Rule.NEEDS_USER: (_E.ROLE_ORDER, "there is a user message"),
    Rule.KNOWN_ROLES: (_E.ROLE_ORDER, "no message has the role `developer`"),
    Rule.REASONING_FOLLOWED: (_E.REASONING_PAIRING, "a reasoning item is followed by what it led to"),
}

PAIRING_CLASSES: frozenset[ErrorClass] = frozenset(
    {
        ErrorClass.DUPLICATE_CALL_ID,
        ErrorClass.DUPLICATE_RESULT,
        ErrorClass.ORPHAN_RESULT,
        ErrorClass.MISSING_RESULT,
        ErrorClass.MISPLACED_RESULT,
        ErrorClass.COUNT_MISMATCH,
        ErrorClass.EMPTY_TOOL_CALLS,
    }
)


def rule_class(rule: Rule) -> ErrorClass:
    """The class of error that a provider answers with when the rule is broken."""
    return _RULES[rule][0]


def rule_text(rule: Rule) -> str:
    """The rule in one sentence, as a demand."""
    return _RULES[rule][1]
