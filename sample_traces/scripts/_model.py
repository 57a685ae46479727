"""A scripted model behind an OpenAI-compatible server on loopback.

No model runs here. Each story writes down beforehand what "the model" answers, turn by
turn; the framework under recording does everything else for real: it builds the request,
parses the answer, runs the tools and sends the results back. The server checks every
history the way the real service does and refuses a broken one with HTTP 400, so a story
about a refused request is a request that a server really refused.

One server serves several scripts. The API key chooses the script, because instrumentations
record model names and prompts but never keys.
"""

from __future__ import annotations

import json
import random
import string
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT = 18080  # fixed, so that recordings differ only where the story does


@dataclass(frozen=True)
class Call:
    """The model asks for one tool call."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None  # None: a fresh id in OpenAI's form


@dataclass(frozen=True)
class Say:
    """The model answers with text, which ends an agent's loop."""

    text: str


Turn = Say | Call | list[Call]


class HistoryError(ValueError):
    """What the service answers with HTTP 400: the message and the parameter it blames."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


def check_chat_history(messages: list[dict[str, Any]]) -> None:
    """Raises HistoryError where Chat Completions refuses the pairing of calls and results."""
    waiting: dict[str, int | None] = {}  # call id -> index of its result, in the current block
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in waiting:
                raise HistoryError(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'.",
                    f"messages.[{index}].role",
                )
            if waiting[call_id] is not None:
                raise HistoryError(
                    f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}' in "
                    f"messages[{waiting[call_id]}] and messages[{index}].",
                    f"messages.[{index}].tool_call_id",
                )
            waiting[call_id] = index
            continue
        _no_result_missing(waiting, index)
        waiting = {}
        calls = message.get("tool_calls")
        if calls == []:
            raise HistoryError(
                f"Invalid 'messages[{index}].tool_calls': empty array. Expected an array with minimum length 1, "
                "but got an empty array instead.",
                f"messages[{index}].tool_calls",
            )
        waiting = {call["id"]: None for call in calls or ()}
    _no_result_missing(waiting, len(messages))


def _no_result_missing(waiting: dict[str, int | None], index: int) -> None:
    missing = [call_id for call_id, result in waiting.items() if result is None]
    if missing:
        raise HistoryError(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}",
            f"messages.[{index}].role",
        )


def check_responses_input(items: list[dict[str, Any]]) -> None:
    """Raises HistoryError where the Responses API refuses the pairing of calls and outputs."""
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for item in items:
        if item.get("type") == "function_call" and calls.count(item["call_id"]) > 1:
            raise HistoryError(
                f"Duplicate item found with id {item.get('id') or item['call_id']}. Remove duplicate items from "
                "your input and try again.",
                "input",
            )
    for call_id in outputs:
        if call_id not in calls:
            raise HistoryError(f"No tool call found for function call output with call_id {call_id}.", "input")
    for call_id in calls:
        if call_id not in outputs:
            raise HistoryError(f"No tool output found for function call {call_id}.", "input")


class _Script:
    """One story's answers, handed out in order."""

    def __init__(self, key: str, turns: list[Turn]) -> None:
        self.turns = turns
        self.done = 0
        self.random = random.Random(key)

    def token(self, prefix: str, length: int = 24) -> str:
        return prefix + "".join(self.random.choices(string.ascii_letters + string.digits, k=length))

    def next(self) -> tuple[str | None, list[Call], float]:
        """Text, calls, and the seconds to think before answering."""
        if self.done >= len(self.turns):
            raise RuntimeError("the script has no more turns: the framework asked more often than the story says")
        turn = self.turns[self.done]
        self.done += 1
        think = self.random.uniform(0.25, 0.85)
        if isinstance(turn, Say):
            return turn.text, [], think
        calls = turn if isinstance(turn, list) else [turn]
        return None, [Call(c.name, c.arguments, c.id or self.token("call_")) for c in calls], think


class ScriptedModel:
    """`with ScriptedModel({"key": [turn, …]}) as model:` and point an OpenAI client at `model.base_url`."""

    def __init__(self, scripts: dict[str, list[Turn]], port: int = PORT) -> None:
        self.scripts = {key: _Script(key, turns) for key, turns in scripts.items()}
        self.refused = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        left = {key: len(s.turns) - s.done for key, s in self.scripts.items() if s.done < len(s.turns)}
        if left and kind is None:
            raise RuntimeError(f"turns that nobody asked for: {left}")


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            script = model.scripts.get(self.headers.get("authorization", "").removeprefix("Bearer "))
            if script is None:
                return self._refuse(401, "Incorrect API key provided.", "invalid_api_key", None)
            responses = self.path.endswith("/responses")
            try:
                if responses:
                    check_responses_input(_items(request["input"]))
                else:
                    check_chat_history(request["messages"])
            except HistoryError as error:
                model.refused += 1
                time.sleep(script.random.uniform(0.05, 0.12))
                return self._refuse(400, str(error), None, error.param)
            text, calls, think = script.next()
            time.sleep(think)
            body = _responses_body(request, script, text, calls) if responses else _chat_body(request, script, text, calls)
            if request.get("stream") and not responses:
                return self._send(200, _chat_stream(body), "text/event-stream")
            return self._send(200, json.dumps(body).encode())

        def _refuse(self, status: int, message: str, code: str | None, param: str | None) -> None:
            error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
            self._send(status, json.dumps({"error": error}).encode())

        def _send(self, status: int, body: bytes, content_type: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _items(value: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


def _tokens(value: object) -> int:
    return max(1, len(json.dumps(value)) // 4)  # about four characters a token


def _chat_body(request: dict[str, Any], script: _Script, text: str | None, calls: list[Call]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
            for c in calls
        ]
    prompt, completion = _tokens([request["messages"], request.get("tools")]), _tokens(message)
    return {
        "id": script.token("chatcmpl-", 29),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
    }


def _chat_stream(body: dict[str, Any]) -> bytes:
    choice = body["choices"][0]
    delta = dict(choice["message"])
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": i, **call} for i, call in enumerate(delta["tool_calls"])]
    base = {key: body[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    chunks = [
        base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        base | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        base | {"choices": [], "usage": body["usage"]},
    ]
    return b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks) + b"data: [DONE]\n\n"


def _responses_body(request: dict[str, Any], script: _Script, text: str | None, calls: list[Call]) -> dict[str, Any]:
    output: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": script.token("fc_", 32),
            "call_id": c.id,
            "name": c.name,
            "arguments": json.dumps(c.arguments),
            "status": "completed",
        }
        for c in calls
    ]
    if text is not None:
        output.append({
            "type": "message",
            "id": script.token("msg_", 32),
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })
    prompt = _tokens([request["input"], request.get("instructions"), request.get("tools")])
    completion = _tokens(output)
    return {
        "id": script.token("resp_", 32),
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": request["model"],
        "output": output,
        "instructions": request.get("instructions"),
        "tools": request.get("tools", []),
        "tool_choice": "auto",
        "parallel_tool_calls": bool(request.get("parallel_tool_calls")),
        "temperature": 1.0,
        "top_p": 1.0,
        "metadata": {},
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": prompt,
            "output_tokens": completion,
            "total_tokens": prompt + completion,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
