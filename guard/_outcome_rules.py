"""A user's own rules for outcomes: what a failure, or a successful result that is none, counts as.

They are asked before the built-in rules. Patterns are bounded as those for results are, and see
the first `MAX_CHARS` characters of a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from ._envelope import failure_envelope, text_of, text_of_result
from ._exceptions import PolicyError
from ._outcome import Classification, ErrorKind, Outcome, OutcomeFacts
from ._patterns import MAX_PATTERNS, compile_pattern
from ._policy_checks import check_bool, show

__all__ = ["MAX_CHARS", "MAX_RULES", "OutcomeRule", "apply_rules", "check_rules"]

MAX_RULES = 64
MAX_CHARS = 4_096

_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRule:
    """What a call comes to that meets all conditions of the rule. None is "any".

    At least one of the four conditions has to be there. Without `on_success` a rule is asked
    about calls that failed: by status, by the source's own flag or by an envelope in the result.

    Attributes:
        outcome: what the call counts as.
        kind: what it failed of. None: `validation` for a schema error; for a general error what
            the built-in rules say, `tool_failure` where they say `validation`.
        tool: the exact name of the tool.
        error_type: the class of the exception, whole (`requests.exceptions.Timeout`) or its last
            part (`Timeout`).
        http_status: the status of the HTTP response, 100 to 599.
        text_pattern: a regular expression that is found in the text of the failure.
        on_success: ask about results that look like successes instead: `text_pattern`, which has
            to be there, must then match at the start of the result. For tools that report
            failures by convention, such as a leading "Error".

    Raises:
        PolicyError: a value of the wrong type, no condition, a kind for a success, a pattern that
            cannot be used, or conditions that do not go with `on_success`.
    """

    outcome: Outcome
    kind: ErrorKind | None = None
    tool: str | None = None
    error_type: str | None = None
    http_status: int | None = None
    text_pattern: str | None = None
    on_success: bool = False

    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__  # the dataclass is frozen; this is its constructor
        put(self, "outcome", _word(Outcome, "outcome", self.outcome))
        if self.kind is not None:
            put(self, "kind", _word(ErrorKind, "kind", self.kind))
            if self.outcome is Outcome.SUCCESS:
                raise PolicyError("kind: a success has no error kind; leave it out")
        for key in ("tool", "error_type", "text_pattern"):
            value = getattr(self, key)
            if value is not None and (not isinstance(value, str) or not value):
                raise PolicyError(f"{key} must be a text that is not empty, not {show(value)}")
        status = self.http_status
        if status is not None and (isinstance(status, bool) or not isinstance(status, int)):
            raise PolicyError(f"http_status must be a whole number, not {show(status)}")
        if status is not None and not 100 <= status <= 599:
            raise PolicyError(f"http_status must be from 100 to 599, not {status}")
        check_bool("on_success", self.on_success)
        if self.on_success:
            if self.text_pattern is None:
                raise PolicyError("on_success needs a text_pattern, for the start of the result")
            if self.error_type is not None or status is not None:
                raise PolicyError(
                    "on_success: a success has no error_type and no http_status; leave them out"
                )
        elif (self.tool, self.error_type, status, self.text_pattern) == (None,) * 4:
            raise PolicyError("needs at least one of tool, error_type, http_status and text_pattern")
        put(self, "_pattern", None if self.text_pattern is None else _compiled(self.text_pattern))

    def _meets(self, tool_name: str | None, facts: OutcomeFacts, status: int | None) -> bool:
        """Do the conditions other than that on the text hold?"""
        if self.tool is not None and self.tool != tool_name:
            return False
        if self.http_status is not None and self.http_status != status:
            return False
        if self.error_type is None:
            return True
        name = (facts.error_type or "").strip().removeprefix("<class '").removesuffix("'>")
        return self.error_type in (name, name.rsplit(".", 1)[-1])


def _word(words: type[_Word], key: str, value: object) -> _Word:
    try:
        return words(value)
    except ValueError:
        raise PolicyError(f"{key} must be one of {', '.join(words)}, not {show(value)}") from None


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return compile_pattern(pattern)
    except PolicyError as error:
        raise PolicyError(f"text_pattern: {show(pattern)}: {error}") from None


def check_rules(key: str, value: object) -> tuple[OutcomeRule, ...]:
    """A list of rules, each once, in the order given. Raises PolicyError."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise PolicyError(f"{key} must be a list of OutcomeRule, not {show(value)}")
    rules = list(value)
    for rule in rules:
        if not isinstance(rule, OutcomeRule):
            raise PolicyError(f"{key} must be a list of OutcomeRule; {show(rule)} is not one")
    if len(rules) > MAX_RULES:
        raise PolicyError(f"{key}: {len(rules)} rules; at most {MAX_RULES} are allowed")
    patterns = sum(rule.text_pattern is not None for rule in rules)
    if patterns > MAX_PATTERNS:
        raise PolicyError(f"{key}: {patterns} text patterns; at most {MAX_PATTERNS} are allowed")
    return tuple(dict.fromkeys(rules))


