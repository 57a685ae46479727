"""Which result answers which call in a chat log."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "OpenCalls", "as_text", "calls_of", "result_id"]


_PARTIES = ("assistant", "user")


@dataclass(slots=True, eq=False)
class Call:
    """One requested call. `message` and `position` (in that message) say where."""

    party: str  # "assistant" or "user": whose history the result belongs to
    agent: str
    tool_name: str
    call_id: str | None
    arguments: str | None
    message: int
    position: int
    order: int  # ordinal in the conversation


def calls_of(message: dict[str, Any]) -> list[tuple[str | None, str | None, Any]]:
    """(id, tool name, arguments) of each call in a message; a legacy `function_call` comes last."""
    found: list[tuple[str | None, str | None, Any]] = []
    raw = message.get("tool_calls")
    for call in raw if isinstance(raw, list) else ():
        if not isinstance(call, dict):
            found.append((None, None, None))
            continue
        inner = next((call[key] for key in ("function", "custom") if isinstance(call.get(key), dict)), call)
        arguments = inner.get("arguments", inner.get("input"))
        found.append((_id(call.get("id")), _name(inner.get("name")), arguments))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        found.append((None, _name(legacy.get("name")), legacy.get("arguments")))
    return found


def result_id(message: dict[str, Any]) -> str | None:
    """The call id that a `tool` message answers. tau2-bench keeps it in `id`."""
    return _id(message.get("tool_call_id")) or _id(message.get("id"))


def as_text(value: Any) -> str | None:
    """A recorded value as text: text as it is, text parts joined, anything else as JSON; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(_is_text_part(part) for part in value):
        return "".join(part["text"] for part in value)
    return json.dumps(value, ensure_ascii=False)


class OpenCalls:
    """The calls that wait for their result.

    A result belongs to the nearest earlier call with its id that has none yet; of several in that one
    message, to the first. Ids may come back in later turns, so a call leaves as soon as it is answered.
    """

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}  # by order
        self._by_id: dict[tuple[str, str], list[deque[Call]]] = defaultdict(list)
        self._by_name: dict[str, dict[int, Call]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call) -> None:
        self._calls[call.order] = call
        self._by_name[call.tool_name][call.order] = call
        if call.call_id is not None:
            stack = self._by_id[(call.party, call.call_id)]
            if stack and stack[-1][0].message == call.message:
                stack[-1].append(call)
            else:
                stack.append(deque([call]))

    def answer(self, message: dict[str, Any]) -> Call | None:
        """The call that this result message answers; it is open no more. None: no such call."""
        call_id = result_id(message)
        if message.get("role") == "function":
            call = self._nearest_by_name(_name(message.get("name")))
        elif call_id is None:
            call = self._only_one(_name(message.get("name")))
        else:
            call = self._by_call_id(call_id, message.get("requestor"))
        if call is not None:
            del self._calls[call.order]
            del self._by_name[call.tool_name][call.order]
        return call

    def _by_call_id(self, call_id: str, requestor: Any) -> Call | None:
        parties = (requestor,) if requestor in _PARTIES else _PARTIES
        nearest = [call for party in parties if (call := self._top(party, call_id)) is not None]
        return max(nearest, key=lambda call: call.message, default=None)

    def _top(self, party: str, call_id: str) -> Call | None:
        """The first open call of the last message that asked with this id."""
        stack = self._by_id.get((party, call_id), [])
        while stack:
            group = stack[-1]
            while group and group[0].order not in self._calls:  # answered meanwhile
                group.popleft()
            if group:
                return group[0]
            stack.pop()
        return None

    def _nearest_by_name(self, name: str | None) -> Call | None:
        pool = self._calls if name is None else self._by_name.get(name)
        return pool[next(reversed(pool))] if pool else None

    def _only_one(self, name: str | None) -> Call | None:
        pool = self._calls if name is None else self._by_name.get(name)
        return next(iter(pool.values())) if pool and len(pool) == 1 else None


def _is_text_part(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _id(value: Any) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
