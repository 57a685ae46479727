"""`loopscope export parquet`: the store for other engines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ._options import Db
from ._output import console, print_json

__all__ = ["commands"]

commands = typer.Typer(
    name="export", help="Write the store in a form that other programs read.", no_args_is_help=True
)


@commands.callback()
def _root() -> None:
    """Write the store in a form that other programs read."""


@commands.command("parquet")
def parquet(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to; an earlier export there is replaced.")
    ],
    db: Db,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Write calls, requests, spans and logs as Parquet, a folder per day.

    docs/store.md has the columns.
    """
    from ..collector import Folder, Store, export_parquet

    store = Store(db, create=False)
    Folder(store, role="cli").catch_up()
    bar = Progress(
        TextColumn("exporting"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True, markup=False, emoji=False, highlight=False),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("exporting", total=None)
        report = export_parquet(
            store, folder, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    if as_json:
        print_json(
            {
                "schema_version": 1,
                "folder": str(report.folder),
                "rows": report.rows,
                "days": sorted(report.days),
                "files": report.files,
                "bytes": report.size,
            }
        )
        return
    rows = ", ".join(f"{count:,} {view}" for view, count in report.rows.items()) or "nothing"
    console().print(
        f"{rows} of {len(report.days):,} days in {report.files:,} files, {report.size:,} bytes:"
        f" {report.folder}"
    )
