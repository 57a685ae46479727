"""What only one provider refuses, mended for that provider: ids, arguments, empty content, order of roles.

These passes run behind the pairing, on a history whose calls and results are in order. Each runs only where
the lint found its rule broken, so a history that the provider takes comes back as it is.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import Any

from ._facts import arguments_faults, is_blank_block
from ._formats import Format
from ._model import Block, Call, Message, Other, Result
from ._provider_ids import ID_RULES, mend_ids, mend_item_ids
from ._provider_roles import ROLE_RULES, mend_roles
from ._providers import ProviderRules
from ._repairs import Log
from ._rules import Rule
from ._scan import HistoryScan
from ._types import Repair
from ._words import RepairKind

__all__ = ["EMPTY_TEXT", "apply_provider_rules"]

EMPTY_TEXT = "(empty)"
"""Stands where a provider asks for text and the history has none."""

_ROUNDS = 4  # one pass may uncover what another mends: merged turns, for one, bring equal ids together

_CONTENT_RULES = frozenset(
    {
        Rule.EMPTY_MESSAGE,
        Rule.BLANK_TEXT,
        Rule.ASSISTANT_EMPTY,
        Rule.ASSISTANT_NULL,
        Rule.RESULT_NULL,
        Rule.CONTENT_PRESENT,
        Rule.PARTS_PRESENT,
        Rule.FAILED_RESULT_EMPTY,
    }
)
_ARGUMENT_RULES = frozenset({Rule.ARGUMENTS_JSON, Rule.ARGUMENTS_BLANK, Rule.ARGUMENTS_OBJECT})
_ITEM_RULES = frozenset({Rule.ITEM_ID_PREFIX, Rule.ITEM_ID_UNIQUE, Rule.ID_PRESENT})


def apply_provider_rules(
    messages: list[Message], rules: ProviderRules, format: Format, repairs: list[Repair]
) -> list[Message]:
    """The history with what this provider refuses mended, as far as it is not a matter of pairing.

    Takes messages in the order that the pairing left them in; appends to `repairs`. Messages that are not
    concerned stay the same objects. Of a format that the provider does not speak itself the order of roles
    is left alone: it is made by whoever translates the history.
    """
    rules = rules.for_format(format.name)
    log = Log(repairs)
    for _ in range(_ROUNDS):
        scan = HistoryScan(format.name).extend(messages)
        broken = scan.broken() & rules.rules
        before = messages
        messages = _one_round(messages, broken, rules, format, log)
        if messages is before or messages == before:
            break
    return messages


def _one_round(
    messages: list[Message], broken: frozenset[Rule], rules: ProviderRules, form: Format, log: Log
) -> list[Message]:
    if Rule.REASONING_FOLLOWED in broken:
        messages = _without_dangling_reasoning(messages, form, log)
    if broken & _ARGUMENT_RULES:
        messages = _each(messages, lambda one: _arguments(one, rules, form, log))
    if broken & _CONTENT_RULES:
        last = len(messages) - 1
        messages = [_content(one, rules, form, log, n == last) for n, one in enumerate(messages)]
    if Rule.RESULT_NAME in broken:
        messages = _named_results(messages, log)
    if broken & ROLE_RULES and form.name in rules.formats:
        messages = mend_roles(messages, rules, form, log)
    if form.name == "openai-responses" and broken & _ITEM_RULES:
        messages = mend_item_ids(messages, broken, form, log)
    if broken & ID_RULES and not form.positional:
        messages = mend_ids(messages, rules, form, log)
    return messages


def _each(messages: list[Message], mend: Callable[[Message], Message]) -> list[Message]:
    return [mend(message) for message in messages]


def _with_blocks(message: Message, blocks: list[Block]) -> Message:
    same = len(blocks) == len(message.blocks) and all(map(_is, blocks, message.blocks))
    return message if same else replace(message, blocks=tuple(blocks), changed=True)


def _is(one: object, other: object) -> bool:
    return one is other


# --- arguments --------------------------------------------------------------------------------------


def _arguments(message: Message, rules: ProviderRules, form: Format, log: Log) -> Message:
    if message.role != "assistant":
        return message
    blocks: list[Block] = []
    for block in message.blocks:
        new: Block = block
        if type(block) is Call and not block.server and block.kind in _PLAIN_CALLS:
            faults = rules.rules & frozenset(arguments_faults(block.arguments, form.name))
            if faults:
                new = _with_arguments(block, faults, form, message, log)
        blocks.append(new)
    return _with_blocks(message, blocks)


_PLAIN_CALLS = ("", "function_call")


def _with_arguments(call: Call, faults: frozenset[Rule], form: Format, message: Message, log: Log) -> Call:
    as_text = form.name in ("openai-chat", "openai-responses")
    was = call.arguments
    name = log.quoted(call.name)
    if was is None or (isinstance(was, str) and not was.strip()):
        value: dict[str, Any] = {}
        why = f"gave this call of {name} empty arguments, {{}}: it had none"
    else:
        parsed = _parsed(was)
        value = parsed if isinstance(parsed, dict) else {}
        if isinstance(parsed, dict) and as_text:
            why = f"wrote null for NaN or Infinity in the arguments of this call of {name}: they are no JSON"
        elif isinstance(parsed, dict):
            why = f"wrote the arguments of this call of {name} as an object: they were text"
        else:
            fault = "no JSON" if Rule.ARGUMENTS_JSON in faults or parsed is None else "no object"
            why = f"replaced the arguments of this call of {name} by {{}}: they were {fault}: {log.cut(was)}"
    log.add(RepairKind.REPAIRED_ARGUMENTS, message, call.id, why)
    return replace(call, arguments=json.dumps(value, ensure_ascii=False) if as_text else value)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        # What JSON has no word for, NaN and what is too large for a number, is null.
        return json.loads(value, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if isfinite(value) else None


# --- content ----------------------------------------------------------------------------------------


def _content(message: Message, rules: ProviderRules, form: Format, log: Log, is_last: bool) -> Message:
    if message.role not in ("user", "assistant", "tool", "system"):
        return message
    wanted = rules.rules & _CONTENT_RULES
    blocks = list(message.blocks)
    if Rule.FAILED_RESULT_EMPTY in wanted:
        blocks = [_filled_result(block, message, form, log) for block in blocks]
    if message.role == "tool":
        if wanted & {Rule.RESULT_NULL, Rule.CONTENT_PRESENT}:
            blocks = [_present_result(block, message, log) for block in blocks]
        return _with_blocks(message, blocks)
    if Rule.BLANK_TEXT in wanted and message.role != "system":
        kept = [block for block in blocks if not is_blank_block(block, message)]
        if len(kept) < len(blocks):
            blocks = kept
            if any(not (type(block) is Other and block.kind == "reasoning") for block in blocks):
                log.add(RepairKind.FILLED_EMPTY_CONTENT, message, None, "left out a blank text block")
            else:
                return _filled(message, blocks, form, log)
    said = [block for block in blocks if _says(block)]
    if _lacks_text(message, blocks, said, wanted, form, is_last):
        blocks = [block for block in blocks if not (type(block) is Other and block.empty and not block.key)]
        return _filled(message, blocks, form, log)
    if Rule.CONTENT_PRESENT in wanted and not any(type(one) is Other and not one.key for one in blocks):
        why = 'put the empty text "" where there was no content'
        log.add(RepairKind.FILLED_EMPTY_CONTENT, message, None, why)
        blocks.append(form.text_block(""))
    return _with_blocks(message, blocks)


def _lacks_text(
    message: Message,
    blocks: list[Block],
    said: list[Block],
    wanted: frozenset[Rule],
    form: Format,
    is_last: bool,
) -> bool:
    """Is this a message that must say something, and says nothing?"""
    role = message.role
    if said or role == "system":
        return False
    if Rule.ASSISTANT_EMPTY in wanted and role == "assistant":
        return True
    if Rule.ASSISTANT_NULL in wanted and role == "assistant" and form.name == "openai-chat":
        return not any(type(block) is Other and not block.key for block in blocks)
    if Rule.EMPTY_MESSAGE in wanted and not (is_last and role == "assistant"):
        return not any(type(block) is Other and block.kind == "reasoning" for block in blocks)
    return Rule.PARTS_PRESENT in wanted and not blocks


def _says(block: Block) -> bool:
    if type(block) is not Other:
        return True
    if block.kind == "reasoning":
        return block.key in ("refusal", "audio")
    return not block.empty


def _filled(message: Message, blocks: list[Block], form: Format, log: Log) -> Message:
    why = f'put "{EMPTY_TEXT}" into a message without text'
    log.add(RepairKind.FILLED_EMPTY_CONTENT, message, None, why)
    return replace(message, blocks=(*blocks, form.text_block(EMPTY_TEXT)), changed=True)


def _filled_result(block: Block, message: Message, form: Format, log: Log) -> Block:
    if type(block) is not Result or block.server or not block.failed or block.content:
        return block
    why = f'put "{EMPTY_TEXT}" into a failed result without content'
    log.add(RepairKind.FILLED_EMPTY_CONTENT, message, block.id, why)
    return replace(block, content=[{"text": EMPTY_TEXT}] if form.name == "bedrock-converse" else EMPTY_TEXT)


def _present_result(block: Block, message: Message, log: Log) -> Block:
    if type(block) is not Result or block.content is not None:
        return block
    why = 'put the empty text "" into a result without content'
    log.add(RepairKind.FILLED_EMPTY_CONTENT, message, block.id, why)
    return replace(block, content="")


# --- names and reasoning ----------------------------------------------------------------------------


def _named_results(messages: list[Message], log: Log) -> list[Message]:
    """Results under the name of the function that was called, where the provider pairs by name."""
    out: list[Message] = []
    turn = _Unanswered([])
    for message in messages:
        if message.role == "assistant":
            turn = _Unanswered([call for call in message.calls if not call.server])
        blocks: list[Block] = []
        for block in message.blocks:
            new: Block = block
            if type(block) is Result and not block.server:
                call = turn.take(block)
                if call is not None and block.name != call.name:
                    why = f"named this result {log.quoted(call.name)} after its call"
                    log.add(RepairKind.FIXED_RESULT_NAME, message, call.id, why)
                    new = replace(block, name=call.name)
            blocks.append(new)
        out.append(_with_blocks(message, blocks))
    return out


class _Unanswered:
    """The calls of a turn; results take them as the lint pairs them: by id, else by name, else the first."""

    def __init__(self, calls: list[Call]) -> None:
        self._taken: set[int] = set()
        self._waiting: dict[tuple[str, str | None], deque[Call]] = {}
        for call in calls:
            keys = {("id", one) for one in call.ids}
            for key in (("exact", (call.id or "").strip()), *keys, ("name", call.name), ("any", None)):
                self._waiting.setdefault(key, deque()).append(call)

    def take(self, result: Result) -> Call | None:
        ids = [("id", one) for one in result.ids]
        exact = [("exact", (result.id or "").strip())] if ids else []
        name = [] if result.name is None else [("name", result.name)]
        for key in (*exact, *ids, *name, ("any", None)):
            calls = self._waiting.get(key)
            while calls:
                call = calls.popleft()
                if id(call) not in self._taken:
                    self._taken.add(id(call))
                    return call
        return None


def _without_dangling_reasoning(messages: list[Message], form: Format, log: Log) -> list[Message]:
    """Without the reasoning items behind which nothing of the same answer comes."""
    out: list[Message] = []
    follows = False  # something that reasoning may lead to stands behind
    for message in reversed(messages):
        if message.is_reasoning:
            if not follows:
                why = "left out a reasoning item: what it led to is not in the history"
                log.add(RepairKind.DROPPED_REASONING, message, form.item_id(message), why)
                continue
        elif message.role == "assistant":
            follows = True
        elif message.role in ("user", "system", "tool"):
            follows = False
        out.append(message)
    out.reverse()
    return out
