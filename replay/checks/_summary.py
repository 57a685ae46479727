"""A check as Markdown, for a pull request or a job's summary page."""

from __future__ import annotations

from .._text import plural
from .._words import KIND_WORDS, ended_in_short
from ..reports._all import tools_of
from ..reports._document import (
    Block,
    Document,
    Fields,
    Heading,
    Inline,
    Paragraph,
    Quoted,
    Table,
    inline,
    quote,
)
from ..reports._markdown import to_markdown
from ..reports._parts import coverage_text, knobs
from ._types import CheckedRun, CheckResult
from ._words import HEADLINES, check_sentence, verdict_of

__all__ = ["SUMMARY_LIMIT", "check_summary"]

SUMMARY_LIMIT = 1 << 20  # bytes that GitHub shows of one step's summary
_RUNS = 1_000
_UNREAD = 50
_INCIDENTS = 50


def check_summary(result: CheckResult, limit: int = SUMMARY_LIMIT) -> str:
    """The check as Markdown of at most `limit` bytes; says how much it left out."""
    shown = min(_RUNS, len(result.findings))
    text = _markdown(result, shown)
    if len(text.encode()) > limit:  # the most runs that fit, by halving
        fits, too_many = 0, shown
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if len(_markdown(result, middle, cut=True).encode()) <= limit:
                fits = middle
            else:
                too_many = middle
        text = _markdown(result, fits, cut=True)
    if len(text.encode()) > limit:
        short = (Paragraph(_sentence(result)), Paragraph("Everything else is left out: no room."))
        text = "#" + to_markdown(Document(_title(result), short))
    return text if len(text.encode()) <= limit else ""


def _markdown(result: CheckResult, shown: int, *, cut: bool = False) -> str:
    blocks: list[Block] = [Paragraph(_sentence(result)), _limits(result)]
    if result.unread:
        blocks += [Heading(3, "Not read"), *_unread(result)]
    if result.findings_total:
        blocks += [Heading(3, "Runs"), *_runs(result, shown)]
    if result.incidents:
        blocks += [
            Heading(3, "Incidents"),
            *_incidents(result, min(shown, _INCIDENTS) if cut else _INCIDENTS),
        ]
    blocks += [Heading(3, "What this covers"), *coverage_text(result.coverage)]
    if result.runs_guarded:
        blocks.append(
            Paragraph(f"{plural(result.runs_guarded, 'run')} recorded while a live guard was at work.")
        )
    blocks += knobs(result.policy)
    # A page of several checks has one heading for each; `to_markdown` writes the title as the first level.
    return "#" + to_markdown(Document(_title(result), tuple(blocks)))


def _title(result: CheckResult) -> str:
    return f"Loopscope check: {HEADLINES[result.status]}"


def _sentence(result: CheckResult) -> str:
    sentence = check_sentence(result)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _limits(result: CheckResult) -> Table:
    rows = tuple(
        (
            {"blocked": "runs blocked", "nudged": "runs nudged", "incidents": "incidents"}[limit.name],
            f"{limit.found:,}",
            "any number" if limit.limit is None else f"at most {limit.limit:,}",
            "" if limit.limit is None else "within" if limit.within else "**over**",
        )
        for limit in result.limits
    )
    return Table(("", "found", "allowed", ""), rows, numbers=frozenset({1}))


def _unread(result: CheckResult) -> list[Block]:
    rows = tuple(("File", (Quoted(file), ": ", Quoted(why, 400))) for file, why in result.unread[:_UNREAD])
    blocks: list[Block] = [Fields(rows)]
    if len(result.unread) > _UNREAD:
        blocks.append(Paragraph(f"{plural(len(result.unread) - _UNREAD, 'more file')} left out."))
    return blocks


def _runs(result: CheckResult, shown: int) -> list[Block]:
    rows = tuple(_row(run) for run in result.findings[:shown])
    header = ("Run", "Agent", "What the policy says", "Arguments", "Note")
    blocks: list[Block] = [Table(header, rows)] if rows else []
    if result.findings_total > shown:
        blocks.append(Paragraph(f"{plural(result.findings_total - shown, 'more run')} left out."))
    return blocks


def _row(run: CheckedRun) -> tuple[Inline, ...]:
    call = run.decisive
    arguments: Inline = ""
    note = []
    if call is not None:
        arguments = "not recorded" if call.arguments is None else Quoted(call.arguments, 400)
        if not call.exact:
            note.append("projected")
    if run.guarded:
        note.append("live guard")
    name = Quoted(run.run_id, 60)
    who = run.agent_name or run.service_name
    return (
        name if run.source is None else (Quoted(run.source, 80), " ", name),
        "not recorded" if who is None else Quoted(who, 60),
        inline(verdict_of(run, quote)),
        arguments,
        ", ".join(note),
    )


def _incidents(result: CheckResult, shown: int) -> list[Block]:
    rows: list[tuple[Inline, ...]] = []
    for one in result.incidents[:shown]:
        who = one.agent_name or one.service_name
        rows.append(
            (
                Quoted(one.key),
                KIND_WORDS[one.kind].lower(),
                "not recorded" if who is None else Quoted(who, 60),
                tools_of(one),
                f"{one.calls:,}",
                ended_in_short(one),
            )
        )
    header = ("Key", "Kind", "Agent", "Tool", "Calls", "Ended")
    blocks: list[Block] = [Table(header, tuple(rows), numbers=frozenset({4}))] if rows else []
    if len(result.incidents) > shown:
        blocks.append(Paragraph(f"{plural(len(result.incidents) - shown, 'more incident')} left out."))
    return blocks
