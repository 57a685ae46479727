"""`loopscope prune`: remove what is older than a time."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from ..guard import LoopscopeError
from ._options import Db
from ._output import console, one_line, print_json, print_note

__all__ = ["cutoff", "prune"]

_DURATION = re.compile(r"(\d{1,6})\s*(h|d|w|hours?|days?|weeks?)", re.IGNORECASE)
_SECONDS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400}


def prune(
    db: Db,
    older_than: Annotated[
        str,
        typer.Option(
            help="An age such as 30d, 12h or 8w, or a day such as 2026-01-31 (UTC): what ended before goes."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing.")] = False,
    compact: Annotated[
        bool | None,
        typer.Option(
            "--compact/--no-compact",
            help="Make the file smaller afterwards, which takes as much free disk as the database is large"
            " and holds it meanwhile. By default: unless a running server would miss it for over 5 s.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Remove old spans, logs, calls, requests and the texts that only they used.

    Traces go whole, and conversations over several traces as well. Labels and policies stay.
    """
    from ..collector import Folder, Store
    from ..collector import prune as remove

    before = cutoff(older_than, time.time_ns())
    store = Store(db, create=False)
    Folder(store, role="cli").catch_up()

    def announce(seconds: float) -> None:
        if seconds >= 1:
            print_note(f"rewriting {db}: nobody else can use it for about {seconds:.0f} s")

    report = remove(store, before, dry_run=dry_run, compacting=compact, announce=announce)
    if as_json:
        print_json({"schema_version": 1, **asdict(report)})
        return
    out = console()
    day = datetime.fromtimestamp(before / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")
    out.print(
        f"{'Would remove' if dry_run else 'Removed'} what ended before {day}: {report.traces:,} traces"
        f" ({report.spans:,} spans, {report.calls:,} calls, {report.requests:,} LLM requests),"
        f" {report.logs:,} log records, {report.texts:,} long texts"
        + (f", {report.quarantined:,} quarantined segments." if report.quarantined else ".")
    )
    if report.traces_kept_for_runs:
        out.print(f"{report.traces_kept_for_runs:,} older traces stay: their conversations go on later.")
    if report.not_compacted:
        out.print(one_line(report.not_compacted))
    if not dry_run:
        out.print(f"{db}: {report.bytes_before:,} bytes before, {report.bytes_after:,} after.")


def cutoff(text: str, now_ns: int, option: str = "--older-than") -> int:
    """The time that an age or a day means, in Unix nanoseconds. Raises LoopscopeError that names `option`."""
    wanted = text.strip()
    if match := _DURATION.fullmatch(wanted):
        return now_ns - int(match[1]) * _SECONDS[match[2][0].lower()] * 1_000_000_000
    try:
        day = datetime.fromisoformat(wanted)
    except ValueError:
        raise LoopscopeError(
            f"{option} {one_line(text, 40)!r} is no age and no day: write 30d, 12h, 8w or 2026-01-31"
        ) from None
    day = day if day.tzinfo is not None else day.replace(tzinfo=UTC)
    return int(day.timestamp()) * 1_000_000_000
