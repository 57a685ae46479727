"""What a finished call came to: its text, and its outcome, from a returned value or an exception.

The text is what the guard compares *and* what a trace records, so that the recorded run
counts as the live one did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from .. import GuardPolicy, Outcome, OutcomeFacts, canonical_arguments, classify_outcome

__all__ = [
    "TOLD_FAILURE",
    "CallFailure",
    "failure_of",
    "is_blocks",
    "outcome_of",
    "text_of",
    "type_name",
    "with_note",
]

TOLD_FAILURE = "tool_error"
"""The `error.type` of a call that failed without an exception, as the conventions for MCP have it."""


@dataclass(frozen=True, slots=True)
class CallFailure:
    """What an exception says about a failed call.

    Attributes:
        text: its message, or the name of its class where it has none.
        type: the name of its class, as OpenTelemetry records it.
        jsonrpc_code: of a JSON-RPC error (MCP), else None.
        http_status: of a refused HTTP request, else None.
    """

    text: str
    type: str
    jsonrpc_code: int | None = None
    http_status: int | None = None


def type_name(error: BaseException) -> str:
    """The class of an exception, with its module unless it is a builtin."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def failure_of(error: BaseException) -> CallFailure:
    """The facts of an exception. Looks at attributes by name, so no client library is imported."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not break the agent
        text = ""
    code = _number(getattr(getattr(error, "error", None), "code", None))  # McpError, MCPError
    status = _number(getattr(error, "status_code", None))  # clients of OpenAI, Anthropic
    if status is None:  # httpx, requests
        status = _number(getattr(getattr(error, "response", None), "status_code", None))
    return CallFailure(
        text or type_name(error),
        type_name(error),
        code if code is not None and -32800 <= code <= -32000 else None,
        status if status is not None and 400 <= status <= 599 else None,
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def outcome_of(
    text: str | None,
    *,
    failed: bool | None,
    failure: CallFailure | None = None,
    policy: GuardPolicy,
    tool_name: str,
) -> Outcome | None:
    """The outcome of a call by the rules that replay applies to its trace, the policy's among them.

    Args:
        text: the result as text; None where there is none.
        failed: did the caller learn of a failure? None: it was not told.
        failure: the facts of the exception, where there was one.
        policy: whose `outcome_rules` are asked first.
        tool_name: the tool.
    """
    if failure is None:
        facts = OutcomeFacts(failed, text, error_type=TOLD_FAILURE if failed else None)
    else:
        facts = OutcomeFacts(
            True,
            failure.text if text is None else text,
            failure.text,
            failure.type,
            failure.jsonrpc_code,
            failure.http_status,
        )
    return classify_outcome(facts, policy.outcome_rules, tool_name).outcome


def text_of(value: object) -> str:
    """A value as text: text as it is, anything else as JSON with sorted keys where it can be."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return canonical_arguments(value, metadata_keys=())


def _plain(value: Any) -> Any:
    dump = getattr(type(value), "model_dump", None)
    if callable(dump):  # pydantic
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def is_blocks(value: object) -> bool:
    """Is it a list of content blocks, as chat APIs take them?"""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in value)
    )


def with_note(output: object, note: str) -> object:
    """An output with a guard's note behind it. The output itself stays whole.

    Text gets a blank line and the note, a list of content blocks one more block. Anything else
    becomes its JSON text first, because a note that the model does not see is no note.
    """
    if is_blocks(output):
        assert isinstance(output, list)
        return [*output, {"type": "text", "text": note}]
    return f"{text_of(output)}\n\n{note}"
