"""`loopscope doctor`: is everything arriving, and if not, why?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from ..guard import StoreError
from ._options import Db
from ._output import console, one_line, print_json, print_table

if TYPE_CHECKING:
    from ..collector import DoctorReport

__all__ = ["doctor"]


def doctor(
    db: Db,
    as_json: Annotated[bool, typer.Option("--json", help="Print all facts as JSON.")] = False,
) -> None:
    """Look at a database, its spool and its lock. Exit code 1 if something needs attention."""
    from ..collector import examine

    report = examine(db)
    if not report.exists and (report.spool is None or report.spool.segments == 0):
        raise StoreError(
            f"no database {db} and nothing waiting for it; make one with: loopscope import PATH --db {db}"
        )
    if as_json:
        print_json(report.to_json())
    else:
        _show(report)
    if report.problems:
        raise typer.Exit(1)


def _show(report: DoctorReport) -> None:
    out = console()
    supported = f"(this Loopscope reads up to {report.supported_schema_version})"
    facts = [
        (
            "database",
            f"{report.path}, {_bytes(report.size)}" if report.exists else f"{report.path}: not made yet",
        ),
        ("schema version", f"{report.schema_version} {supported}" if report.schema_version else "unknown"),
        ("held by", report.holder or "nobody"),
        ("folded by", f"{report.folder} ({report.folder_role})" if report.folder else "nobody right now"),
    ]
    if report.spool is not None:
        waiting = f"{report.spool.segments:,} segments wait, {_bytes(report.spool.size)}"
        if report.spool.oldest_seconds is not None:
            waiting += f", the oldest for {report.spool.oldest_seconds:,.0f} s"
        facts.append(("spool", waiting))
        facts.append(("quarantine", f"{len(report.spool.quarantined):,} segments"))
    facts.extend((f"rows in {name}", f"{count:,}") for name, count in report.rows.items())
    print_table({"fact": "", "value": ""}, [{"fact": f, "value": v} for f, v in facts], width=200)
    if report.spool is not None and report.spool.quarantined:
        rows = [{"segment": name, "reason": reason} for name, reason in report.spool.quarantined]
        print_table({"segment": "quarantined", "reason": "reason"}, rows, width=160)
    if report.services:
        now = time.time_ns()
        rows = [
            {
                "service": one.service_name or "(no service name)",
                "spans": one.spans,
                "last": f"{_age(now - one.last_span_ns)} ago",
            }
            for one in report.services
        ]
        out.print()
        print_table({"service": "service", "spans": "spans", "last": "last span"}, rows)
    if report.content:
        out.print()
        columns = {
            "dialect": "dialect",
            "calls": "calls",
            "calls_without_arguments": "without arguments",
            "calls_without_result": "without result",
            "calls_truncated": "cut",
            "requests": "LLM requests",
            "requests_without_messages": "without messages",
        }
        print_table(columns, [{key: getattr(one, key) for key in columns} for one in report.content])
    if report.drops:
        rows = [{"name": one.name, "source": one.source, "value": one.value} for one in report.drops]
        out.print()
        print_table({"name": "lost by the writer", "source": "source", "value": "number"}, rows)
    out.print()
    for problem in report.problems:
        out.print(f"! {one_line(problem)}")
    if not report.problems:
        out.print("Nothing needs attention.")


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} bytes"


def _age(nanoseconds: int) -> str:
    seconds = max(0, nanoseconds) / 1e9
    for unit, factor in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * factor:
            return f"{seconds / factor:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
