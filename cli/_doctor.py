"""`loopscope doctor`: is everything arriving, and if not, why?"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ..guard import StoreError
from ._options import Db
from ._output import console, one_line, print_json, print_table

if TYPE_CHECKING:
    from ..collector import DoctorReport

__all__ = ["doctor"]


class Shape(StrEnum):
    """How the facts are printed."""

    TABLE = "table"
    JSON = "json"


def doctor(
    db: Db,
    shape: Annotated[Shape, typer.Option("--format", help="How to print it.")] = Shape.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Look at a database, its spool and its lock. Exit code 1 if something needs attention."""
    from ..collector import examine

    report = examine(db)
    if not report.exists and (report.spool is None or report.spool.segments == 0):
        raise StoreError(
            f"no database {db} and nothing waiting for it; make one with: loopscope import PATH --db {db}"
        )
    if as_json or shape is Shape.JSON:
        print_json(report.to_json())
    else:
        _show(report)
    if report.problems:
        raise typer.Exit(1)


def _show(report: DoctorReport) -> None:
    out = console()
    supported = f"(this Loopscope reads up to {report.supported_schema_version})"
    known = f"{report.schema_version} {supported}" if report.schema_version else "unknown"
    facts = [
        ("database", _size(report) if report.exists else f"{report.path}: not made yet"),
        ("schema version", known + (": a newer Loopscope's or DuckDB's" if report.newer_format else "")),
        ("disk", "unknown" if report.disk_free is None else f"{_bytes(report.disk_free)} free"),
        ("held by", report.holder or "nobody right now"),
        ("folded by", f"{report.folder} ({report.folder_role})" if report.folder else "nobody right now"),
    ]
    if report.spool is not None:
        waiting = f"{report.spool.segments:,} segments wait, {_bytes(report.spool.size)}"
        if report.spool.oldest_seconds is not None:
            waiting += f", the oldest for {report.spool.oldest_seconds:,.0f} s"
        facts.append(("spool", waiting if report.spool.writable else f"{waiting}; it cannot be written"))
        aside = f"{len(report.spool.quarantined):,} segments, {_bytes(report.spool.quarantined_size)}"
        facts.append(("quarantine", aside))
    print_table({"fact": "", "value": ""}, [{"fact": f, "value": v} for f, v in facts], width=200)
    if report.spool is not None and report.spool.quarantined:
        rows = [{"segment": name, "reason": reason} for name, reason in report.spool.quarantined]
        print_table({"segment": "quarantined", "reason": "reason"}, rows, width=160)
    if report.rows:
        sizes = {one.table.removesuffix("_rows").removesuffix("s"): one.size for one in report.tables}
        rows = [
            {"table": name, "rows": count, "size": _bytes(sizes.get(name.removesuffix("s"), 0))}
            for name, count in report.rows.items()
        ]
        out.print()
        print_table({"table": "table", "rows": "rows", "size": "takes"}, rows)
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
    if report.runs:
        rows = [
            {
                "service": one.service_name or "(no service name)",
                "by": one.run_source,
                "runs": one.runs,
                "lone": one.runs_of_one_call,
            }
            for one in report.runs
        ]
        out.print()
        print_table({"service": "service", "by": "runs told by", "runs": "runs", "lone": "of one call"}, rows)
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
        for one in report.content:
            if one.hint:
                out.print(f"{one_line(one.dialect)}: {one_line(one.hint)}")
    if report.drops:
        rows = [{"name": one.name, "source": one.source, "value": one.value} for one in report.drops]
        out.print()
        print_table({"name": "lost on the way", "source": "source", "value": "number"}, rows)
    out.print()
    for problem in report.problems:
        out.print(f"! {one_line(problem)}")
    if not report.problems:
        out.print("Nothing needs attention.")


def _size(report: DoctorReport) -> str:
    text = f"{report.path}, {_bytes(report.size)}"
    if report.wal_size:
        text += f" and {_bytes(report.wal_size)} of log"
    return f"{text}, {_bytes(report.free_size)} of it free for new records" if report.free_size else text


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
