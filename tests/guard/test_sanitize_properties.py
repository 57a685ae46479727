"""Histories broken at random: what the sanitizer answers is taken by every provider, and nothing is lost."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from broken_histories import FORMATS, Turn, broken, conversations, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopscope.guard.messages import (
    Call,
    ErrorClass,
    Result,
    Violation,
    format_of,
    repair_messages,
    sanitize_messages,
)
from loopscope.guard.messages._lint import lint_messages
from loopscope.guard.messages._providers import PROVIDERS, ProviderRules
from loopscope.guard.messages._rules import PAIRING_CLASSES, Rule

_SETTINGS = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


_ONLY_SOME = {
    Rule.UNIQUE_IN_HISTORY.value,
    Rule.BLANK_ID_TWICE.value,
    Rule.ITEM_ID_UNIQUE.value,
    Rule.RESULT_NAME.value,
}


def providers_of(form: str) -> list[str]:
    return [name for name, row in PROVIDERS.items() if form in row.formats]


def blocks_of(messages: list[Any], form: str, kind: type[Any]) -> list[Any]:
    reader = format_of(form)
    read = (reader.read(raw, index) for index, raw in enumerate(messages))
    return [block for message in read for block in message.blocks if isinstance(block, kind)]


def text_of(value: Any) -> str:
    """The words "result n" in arguments or in a result, however the format wraps them."""
    found = re.search(r"result \d+", json.dumps(value) if not isinstance(value, str) else value)
    return found.group() if found else ""


def lint(messages: list[Any], provider: str | ProviderRules, form: str) -> tuple[Violation, ...]:
    return lint_messages(messages, provider, form)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("form", FORMATS)
@_SETTINGS
@given(data=st.data())
def test_the_result_is_clean_for_every_provider_of_its_format(form: str, rare: bool, data: st.DataObject):
    messages = data.draw(broken(form, rare=rare))
    before = copy.deepcopy(messages)
    for name in providers_of(form):
        result = sanitize_messages(messages, form, provider=name)  # pyright: ignore[reportArgumentType]
        assert messages == before, "the input was touched"
        assert lint(result.messages, name, form) == (), name
        again = sanitize_messages(result.messages, form, provider=name)  # pyright: ignore[reportArgumentType]
        assert again.repairs == (), name
        assert all(one is other for one, other in zip(again.messages, result.messages, strict=True))


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("form", FORMATS)
@_SETTINGS
@given(data=st.data())
def test_pairing_needs_no_provider(form: str, rare: bool, data: st.DataObject):
    messages = data.draw(broken(form, rare=rare))
    before = copy.deepcopy(messages)
    result = sanitize_messages(messages, form)  # pyright: ignore[reportArgumentType]
    assert messages == before, "the input was touched"
    for name in providers_of(form):
        left = [one for one in lint(result.messages, name, form) if one.error_class in PAIRING_CLASSES]
        # Ids that come back in later rounds are legal: only a provider says otherwise.
        assert [one for one in left if one.rule not in _ONLY_SOME] == [], name
    again = sanitize_messages(result.messages, form)  # pyright: ignore[reportArgumentType]
    assert again.repairs == ()
    assert all(one is other for one, other in zip(again.messages, result.messages, strict=True))


@pytest.mark.parametrize("form", FORMATS)
@_SETTINGS
@given(data=st.data())
def test_no_result_is_lost_whose_call_is_there(form: str, data: st.DataObject):
    """Calls of these histories name their result in the arguments."""
    messages = data.draw(broken(form, whole=True))
    called = {text_of(call.arguments) for call in blocks_of(messages, form, Call)}
    real = {text_of(result.content) for result in blocks_of(messages, form, Result)}
    for provider in (None, *providers_of(form)):
        result = sanitize_messages(messages, form, provider=provider)  # pyright: ignore[reportArgumentType]
        left = blocks_of(result.messages, form, Result)
        kept = {text_of(one.content) for one in left if not one.synthetic}
        assert kept == called & real, provider
        # And each stands with its own call: the calls and their results are equally many.
        assert len(left) == len(blocks_of(result.messages, form, Call))


@pytest.mark.parametrize("form", FORMATS)
@_SETTINGS
@given(turns=conversations())
def test_a_valid_history_comes_back_as_it_is(form: str, turns: list[Turn]):
    messages = write(turns, form)
    result = sanitize_messages(messages, form)  # pyright: ignore[reportArgumentType]
    assert result.repairs == ()
    assert all(one is other for one, other in zip(result.messages, messages, strict=True))
    for name in providers_of(form):
        violations = lint(messages, name, form)
        done = sanitize_messages(messages, form, provider=name)  # pyright: ignore[reportArgumentType]
        assert bool(violations) == bool(done.repairs), name
        if not violations:
            assert all(one is other for one, other in zip(done.messages, messages, strict=True))


@pytest.mark.parametrize("form", FORMATS)
@_SETTINGS
@given(data=st.data())
def test_a_session_is_repaired_once(form: str, data: st.DataObject):
    messages = data.draw(broken(form, rare=True))
    result = repair_messages(messages, form)  # pyright: ignore[reportArgumentType]
    again = repair_messages(result.messages, form)  # pyright: ignore[reportArgumentType]
    assert again.repairs == ()


@_SETTINGS
@given(data=st.data())
def test_what_is_broken_is_found(data: st.DataObject):
    """A result taken out, or put in twice, is seen by the strictest provider of each format."""
    form = data.draw(st.sampled_from(["openai-chat", "anthropic", "gemini", "bedrock-converse"]))
    turns = [turn for turn in data.draw(conversations(may_recur=False)) if turn.rounds]
    messages = write(turns, form)
    places = [at for at, one in enumerate(messages) if blocks_of([one], form, Result)]
    if not places:
        return
    at = data.draw(st.sampled_from(places))
    provider = providers_of(form)[0]
    assert lint(messages, provider, form) == ()
    without = lint(messages[:at] + messages[at + 1 :], provider, form)
    assert {one.error_class for one in without} & {ErrorClass.MISSING_RESULT, ErrorClass.ROLE_ORDER}
    late = [*messages, messages[at]]
    assert any(
        one.error_class in (ErrorClass.ORPHAN_RESULT, ErrorClass.DUPLICATE_RESULT)
        for one in lint(late, provider, form)
    )


@_SETTINGS
@given(data=st.data())
def test_a_history_of_another_format_is_mended_as_far_as_it_goes(data: st.DataObject):
    """For a provider behind a gateway: ids, arguments and content; once is enough."""
    form = data.draw(st.sampled_from(FORMATS))
    messages = data.draw(broken(form))
    name = data.draw(st.sampled_from(sorted(PROVIDERS)))
    before = copy.deepcopy(messages)
    result = sanitize_messages(messages, form, provider=PROVIDERS[name])  # pyright: ignore[reportArgumentType]
    assert messages == before, "the input was touched"
    left = {one.error_class for one in lint(result.messages, PROVIDERS[name], form)}
    assert left <= {ErrorClass.ROLE_ORDER, ErrorClass.MISPLACED_RESULT}
    again = sanitize_messages(result.messages, form, provider=PROVIDERS[name])  # pyright: ignore[reportArgumentType]
    assert again.repairs == ()
