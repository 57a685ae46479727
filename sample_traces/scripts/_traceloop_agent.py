"""An agent loop on the OpenAI client, traced with traceloop-sdk and its decorators."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable

os.environ["TRACELOOP_TELEMETRY"] = "false"
os.environ["TRACELOOP_METRICS_ENABLED"] = "false"

from _recording import Recording  # noqa: E402
from openai import OpenAI  # noqa: E402
from opentelemetry import trace  # noqa: E402
from traceloop.sdk import Instruments, Traceloop  # noqa: E402
from traceloop.sdk.decorators import agent as agent_span  # noqa: E402
from traceloop.sdk.decorators import tool as tool_span  # noqa: E402
from traceloop.sdk.decorators import workflow as workflow_span  # noqa: E402

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def start(name: str, *, service: str, version: str) -> Recording:
    recording = Recording(name, service=service, version=version, attach=False)
    trace.set_tracer_provider(recording.provider)  # Traceloop takes the global provider
    Traceloop.init(
        app_name=service, processor=recording.processor, instruments={Instruments.OPENAI}, telemetry_enabled=False
    )
    return recording


def _definition(function: Callable[..., str]) -> dict:
    arguments = inspect.signature(function, eval_str=True).parameters
    return {
        "type": "function",
        "function": {
            "name": function.__name__,
            "description": inspect.getdoc(function),
            "parameters": {
                "type": "object",
                "properties": {n: {"type": _JSON_TYPES[p.annotation]} for n, p in arguments.items()},
                "required": list(arguments),
            },
        },
    }


def run_agent(
    *, base_url: str, script: str, name: str, workflow: str, model: str, instructions: str, prompt: str,
    tools: list[Callable[..., str]], properties: dict[str, str],
) -> str:
    """One conversation: model, tools, model … until the model answers with text."""
    client = OpenAI(base_url=base_url, api_key=script, max_retries=0)
    traced = {f.__name__: tool_span(name=f.__name__)(f) for f in tools}
    definitions = [_definition(f) for f in tools]

    @agent_span(name=name)
    def loop(question: str) -> str:
        messages: list = [{"role": "system", "content": instructions}, {"role": "user", "content": question}]
        while True:
            message = client.chat.completions.create(model=model, messages=messages, tools=definitions).choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                try:
                    result = traced[call.function.name](**json.loads(call.function.arguments))
                except Exception as error:  # the model is told, and decides
                    result = f"Error: {error}"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    @workflow_span(name=workflow)
    def conversation(question: str) -> str:
        Traceloop.set_association_properties(properties)
        return loop(question)

    return conversation(prompt)
