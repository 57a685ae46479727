"""A tool loop on OpenAI's Chat Completions API, under guard, with the tools of a turn in parallel.

pip install loopscope openai
OPENAI_API_KEY=… python openai_tool_loop.py MODEL "What is our refund policy?"
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

from loopscope.guard import GuardPolicy
from loopscope.guard.adapters import LOOP_BLOCKED, GuardedRun

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search_docs",
            "description": "Search the handbook.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
            },
        },
    }
]


async def search_docs(query: str) -> str:
    """A handbook with one page."""
    page = "Returns: within 30 days, with the receipt."
    return page if "return" in query.lower() else f"No documents found for: {query}"


FUNCTIONS = {"search_docs": search_docs}


async def run_tool(name: str, arguments: str) -> object:
    """Run a tool by name. What it raises (for arguments that are no JSON, too) is told to the model."""
    return await FUNCTIONS[name](**json.loads(arguments))


@dataclass(frozen=True)
class Answer:
    """What the agent said, and how its run ended: `outcome` is None or "loop_blocked"."""

    text: str
    outcome: str | None


async def ask(
    client: Any, model: str, question: str, policy: GuardPolicy | str | None = None, *, max_turns: int = 30
) -> Answer:
    """Let a model work on a question until it answers, or until its guard ends the run."""
    messages: list[Any] = [{"role": "user", "content": question}]
    text = ""
    with GuardedRun(policy, agent="handbook") as run:

        async def call(requested: Any) -> dict[str, Any]:
            name, arguments = requested.function.name, requested.function.arguments
            # The guard judges the call; its note, if any, stands behind the tool's own output.
            result = await run.acall(
                name, arguments, partial(run_tool, name, arguments), call_id=requested.id
            )
            return {"role": "tool", "tool_call_id": requested.id, "content": result.content}

        for _ in range(max_turns):
            reply = await client.chat.completions.create(model=model, tools=TOOLS, messages=messages)
            message = reply.choices[0].message
            text = message.content or ""
            # A blocked run gets this one reply more: an answer stays, further calls are not made.
            if not message.tool_calls or run.blocked:
                break
            messages.append(message)
            messages += await asyncio.gather(*(call(requested) for requested in message.tool_calls))
    return Answer(text, run.outcome)


async def main() -> None:
    """Ask one question and print the answer."""
    if len(sys.argv) != 3:
        sys.exit("usage: python openai_tool_loop.py MODEL QUESTION")
    from openai import AsyncOpenAI

    answer = await ask(AsyncOpenAI(), *sys.argv[1:3])
    print(answer.text)  # noqa: T201
    if answer.outcome == LOOP_BLOCKED:
        sys.exit("The agent went round in circles and was stopped; the text above is what it had by then.")


if __name__ == "__main__":
    asyncio.run(main())
