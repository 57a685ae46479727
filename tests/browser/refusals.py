"""Traces whose requests were refused over their history, in the ways that the requests page has to show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refused_histories import DUPLICATE, LOOP, MISSING, ORPHAN, Message, asks, gives, says

from .hostile import MARKS

__all__ = ["HOSTILE", "Traces", "asks", "gives", "says", "write_refusals"]

BEGIN = 1_795_000_000_000_000_000
SECOND = 1_000_000_000
HOSTILE = " ".join(MARKS)


def _value(value: object) -> dict[str, object]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


class Traces:
    """Builds one file of OTLP JSON."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self._made = 0

    def _id(self, length: int) -> str:
        self._made += 1
        return f"{self._made:0{length}x}"

    def run(self, agent: str = "support", session: str | None = None) -> tuple[str, str]:
        """(trace id, span id) of a new agent run."""
        trace, span = self._id(32), self._id(16)
        attributes: dict[str, object] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
        }
        if session:
            attributes["gen_ai.conversation.id"] = session
        self._add(trace, span, None, f"invoke_agent {agent}", 0, 3600, attributes, None)
        return trace, span

    def _add(
        self,
        trace: str,
        span: str,
        parent: str | None,
        name: str,
        at: float,
        lasts: float,
        attributes: dict[str, object],
        error: str | None,
    ) -> None:
        start = BEGIN + int(at * SECOND)
        self.spans.append(
            {
                "traceId": trace,
                "spanId": span,
                **({"parentSpanId": parent} if parent else {}),
                "name": name,
                "kind": 3,
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(start + int(lasts * SECOND)),
                "status": {"code": 1} if error is None else {"code": 2, "message": error},
                "attributes": [{"key": key, "value": _value(value)} for key, value in attributes.items()],
            }
        )

    def request(
        self,
        run: tuple[str, str],
        at: float,
        messages: Sequence[Message] | None,
        error: str | None = None,
        *,
        provider: str = "openai",
        model: str = "gpt-4o",
        status: int = 400,
        tokens: int | None = None,
    ) -> str:
        """A request; refused with these words, or answered. Returns its place: trace id-span id."""
        attributes: dict[str, object] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        if messages is not None:
            attributes["gen_ai.input.messages"] = json.dumps(list(messages))
        if error is not None:
            attributes |= {"http.response.status_code": status, "error.type": "BadRequestError"}
        elif tokens:
            attributes["gen_ai.usage.input_tokens"] = tokens
        span = self._id(16)
        self._add(run[0], span, run[1], f"chat {model}", at, 0.4, attributes, error)
        return f"{run[0]}-{span}"

    def call(self, run: tuple[str, str], at: float, name: str, arguments: str, result: str) -> None:
        """A finished tool call."""
        attributes: dict[str, object] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": f"call_{self._made}",
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.tool.call.result": result,
        }
        self._add(run[0], self._id(16), run[1], f"execute_tool {name}", at, 0.1, attributes, None)

    def write(self, path: Path, service: str = "shop") -> Path:
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
        body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": self.spans}]}]}
        path.write_text(json.dumps(body) + "\n", encoding="utf-8")
        return path


def _long(rounds: int) -> list[Message]:
    history = [says("system", "You help."), says("user", "Clear my desk.")]
    for number in range(rounds):
        one = f"call_{number:08d}"
        history += [asks(one, args=json.dumps({"page": number})), gives(one, f"page {number} is done")]
    return history


def write_refusals(folder: Path) -> tuple[Path, dict[str, str]]:
    """The file, and the place of each request by what it shows."""
    traces, places = Traces(), {}

    run = traces.run("refunds", "conv-1")
    before = [says("user", "Where is my refund?"), asks("call_first001"), gives("call_first001")]
    traces.request(run, 1, before, tokens=400)
    twice = [*before, gives("call_first001")]
    for retry in range(3):
        places["doubled"] = traces.request(run, 2 + retry, twice, DUPLICATE.format("call_first001"))

    run = traces.run("builder")
    cut = [
        says("user", "build it"),
        asks("call_make", "call_test", name="make"),
        says("user", "stop, do this instead"),
        gives("call_make", "built"),
    ]
    places["cut"] = traces.request(run, 10, cut, MISSING.format("call_test"))

    run = traces.run("desk")
    whole = _long(30)
    traces.request(run, 20, whole, tokens=5000)
    compacted = [*whole[:2], *whole[11:]]  # begins with a result whose call is gone
    places["long"] = traces.request(run, 21, compacted, ORPHAN)

    run = traces.run("hotel")
    places["blind"] = traces.request(run, 30, None, ORPHAN)

    run = traces.run("looper")
    for number in range(6):
        traces.call(run, 40 + number, "poll", '{"job": 7}', "still running")
    places["loop"] = traces.request(run, 50, None, LOOP, provider="dashscope", model="qwen-max")

    run = traces.run("sound")
    places["sound"] = traces.request(
        run, 60, [*before, says("assistant", "none")], "Unexpected role 'user' after role 'tool'"
    )
    places["limit"] = traces.request(run, 61, before, "Error code: 429 - slow down", status=429)

    run = traces.run(f"agent {MARKS[4]} {MARKS[1]}")
    nasty = "call_hostile1"
    hostile = [
        says("system", HOSTILE),
        says("user", HOSTILE),
        asks(nasty, name=MARKS[1], args=json.dumps({HOSTILE: HOSTILE})),
        gives(nasty, HOSTILE),
        gives(nasty, HOSTILE),
        says(MARKS[4], HOSTILE),
    ]
    places["hostile"] = traces.request(
        run, 70, hostile, DUPLICATE.format(nasty) + HOSTILE, model=f"model {MARKS[4]} {MARKS[1]}"
    )

    run = traces.run("odd")
    odd = [says("user", "go"), asks("callaaaaa", name="multi_tool_use.parallel"), gives("callaaaaa")]
    places["odd"] = traces.request(run, 80, odd, tokens=90)
    return traces.write(folder / "refusals.jsonl"), places
