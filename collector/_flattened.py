"""Messages that were flattened into one attribute per leaf: OpenInference, older OpenLLMetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._attributes import dump, load

__all__ = ["read_flattened"]

_MAX_INDEX_DIGITS = 6


def read_flattened(
    attributes: Mapping[str, Any], input_prefix: str, output_prefix: str
) -> tuple[list[str] | None, list[str] | None, bool]:
    """Input and output messages as JSON texts (None: no such attribute); are early ones missing?"""
    inputs: dict[int, dict[str, Any]] = {}
    outputs: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(input_prefix):
            _place(inputs, key, len(input_prefix), value)
        elif key.startswith(output_prefix):
            _place(outputs, key, len(output_prefix), value)
    if not inputs and not outputs:
        return None, None, False
    partial = bool(inputs) and len(inputs) <= max(inputs)
    return _texts(inputs), _texts(outputs), partial


def _place(messages: dict[int, dict[str, Any]], key: str, start: int, value: Any) -> None:
    index, dot, path = key[start:].partition(".")
    if dot and index.isdecimal() and len(index) <= _MAX_INDEX_DIGITS and value is not None:
        messages.setdefault(int(index), {})[path.removeprefix("message.")] = value


def _texts(messages: dict[int, dict[str, Any]]) -> list[str] | None:
    if not messages:
        return None
    return [dump(message) for index in sorted(messages) for message in _messages(messages[index])]


def _messages(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """One message; several where one attribute group holds the results of several calls (AutoGen)."""
    message: dict[str, Any] = {}
    calls: dict[int, dict[str, Any]] = {}
    contents: dict[int, dict[str, Any]] = {}
    executed: list[dict[str, Any]] = []
    for path, value in fields.items():
        if path.startswith("tool_calls."):
            _place(calls, path, len("tool_calls."), value)
        elif path.startswith("contents."):
            _place(contents, path, len("contents."), value)
        elif path.startswith("function.") and isinstance(value, str):
            result = load(value)
            if isinstance(result, dict):
                executed.append(_executed(result))
        else:
            message[path] = value
    if executed:
        return executed
    ordered: dict[str, Any] = {}
    for name in ("role", "name", "tool_call_id", "content"):
        if name in message:
            ordered[name] = message.pop(name)
    if contents and "content" not in ordered:
        ordered["content"] = [_content(contents[index]) for index in sorted(contents)]
    if calls:
        ordered["tool_calls"] = [_call(calls[index]) for index in sorted(calls)]
    return [ordered | message]


def _executed(result: dict[str, Any]) -> dict[str, Any]:
    message = {
        "role": "tool",
        "name": result.get("name"),
        "tool_call_id": result.get("call_id"),
        "content": result.get("content"),
    }
    if result.get("is_error") is True:
        message["is_error"] = True
    return message


def _content(fields: dict[str, Any]) -> dict[str, Any]:
    return {path.removeprefix("message_content."): value for path, value in fields.items()}


def _call(fields: dict[str, Any]) -> dict[str, Any]:
    call: dict[str, Any] = {"type": "function"}
    function: dict[str, Any] = {}
    for path, value in fields.items():
        name = path.removeprefix("tool_call.").removeprefix("function.")
        if name == "id":
            call = {"id": value, **call}
        elif name in ("name", "arguments"):
            function[name] = value
        else:
            call[name] = value
    call["function"] = function
    return call
