"""Calls as rules see them: what is equal to what, worked out once for every rule."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from ...guard import Outcome, canonical_arguments, fingerprint, result_hash

__all__ = ["CallRecord", "Identity", "RuleCall", "identity", "rule_calls", "turn_ends"]


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A finished call, plainly.

    Attributes:
        tool: name of the tool.
        arguments: JSON text or any object; None if not known, which is not "no arguments".
        result: what came back, for a failure its text; None if not known.
        outcome: how it ended; None if not known.
        turn: number of the model's response that asked for it; None if not known.
        agent: who called.
        read_only: does the tool change nothing? None if nobody says.
    """

    tool: str
    arguments: object = None
    result: object = None
    outcome: Outcome | str | None = Outcome.SUCCESS
    turn: int | None = None
    agent: str | None = None
    read_only: bool | None = None


class Identity(NamedTuple):
    """What stands for a call's tool and arguments; calls are the same if it is equal.

    Frameworks compare arguments in different ways. All is None where arguments are not known.

    Attributes:
        ours: the guard's fingerprint: order of keys and metadata do not matter.
        same: order of keys does not matter, at any depth; metadata does.
        shallow: only the order of the outermost keys does not matter.
        ordered: order of keys matters, spacing between them does not.
        text: the text to the letter.
        blanks: the text with runs of blanks as one; None also for an empty one.
    """

    ours: Hashable
    same: Hashable
    shallow: Hashable
    ordered: Hashable
    text: Hashable
    blanks: Hashable


_UNKNOWN = Identity(None, None, None, None, None, None)


class RuleCall(NamedTuple):
    """A finished call as rules see it: `Identity`, then what came of it.

    Attributes:
        tool: name of the tool.
        result: what results compare by; None if not known.
        failed: did it fail? None if not known.
        error: what it said when it failed (at least its first 100 characters).
        turn: number of the model's response that asked for it; None if not known.
        ends_turn: no further call of that response follows. True where the turn is not known.
        outcome: as recorded.
        agent: who called.
        read_only: does the tool change nothing? None if nobody says.
        arguments: the arguments, only for tools in `LoopRule.reads_arguments_of`.
        output: the result, likewise.
    """

    tool: str
    ours: Hashable
    same: Hashable
    shallow: Hashable
    ordered: Hashable
    text: Hashable
    blanks: Hashable
    result: Hashable
    failed: bool | None
    error: str | None
    turn: int | None
    ends_turn: bool
    outcome: str | None
    agent: str | None
    read_only: bool | None
    arguments: Any
    output: Any


def identity(tool: str, arguments: object) -> Identity:
    """Every identity of one call."""
    if arguments is None:
        return _UNKNOWN
    text = arguments if isinstance(arguments, str) else _dumped(arguments)
    value = _parsed(text) if isinstance(arguments, str) else arguments
    ordered = text if value is _NO_JSON else _dumped(value)
    shallow = ordered
    if isinstance(value, dict):
        shallow = _dumped({key: value[key] for key in sorted(value, key=str)})
    blanks = " ".join(text.split())
    return Identity(
        fingerprint(tool, arguments),
        (tool, canonical_arguments(arguments, metadata_keys=())),
        (tool, shallow),
        (tool, ordered),
        (tool, text),
        (tool, blanks) if blanks else None,
    )


_NO_JSON = object()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NO_JSON


def _dumped(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):  # deep, or with keys that JSON has not
        return canonical_arguments(value, metadata_keys=())


def rule_calls(records: Iterable[CallRecord]) -> list[RuleCall]:
    """The calls of one run as rules see them, in the order in which they finished."""
    records = list(records)
    ends = turn_ends([one.turn for one in records])
    made: list[RuleCall] = []
    for one, last in zip(records, ends, strict=True):
        outcome = None if one.outcome is None else Outcome(one.outcome)
        failed = None if outcome is None else outcome is not Outcome.SUCCESS
        said = one.result if one.result is None or isinstance(one.result, str) else _dumped(one.result)
        made.append(
            RuleCall(
                one.tool,
                *identity(one.tool, one.arguments),
                result_hash(one.result),
                failed,
                said if failed else None,
                one.turn,
                last,
                outcome,
                one.agent,
                one.read_only,
                one.arguments,
                one.result,
            )
        )
    return made


def turn_ends(turns: list[int | None]) -> list[bool]:
    """For each call of a run: does no further call of its response follow at once?"""
    return [one is None or one != following for one, following in pairwise([*turns, None])]
