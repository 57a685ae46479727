"""Running policy tests, and their outcome as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from ...guard import Action, DuplicateCallGuard, GuardPolicy, RecordedCall
from .._text import visible_in_xml
from ._read import PolicyTestCase

__all__ = ["CaseFailure", "CaseResult", "policy_tests_junit", "run_policy_tests"]


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """An expectation that did not hold. `call`: number of the call; None: it is about the whole run."""

    call: int | None
    expected: str
    got: str

    def __str__(self) -> str:
        where = "" if self.call is None else f"call {self.call:,}: "
        return f"{where}expected {self.expected}, got {self.got}"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case with what did not hold; it passed if nothing."""

    case: PolicyTestCase
    failures: tuple[CaseFailure, ...]

    @property
    def passed(self) -> bool:
        """Did everything come out as expected?"""
        return not self.failures


def run_policy_tests(
    cases: Iterable[PolicyTestCase], policy: GuardPolicy | None = None
) -> tuple[CaseResult, ...]:
    """Run each case under its own policy, else `policy`, else the default one."""
    return tuple(CaseResult(case, tuple(_failures(case, policy))) for case in cases)


def _failures(case: PolicyTestCase, policy: GuardPolicy | None) -> Iterator[CaseFailure]:
    guard = DuplicateCallGuard(case.policy or policy)
    verdicts: list[tuple[Action, int]] = []
    for one in case.calls:
        call = RecordedCall(one.tool, one.arguments, one.result, one.outcome, one.agent)
        verdicts.append(guard.observe_recorded(call))
    for wanted in case.expect:
        action, count = verdicts[wanted.call - 1]
        fits = wanted.action in (None, action) and wanted.count in (None, count)
        if not fits:
            # Only what was asked is compared, and only that is shown.
            got_action = None if wanted.action is None else action
            got_count = None if wanted.count is None else count
            yield CaseFailure(wanted.call, _shown(wanted.action, wanted.count), _shown(got_action, got_count))
    for action, first in ((Action.NUDGE, case.first_nudge), (Action.BLOCK, case.first_block)):
        if first is None:
            continue
        found = next((number for number, (one, _) in enumerate(verdicts, 1) if one is action), 0)
        if found != first:
            yield CaseFailure(None, _first(action, first), _first(action, found))


def _shown(action: Action | None, count: int | None) -> str:
    parts = [] if action is None else [action.value]
    return " ".join([*parts, *([] if count is None else [f"count {count:,}"])])


def _first(action: Action, number: int) -> str:
    return f"the first {action.value} at call {number:,}" if number else f"no {action.value}"


def policy_tests_junit(results: Mapping[str, Sequence[CaseResult]]) -> str:
    """JUnit XML of the results by file: a suite per file, a test case per case, no times."""
    everything = [one for found in results.values() for one in found]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {_counts('loopscope policy test', everything)}>",
    ]
    for file, found in results.items():
        lines.append(f"  <testsuite {_counts(file, found)}>")
        for one in found:
            line = "" if one.case.line is None else f' line="{one.case.line}"'
            where = _attribute(file)
            head = f"    <testcase classname={where} name={_attribute(one.case.name)} file={where}{line}"
            if one.passed:
                lines.append(f"{head}/>")
                continue
            texts = [str(failure) for failure in one.failures]
            lines += [f"{head}>", f"      <failure message={_attribute(texts[0])}>"]
            lines += [escape(visible_in_xml(text)) for text in texts]
            lines += ["      </failure>", "    </testcase>"]
        lines.append("  </testsuite>")
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def _counts(name: str, found: Sequence[CaseResult]) -> str:
    failed = sum(not one.passed for one in found)
    return f'name={_attribute(name)} tests="{len(found)}" failures="{failed}" errors="0"'


def _attribute(text: str) -> str:
    return quoteattr(visible_in_xml(text))
