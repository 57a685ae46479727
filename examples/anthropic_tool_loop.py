"""A tool loop on Anthropic's Messages API, under guard.

pip install loopscope anthropic
ANTHROPIC_API_KEY=… python anthropic_tool_loop.py MODEL "What is our refund policy?"
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

from loopscope.guard import GuardPolicy
from loopscope.guard.adapters import LOOP_BLOCKED, GuardedRun

TOOLS = [
    {
        "name": "search_docs",
        "description": "Search the handbook.",
        "input_schema": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    }
]


def search_docs(query: str) -> str:
    """A handbook with one page."""
    page = "Returns: within 30 days, with the receipt."
    return page if "return" in query.lower() else f"No documents found for: {query}"


FUNCTIONS = {"search_docs": search_docs}


def run_tool(name: str, arguments: dict[str, Any]) -> object:
    """Run a tool by name. What it raises is told to the model."""
    return FUNCTIONS[name](**arguments)


@dataclass(frozen=True)
class Answer:
    """What the agent said, and how its run ended: `outcome` is None or "loop_blocked"."""

    text: str
    outcome: str | None


def ask(
    client: Any, model: str, question: str, policy: GuardPolicy | str | None = None, *, max_turns: int = 30
) -> Answer:
    """Let a model work on a question until it answers, or until its guard ends the run."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    text = ""
    with GuardedRun(policy, agent="handbook") as run:
        for _ in range(max_turns):
            reply = client.messages.create(model=model, max_tokens=1024, tools=TOOLS, messages=messages)
            text = "".join(block.text for block in reply.content if block.type == "text")
            calls = [block for block in reply.content if block.type == "tool_use"]
            # A blocked run gets this one reply more: an answer stays, further calls are not made.
            if not calls or run.blocked:
                break
            results = []
            for call in calls:
                # The guard judges the call; its note, if any, stands behind the tool's own output.
                result = run.call(
                    call.name, call.input, partial(run_tool, call.name, call.input), call_id=call.id
                )
                results.append(
                    {
                        "type": "tool_result",
                        "tool_use_id": call.id,
                        "content": result.content,
                        "is_error": result.is_error,
                    }
                )
            messages += [
                {"role": "assistant", "content": reply.content},
                {"role": "user", "content": results},
            ]
    return Answer(text, run.outcome)


def main() -> None:
    """Ask one question and print the answer."""
    if len(sys.argv) != 3:
        sys.exit("usage: python anthropic_tool_loop.py MODEL QUESTION")
    from anthropic import Anthropic

    answer = ask(Anthropic(), *sys.argv[1:3])
    print(answer.text)  # noqa: T201
    if answer.outcome == LOOP_BLOCKED:
        sys.exit("The agent went round in circles and was stopped; the text above is what it had by then.")


if __name__ == "__main__":
    main()
