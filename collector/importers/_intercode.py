"""InterCode's result files: an object of tasks, each with lists of actions and what came back.

An action is a command, a query or a program for the environment; it is read as a call of the environment's
name (`bash`, `sql`, `python`, `ctf`). `valid_action` false is the environment's word for a failed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ._conversations import call, conversation_parts, fact
from ._json_stream import JsonValue
from ._otlp import Part
from ._report import FormatError, SkipList, printable
from ._spans import json_object
from ._transcript import Conversation

__all__ = ["intercode_parts", "matches_intercode"]


def matches_intercode(value: Any) -> bool:
    return isinstance(value, dict) and _is_task(next(iter(value.values()), None))


def _is_task(value: Any) -> bool:
    history = value.get("turn_history") if isinstance(value, dict) else None
    return isinstance(history, dict) and isinstance(history.get("actions"), list)


def intercode_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of InterCode files. Raises FormatError with the place of what is none."""
    return conversation_parts(_conversations(values, skipped), skipped)


def _conversations(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Conversation]:
    for item in values:
        for key, task in item.value.items() if isinstance(item.value, dict) else ():
            where = printable(f"{item.where}, task {str(key)[:40]}")
            if not _is_task(task):
                raise FormatError("not a task of InterCode (an object with 'turn_history')", where=where)
            if not task["turn_history"]["actions"]:
                skipped.add(where, "the task has no actions")
                continue
            yield _conversation(task, where)


def _conversation(task: dict[str, Any], where: str) -> Conversation:
    tool = str(task.get("environment") or "environment").removeprefix("ic_")[:200]
    conversation = Conversation([], where, "intercode", service=f"intercode/{tool[:80]}", failed=_failed)
    for key in ("task_id", "dataset"):
        fact(conversation, key, task.get(key))
    summary = json_object(task.get("summary"))
    for key in ("max_reward", "turns_taken", "turns_max"):
        fact(conversation, key, summary.get(key))
    conversation.messages.append({"role": "user", "content": task.get("query")})
    history = task["turn_history"]
    for index, action in enumerate(history["actions"]):
        asked = call(None, tool, {"action": action})
        thought = _at(history.get("thoughts"), index)
        conversation.messages.append({"role": "assistant", "content": thought, "tool_calls": [asked]})
        # The environment was asked for every action, also where the file keeps no observation of the last.
        valid = _at(history.get("valid_action"), index)
        conversation.messages.append(
            {
                "role": "function",
                "name": tool,
                "content": _at(history.get("observations"), index),
                "is_error": not valid if isinstance(valid, bool) else None,
            }
        )
    return conversation


def _at(values: Any, index: int) -> Any:
    return values[index] if isinstance(values, list) and index < len(values) else None


def _failed(message: dict[str, Any]) -> bool | None:
    return message.get("is_error")
