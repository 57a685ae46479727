"""Histories broken at random: what the quick walk says, and what the repair must keep."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any
from unittest import mock

import pytest
from histories import (
    A,
    T,
    U,
    assistant,
    bedrock_result,
    bedrock_use,
    call,
    gemini_call,
    gemini_response,
    model,
    responses_call,
    responses_output,
    said,
    tool_result,
    turn,
    use,
    user,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from loopscope.guard import FORMATS, RepairKind, sanitize_messages
from loopscope.guard.messages import Call, Result, format_of
from loopscope.guard.messages import _sanitize as sanitize_module
from loopscope.guard.messages._clean import is_whole, whole_until

Json = dict[str, Any]
RESULT = re.compile(r"result \d+")


def make_turn(form: str, ids: list[str], numbers: list[int], rng: random.Random) -> list[Json]:
    """A turn with calls of these ids, and its results `result <number>`."""
    results = [f"result {number}" for number in numbers]
    names = [rng.choice("fg") for _ in ids]
    pairs = list(zip(ids, names, results, strict=True))
    if form == "openai-chat":
        calls = [call(one, name, json.dumps({"n": n})) for n, (one, name, _) in enumerate(pairs)]
        return [A(*calls), *(T(one, text) for one, _, text in pairs)]
    if form == "openai-responses":
        calls = [responses_call(one, name, json.dumps({"n": n})) for n, (one, name, _) in enumerate(pairs)]
        return [*calls, *(responses_output(one, text) for one, _, text in pairs)]
    if form == "anthropic":
        return [
            assistant(*(use(one, name, n=n) for n, (one, name, _) in enumerate(pairs))),
            user(*(tool_result(one, text) for one, _, text in pairs)),
        ]
    if form == "bedrock-converse":
        return [
            assistant(*(bedrock_use(one, name, n=n) for n, (one, name, _) in enumerate(pairs))),
            user(*(bedrock_result(one, text) for one, _, text in pairs)),
        ]
    return [
        model(*(gemini_call(name) for _, name, _ in pairs)),
        turn(*(gemini_response(name, text) for _, name, text in pairs)),
    ]


def say(form: str, role: str, text: str) -> Json:
    if form == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    if form == "bedrock-converse":
        return {"role": role, "content": [{"text": text}]}
    return {"role": role, "content": [said(text)] if form == "anthropic" else text}


def valid_history(form: str, rng: random.Random) -> list[Json]:
    out: list[Json] = [say(form, "user", "q")]
    ids = rng.choice(["c{n}", "f:{i}", "k{i}", "c{n}|fc_{n}"])
    number = 0
    for _ in range(rng.randint(1, 6)):
        count = rng.randint(1, 3)
        numbers = list(range(number, number + count))
        number += count
        out += make_turn(form, [ids.format(i=i, n=n) for i, n in enumerate(numbers)], numbers, rng)
        out += [say(form, role, "text") for role in ("assistant", "user")[: rng.randint(0, 2)]]
    return out


def broken_history(form: str, rng: random.Random) -> list[Json]:
    history = valid_history(form, rng)
    key = "parts" if form == "gemini" else "content"
    for _ in range(rng.randint(1, 4)):
        if not history:
            break
        at, fault = rng.randrange(len(history)), rng.randrange(7)
        if fault == 0:
            del history[at]
        elif fault == 1:
            history.insert(rng.randrange(len(history) + 1), copy.deepcopy(history[at]))
        elif fault == 2:
            history.insert(rng.randrange(len(history)), history.pop(at))
        elif fault == 3:
            history = rng.choice([history[at:], history[: at + 1]])
        elif fault == 4:
            for blocks in (history[at].get(key), history[at].get("tool_calls")):
                if isinstance(blocks, list) and blocks:
                    one = rng.randrange(len(blocks))
                    what = rng.randrange(3)
                    if what == 0:
                        del blocks[one]
                    elif what == 1:
                        blocks.append(copy.deepcopy(blocks[one]))
                    else:
                        blocks.insert(0, blocks.pop(one))
        elif fault == 5:
            text = json.dumps(history[at])
            new = rng.choice(["c0", "c1", "f:0", "k0", "", " c1 "])
            keys = "tool_call_id|id|call_id|tool_use_id|toolUseId"
            history[at] = json.loads(re.sub(rf'"({keys})": "[^"]*"', rf'"\1": "{new}"', text, count=1))
        else:
            history.insert(at, say(form, rng.choice(["user", "assistant"]), rng.choice(["more", ""])))
    return history


def seeds() -> st.SearchStrategy[tuple[str, random.Random]]:
    return st.tuples(st.sampled_from(FORMATS), st.integers(0, 2**40).map(random.Random))


def texts(messages: list[Any]) -> set[str]:
    return set(RESULT.findall(json.dumps(messages)))


def is_paired(messages: list[Any], form: str) -> bool:
    """Told apart from the sanitizer's own walk: is every call answered once, where its format wants it?"""
    read = [format_of(form).read(raw, at) for at, raw in enumerate(messages)]
    if form == "openai-responses":
        waiting: list[Call] = []
        for message in read:
            for one in message.calls:
                if not one.ids or any(one.ids[0] == other.ids[0] for other in waiting):
                    return False
                waiting.append(one)
            for result in message.results:
                mine = [one for one in waiting if set(one.ids) & set(result.ids)]
                if not mine:
                    return False
                waiting.remove(mine[0])
        return not waiting
    at = 0
    while at < len(read):
        calls, at = read[at].calls, at + 1
        if read[at - 1].results:
            return False
        if not calls:
            continue
        results: list[Result] = []
        if form == "openai-chat":
            while at < len(read) and read[at].role == "tool":
                results += read[at].results
                at += 1
        elif at < len(read):
            results = read[at].results
            if form != "gemini" and list(read[at].blocks[: len(results)]) != results:
                return False
            at += 1
        if len(results) != len(calls):
            return False
        if form == "gemini":
            if sorted(one.name or "" for one in calls) != sorted(one.name or "" for one in results):
                return False
            continue
        if len({(one.id or "").strip() for one in calls}) != len(calls):
            return False
        left = list(results)
        for one in calls:
            mine = [result for result in left if set(result.ids) & set(one.ids)]
            if not mine:
                return False
            left.remove(mine[0])
    return True


