"""`loopscope policy test`: does a policy still nudge and block where it has to?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..guard import GuardPolicy, LoopscopeError
from ._options import Db, load_policy
from ._output import console, one_line, print_error
from ._store import reading

__all__ = ["run_tests"]


def run_tests(
    db: Db,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files of policy tests (TOML).", metavar="FILE…")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            help="The policy to be tested, in place of the one that a file names. A case with a policy of "
            "its own keeps it.",
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Write the results as JUnit XML.", metavar="FILE")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            help="Print a case made of a recorded incident (its key) and what the policy says of it now, "
            "to be put into such a file.",
            metavar="KEY",
        ),
    ] = None,
) -> None:
    """Run sequences of calls through a policy and compare with what is expected; exit code 1 if not met."""
    from ..replay.policy_tests import CaseResult, policy_tests_junit, read_policy_tests, run_policy_tests

    if record is not None:
        if files or junit is not None:
            raise LoopscopeError("--record prints a case and runs none; give no files and no --junit with it")
        _print_case(db, record, policy)
        return
    if not files:
        raise LoopscopeError(
            "no file of policy tests is named; docs/policy-tests.md says what one looks like"
        )
    given = None if policy is None else GuardPolicy.from_file(policy)
    # All are read before any is run: a bad file is no failed test.
    cases = {str(file): read_policy_tests(file, given) for file in files}
    results: dict[str, tuple[CaseResult, ...]] = {
        file: run_policy_tests(found, given) for file, found in cases.items()
    }
    if junit is not None:
        try:
            junit.write_text(policy_tests_junit(results), encoding="utf-8")
        except OSError as error:
            raise LoopscopeError(f"{junit}: cannot be written: {error.strerror or error}") from None
    failed = 0
    for file, found in results.items():
        for result in found:
            failed += not result.passed
            line = "" if result.case.line is None else f":{result.case.line}"
            for failure in result.failures:
                print(one_line(f"FAIL {file}{line}: {result.case.name}: {failure}", 1000))  # noqa: T201
    total = sum(map(len, results.values()))
    if failed:
        print_error(f"{failed:,} of {total:,} cases failed")
        raise typer.Exit(1)
    console().print(f"{total:,} {'case' if total == 1 else 'cases'} passed.")


def _print_case(db: Path, key: str, policy: Path | None) -> None:
    from ..replay.policy_tests import case_of_incident

    rules = load_policy(db, policy)
    with reading(db) as connection:
        text = case_of_incident(connection, key, rules)
    print(text, end="")  # noqa: T201 - strings are escaped as TOML
