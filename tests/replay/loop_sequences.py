"""Eleven made sequences of sixty calls: loops, and what only looks like one.

One call a response, one user message. `read` changes nothing; `q` is any tool.
"""

from __future__ import annotations

from collections.abc import Callable

from loopscope.guard import Outcome
from loopscope.replay.rules import CallRecord

LENGTH = 60
ERROR = Outcome.GENERAL_TOOL_ERROR


def read(number: int, arguments: object, result: str, outcome: Outcome = Outcome.SUCCESS) -> CallRecord:
    return CallRecord("read", {"path": arguments}, result, outcome, number, read_only=True)


def q(number: int, arguments: object, result: str, outcome: Outcome = Outcome.SUCCESS) -> CallRecord:
    return CallRecord("q", {"q": arguments}, result, outcome, number)


def edit_and_test(number: int) -> CallRecord:
    """The same test fails with a new message after every edit."""
    if number % 2:
        return CallRecord("test", {"suite": "all"}, f"assertion {number} failed", ERROR, number)
    return CallRecord("edit", {"patch": f"change {number}"}, "saved", Outcome.SUCCESS, number)


def patient(number: int) -> CallRecord:
    """Two timeouts, then a success, and on to the next."""
    task = (number - 1) // 3
    if number % 3:
        return q(number, f"task {task}", "timed out", ERROR)
    return q(number, f"task {task}", f"answer {task}")


SEQUENCES: dict[str, tuple[str, Callable[[int], CallRecord]]] = {
    "S1": ("same call, same error", lambda n: q(n, "a", "connection refused", ERROR)),
    "S2": ("same read, same result", lambda n: read(n, "a", "text of a")),
    "S3": ("poll: the result changes", lambda n: read(n, "job", f"{n} of 60 done")),
    "S4": ("ABAB, same results", lambda n: read(n, "ab"[n % 2], f"text of {'ab'[n % 2]}")),
    "S5": ("ABC, same results", lambda n: read(n, "abc"[n % 3], f"text of {'abc'[n % 3]}")),
    "S6": ("new arguments, same error", lambda n: q(n, f"guess {n}", "no such column", ERROR)),
    "S7": (
        "every fourth call is the same read",
        lambda n: read(n, "a", "text of a") if n % 4 == 1 else read(n, f"new {n}", f"text {n}"),
    ),
    "S8": ("failing test, edit, failing test", edit_and_test),
    "S9": ("two timeouts, then success", patient),
    "S10": ("sixty different reads", lambda n: read(n, f"file {n}", f"text {n}")),
    "S11": (
        "same call, error and success in turn",
        lambda n: read(n, "a", "busy", ERROR) if n % 2 else read(n, "a", "text of a"),
    ),
}


def sequence(name: str) -> list[CallRecord]:
    """The sixty calls of a sequence."""
    make = SEQUENCES[name][1]
    return [make(number) for number in range(1, LENGTH + 1)]
