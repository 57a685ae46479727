"""How fast is a history sanitised?

    python benchmarks/bench_sanitize.py [--rounds 7]

Per format: a history of 2,000 messages with 800 calls: whole, cut behind its last call, and broken in
every 20th turn (results lost, doubled, moved), and how the time grows up to 50,000 messages. Also per format
but the Responses API: `repair_messages` of a history in which all messages are of one role. CPU time of
the process, the best of some rounds. Baseline in the same run: json.dumps of the same history, which is
the least that sending it costs. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from loopscope.guard import FORMATS, repair_messages, sanitize_messages
from loopscope.guard.messages import MessageFormat

TARGET_MS = 10.0  # 2,000 messages with 800 calls
TARGET_GROWTH = 2.0  # time per message at 50,000 messages against that at 2,000; a long history is read twice

Json = dict[str, Any]
TEXT = "The refund policy says that a customer may send back what was bought within 30 days. " * 3


def _chat(turn: int, calls: list[tuple[str, str]]) -> list[Json]:
    made = [
        {
            "id": name,
            "type": "function",
            "function": {"name": "search", "arguments": json.dumps({"q": query})},
        }
        for name, query in calls
    ]
    results = [{"role": "tool", "tool_call_id": name, "content": TEXT} for name, _ in calls]
    return [{"role": "assistant", "content": None, "tool_calls": made}, *results]


def _responses(turn: int, calls: list[tuple[str, str]]) -> list[Json]:
    made = [
        {
            "type": "function_call",
            "id": f"fc_{name}",
            "call_id": name,
            "name": "search",
            "arguments": json.dumps({"q": query}),
        }
        for name, query in calls
    ]
    return made + [{"type": "function_call_output", "call_id": name, "output": TEXT} for name, _ in calls]


def _anthropic(turn: int, calls: list[tuple[str, str]]) -> list[Json]:
    made = [
        {"type": "tool_use", "id": name, "name": "search", "input": {"q": query}} for name, query in calls
    ]
    results = [{"type": "tool_result", "tool_use_id": name, "content": TEXT} for name, _ in calls]
    return [{"role": "assistant", "content": made}, {"role": "user", "content": results}]


def _gemini(turn: int, calls: list[tuple[str, str]]) -> list[Json]:
    made = [{"functionCall": {"name": "search", "args": {"q": query}}} for _, query in calls]
    results = [{"functionResponse": {"name": "search", "response": {"output": TEXT}}} for _ in calls]
    return [{"role": "model", "parts": made}, {"role": "user", "parts": results}]


def _bedrock(turn: int, calls: list[tuple[str, str]]) -> list[Json]:
    made = [
        {"toolUse": {"toolUseId": name, "name": "search", "input": {"q": query}}} for name, query in calls
    ]
    results = [
        {"toolResult": {"toolUseId": name, "content": [{"text": TEXT}], "status": "success"}}
        for name, _ in calls
    ]
    return [{"role": "assistant", "content": made}, {"role": "user", "content": results}]


MAKERS: dict[MessageFormat, Callable[[int, list[tuple[str, str]]], list[Json]]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock-converse": _bedrock,
}


def _said(form: MessageFormat, role: str, text: str) -> Json:
    if form == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    return {"role": role, "content": [{"text": text}] if form == "bedrock-converse" else text}


def history(form: MessageFormat, messages: int, *, broken: bool) -> list[Json]:
    """Two calls in every turn, 40 calls for 100 messages, between them texts of both sides."""
    out: list[Json] = []
    per_turn = 10 if form in ("openai-chat", "openai-responses") else 5
    turn = 0
    while len(out) < messages:
        # Per block of messages so many turns of two calls that 40 calls come to 100 messages.
        for _ in range(2 if per_turn == 10 else 1):
            calls = [(f"call_{turn}_{n}", f"refund {turn % 7} {n}") for n in range(2)]
            turn += 1
            made = MAKERS[form](turn, calls)
            out += _broken(form, made, turn) if broken and turn % 20 == 0 else made
        turn_texts = per_turn - (6 if form == "openai-chat" else 8 if form == "openai-responses" else 2)
        for n in range(turn_texts):
            out.append(_said(form, "user" if n % 2 == 0 else "assistant", TEXT))
    return out[:messages] if not broken else out


def _broken(form: MessageFormat, made: list[Json], turn: int) -> list[Json]:
    """The turn with one of four faults."""
    fault = turn // 20 % 4
    if form in ("openai-chat", "openai-responses"):
        if fault == 0:
            return made[:-1]
        if fault == 1:
            return [*made, made[-1]]
        if fault == 2:
            return [*made[:-1], _said(form, "user", TEXT), made[-1]]
        return [made[-1], *made[:-1]]
    key = "parts" if form == "gemini" else "content"
    call, result = made
    blocks = result[key]
    if fault == 0:
        return [call, {**result, key: blocks[:-1]}]
    if fault == 1:
        return [call, {**result, key: [*blocks, blocks[-1]]}]
    if fault == 2:
        return [call, _said(form, "user", TEXT), result]
    return [call, {**result, key: blocks[:-1]}, {**result, key: blocks[-1:]}]


def cpu_ms(work: Callable[[], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    missed = 0
    heads = ("history", "messages", "calls", "ms", "json.dumps", "ratio", "growth")
    print(f"{'format':18}" + "".join(f"{head:>11}" for head in heads))
    for form in FORMATS:
        for state in ("whole", "cut", "broken", "one role"):
            if state == "one role" and form == "openai-responses":
                continue  # items are not merged
            repair = repair_messages if state == "one role" else sanitize_messages
            first = 0.0
            for count in (2_000, 10_000, 50_000):
                if state == "one role":
                    messages = [_said(form, "user", TEXT) for _ in range(count)]
                else:
                    messages = history(form, count, broken=state == "broken")
                if state == "cut":  # the usual fault: the last call was interrupted
                    messages += MAKERS[form](0, [("call_cut", "x")])[:1]
                assert repair(messages, form).changed == (state != "whole")
                calls = json.dumps(messages).replace("\\", "").count('{"q": ')
                times = rounds if count < 50_000 else 3
                took = cpu_ms(partial(repair, messages, form), times)
                dumps = cpu_ms(partial(json.dumps, messages), times)
                first = first or took / len(messages)
                growth = took / len(messages) / first
                late = state != "one role" and count == 2_000 and took > TARGET_MS
                late = late or (count > 2_000 and growth > TARGET_GROWTH)
                missed += late
                row = (
                    f"{len(messages):,}",
                    f"{calls:,}",
                    f"{took:.2f}",
                    f"{dumps:.2f}",
                    f"{took / dumps:.2f}",
                )
                cells = (state, *row, f"{growth:.2f}")
                print(f"{form:18}" + "".join(f"{cell:>11}" for cell in cells) + ("  MISSED" if late else ""))
    targets = f"{TARGET_MS:g} ms at 2,000 messages, growth of the time per message at most {TARGET_GROWTH:g}"
    print(f"targets ({targets}): {'missed' if missed else 'met'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
