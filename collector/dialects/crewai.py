"""CrewAI: no instrumentation writes its tool calls as spans, but OpenLLMetry writes what its tasks came to.

`crewai.crew.tasks_output` of the crew's span is the Python repr of a list of TaskOutput objects, each with
the whole conversation of the task in it. Nothing of it is evaluated but the literals of that conversation.
"""

from __future__ import annotations

import ast
import json
import re
from itertools import pairwise
from typing import Any

__all__ = ["TASKS_OUTPUT", "task_messages"]

TASKS_OUTPUT = "crewai.crew.tasks_output"

_MAX_REPR = 1024 * 1024  # of one conversation
_MAX_TASKS = 1_000
_TASK = re.compile(r"\bTaskOutput\(")
_AGENT = re.compile(r", agent='((?:[^'\\]|\\.){1,200})'")
_MESSAGES = re.compile(r", messages=\[")
_FAILURE = re.compile(
    r"ToolFailureRecord\(tool_name='((?:[^'\\]|\\.){1,200})',"
    r" failure=ToolFailure\(message='((?:[^'\\]|\\.){1,2000})'"
)


def task_messages(text: str) -> list[tuple[str, str | None]]:
    """The messages of all tasks in order, each as JSON text with the name of the task's agent."""
    found: list[tuple[str, str | None]] = []
    starts = [match.start() for match in _TASK.finditer(text)][:_MAX_TASKS]
    for start, end in pairwise([*starts, len(text)]):
        task = text[start:end]
        match = _MESSAGES.search(task)
        if match is None:
            continue
        literal = _literal(task, match.end() - 1)
        messages = _evaluated(literal)
        if not isinstance(messages, list):
            continue
        named = _AGENT.search(task, 0, match.start())
        agent = named[1] if named else None
        failures = _FAILURE.findall(task, match.end() - 1 + len(literal))
        for message in messages:
            if isinstance(message, dict):
                if any(
                    message.get("role") == "tool"
                    and message.get("name") == tool
                    and str(message.get("content")).endswith(said)
                    for tool, said in failures
                ):
                    message["is_error"] = True
                try:
                    found.append((json.dumps(message, ensure_ascii=False, allow_nan=False), agent))
                except (TypeError, ValueError, RecursionError):
                    continue
    return found


def _literal(text: str, start: int) -> str:
    """The list that begins at `start`, to its closing bracket; '' where it has none."""
    depth, at, quote = 0, start, ""
    for at in range(start, min(len(text), start + _MAX_REPR)):
        char = text[at]
        if quote:
            if char == quote and not _escaped(text, at):
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "[{(":
            depth += 1
        elif char in "]})":
            depth -= 1
            if depth == 0:
                return text[start : at + 1]
    return ""


def _escaped(text: str, at: int) -> bool:
    count = 0
    while text[at - 1 - count] == "\\":
        count += 1
    return count % 2 == 1


def _evaluated(literal: str) -> Any:
    if not literal:
        return None
    try:
        return ast.literal_eval(literal)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, Warning):
        return None
