"""Models that follow a script, one for each framework.

A script is a list of turns; a turn is an answer (text), or a list of calls (name, arguments) with
text between them allowed. Ids of calls are c1, c2, … in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

Turn = str | list[Any]

SEARCH = ("search", {"query": "refunds"})
DONE = "Nothing is written about refunds."


def _parts(turn: Turn, ids: Iterator[int]) -> tuple[str, list[tuple[str, Any, str]]]:
    """(text, calls with their ids)."""
    if isinstance(turn, str):
        return turn, []
    text = "".join(item for item in turn if isinstance(item, str))
    return text, [(item[0], item[1], f"c{next(ids)}") for item in turn if not isinstance(item, str)]


def langchain_model(turns: list[Turn]) -> Any:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

    ids = count(1)
    messages = []
    for turn in turns:
        text, calls = _parts(turn, ids)
        messages.append(
            AIMessage(
                text,
                tool_calls=[
                    {"name": name, "args": arguments, "id": id_, "type": "tool_call"}
                    for name, arguments, id_ in calls
                ],
            )
        )
    return Scripted(messages=iter(messages))


def pydantic_model(turns: list[Turn]) -> Any:
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    ids = count(1)
    script = iter(turns)

    def reply(messages: Any, info: Any) -> ModelResponse:
        text, calls = _parts(next(script), ids)
        parts: list[Any] = [TextPart(text)] if text else []
        parts += [ToolCallPart(name, arguments, tool_call_id=id_) for name, arguments, id_ in calls]
        return ModelResponse(parts=parts)

    return FunctionModel(reply)


def agents_model(turns: list[Turn], *, first_id: int = 1) -> Any:
    from agents.testing import ScriptedModel, assistant_message, function_call

    ids = count(first_id)  # the SDK wants ids that are unique in a run
    steps = []
    for turn in turns:
        text, calls = _parts(turn, ids)
        items: list[Any] = [assistant_message(text)] if text else []
        items += [function_call(name, arguments, call_id=id_) for name, arguments, id_ in calls]
        steps.append(items)
    return ScriptedModel(steps)
