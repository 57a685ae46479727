"""What `loopscope doctor` finds wrong, in words: one line each, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._doctor import DoctorReport, DropCount, SpoolFacts

__all__ = ["judge"]

_LONG_WAIT = 60  # seconds a segment may wait to be folded
_LOW_DISK = 256 << 20  # bytes; a fold and its write-ahead log need some, a busy agent writes some
_SKEW = 5.0  # seconds
_LONE_RUNS = 5  # runs of a service, before their shape says anything
_LONE_SHARE = 0.9


def judge(report: DoctorReport) -> list[str]:
    """The lines, worst first. What kept the database from being opened is told by `examine`."""
    return [
        *_place(report),
        *(_spool(report, report.spool) if report.spool is not None else ()),
        *_losses(report.drops),
        *_content(report),
        *_runs(report),
        *_clocks(report),
    ]


def _place(report: DoctorReport) -> Iterator[str]:
    if report.network_file_system is not None:
        yield f"{report.path} is on a network file system ({report.network_file_system}); use a local disk."
    if report.disk_free is not None and report.disk_free < _LOW_DISK:
        yield (
            f"the disk of {report.path} has {report.disk_free / 1e6:,.1f} MB left; when it is full, spans are"
            " kept in memory and then dropped. Make room, or: loopscope prune --older-than 30d"
        )


def _spool(report: DoctorReport, spool: SpoolFacts) -> Iterator[str]:
    if not spool.writable:
        yield f"{spool.path} cannot be written by this user, or its disk is read-only: agents cannot record."
    if spool.quarantined:
        yield (
            f"{_count(len(spool.quarantined), 'segment')} in {spool.path}/quarantine could not be read;"
            " the reasons are beside them."
        )
    if spool.segments and spool.oldest_seconds is not None and spool.oldest_seconds > _LONG_WAIT:
        who = (
            f"{report.folder} folds them"
            if report.folder
            else "nobody folds; any command on the database will"
        )
        waited = f"the oldest for {spool.oldest_seconds:.0f} s"
        yield f"{_count(spool.segments, 'segment')} waiting in {spool.path}, {waited}: {who}."


def _losses(drops: Iterable[DropCount]) -> Iterator[str]:
    for name, total in _sums(drops):
        verb, _, what = name.replace("_", " ").partition(" ")
        if verb == "refused":
            number = _count(total, what.removesuffix("s"))
            yield (
                f"receivers refused {number} that could not be kept at the time;"
                " senders try again, and give up after a while."
            )
        else:
            yield f"writers lost {total} {what} before they reached the spool."


def _content(report: DoctorReport) -> Iterator[str]:
    for error, traces in report.derive_errors:
        yield f"{_count(traces, 'trace')} gave no calls or requests; an error of Loopscope's: {error}"
    for row in report.content:
        if row.calls and row.calls_without_arguments == row.calls:
            hint = f" {row.hint}" if row.hint else ""
            what = f"no call of dialect {row.dialect} has recorded arguments"
            yield f"{what}: content capture is off there.{hint}"


def _runs(report: DoctorReport) -> Iterator[str]:
    for row in report.runs:
        lone = row.runs_of_one_call
        if row.run_source == "trace" and row.runs >= _LONE_RUNS and lone >= _LONE_SHARE * row.runs:
            who = row.service_name or "a service without a name"
            yield (
                f"{lone:,} of {_count(row.runs, 'run')} of {who} hold one call only, so nothing can repeat in"
                " them: no agent or session span was recorded. Put one span around a run"
                " (gen_ai.operation.name = invoke_agent), or set gen_ai.conversation.id or session.id on its"
                " spans."
            )


def _clocks(report: DoctorReport) -> Iterator[str]:
    for row in report.services:
        if row.ahead_seconds > _SKEW:
            yield (
                f"the clock of {row.service_name or 'a service without a name'} is at least"
                f" {row.ahead_seconds:,.0f} s ahead: spans of it ended after they came in here."
            )
    if report.last_received_ns is not None:
        back = (report.last_received_ns - report.examined_ns) / 1e9
        if back > _SKEW:
            yield f"this machine's clock is {back:,.0f} s behind the time when spans came in; set back?"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _sums(drops: Iterable[DropCount]) -> list[tuple[str, int]]:
    totals: dict[str, int] = {}
    for drop in drops:
        totals[drop.name] = totals.get(drop.name, 0) + drop.value
    return sorted(totals.items())
