"""A check as JUnit XML, which every CI system shows.

Two suites: `limits` has a case for each limit that is set, one for coverage, and one for each file that
could not be read; `runs` has a case for each run. A file without failures and errors is a check with exit
code 0: a run fails only where a limit is exceeded that it has a part in. Times are those of the recording,
so the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape

from .._text import cut, plural, visible_in_xml
from ._types import CheckedRun, CheckResult
from ._words import check_sentence, details_of, limit_line, verdict_of

__all__ = ["check_junit"]

_NAME = 200  # characters


@dataclass(frozen=True, slots=True)
class _Case:
    """A test case; `outcome` "" is passed, else the element: failure | error | skipped | system-out."""

    group: str
    name: str
    outcome: str = ""
    message: str = ""
    text: str = ""
    ns: int = 0
    file: str | None = None


def check_junit(result: CheckResult) -> str:
    """The check as JUnit XML, UTF-8."""
    suites = {"limits": list(_limits(result)), "runs": [_run(result, run) for run in result.runs]}
    everything = [case for cases in suites.values() for case in cases]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="loopscope check" {_counts(everything, whole=True)}>',
    ]
    for name, cases in suites.items():
        lines.append(f'  <testsuite name="{name}" {_counts(cases)}>')
        if name == "limits":
            lines += _properties(result)
        for case in cases:
            lines += _case(case)
        left_out = result.runs_total - len(result.runs)
        if name == "runs" and left_out:
            lines.append(f"    <system-out>{plural(left_out, 'more run')} left out</system-out>")
        lines.append("  </testsuite>")
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def _limits(result: CheckResult) -> Iterable[_Case]:
    sentence = check_sentence(result)
    for limit in result.limits:
        if limit.limit is None:
            continue
        case = _Case("loopscope.limits", limit_line(limit))
        if not limit.within:
            message = f"{limit.counted(limit.found)}, at most {limit.limit:,} allowed"
            case = _Case(case.group, case.name, "failure", message, sentence)
        yield case
    name = "something could be judged"
    if result.runs_judged:
        yield _Case("loopscope.limits", name)
    else:
        yield _Case("loopscope.limits", name, "error", sentence, sentence)
    for file, why in result.unread:
        yield _Case("loopscope.files", file, "error", "could not be read", why, file=file)


def _run(result: CheckResult, run: CheckedRun) -> _Case:
    group = ".".join(["loopscope", run.service_name or "service", run.agent_name or "agent"])
    name = run.run_id if run.source is None else f"{run.source.rpartition('/')[2]}: {run.run_id}"
    outcome, message, text = "", "", ""
    if run.verdict != "clean":
        message = verdict_of(run)
        text = "\n".join([message, *details_of(run)])
        outcome = "system-out"
        if result.over(run):
            outcome = "failure"
        elif run.verdict == "not_judged":
            outcome = "skipped"
    return _Case(group, name, outcome, message, text, max(0, run.last_ns - run.first_ns), run.source)


def _properties(result: CheckResult) -> list[str]:
    policy = result.policy
    named = (
        ("policy", policy.policy_hash),
        ("nudge_threshold", policy.nudge_threshold),
        ("block_threshold", policy.block_threshold),
    )
    lines = ["    <properties>"]
    lines += [
        f'      <property name="{name}" value="{"off" if value is None else value}"/>'
        for name, value in named
    ]
    return [*lines, "    </properties>"]


def _counts(cases: list[_Case], *, whole: bool = False) -> str:
    def of(outcome: str) -> int:
        return sum(case.outcome == outcome for case in cases)

    skipped = "" if whole else f'skipped="{of("skipped")}" '
    return (
        f'tests="{len(cases)}" failures="{of("failure")}" errors="{of("error")}" {skipped}'
        f'time="{_seconds(sum(case.ns for case in cases))}"'
    )


def _case(case: _Case) -> list[str]:
    file = "" if case.file is None else f' file="{_attribute(case.file, 1_000)}"'
    head = (
        f'    <testcase classname="{_attribute(case.group)}" name="{_attribute(case.name)}"{file} '
        f'time="{_seconds(case.ns)}"'
    )
    if not case.outcome:
        return [head + "/>"]
    message, text = _attribute(case.message, 1_000), _text(case.text)
    inside = {
        "failure": f'<failure message="{message}" type="over_the_limit">{text}</failure>',
        "error": f'<error message="{message}" type="bad_input">{text}</error>',
        "skipped": f'<skipped message="{message}"/>',
        "system-out": f"<system-out>{text}</system-out>",
    }[case.outcome]
    return [head + ">", f"      {inside}", "    </testcase>"]


def _seconds(ns: int) -> str:
    return f"{ns // 1_000_000_000}.{ns // 1_000_000 % 1_000:03d}"


def _text(text: str) -> str:
    """Text of an element: nothing in it is markup, nothing is forbidden in XML."""
    return escape(visible_in_xml(text, keep="\n\t"))


def _attribute(text: str, limit: int = _NAME) -> str:
    shown, note = cut(visible_in_xml(text), limit)
    return escape(shown if note is None else f"{shown}…", {'"': "&quot;"})
