"""`loopscope check`: a policy held against recorded runs, for CI."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ..guard import GuardPolicy, LoopscopeError
from ._coverage import print_coverage
from ._import import import_with_progress
from ._options import Block, Nudge, PolicyFile, default_db, load_policy, policy_line
from ._output import console, one_line, print_error, print_json, print_note, print_table
from ._store import reading

if TYPE_CHECKING:
    from ..collector import ImportReport
    from ..replay.checks import CheckedRun, CheckResult, Limits

__all__ = ["check"]

_SHOWN = 20  # runs in the table


class CheckFormat(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Trace files, and folders to search for them; judged in a store that is gone afterwards.",
            metavar="PATH",
        ),
    ] = None,
    db: Annotated[
        Path | None,
        typer.Option(
            "--db",
            help="The database file to judge, in place of PATHs. Without either: LOOPSCOPE_DB, "
            "else traces.duckdb.",
            show_default=False,
        ),
    ] = None,
    policy: PolicyFile = None,
    nudge: Nudge = None,
    block: Block = None,
    max_blocked: Annotated[
        str, typer.Option(help="How many runs the policy may block; 'off' for any number.", metavar="N")
    ] = "0",
    max_nudged: Annotated[
        str, typer.Option(help="How many runs the policy may nudge; 'off' for any number.", metavar="N")
    ] = "off",
    max_incidents: Annotated[
        str, typer.Option(help="How many incidents there may be; 'off' for any number.", metavar="N")
    ] = "off",
    junit: Annotated[
        Path | None, typer.Option(help="Write the result as JUnit XML to this file.", show_default=False)
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            help='Append the result as Markdown to this file, e.g. "$GITHUB_STEP_SUMMARY".',
            show_default=False,
        ),
    ] = None,
    format: Annotated[CheckFormat, typer.Option("--format", help="How to print it.")] = CheckFormat.TEXT,
) -> None:
    """Hold recorded runs against a policy, for CI.

    Exit code 0: within the limits; 1: over a limit; 2: bad input, also where nothing could be judged.
    """
    from ..replay.checks import Limits

    limits = Limits(
        _limit("--max-blocked", max_blocked),
        _limit("--max-nudged", max_nudged),
        _limit("--max-incidents", max_incidents),
    )
    if paths and db is not None:
        raise LoopscopeError("give files or --db, not both: a check is of the one or the other")
    for file in (junit, summary):
        _refuse_unwritable(file)
    if paths:
        result = _check_files(paths, limits, lambda db: load_policy(db, policy, nudge, block))
    else:
        rules = load_policy(db or default_db(), policy, nudge, block)
        result = _check_store(db or default_db(), rules, limits)
    _write(result, junit, summary)
    _print(result, format)
    raise typer.Exit(_exit_code(result))


def _limit(option: str, text: str) -> int | None:
    if text.lower() in {"off", "none"}:
        return None
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise LoopscopeError(f"{option} {text!r}: give a whole number from 0, or 'off'")


def _check_store(db: Path, policy: GuardPolicy, limits: Limits) -> CheckResult:
    from ..replay.checks import check as judge

    with reading(db) as connection:
        return judge(connection, policy, limits)


def _check_files(paths: list[Path], limits: Limits, load: Callable[[Path], GuardPolicy]) -> CheckResult:
    from ..collector import Store
    from ..replay.checks import check as judge

    with _folder_that_goes() as folder:
        db = folder / "check.duckdb"
        policy = load(db)  # beside it lies none that the dashboard saved; LOOPSCOPE_POLICY may name one
        report = import_with_progress(db, paths)
        _note_skipped(report)
        sources: dict[str, str] = {}
        for file in report.files:
            for trace in file.trace_ids:
                sources.setdefault(trace, file.path.as_posix())
        unread = [(file.path.as_posix(), str(file.error)) for file in report.files if file.error is not None]
        with Store(db).lease() as connection:
            return judge(connection, policy, limits, sources=sources, unread=unread)


def _note_skipped(report: ImportReport) -> None:
    for file in report.files:
        if file.skipped:
            where, why = file.skipped[0]
            more = f" (and {len(file.skipped) - 1:,} more)" if len(file.skipped) > 1 else ""
            print_note(f"left out: {one_line(file.path.name)}: {one_line(where)}: {one_line(why)}{more}")


@contextmanager
def _folder_that_goes() -> Iterator[Path]:
    """A temporary folder that is removed whatever happens; a job that is cancelled is sent SIGTERM."""
    with _ending_by_exception(), tempfile.TemporaryDirectory(prefix="loopscope-check-") as folder:
        try:
            yield Path(folder)
        finally:
            _ignore_signals()  # a second Ctrl-C would leave half of it


_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def _ending_by_exception() -> Iterator[None]:
    """Signals that would end the process at once end it by an exception."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in _ENDING}
    try:
        for number in _ENDING:
            if number != signal.SIGINT and before[number] == signal.SIG_DFL:
                signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _ignore_signals() -> None:
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)


