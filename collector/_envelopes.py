"""Arguments and results out of the wrappers that dialects put around them.

What matters for a guard is what the model asked for and what it was shown. Wrappers carry
step numbers, checkpoint ids and run ids, so two identical calls would never look equal
through them. Text that is in no wrapper stays exactly as it was recorded.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from ._attributes import as_text, block_text, dump, load, utf8
from .dialects import Keys
from .dialects.openllmetry import ENTITY_OUTPUT

__all__ = ["Content", "is_schema", "open_arguments", "open_result"]

_MAX_REPR = 64 * 1024  # of a Python repr that is read with ast.literal_eval
_KWARGS_KEYS = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
_SCHEMA_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null", "any"})


@dataclass(slots=True)
class Content:
    """Text out of its wrapper, and what the wrapper said besides."""

    text: str | None
    call_id: str | None = None
    tool_name: str | None = None
    failed: bool | None = None
    unread: bool = False  # the value itself, in which nobody looked

    def valid(self) -> Content:
        """What came out of JSON, as text that can be stored."""
        self.text = utf8(self.text)
        self.call_id = utf8(self.call_id)
        self.tool_name = utf8(self.tool_name)
        return self


# -- arguments ----------------------------------------------------------------------------------------


def open_arguments(key: str, value: Any) -> Content:
    """The arguments in an attribute value."""
    if isinstance(value, str):
        if not _may_be_wrapped(value):
            return Content(value)
        parsed = load(value)
        if not isinstance(parsed, dict):
            return Content(value)
        opened = _unwrap_arguments(key, parsed)
        return Content(value) if opened is None else opened.valid()
    if isinstance(value, dict):
        opened = _unwrap_arguments(key, value)
        if opened is not None:
            return opened.valid()
    if key == "gen_ai.input.messages":
        return Content(None)  # messages, not arguments
    return Content(dump(value))


def _may_be_wrapped(text: str) -> bool:
    return text.lstrip()[:1] == "{" and (
        '"kwargs"' in text
        or '"input_str"' in text
        or ('"tool_name"' in text and '"arguments"' in text)
        or ('"callId"' in text and '"args"' in text)
    )


def _unwrap_arguments(key: str, wrapper: dict[str, Any]) -> Content | None:
    """The inside of a wrapper we know, None where it is none."""
    if "input_str" in wrapper:
        return _langchain_arguments(wrapper)
    keys = wrapper.keys()
    if "kwargs" in keys and keys <= _KWARGS_KEYS and isinstance(wrapper["kwargs"], dict):
        args = wrapper.get("args")
        if not args:
            return Content(dump(wrapper["kwargs"]))
        return Content(dump({"args": args, "kwargs": wrapper["kwargs"]}))
    if keys == {"tool_name", "arguments"}:
        arguments = wrapper["arguments"]
        text = arguments if isinstance(arguments, str) else dump(arguments)
        return Content(text, tool_name=as_text(wrapper["tool_name"]))
    if key == "gen_ai.input.messages" and "args" in keys:
        return Content(
            dump(wrapper["args"]),
            call_id=as_text(wrapper.get("callId")),
            tool_name=as_text(wrapper.get("name")),
        )
    return None


def _langchain_arguments(wrapper: dict[str, Any]) -> Content:
    kwargs = wrapper.get("kwargs")
    call_id = as_text(kwargs.get("tool_call_id")) if isinstance(kwargs, dict) else None
    inputs = wrapper.get("inputs")
    if isinstance(inputs, dict):
        return Content(dump(inputs), call_id=call_id)
    text = wrapper["input_str"]
    if not isinstance(text, str):
        return Content(dump(text), call_id=call_id)
    return Content(_from_repr(text), call_id=call_id)


def _from_repr(text: str) -> str:
    """JSON for the Python repr of a dict; the text itself where it is none."""
    if text[:1] != "{" or len(text) > _MAX_REPR:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, Warning):
        return text
    return dump(value) if isinstance(value, dict) and _is_json(value, 0) else text


def _is_json(value: Any, depth: int) -> bool:
    if depth > 64:
        return False
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item, depth + 1) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(_is_json(item, depth + 1) for item in value)
    return value is None or isinstance(value, str | bool | int | float)


def is_schema(value: Any) -> bool:
    """Does `tool.parameters` hold the tool's JSON schema instead of the arguments of the call?"""
    parsed = load(value) if isinstance(value, str) else value
    if not isinstance(parsed, dict):
        return False
    if isinstance(parsed.get("properties"), dict) or "$schema" in parsed:
        return True
    # smolagents: parameter name -> {"type", "description"}
    return bool(parsed) and all(
        isinstance(item, dict) and item.get("type") in _SCHEMA_TYPES for item in parsed.values()
    )


