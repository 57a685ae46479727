"""Reading a file of policy tests; what is wrong in it is said with its key and line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from ...guard import Action, GuardPolicy, Outcome, PolicyError
from ...guard._policy_file import check_keys, parse_file

__all__ = ["Expectation", "PolicyTestCase", "TestCall", "parse_policy_tests", "read_policy_tests"]

TESTS_FILE_VERSION = 1

_MOST_CALLS = 100_000  # of a case, repeats written out
_DEEPEST = 8  # groups in groups

_FILE_KEYS = ("version", "policy", "cases")
_CASE_KEYS = ("name", "policy", "calls", "expect", "first_nudge", "first_block")
_CALL_KEYS = ("tool", "arguments", "result", "results", "error", "outcome", "agent", "repeat")
_GROUP_KEYS = ("calls", "repeat")
_EXPECT_KEYS = ("call", "action", "count")
_NEVER = "never"
_UNKNOWN = "unknown"
_OUTCOMES = (*(one.value for one in Outcome), _UNKNOWN)


@dataclass(frozen=True, slots=True)
class TestCall:
    """One finished call. None is "not recorded"."""

    __test__ = False  # pytest: no test of its own

    tool: str
    arguments: object
    result: object
    outcome: Outcome | None
    agent: str | None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is to come of call number `call`, from 1; None: either way."""

    call: int
    action: Action | None
    count: int | None


@dataclass(frozen=True, slots=True)
class PolicyTestCase:
    """One run with what is expected of it.

    Attributes:
        name: of the case, unique in its file.
        calls: in the order in which they finish.
        expect: what is to come of single calls.
        first_nudge: number of the first nudged call; 0: no call is nudged; None: not asked.
        first_block: number of the blocked call; 0: no call is blocked; None: not asked.
        policy: the case's own, whatever the others are tested with; None: it has none.
        line: where it begins in its file, from 1; None if not known.
    """

    name: str
    calls: tuple[TestCall, ...]
    expect: tuple[Expectation, ...] = ()
    first_nudge: int | None = None
    first_block: int | None = None
    policy: GuardPolicy | None = None
    line: int | None = None


def read_policy_tests(
    path: str | os.PathLike[str], policy: GuardPolicy | None = None
) -> tuple[PolicyTestCase, ...]:
    """The cases of a file. `policy` goes before the one that the file names, not before a case's own.

    Raises PolicyError, its message led by the path, with the key that is wrong and its line.
    """
    return parse_file(path, lambda text: parse_policy_tests(text, policy, folder=Path(path).parent))