@settings(max_examples=120, deadline=None)
@given(seeds())
def test_a_valid_history_comes_back_as_it_is(seed):
    form, rng = seed
    history = valid_history(form, rng)
    assert is_paired(history, form)
    result = sanitize_messages(history, form)
    assert result.repairs == ()
    assert all(one is other for one, other in zip(result.messages, history, strict=True))
    one = format_of(form)
    assert is_whole([one.read(raw, at) for at, raw in enumerate(history)], one)


@settings(max_examples=400, deadline=None)
@given(seeds())
def test_a_broken_history_is_paired_afterwards_and_nothing_is_lost_in_silence(seed):
    form, rng = seed
    history = broken_history(form, rng)
    before = copy.deepcopy(history)
    result = sanitize_messages(history, form)
    assert history == before
    assert is_paired(result.messages, form)
    again = sanitize_messages(result.messages, form)
    assert again.repairs == ()
    assert all(one is other for one, other in zip(again.messages, result.messages, strict=True))
    dropped = [one for one in result.repairs if one.kind.startswith("dropped_")]
    assert len(texts(history) - texts(result.messages)) <= len(dropped)
    if is_paired(history, form):
        assert {one.kind for one in result.repairs} <= {
            RepairKind.FILLED_EMPTY_CONTENT,
            RepairKind.RENAMED_CALL_ID,
        }


@settings(max_examples=300, deadline=None)
@given(seeds())
def test_the_quick_walk_changes_no_answer(seed):
    """Whether it finds the history whole, or gives the place from which on it is to be repaired."""
    form, rng = seed
    history = valid_history(form, rng) + broken_history(form, rng)
    quick = sanitize_messages(history, form)
    with mock.patch.object(sanitize_module, "whole_until", return_value=0):
        slow = sanitize_messages(history, form)
    assert quick.messages == slow.messages
    assert quick.repairs == slow.repairs


@pytest.mark.parametrize("form", FORMATS)
def test_a_long_history_is_repaired_as_a_short_one(form, monkeypatch):
    """Long ones are read twice and let go between."""
    rng = random.Random(7)
    history = valid_history(form, rng) + broken_history(form, rng)
    short = sanitize_messages(history, form)
    monkeypatch.setattr(sanitize_module, "_LONG", 1)
    assert sanitize_messages(history, form) == short


def test_the_place_before_which_all_is_whole():
    form = format_of("openai-chat")
    history = [U(), A("a"), T("a"), U(), A("b"), T("b"), A("c"), U(), T("c")]
    read = [form.read(raw, at) for at, raw in enumerate(history)]
    assert whole_until(read, form) == 6
    assert whole_until(read[:6], form) is None
    assert whole_until(read[:7], form) == 6
    assert whole_until(read[:7], form, {"c"}) is None
