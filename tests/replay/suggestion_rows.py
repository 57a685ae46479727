"""Runs for the tests of suggestions."""

from __future__ import annotations

from typing import Any

from replay_rows import call

from loopscope.collector import ToolCall


def coding(run: str, **more: Any) -> list[ToolCall]:
    """A build that fails four times in the same way, with an edit before each, and then passes."""
    rows: list[ToolCall] = []
    for number, result in enumerate(["failed"] * 4 + ["passed"]):
        rows.append(call("edit_file", f'{{"n": {number}}}', f"edited {number}", run=run, **more))
        rows.append(call("run_build", "{}", result, run=run, **more))
    return rows


def polling(run: str, equal: int, *, tool: str = "get_job", **more: Any) -> list[ToolCall]:
    """A job that is running so many times, and then done."""
    return [
        *[call(tool, "{}", "running", run=run, **more)] * equal,
        call(tool, "{}", "done", run=run, **more),
    ]


def stuck(run: str, equal: int, *, tool: str = "search", **more: Any) -> list[ToolCall]:
    """The same search with the same result, again and again."""
    return [call(tool, '{"q": "refund"}', "no hits", run=run, **more)] * equal


def quiet(run: str, **more: Any) -> list[ToolCall]:
    """Four different calls."""
    return [call("read", f'{{"n": {number}}}', f"text {number}", run=run, **more) for number in range(4)]
