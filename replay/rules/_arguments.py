"""Reading single arguments, for rules that know some tools by name."""

from __future__ import annotations

import json
from typing import Any

from ._calls import RuleCall

__all__ = ["argument", "arguments_of", "parsed"]

_LONGEST = 200_000  # characters that are read as JSON


def parsed(text: object) -> Any:
    """JSON text as its value, any other object as it is; None where it is not JSON."""
    if not isinstance(text, str):
        return text
    if len(text) > _LONGEST:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def arguments_of(call: RuleCall) -> dict[str, Any]:
    """The arguments of a call; empty where they are not an object, or not known."""
    value = parsed(call.arguments)
    return value if isinstance(value, dict) else {}


def argument(call: RuleCall, name: str) -> Any:
    """One argument of a call; None where it has none of that name."""
    return arguments_of(call).get(name)
