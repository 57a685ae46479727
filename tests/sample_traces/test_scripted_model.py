"""The scripted model refuses a broken history as the real service does."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest

from loopscope.sample_traces import files


def _load() -> Any:
    path = files()[0].parent / "scripts" / "_model.py"
    spec = importlib.util.spec_from_file_location("_scripted_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


MODEL = _load()


def asked(*ids: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
        ],
    }


def told(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "x"}


USER = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [USER, asked("a"), told("a"), {"role": "assistant", "content": "done"}],
        [USER, asked("a", "b"), told("b"), told("a"), asked("c"), told("c")],
        [USER, asked("a"), told("a"), asked("a"), told("a")],  # an id may come back in a later round
    ],
)
def test_a_paired_history_is_taken(messages: list[dict[str, Any]]) -> None:
    MODEL.check_chat_history(messages)


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        (
            [USER, asked("a"), told("a"), told("a")],
            "Duplicate value for 'tool_call_id' of 'a' in messages[2] and messages[3]",
        ),
        (
            [USER, asked("a", "a"), told("a"), told("a")],
            "Duplicate value for 'tool_call_id' of 'a' in messages[2] and messages[3]",
        ),
        ([USER, asked("a", "b"), told("a")], "did not have response messages: b"),
        ([USER, asked("a"), USER, told("a")], "did not have response messages: a"),
        ([USER, told("a")], "must be a response to a preceeding message"),
        ([USER, {"role": "assistant", "tool_calls": []}], "empty array"),
    ],
)
def test_a_broken_history_is_refused_with_the_service_s_words(
    messages: list[dict[str, Any]], text: str
) -> None:
    with pytest.raises(MODEL.HistoryError) as caught:
        MODEL.check_chat_history(messages)
    assert text in str(caught.value)


def test_responses_items_must_pair_too() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": "x"}
    MODEL.check_responses_input([USER, call, output])
    for items, text in (
        ([call, output, call], "Duplicate item found with id fc_1"),
        ([call], "No tool output found for function call a"),
        ([output], "No tool call found for function call output with call_id a"),
    ):
        with pytest.raises(MODEL.HistoryError) as caught:
            MODEL.check_responses_input(items)
        assert text in str(caught.value)
