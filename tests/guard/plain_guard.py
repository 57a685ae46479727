"""The rules of the guard once more, in the plainest words: no state, no hashes, whole values.

Each call is judged by looking back over the calls before it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from loopscope.guard import DEFAULT_METADATA_KEYS, INHERIT, Action, GuardPolicy, Outcome, ToolPolicy

Row = dict[str, Any]


class PlainGuard:
    """`judge(rows)` gives (action, count) for each."""

    def __init__(self, policy: GuardPolicy) -> None:
        self.policy = policy

    def judge(self, rows: list[Row]) -> list[tuple[Action, int]]:
        said: list[tuple[Action, int]] = []
        end = len(rows)  # the blocked call
        for index in range(len(rows)):
            # What comes after a block changes no count.
            count = self.count([*rows[: min(index, end + 1)], rows[index]], past=index > end)
            if index > end:
                said.append((Action.AFTER_BLOCK, count))
                continue
            said.append(self.verdict(rows[index], count))
            if said[-1][0] is Action.BLOCK:
                end = index
        return said

    def verdict(self, row: Row, count: int) -> tuple[Action, int]:
        if self.tool(row).exempt:
            return Action.ALLOW, 0
        if not self.takes_part(row):
            return Action.NOT_COUNTED, count
        kind = "error_" if self.apart(row) else ""
        nudge, block = (self.knob(row, f"{kind}{what}_threshold") for what in ("nudge", "block"))
        if block is not None and count >= block:
            return Action.BLOCK, count
        return (Action.NUDGE if nudge is not None and count >= nudge else Action.ALLOW), count

    def count(self, rows: list[Row], *, past: bool) -> int:
        """The count of the last row; `past` a block, or where it takes no part, the count so far."""
        last = rows[-1]
        if last["arguments"] is None or self.tool(last).exempt:
            return 0
        anew = self.takes_part(last) and not past
        # A success that takes no part still ends what it ends; but not past a block.
        same: list[Any] = [self.seen(last)] if anew else []
        for row in reversed(rows[:-1]):
            if row["outcome"] == Outcome.SUCCESS and self.tool(row).resets and not self.tool(last).resets:
                break
            if self.key(row) != self.key(last) or self.tool(row).exempt:
                continue
            if self.apart(last) and row["outcome"] == Outcome.SUCCESS:
                break
            if not self.takes_part(row) or self.apart(row) != self.apart(last):
                continue
            if same and self.seen(row) != same[0]:
                break
            same.append(self.seen(row))
        return len(same)

    def tool(self, row: Row) -> ToolPolicy:
        return self.policy.tools.get(row["tool_name"], ToolPolicy())

    def knob(self, row: Row, name: str) -> int | None:
        own = getattr(self.tool(row), name)
        return getattr(self.policy, name) if own is INHERIT else own

    def apart(self, row: Row) -> bool:
        """Is it a general error with a count of its own?"""
        on = any(self.knob(row, f"error_{what}_threshold") is not None for what in ("nudge", "block"))
        return on and row["outcome"] == Outcome.GENERAL_TOOL_ERROR

    def takes_part(self, row: Row) -> bool:
        known = None not in (row["arguments"], row["output"], row["outcome"])
        return known and (self.apart(row) or row["outcome"] in self.policy.counted_outcomes)

    def key(self, row: Row) -> str:
        ignored = {*self.policy.metadata_keys, *self.tool(row).metadata_keys, *DEFAULT_METADATA_KEYS}
        return repr((row["tool_name"], row["agent"], without(parsed(row["arguments"]), ignored)))

    def seen(self, row: Row) -> str:
        """What is left of an output to be compared."""
        tool = self.tool(row)
        keys = {*self.policy.ignored_result_keys, *tool.ignored_result_keys}
        value = parsed(row["output"])
        text = row["output"]
        if keys and isinstance(value, dict):
            text = json.dumps(without(value, keys), separators=(",", ":"), sort_keys=True)
        for pattern in (*self.policy.ignored_result_patterns, *tool.ignored_result_patterns):
            text = re.sub(pattern, "", text, flags=re.MULTILINE)
        return repr((keys and isinstance(value, dict), text))


def parsed(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except ValueError:
        return text


def without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(member, keys) for key, member in sorted(value.items()) if key not in keys}
    return [without(item, keys) for item in value] if isinstance(value, list) else value
