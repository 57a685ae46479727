"""One fault, refused in the words of each provider and recorded in each form, gets one verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from refused_histories import DUPLICATE, MISSING, ORPHAN, Message, asks, gives, says
from replay_rows import database
from request_rows import asked, refused

USER, NEXT = says("user", "where is my refund?"), says("user", "hello?")
HISTORIES: dict[str, list[Message]] = {
    "twins": [USER, asks("toolu_1", "toolu_1"), gives("toolu_1"), gives("toolu_1")],
    "again": [USER, asks("toolu_1"), gives("toolu_1"), asks("toolu_1"), gives("toolu_1")],
    "missing": [USER, asks("toolu_1"), NEXT],
    "partly": [USER, asks("toolu_1", "toolu_2"), gives("toolu_1"), NEXT],
    "misplaced": [USER, asks("toolu_1"), NEXT, gives("toolu_1")],
    "orphan": [USER, gives("toolu_1"), NEXT],
}


def parts(history: list[Message]) -> list[Message]:
    """As GenAI parts."""
    out: list[Message] = []
    for message in history:
        found: list[Message] = []
        if message["role"] == "tool":
            answer = {
                "type": "tool_call_response",
                "id": message["tool_call_id"],
                "response": message["content"],
            }
            found.append(answer)
        elif message["content"]:
            found.append({"type": "text", "content": message["content"]})
        for call in message.get("tool_calls", ()):
            found.append({"type": "tool_call", "id": call["id"], **call["function"]})
        out.append({"role": message["role"], "parts": found})
    return out


def grouped(
    history: list[Message],
    text: Callable[[str], Any],
    call: Callable[[str, str, Any], Message],
    result: Callable[[str, str], Message],
) -> list[tuple[str, Any]]:
    """(role, content) with the results of one turn in one message of the user."""
    out: list[tuple[str, Any]] = []
    behind = False
    for message in history:
        if message["role"] == "tool":
            block = result(message["tool_call_id"], message["content"])
            if behind:
                out[-1][1].append(block)
            else:
                out.append(("user", [block]))
            behind = True
            continue
        behind = False
        calls = [
            call(one["id"], one["function"]["name"], json.loads(one["function"]["arguments"]))
            for one in message.get("tool_calls", ())
        ]
        out.append((message["role"], calls or text(message["content"])))
    return out


def anthropic(history: list[Message]) -> list[Message]:
    found = grouped(
        history,
        lambda text: text,
        lambda one, name, args: {"type": "tool_use", "id": one, "name": name, "input": args},
        lambda one, text: {"type": "tool_result", "tool_use_id": one, "content": text},
    )
    return [{"role": role, "content": content} for role, content in found]


def bedrock(history: list[Message]) -> list[Message]:
    found = grouped(
        history,
        lambda text: [{"text": text}],
        lambda one, name, args: {"toolUse": {"toolUseId": one, "name": name, "input": args}},
        lambda one, text: {
            "toolResult": {"toolUseId": one, "content": [{"text": text}], "status": "success"}
        },
    )
    return [{"role": role, "content": content} for role, content in found]


def gemini(history: list[Message]) -> list[Message]:
    """Without ids, as Gemini mostly has none."""
    found = grouped(
        history,
        lambda text: [{"text": text}],
        lambda one, name, args: {"functionCall": {"name": name, "args": args}},
        lambda one, text: {"functionResponse": {"name": "search", "response": {"result": text}}},
    )
    return [{"role": "model" if role == "assistant" else role, "parts": content} for role, content in found]


def chat(history: list[Message]) -> list[Message]:
    return history


_A1 = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: {}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
_A2 = (
    "messages.1.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
_A3 = "messages.{}.content.1: `tool_use` ids must be unique"
_B1 = "Expected toolResult blocks at messages.2.content for the following Ids: {}"
_G1 = (
    "Please ensure that the number of function response parts is equal to the number of function call parts "
    "of the function call turn."
)
_DEDUP = ("dropped_duplicate_call", "dropped_duplicate_result")

# provider, form, fault → what it says, the class that is read, the repairs
CASES: dict[tuple[str, Callable[[list[Message]], list[Message]], str], tuple[str, str, tuple[str, ...]]] = {
    ("openai", chat, "twins"): (DUPLICATE.format("toolu_1"), "duplicate_call_id", _DEDUP),
    ("openai", parts, "twins"): (DUPLICATE.format("toolu_1"), "duplicate_call_id", _DEDUP),
    ("openai", parts, "again"): (DUPLICATE.format("toolu_1"), "duplicate_call_id", ("renamed_call_id",)),
    ("openai", chat, "misplaced"): (MISSING.format("toolu_1"), "missing_result", ("moved_result",)),
    ("openai", parts, "orphan"): (ORPHAN, "orphan_result", ("dropped_orphan_result",)),
    ("deepseek", chat, "missing"): (MISSING.format("toolu_1"), "missing_result", ("added_stub_result",)),
    ("anthropic", anthropic, "twins"): (_A3.format(1), "duplicate_call_id", _DEDUP),
    ("anthropic", parts, "twins"): (_A3.format(1), "duplicate_call_id", _DEDUP),
    ("anthropic", anthropic, "again"): (_A3.format(3), "duplicate_call_id", ("renamed_call_id",)),
    ("anthropic", anthropic, "missing"): (_A1.format("toolu_1"), "missing_result", ("added_stub_result",)),
    ("anthropic", parts, "partly"): (_A1.format("toolu_2"), "missing_result", ("added_stub_result",)),
    ("anthropic", anthropic, "partly"): (_A1.format("toolu_2"), "missing_result", ("added_stub_result",)),
    ("anthropic", anthropic, "misplaced"): (_A1.format("toolu_1"), "missing_result", ("moved_result",)),
    ("anthropic", chat, "orphan"): (_A2, "orphan_result", ("dropped_orphan_result",)),
    ("anthropic", anthropic, "orphan"): (_A2, "orphan_result", ("dropped_orphan_result",)),
    ("aws.bedrock", bedrock, "missing"): (_B1.format("toolu_1"), "missing_result", ("added_stub_result",)),
    ("aws.bedrock", bedrock, "misplaced"): (_B1.format("toolu_1"), "missing_result", ("moved_result",)),
    ("aws.bedrock", parts, "partly"): (_B1.format("toolu_2"), "missing_result", ("added_stub_result",)),
    ("gcp.gemini", gemini, "missing"): (_G1, "count_mismatch", ("added_stub_result",)),
    ("gcp.gemini", gemini, "partly"): (_G1, "count_mismatch", ("added_stub_result",)),
    ("gcp.gemini", parts, "missing"): (_G1, "count_mismatch", ("added_stub_result",)),
}


def test_every_provider_and_form() -> None:
    rows = [
        refused(form(HISTORIES[fault]), said, f"run-{at}", at=at, provider=provider, model="some-model")
        for at, ((provider, form, fault), (said, _, _)) in enumerate(CASES.items())
    ]
    found = {request.run_id: request for request in asked(database(requests=rows)).requests}
    for at, ((provider, form, fault), (_, error_class, repairs)) in enumerate(CASES.items()):
        request = found[f"run-{at}"]
        case = (provider, form.__name__, fault)
        assert (*case, request.verdict, request.reason) == (*case, "prevented", request.reason)
        assert (*case, request.error_class, request.repairs) == (*case, error_class, repairs)
        assert (*case, request.prevented_by_dedup) == (*case, repairs == _DEDUP)
