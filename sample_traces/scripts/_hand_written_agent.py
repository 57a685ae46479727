"""An agent loop as people write it by hand on the OpenAI client, traced by the official OTel packages.

`opentelemetry-instrumentation-genai-openai` records the model calls by itself. Tools and the
agent are the caller's own code, so the loop opens their spans with the handler of
`opentelemetry-util-genai`, which is what that package is for.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from _recording import Recording
from openai import AsyncOpenAI
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import InputMessage, OutputMessage, TextPart

ToolRunner = Callable[[str, dict[str, Any]], Awaitable[str]]


def function(name: str, description: str, /, **properties: str) -> dict[str, Any]:
    """A tool definition in OpenAI's form; `properties` maps argument names to JSON types."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in properties.items()},
                "required": list(properties),
            },
        },
    }


def instrument(recording: Recording) -> TelemetryHandler:
    OpenAIInstrumentor().instrument(tracer_provider=recording.provider)
    return TelemetryHandler(tracer_provider=recording.provider)


class Agent:
    def __init__(
        self, name: str, *, model: str, instructions: str, tools: list[dict[str, Any]], run_tool: ToolRunner,
        handler: TelemetryHandler, base_url: str,
    ) -> None:
        self.name, self.model, self.instructions = name, model, instructions
        self.tools, self.run_tool, self.handler, self.base_url = tools, run_tool, handler, base_url

    async def ask(self, prompt: str, *, script: str, conversation: str) -> str:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": self.instructions},
            {"role": "user", "content": prompt},
        ]
        with self.handler.invoke_local_agent(
            request_model=self.model, agent_name=self.name, conversation_id=conversation
        ) as invocation:
            invocation.input_messages = [InputMessage(role="user", parts=[TextPart(content=prompt)])]
            answer = await self.loop(messages, script)
            invocation.output_messages = [
                OutputMessage(role="assistant", parts=[TextPart(content=answer)], finish_reason="stop")
            ]
            return answer

    async def loop(self, messages: list[dict[str, Any]], script: str) -> str:
        client = AsyncOpenAI(base_url=self.base_url, api_key=script, max_retries=0)
        while True:
            answer = await client.chat.completions.create(model=self.model, messages=messages, tools=self.tools)
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                result = await self.run(call.id, call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            self.after_tools(messages)

    async def run(self, call_id: str, name: str, arguments: dict[str, Any]) -> str:
        with self.handler.tool(name, tool_type="function", agent_name=self.name) as invocation:
            invocation.tool_call_id, invocation.arguments = call_id, arguments
            invocation.tool_result = await self.run_tool(name, arguments)
            return invocation.tool_result

    def after_tools(self, messages: list[dict[str, Any]]) -> None:
        """A hook for the story whose runtime damages its own history."""