# -- results ------------------------------------------------------------------------------------------


def open_result(key: str, value: Any, *, json_text: bool = False) -> Content:
    """The result in an attribute value, as the model saw it. `json_text`: text is JSON-quoted here."""
    if isinstance(value, str):
        start = value.lstrip()[:1]
        if start == '"' and (json_text or key in Keys.json_results):
            parsed = load(value)
            return Content(parsed if isinstance(parsed, str) else value).valid()
        if start == "[" and key == "message":  # of a Strands event
            parsed = load(value)
            return Content(value if parsed is None else _blocks_text(parsed, None)).valid()
        if start != "{" or not _may_be_wrapped_result(key, value):
            return Content(value)
        parsed = load(value)
        opened = _unwrap_result(key, parsed, 0) if isinstance(parsed, dict) else None
        return Content(value) if opened is None else opened.valid()
    if isinstance(value, dict):
        opened = _unwrap_result(key, value, 0)
        if opened is not None:
            return opened.valid()
    return Content(dump(value))


def _may_be_wrapped_result(key: str, text: str) -> bool:
    return (
        '"tool_call_id"' in text
        or '"is_error"' in text
        or key == ENTITY_OUTPUT
        or ('"response"' in text and '"name"' in text)
    )


def _unwrap_result(key: str, wrapper: dict[str, Any], depth: int) -> Content | None:
    if depth > 4:
        return None
    message = _tool_message(wrapper)
    if message is not None:
        status = message.get("status")
        return Content(
            _content_text(message.get("content")),
            call_id=as_text(message.get("tool_call_id")),
            tool_name=as_text(message.get("name")),
            failed=True if status == "error" else None,
        )
    keys = wrapper.keys()
    inner = wrapper.get("output")
    if isinstance(inner, dict) and keys <= {"output", "kwargs"}:  # LangChain callback payload
        return _unwrap_result(key, inner, depth + 1)
    update = wrapper.get("update")
    if isinstance(update, dict) and "graph" in keys:  # LangGraph Command
        messages = update.get("messages")
        if isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], dict):
            return _unwrap_result(key, messages[0], depth + 1)
        return None
    if "raw_output" in keys and "blocks" in keys:  # LlamaIndex ToolOutput
        return Content(
            _blocks_text(wrapper["blocks"], wrapper["raw_output"]),
            tool_name=as_text(wrapper.get("tool_name")),
            failed=_flag(wrapper.get("is_error")),
        )
    if key == ENTITY_OUTPUT and "result" in keys and keys <= {"result", "is_error"}:  # Traceloop MCP
        result = wrapper["result"]
        text = result if isinstance(result, str) else dump(result)
        return Content(text, failed=_flag(wrapper.get("is_error")))
    if keys == {"id", "name", "response"}:  # OpenInference Google ADK
        response = wrapper["response"]
        return Content(
            response if isinstance(response, str) else dump(response),
            call_id=as_text(wrapper["id"]),
            tool_name=as_text(wrapper["name"]),
        )
    return None


def _tool_message(wrapper: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of a serialized LangChain ToolMessage."""
    for fields in (wrapper.get("data"), wrapper.get("kwargs"), wrapper):
        if isinstance(fields, dict) and "tool_call_id" in fields and "content" in fields:
            return fields
    return None


def _content_text(content: Any) -> str | None:
    if content is None or isinstance(content, str):
        return content
    return _blocks_text(content, None)


def _blocks_text(blocks: Any, otherwise: Any) -> str:
    """The text of content blocks where all are text, else their JSON."""
    text = block_text(blocks)
    if text is not None:
        return text
    value = blocks if blocks or otherwise is None else otherwise
    return value if isinstance(value, str) else dump(value)


def _flag(value: Any) -> bool | None:
    return True if value is True else None