def _refuse_unwritable(file: Path | None) -> None:
    """Said before an import that may take minutes."""
    if file is None:
        return
    if file.is_dir():
        raise LoopscopeError(f"{file} is a folder; name a file in it")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoopscopeError(f"{file}: cannot be written: {error.strerror or error}") from error


def _write(result: CheckResult, junit: Path | None, summary: Path | None) -> None:
    from ..replay.checks import SUMMARY_LIMIT, check_junit, check_summary

    if junit is not None:
        _put(junit, check_junit(result), "wb")
    if summary is not None:
        there = summary.stat().st_size if summary.exists() else 0
        # GitHub shows nothing of a summary that is larger, whoever wrote the rest of it.
        text = check_summary(result, SUMMARY_LIMIT - there)
        if not text:
            print_note(
                f"{summary} has no room for a summary (limit {SUMMARY_LIMIT:,} bytes); nothing was added"
            )
        _put(summary, text, "ab")


def _put(file: Path, text: str, mode: str) -> None:
    try:
        with open(file, mode) as target:
            target.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise LoopscopeError(f"{file}: cannot be written: {error.strerror or error}") from error


def _exit_code(result: CheckResult) -> int:
    from ..replay.checks import CheckStatus

    return {CheckStatus.CLEAN: 0, CheckStatus.OVER_THE_LIMIT: 1}.get(result.status, 2)


def _print(result: CheckResult, format: CheckFormat) -> None:
    from ..replay.checks import HEADLINES, CheckStatus, check_sentence

    sentence = check_sentence(result)
    if format is CheckFormat.JSON:
        print_json(result.to_json())
    elif result.runs_total or not result.unread:
        _print_runs(result)
        print_coverage(result.coverage.to_json())
        headline = HEADLINES[result.status]
        # Where nothing could be judged, that is how the sentence begins.
        whole = sentence if sentence.startswith(headline) else f"{headline}: {sentence}"
        console().print(f"\n{whole[0].upper()}{whole[1:]}.")
    if result.status is CheckStatus.NOTHING_JUDGED:
        print_error(f"{sentence}; a check of nothing is no check")
    for _, why in result.unread:
        print_error(why)


def _projected(run: CheckedRun) -> str:
    return "projected: " if run.decisive is not None and not run.decisive.exact else ""


def _print_runs(result: CheckResult) -> None:
    from ..replay.checks import verdict_of

    out = console()
    out.print(f"Policy: {policy_line(result.policy)}", style="dim")
    rows = [
        {
            "source": None if run.source is None else Path(run.source).name,
            "run": run.run_id,
            "agent": run.agent_name or run.service_name,
            "verdict": _projected(run) + verdict_of(run),
            "arguments": None if run.decisive is None else run.decisive.arguments,
        }
        for run in result.findings[:_SHOWN]
    ]
    if rows:
        columns = {
            "source": "file",
            "run": "run",
            "agent": "agent",
            "verdict": "What the policy says",
            "arguments": "arguments",
        }
        if not any(row["source"] for row in rows):
            del columns["source"]
        # Of a file the run is known by its name; the verdict is what the reader came for.
        print_table(columns, rows, width=120, optional=("arguments", "run", "agent"))
    if result.findings_total > len(rows):
        out.print(f"{result.findings_total - len(rows):,} more runs; --format json or --junit list them")
    for limit in result.limits:
        if limit.limit is not None:
            word = "within" if limit.within else "over"
            out.print(f"{limit.counted(limit.found)}, at most {limit.limit:,}: {word}")
