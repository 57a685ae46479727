"""openclaw: repeats, polls and ping-pong among the last thirty calls."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Hashable
from typing import Any, NamedTuple

from ._arguments import arguments_of, parsed
from ._calls import RuleCall
from ._rule import LoopRule, RuleInfo, RunShape, Said

__all__ = ["RULES", "OpenclawLoop"]

_UNKNOWN_TOOL = (
    re.compile(r"unknown tool[:\s]+[\"']?([a-z0-9_.-]+)", re.IGNORECASE),
    re.compile(r"tool\s+[\"']?([a-z0-9_.-]+)[\"']?\s+(?:not found|is not available)", re.IGNORECASE),
)
_SENDING = frozenset(
    {
        "send",
        "broadcast",
        "reply",
        "thread-reply",
        "sendWithEffect",
        "sendAttachment",
        "upload-file",
        "sticker",
        "poll",
    }
)
# What changes with every message that is sent.
_PER_SEND = frozenset(
    {
        "messageId",
        "message_id",
        "messageIds",
        "platformMessageId",
        "platformMessageIds",
        "fileId",
        "file_id",
        "fileKey",
        "pollId",
        "poll_id",
        "receipt",
        "runId",
        "idempotencyKey",
        "ts",
        "timestamp",
        "sentAt",
        "deliveredAt",
        "createdAt",
    }
)


class _Seen(NamedTuple):
    tool: str
    key: Hashable
    result: Hashable
    unknown_tool: str | None


class OpenclawLoop(LoopRule):
    """Looks back before a call is made. Off by default there; on here."""

    reads_arguments_of = frozenset({"update_plan", "process", "message"})
    reads_results_of = frozenset({"message", "sessions_send"})
    reads_errors = True
    __slots__ = ("_breaker", "_counts", "_critical", "_history", "_unknown", "_warning")

    def __init__(
        self,
        *,
        warning: int = 10,
        critical: int = 20,
        breaker: int = 30,
        unknown_tool: int = 10,
        history: int = 30,
    ) -> None:
        self._warning, self._critical, self._breaker, self._unknown = warning, critical, breaker, unknown_tool
        self._history: deque[_Seen] = deque(maxlen=history)
        self._counts: Counter[Hashable] = Counter()

    def observe(self, call: RuleCall) -> Said | None:
        """Decided before the call; a refused call stays in the history without a result."""
        key = _key(call)
        said = self._judge(call, key)
        refused = said is Said.REFUSE
        unknown = None if refused or not call.failed or call.error is None else _unknown_tool(call.error)
        if len(self._history) == self._history.maxlen:
            self._counts[self._history[0].key] -= 1
        self._history.append(_Seen(call.tool, key, None if refused else _result(call), unknown))
        self._counts[key] += 1
        return said

    def _judge(self, call: RuleCall, key: Hashable) -> Said | None:
        history = self._history
        if history and history[-1].unknown_tool and self._unknown_row(call.tool) >= self._unknown:
            return Said.REFUSE
        before = self._counts[key]
        # Half the calls of a ping-pong are this one.
        if before < min(self._warning // 2 - 1, self._critical, self._breaker):
            return None
        same = self._equal_results(key)
        if same >= self._breaker:
            return Said.REFUSE
        poll = call.tool == "command_status" or (
            call.tool == "process" and arguments_of(call).get("action") in ("poll", "log")
        )
        if poll and same >= self._warning:
            return Said.REFUSE if same >= self._critical else Said.NOTICE
        turns, stable = self._ping_pong(key)
        if turns >= self._warning:
            return Said.REFUSE if turns >= self._critical and stable else Said.NOTICE
        if poll:
            return None
        if same >= self._critical:
            return Said.REFUSE
        return Said.NOTICE if before >= self._warning else None

    def _unknown_row(self, tool: str) -> int:
        row = 0
        name = self._history[-1].unknown_tool
        for seen in reversed(self._history):
            if seen.tool != tool or seen.unknown_tool != name:
                break
            row += 1
        return row

    def _equal_results(self, key: Hashable) -> int:
        """Latest results of this call that are equal; other calls may lie between."""
        count = 0
        latest: Hashable = None
        for seen in reversed(self._history):
            if seen.key != key or seen.result is None:
                continue
            if latest is None:
                latest = seen.result
            elif seen.result != latest:
                break
            count += 1
        return count

    def _ping_pong(self, key: Hashable) -> tuple[int, bool]:
        """Calls that take turns, this one included, and whether the results of both stayed the same."""
        history = self._history
        if not history:
            return 0, False
        last = history[-1].key
        other = next((seen.key for seen in reversed(history) if seen.key != last), None)
        if other is None or other != key:
            return 0, False
        results: dict[Hashable, set[Hashable]] = {last: set(), other: set()}
        tail = 0
        for seen in reversed(history):
            if seen.key != (last if tail % 2 == 0 else other):
                break
            tail += 1
            results[seen.key].add(seen.result)
        if tail < 2:
            return 0, False
        return tail + 1, all(len(found) == 1 and None not in found for found in results.values())

    def may_fire(self, run: RunShape) -> bool:
        """A ping-pong of so many calls has half as many equal ones; an unknown tool fails each time."""
        return (
            run.special
            or run.same >= min(self._warning // 2, self._critical, self._breaker)
            or run.tool_failures >= self._unknown
        )


def _key(call: RuleCall) -> Hashable:
    if call.tool == "update_plan" and call.arguments is not None:
        return ("update_plan", _plan_shape(parsed(call.arguments)))
    return call.same if call.same is not None else object()


def _plan_shape(value: Any) -> Hashable:
    """What is left of a plan when its wording does not matter."""
    if not isinstance(value, dict):
        return repr(value)
    plan = value.get("plan")
    steps = [one if isinstance(one, dict) else {} for one in plan] if isinstance(plan, list) else []

    def said(text: object) -> bool:
        return isinstance(text, str) and bool(text.strip())

    states = tuple(one.get("status") if isinstance(one.get("status"), str) else None for one in steps)
    return states, tuple(said(one.get("step")) for one in steps), said(value.get("explanation"))


def _result(call: RuleCall) -> Hashable:
    if call.result is None or call.output is None or call.failed:
        return call.result
    sends = call.tool == "sessions_send" or (
        call.tool == "message" and arguments_of(call).get("action") in _SENDING
    )
    value = parsed(call.output) if sends else None
    return repr(_without_ids(value)) if isinstance(value, dict | list) else call.result


def _without_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    is_message = isinstance(value.get("id"), str) and isinstance(value.get("text"), str)
    is_message = is_message and any(
        name in value for name in ("direction", "senderId", "accountId", "conversation")
    )
    return {
        name: _without_ids(one)
        for name, one in sorted(value.items())
        if name not in _PER_SEND and not (is_message and name == "id")
    }


def _unknown_tool(error: str) -> str | None:
    for pattern in _UNKNOWN_TOOL:
        if match := pattern.search(error):
            return match[1].lower()
    return None


RULES = (
    RuleInfo(
        name="openclaw",
        framework="openclaw",
        title="openclaw loop detection, switched on, 10 / 20",
        source="openclaw/openclaw@0065530 src/agents/tool-loop-detection.ts",
        says=(
            "Before a call, among the last 30 of the run: 10 equal calls, a note; the latest 20 results"
            " of this call equal (other calls may lie between), refused. Two calls in turn: at 10 a "
            "note, at 20 refused if the results of both stayed the same. Its pollers (`process` with "
            "poll or log, `command_status`) count equal results for both. 10 failures in a row of a "
            "tool that does not exist: refused. A refused call stays in the history without a result, "
            "so it stays refused. Off by default."
        ),
        unseen=(
            "Results of `exec` and `process` compare as text, not by exit code and output. Whether a "
            "provider's own tool sends messages is not known."
        ),
        needs=("arguments", "result"),
        does="refuses",
        make=OpenclawLoop,
    ),
)
