"""What a provider would refuse in a history, before it is sent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

from ._formats import detect_format, format_of
from ._model import Message
from ._provider_names import known_provider_rules
from ._providers import PROVIDERS, ProviderRules
from ._rules import Rule, rule_class, rule_text
from ._scan import Finding, HistoryScan
from ._types import Violation
from ._words import MessageFormat

__all__ = ["HistoryScan", "lint_messages", "lint_parsed", "refusing_providers", "violations_of"]

_QUOTED = 60  # characters of an id that a detail repeats


def lint_messages(
    messages: Iterable[Any],
    provider: str | ProviderRules,
    format: MessageFormat | None = None,
    *,
    model: str | None = None,
    pending_call_ids: Collection[str] = (),
    previous_response_id: str | None = None,
) -> tuple[Violation, ...]:
    """The rules of `provider` that this history breaks, each of which it answers with an error.

    `messages` are dicts or SDK objects of one format (None: found out). Calls in `pending_call_ids` are
    still being run and need no result yet. With `previous_response_id` results may answer calls that the
    provider keeps. ValueError for a provider that is not known.
    """
    history = list(messages)
    name = format or detect_format(history)
    rules = known_provider_rules(provider, model=model, format=name)
    reader = format_of(name)
    parsed = [reader.read(raw, index) for index, raw in enumerate(history)]
    return tuple(
        lint_parsed(
            parsed,
            rules,
            name,
            pending_call_ids=pending_call_ids,
            previous_response_id=previous_response_id,
        )
    )


def lint_parsed(
    messages: Sequence[Message],
    rules: ProviderRules,
    format_name: MessageFormat,
    *,
    pending_call_ids: Collection[str] = (),
    previous_response_id: str | None = None,
) -> list[Violation]:
    """`lint_messages` for messages that were read already; `message_index` counts in `messages`."""
    scan = HistoryScan(format_name, pending_call_ids).extend(messages)
    return violations_of(scan.findings(previous_response_id), rules)


def violations_of(findings: Iterable[Finding], rules: ProviderRules) -> list[Violation]:
    """Those findings of a scan that this provider refuses."""
    enforced = rules.rules
    return [
        Violation(rule_class(one.rule), one.rule.value, one.place, one.call_id, _detail(one))
        for one in findings
        if one.rule in enforced and not (one.rule is Rule.SPLIT_TURN and rules.merges_turns)
    ]


def refusing_providers(broken: Collection[Rule]) -> dict[str, tuple[Rule, ...]]:
    """The providers of the table that enforce one of these rules, with those rules.

    Rules that depend on the model that is served are left out: without a model nothing is known of them.
    """
    return dict(_refusing(frozenset(broken)))


@lru_cache(maxsize=1024)
def _refusing(broken: frozenset[Rule]) -> tuple[tuple[str, tuple[Rule, ...]], ...]:
    hits = ((name, (row.rules - row.unsure) & broken) for name, row in PROVIDERS.items())
    return tuple((name, tuple(sorted(hit))) for name, hit in hits if hit)


def _detail(finding: Finding) -> str:
    said = f" {_short(finding.call_id)}" if finding.call_id else ""
    extra = f" ({_short(finding.extra)})" if finding.extra else ""
    return f"{_WRONG[finding.rule].format(id=said)}{extra}; rule: {rule_text(finding.rule)}"


def _short(text: str) -> str:
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED - 1]}…"


_WRONG: dict[Rule, str] = {
    Rule.MISSING_RESULT: "no result follows call{id}",
    Rule.MISSING_SOME_RESULTS: "call{id} has no result, though others of its turn have one",
    Rule.ORPHAN_RESULT: "result{id} follows no turn that calls tools",
    Rule.UNKNOWN_RESULT_ID: "result{id} answers no call of the turn before it",
    Rule.DUPLICATE_RESULT: "call{id} has a second result",
    Rule.MISPLACED_RESULT: "result{id} does not stand behind the turn of its call",
    Rule.SPLIT_TURN: "another assistant message stands between result{id} and its call",
    Rule.RESULTS_FIRST: "result{id} shares its message with content that stands before a result",
    Rule.RESULT_COUNT: "the number of results differs from that of the calls",
    Rule.RESULT_NAME: "result{id} lacks the name of the function called",
    Rule.FAILED_RESULT_EMPTY: "failed result{id} is empty",
    Rule.EMPTY_TOOL_CALLS: "`tool_calls` is an empty list",
    Rule.UNIQUE_IN_TURN: "two calls of one turn have the id{id}",
    Rule.UNIQUE_IN_HISTORY: "an earlier call has the id{id} too",
    Rule.BLANK_ID_TWICE: "an earlier call has a blank id too",
    Rule.ITEM_ID_UNIQUE: "an earlier item has the same id",
    Rule.ITEM_ID_PREFIX: "the item id of call{id} is of another kind",
    Rule.ID_PRESENT: "a call or result has no id of its own{id}",
    Rule.ID_SPELLING: "the id of result{id} is spelled unlike that of its call",
    Rule.ID_MAX_40: "the id{id} is too long",
    Rule.ID_MAX_64: "the id{id} is too long",
    Rule.ID_WORD: "the id{id} has other characters",
    Rule.ID_BEDROCK: "the id{id} has other characters or another length",
    Rule.ID_MISTRAL: "the id{id} has other characters or another length",
    Rule.ARGUMENTS_JSON: "the arguments of call{id} are no JSON",
    Rule.ARGUMENTS_BLANK: "the arguments of call{id} are blank",
    Rule.ARGUMENTS_OBJECT: "the arguments of call{id} are no object",
    Rule.EMPTY_MESSAGE: "the message is empty",
    Rule.BLANK_TEXT: "the message has a blank text block",
    Rule.ASSISTANT_EMPTY: "the assistant message has neither text nor calls",
    Rule.ASSISTANT_NULL: "the assistant message has neither content nor calls",
    Rule.RESULT_NULL: "result{id} has no content",
    Rule.CONTENT_PRESENT: "the message has no content",
    Rule.PARTS_PRESENT: "the message has no parts",
    Rule.USER_AFTER_TOOL: "a user message follows a result directly",
    Rule.ALTERNATE: "two messages of one role stand in a row",
    Rule.STARTS_WITH_USER: "the history begins with an assistant message",
    Rule.CALL_TURN_ORDER: "a turn that calls tools follows neither a user turn nor results",
    Rule.TEMPLATE_ALTERNATION: "the message is out of turn",
    Rule.NEEDS_USER: "the history has no user message",
    Rule.KNOWN_ROLES: "the role is not known there",
    Rule.REASONING_FOLLOWED: "nothing of the same answer follows the reasoning item",
}