def apply_rules(
    rules: Sequence[OutcomeRule], tool_name: str | None, facts: OutcomeFacts, built_in: Classification
) -> Classification:
    """What the first rule says that applies, else `built_in`: what the built-in rules say."""
    if built_in.outcome is None:
        return built_in
    succeeded = built_in.outcome is Outcome.SUCCESS
    texts: list[str] | None = None  # taken out of JSON only if a rule asks
    for rule in rules:
        if rule.on_success is not succeeded or not rule._meets(tool_name, facts, built_in.http_status):
            continue
        if rule._pattern is not None:
            if texts is None:
                texts = _openings(facts.result) if succeeded else _failure_texts(facts)
            find = rule._pattern.match if succeeded else rule._pattern.search
            if not any(find(text) for text in texts):
                continue
        return _classification(rule, facts, built_in)
    return built_in


def _classification(rule: OutcomeRule, facts: OutcomeFacts, built_in: Classification) -> Classification:
    if rule.outcome is Outcome.SUCCESS:
        return Classification(Outcome.SUCCESS)
    status, kind = built_in.http_status, rule.kind
    if kind is None:
        kind = built_in.kind
        if kind is None:  # of a success, or not recorded
            from ._failures import classify_failure  # tables that only failures need

            kind = classify_failure(replace(facts, failed=True), failure_envelope(facts.result)).kind
        if rule.outcome is Outcome.SCHEMA_ERROR:
            kind = ErrorKind.VALIDATION
        elif kind is ErrorKind.VALIDATION:
            kind = ErrorKind.TOOL_FAILURE
    return Classification(rule.outcome, kind, status)


def _failure_texts(facts: OutcomeFacts) -> list[str]:
    """The texts of a failure: of the exception, of the result, and out of the result's JSON."""
    envelope = failure_envelope(facts.result)
    inner = text_of_result(facts.result) if envelope is None else text_of(envelope)
    texts = (facts.error_text, inner, facts.result)
    return list(dict.fromkeys(text[:MAX_CHARS] for text in texts if text))


def _openings(result: str | None) -> list[str]:
    """How a result begins: as it is recorded, and as a model reads it if it is a JSON string or a
    list of content blocks. Never a text from deeper inside: that would be the tool's own data."""
    if result is None:
        return []
    texts = [result[:MAX_CHARS]]
    if result.lstrip()[:1] in ('"', "[", "{") and len(result) <= 4_000_000:
        try:
            first: Any = json.loads(result)
        except (ValueError, RecursionError):
            return texts
        if isinstance(first, dict):  # the result of an MCP call
            first = first.get("content")
        if isinstance(first, list) and first:
            block = first[0]
            first = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if isinstance(first, str):
            texts.append(first[:MAX_CHARS])
    return texts
