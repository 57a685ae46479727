"""`loopscope import`: files that people already have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from ..guard import ImportFileError
from ._options import Db
from ._output import console, one_line, print_error, print_json, print_table

if TYPE_CHECKING:
    from ..collector import FileReport, ImportReport

__all__ = ["import_", "import_and_show", "import_with_progress"]

_COLUMNS = {
    "file": "file",
    "format": "taken for",
    "runs": "runs",
    "calls": "calls",
    "requests": "LLM requests",
    "spans": "spans",
    "note": "note",
}
_SKIPS_SHOWN = 5


def import_(
    paths: Annotated[
        list[Path], typer.Argument(help="Files, and folders to search for trace files.", metavar="PATH...")
    ],
    db: Db,
    format: Annotated[
        str,
        typer.Option(
            help="What the files are: auto tells by content; a name that does not exist lists all formats.",
            show_default=True,
        ),
    ] = "auto",
    content: Annotated[
        bool | None,
        typer.Option(
            "--content/--no-content",
            help="Keep arguments, results and messages, or leave them out before anything is written. "
            "Not given: LOOPSCOPE_CAPTURE_CONTENT decides.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Import traces, exports, sessions and transcripts; importing again changes nothing.

    A file comes in whole or not at all. One that cannot be imported does not keep the others out;
    the exit code is then 2.
    """
    if not import_and_show(db, paths, format=format, content=content, as_json=as_json):
        raise typer.Exit(2)


def import_and_show(
    db: Path,
    paths: Sequence[Path],
    *,
    format: str = "auto",
    content: bool | None = None,
    as_json: bool = False,
) -> bool:
    """Import with a progress bar and print what came in. False if a file could not be imported."""
    report = import_with_progress(db, paths, format, content)
    # One bad file named alone is an error like any other: one line, nothing else.
    if len(report.files) == 1 and report.errors:
        raise report.errors[0]
    if as_json:
        print_json(_as_json(report))
    else:
        _show(db, report)
    for error in report.errors:
        print_error(str(error))
    return report.ok


def import_with_progress(
    db: Path, paths: Sequence[Path], format: str = "auto", content: bool | None = None
) -> ImportReport:
    """Import, with a progress bar where stderr is a terminal."""
    from ..collector import import_paths

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        console=Console(stderr=True, markup=False, emoji=False, highlight=False),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("importing", total=None)

        def advance(done: int, total: int, path: Path) -> None:
            bar.update(task, completed=done, total=total, description=one_line(path.name, 40))

        return import_paths(db, paths, format=format, progress=advance, capture_content=content)


def _show(db: Path, report: ImportReport) -> None:
    out = console()
    rows = [_row(file) for file in report.files if file.ok]
    if rows:
        print_table(_COLUMNS, rows, width=70)
    for file in report.files:
        for where, why in file.skipped[:_SKIPS_SHOWN]:
            out.print(f"skipped: {one_line(file.path.name)}: {one_line(where)}: {one_line(why)}")
        if len(file.skipped) > _SKIPS_SHOWN:
            more = len(file.skipped) - _SKIPS_SHOWN
            out.print(f"skipped: {one_line(file.path.name)}: {more:,} more (--json lists them)")
    if report.skipped:
        files = _number(len(report.skipped), "file")
        out.print(f"No trace, left out: {files} of the folders (--json lists them)")
    totals = report.totals
    if rows:
        out.print(
            f"{_number(totals.runs, 'run')}, {_number(totals.calls, 'call')}, "
            f"{_number(totals.requests, 'LLM request')} in {_number(len(rows), 'file')}; database: {db}"
        )


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _row(file: FileReport) -> dict[str, object]:
    note = "already there, nothing changed" if file.already_there else None
    return {
        "file": file.path.name,
        "format": file.format,
        "runs": file.runs,
        "calls": file.calls,
        "requests": file.requests,
        "spans": file.spans,
        "note": note or "",
    }


def _as_json(report: ImportReport) -> dict[str, object]:
    def of(file: FileReport) -> dict[str, object]:
        values = asdict(file)
        del values["trace_ids"]
        values["path"] = str(file.path)
        values["skipped"] = [{"where": where, "why": why} for where, why in file.skipped]
        values["error"] = str(file.error) if isinstance(file.error, ImportFileError) else None
        return values

    return {
        "schema_version": 1,
        "files": [of(file) for file in report.files],
        "totals": asdict(report.totals),
        "skipped": [{"where": where, "why": why} for where, why in report.skipped],
    }