def parse_policy_tests(
    text: str, policy: GuardPolicy | None = None, *, folder: Path | None = None
) -> tuple[PolicyTestCase, ...]:
    """The cases in the text of such a file. Policy files it names lie relative to `folder`.

    Raises PolicyError with the key that is wrong and its line.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not a TOML file: {error}") from None
    except RecursionError:
        raise PolicyError("not a file of policy tests: nested too deeply") from None
    check_keys("", data, _FILE_KEYS)
    version = data.get("version")
    if version is None:
        raise PolicyError(f"version is missing; write version = {TESTS_FILE_VERSION} at the top")
    if version != TESTS_FILE_VERSION or isinstance(version, bool):
        raise PolicyError(
            f"version {_show(version)} is not understood; this Loopscope reads version {TESTS_FILE_VERSION}"
        )
    cases = data.get("cases")
    if not _tables(cases) or not cases:
        raise PolicyError("cases is missing; write each case below [[cases]]")
    everybodys = policy
    if everybodys is None and "policy" in data:
        everybodys = _policy("policy", data["policy"], folder)
    lines = [number for number, line in enumerate(text.split("\n"), 1) if _HEAD.match(line)]
    made: list[PolicyTestCase] = []
    for number, entry in enumerate(cases, 1):
        line = lines[number - 1] if len(lines) == len(cases) else None
        try:
            case = _case(f"cases[{number}].", entry, everybodys, folder, line)
            if any(case.name == other.name for other in made):
                raise PolicyError(f"cases[{number}].name: {_show(case.name)} is the name of another case")
        except PolicyError as error:
            where = f" (the case begins at line {line})" if line else ""
            raise PolicyError(f"{error}{where}") from None
        made.append(case)
    return tuple(made)


_HEAD = re.compile(r"\s*\[\[\s*(?:cases|\"cases\"|'cases')\s*\]\]")


def _case(
    path: str, entry: Mapping[str, Any], policy: GuardPolicy | None, folder: Path | None, line: int | None
) -> PolicyTestCase:
    check_keys(path, entry, _CASE_KEYS)
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        raise PolicyError(f"{path}name is missing; say in words what the case shows")
    calls = _calls(f"{path}calls", entry.get("calls"))
    expect = entry.get("expect", [])
    if not _tables(expect):
        raise PolicyError(f"{path}expect must be a list of tables, not {_show(expect)}")
    case = PolicyTestCase(
        name=name,
        calls=tuple(calls),
        expect=tuple(
            _expectation(f"{path}expect[{number}].", one, len(calls)) for number, one in enumerate(expect, 1)
        ),
        first_nudge=_first(f"{path}first_nudge", entry.get("first_nudge"), len(calls)),
        first_block=_first(f"{path}first_block", entry.get("first_block"), len(calls)),
        policy=_policy(f"{path}policy", entry["policy"], folder) if "policy" in entry else policy,
        line=line,
    )
    if not case.expect and case.first_nudge is None and case.first_block is None:
        raise PolicyError(f"{path}expect is missing; say what is expected, or first_block and first_nudge")
    return case


def _policy(path: str, value: object, folder: Path | None) -> GuardPolicy:
    """A policy file, or the keys of one in place."""
    if isinstance(value, str):
        return GuardPolicy.from_file((folder or Path()) / value)
    if not isinstance(value, Mapping):
        raise PolicyError(f"{path} must name a policy file or hold its keys, not {_show(value)}")
    try:
        return GuardPolicy.from_dict({"version": 1, **value})
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None


def _calls(path: str, value: object, depth: int = 0) -> list[TestCall]:
    if not _tables(value) or not value:
        raise PolicyError(
            f'{path} must be a list of tables such as {{ tool = "search" }}, not {_show(value)}'
        )
    if depth > _DEEPEST:
        raise PolicyError(f"{path}: groups of calls are nested too deeply")
    made: list[TestCall] = []
    for number, entry in enumerate(value, 1):
        one = f"{path}[{number}]."
        if "calls" in entry:
            check_keys(one, entry, _GROUP_KEYS)
            part = _calls(f"{one}calls", entry["calls"], depth + 1)
        else:
            part = _call(one, entry)
        repeat = entry.get("repeat", 1)
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise PolicyError(f"{one}repeat must be a whole number from 1, not {_show(repeat)}")
        if len(made) + len(part) * repeat > _MOST_CALLS:
            raise PolicyError(f"{one}repeat: a case has at most {_MOST_CALLS:,} calls")
        made += part * repeat
    return made


def _call(path: str, entry: Mapping[str, Any]) -> list[TestCall]:
    check_keys(path, entry, _CALL_KEYS)
    tool = entry.get("tool")
    if not isinstance(tool, str) or not tool:
        raise PolicyError(f"{path}tool is missing; write the name of the tool")
    agent = entry.get("agent")
    if agent is not None and not isinstance(agent, str):
        raise PolicyError(f"{path}agent must be a name, not {_show(agent)}")
    given = [key for key in ("result", "results", "error") if key in entry]
    if len(given) > 1:
        raise PolicyError(f"{path}{given[1]}: give one of result, results and error")
    outcome = entry.get("outcome", "general_tool_error" if "error" in entry else "success")
    if outcome not in _OUTCOMES:
        words = ", ".join(_OUTCOMES)
        raise PolicyError(f"{path}outcome must be one of {words}, not {_show(outcome)}")
    if "error" in entry and outcome == Outcome.SUCCESS:
        raise PolicyError(f"{path}outcome: a call with an error is no success")
    results = [entry.get("error", entry.get("result"))]
    if "results" in entry:
        results = entry["results"]
        if not isinstance(results, list) or not results:
            raise PolicyError(f"{path}results must be a list, one result a call, not {_show(results)}")
    arguments = entry.get("arguments")
    known = None if outcome == _UNKNOWN else Outcome(outcome)
    return [TestCall(tool, arguments, result, known, agent) for result in results]


def _expectation(path: str, entry: Mapping[str, Any], calls: int) -> Expectation:
    check_keys(path, entry, _EXPECT_KEYS)
    number = _number(f"{path}call", entry.get("call"), calls)
    action, count = entry.get("action"), entry.get("count")
    if action is None and count is None:
        raise PolicyError(f"{path}action is missing; give the action that is expected, the count, or both")
    if action is not None and action not in [one.value for one in Action]:
        raise PolicyError(
            f"{path}action must be one of {', '.join(one.value for one in Action)}, not {_show(action)}"
        )
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise PolicyError(f"{path}count must be a whole number from 0, not {_show(count)}")
    return Expectation(number, None if action is None else Action(action), count)


def _first(path: str, value: object, calls: int) -> int | None:
    if value is None:
        return None
    return 0 if value == _NEVER else _number(path, value, calls, f' or "{_NEVER}"')


def _number(path: str, value: object, calls: int, more: str = "") -> int:
    if value is None:
        raise PolicyError(f"{path} is missing; give the number of the call, from 1")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= calls:
        raise PolicyError(
            f"{path} must be a number from 1 to {calls:,}, the calls of the case{more}, not {_show(value)}"
        )
    return value


def _tables(value: object) -> TypeGuard[list[Mapping[str, Any]]]:
    return isinstance(value, list) and all(isinstance(one, Mapping) for one in value)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
