"""The worked examples, with the real client libraries and answers from a script in place of the service."""

from __future__ import annotations

import asyncio
import json
import runpy
from itertools import count
from pathlib import Path

import pytest
from agreement import agreed
from scripted import DONE

from loopscope.guard import ABORT_MARKER, GUIDANCE_MARKER, GuardPolicy
from loopscope.guard.adapters import LOOP_BLOCKED

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
POLICY = GuardPolicy()
SEARCH = ("search_docs", {"query": "refunds"})


def http():
    """The HTTP library that the installed clients are built on."""
    try:
        import httpx2
    except ImportError:
        import httpx

        return httpx
    return httpx2


class Service:
    """Answers requests by a script and keeps what was sent. `reply` makes the body of an answer."""

    def __init__(self, turns, reply):
        self.turns = iter(turns)
        self.reply = reply
        self.sent = []
        self.ids = count(1)

    def __call__(self, request):
        self.sent.append(json.loads(request.content))
        turn = next(self.turns)
        calls = [] if isinstance(turn, str) else [(*call, f"c{next(self.ids)}") for call in turn]
        return http().Response(200, json=self.reply(turn if isinstance(turn, str) else "", calls))


# -- Anthropic ----------------------------------------------------------------------------------------


def anthropic_reply(text, calls):
    content = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": id_, "name": name, "input": args} for name, args, id_ in calls]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def ask_anthropic(turns, policy=POLICY):
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    service = Service(turns, anthropic_reply)
    with http().Client(transport=http().MockTransport(service)) as transport:
        client = anthropic.Anthropic(api_key="none", http_client=transport, max_retries=0)
        ask = runpy.run_path(str(EXAMPLES / "anthropic_tool_loop.py"))["ask"]
        return ask(client, "scripted", "What is our refund policy?", policy), service


def anthropic_results(service):
    return [
        block
        for message in service.sent[-1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def test_anthropic_an_answer_after_the_block_stays():
    answer, service = ask_anthropic([[SEARCH]] * 5 + [DONE])
    assert (answer.text, answer.outcome) == (DONE, LOOP_BLOCKED)
    contents = [block["content"] for block in anthropic_results(service)]
    real = "No documents found for: refunds"
    assert contents[:2] == [real, real]
    assert contents[2].startswith(f"{real}\n\n{GUIDANCE_MARKER}")
    assert contents[4].startswith(f"{real}\n\n{ABORT_MARKER}")


def test_anthropic_further_calls_after_the_block_are_not_made():
    answer, service = ask_anthropic([[SEARCH]] * 6 + ["not reached"])
    assert (answer.text, answer.outcome) == ("", LOOP_BLOCKED)
    assert len(service.sent) == 6


def test_anthropic_failures_are_told_to_the_model():
    turns = [[("search_docs", {"question": "x"}), ("serch", {})]] * 2 + [DONE]
    answer, service = ask_anthropic(turns)
    assert (answer.text, answer.outcome) == (DONE, None)
    assert all(block["is_error"] for block in anthropic_results(service))
    assert anthropic_results(service)[1]["content"] == "KeyError: 'serch'"


# -- OpenAI -------------------------------------------------------------------------------------------


def openai_reply(text, calls):
    message = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        message["tool_calls"] = [
            {
                "id": id_,
                "type": "function",
                "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
            }
            for name, args, id_ in calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if calls else "stop",
        "logprobs": None,
    }
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}


def ask_openai(turns, policy=POLICY):
    openai = pytest.importorskip("openai", reason="openai is not installed")
    service = Service(turns, openai_reply)
    ask = runpy.run_path(str(EXAMPLES / "openai_tool_loop.py"))["ask"]

    async def main():
        async with http().AsyncClient(transport=http().MockTransport(service)) as transport:
            client = openai.AsyncOpenAI(api_key="none", http_client=transport, max_retries=0)
            return await ask(client, "scripted", "What is our refund policy?", policy)

    return asyncio.run(main()), service


def openai_results(service):
    return [message["content"] for message in service.sent[-1]["messages"] if message["role"] == "tool"]


def test_openai_an_answer_after_the_block_stays():
    answer, service = ask_openai([[SEARCH] * 2, [SEARCH] * 3, DONE])
    assert (answer.text, answer.outcome) == (DONE, LOOP_BLOCKED)
    contents = openai_results(service)
    assert [text.count(GUIDANCE_MARKER) + 2 * text.count(ABORT_MARKER) for text in contents] == [
        0,
        0,
        1,
        1,
        2,
    ]
    assert all(text.startswith("No documents found for: refunds") for text in contents)


def test_openai_further_calls_after_the_block_are_not_made():
    answer, service = ask_openai([[SEARCH]] * 6 + ["not reached"])
    assert (answer.text, answer.outcome) == ("", LOOP_BLOCKED)
    assert len(service.sent) == 6


def test_openai_arguments_that_are_no_json_are_told_to_the_model():
    answer, service = ask_openai([[("search_docs", '{"query": ')], DONE])
    assert (answer.text, answer.outcome) == (DONE, None)
    assert openai_results(service)[0].startswith("JSONDecodeError: ")


# -- live and offline ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [ask_anthropic, ask_openai])
def test_a_recorded_loop_replays_to_the_same_verdicts(recorder, monkeypatch, ask):
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", recorder.provider)
    broken = ("search_docs", {"question": "x"})
    ask([[SEARCH, broken]] * 3 + [[SEARCH, ("search_docs", {"query": "returns"})], [SEARCH], DONE])
    assert [action for name, action, _ in agreed(recorder, POLICY)].count("block") == 1
