"""The report over all incidents as a document."""

from __future__ import annotations

from collections.abc import Mapping

from ...guard import GuardPolicy
from .._labelled import Label
from .._text import duration, plural, utc
from .._totals import ReplayResult
from .._types import Incident, Totals
from .._words import KIND_WORDS, ended_in_short, incident_summary
from ._document import (
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
from ._parts import commands, coverage_text, glossary, knobs, label_words

__all__ = ["all_document"]

_ROWS = 200
_GROUPS = 50
_TOLD = 10  # incidents that get sentences

_FIGURES = (
    ("runs", "runs"),
    ("calls", "finished calls"),
    ("runs_nudged", "runs nudged"),
    ("runs_blocked", "runs blocked"),
    ("calls_nudged", "calls nudged"),
    ("calls_blocked", "calls blocked"),
    ("calls_after_block", "calls after a block"),
    ("calls_avoidable", "of these avoidable"),
    ("calls_lost", "of these lost"),
    ("calls_unjudged", "of these unjudged"),
)


def all_document(result: ReplayResult, db: str, labels: Mapping[str, Label]) -> Document:
    """Summary, what the guard would have done, faults, incidents, coverage."""
    incidents = result.incidents
    blocks: list[Block] = [
        Paragraph(_summary(result)),
        Heading(2, "What a guard would have done"),
        *knobs(result.policy),
        _totals(result.totals, result.exact),
    ]
    if incidents:
        blocks += [
            Heading(2, "Faults"),
            Paragraph("Incidents with the same calls, but for numbers and ids, are one fault.", quiet=True),
            *_groups(incidents),
            Heading(2, "Incidents"),
            *_list(incidents, labels),
            Heading(2, "The worst ones in words"),
            *_told(incidents, result.policy),
        ]
    blocks += [
        Heading(2, "How to see it again"),
        *commands(db, result.policy, None),
        Heading(2, "What this covers"),
        *coverage_text(result.coverage),
        Heading(2, "Words used here"),
        Fields(glossary()),
    ]
    return Document("Loop report", tuple(blocks))


def _summary(result: ReplayResult) -> str:
    totals = result.totals
    if not totals.calls:
        return "No finished tool call is recorded, so there is nothing to say."
    found = result.incidents
    if not found:
        return f"No incident in {plural(totals.runs, 'run')} with {plural(totals.calls, 'finished call')}."
    runs = len({one.run_id for one in found})
    repeats = sum(one.repeated_calls for one in found)
    open_ends = sum(one.unresolved for one in found)
    stopped = sum(one.stopped_at is not None for one in found)
    guard = f"; a live guard stopped {stopped:,}" if stopped else ""
    return (
        f"{plural(len(found), 'incident')} in {runs:,} of {plural(totals.runs, 'run')}; "
        f"{plural(repeats, 'call')} of {totals.calls:,} brought nothing new. "
        f"{open_ends:,} of the incidents ended with their run{guard}."
    )


def _totals(totals: Totals, exact: Totals) -> Table:
    rows = tuple((name, f"{getattr(totals, key):,}", f"{getattr(exact, key):,}") for key, name in _FIGURES)
    return Table(("", "all", "of it exact"), rows, numbers=frozenset({1, 2}))


def _groups(incidents: tuple[Incident, ...]) -> list[Block]:
    groups: dict[str, list[Incident]] = {}
    for one in incidents:
        groups.setdefault(one.group, []).append(one)
    ranked = sorted(groups.values(), key=lambda same: (-sum(one.repeated_calls for one in same), same[0].key))
    rows: list[tuple[Inline, ...]] = [
        (
            KIND_WORDS[same[0].kind].lower(),
            tools_of(same[0]),
            f"{len({one.run_id for one in same}):,}",
            f"{len(same):,}",
            f"{sum(one.repeated_calls for one in same):,}",
            "not recorded" if same[0].sample_arguments is None else Quoted(same[0].sample_arguments, 100),
        )
        for same in ranked[:_GROUPS]
    ]
    header = ("Kind", "Tools", "Runs", "Incidents", "Repeated calls", "Arguments of one")
    blocks: list[Block] = [Table(header, tuple(rows), numbers=frozenset({2, 3, 4}))]
    if len(ranked) > _GROUPS:
        blocks.append(Paragraph(f"{plural(len(ranked) - _GROUPS, 'more fault')} left out."))
    return blocks


def _list(incidents: tuple[Incident, ...], labels: Mapping[str, Label]) -> list[Block]:
    # A column of its own only where somebody labelled one of them.
    labelled = any(one.key in labels for one in incidents[:_ROWS])
    rows: list[tuple[Inline, ...]] = [
        (
            Quoted(one.key),
            KIND_WORDS[one.kind].lower(),
            utc(one.first_ns),
            "not recorded" if one.agent_name is None else Quoted(one.agent_name, 60),
            tools_of(one),
            f"{one.calls:,}",
            duration(one.duration_ns),
            "" if one.nudge_at is None else f"{one.nudge_at:,}",
            "" if one.block_at is None else f"{one.block_at:,}",
            ended_in_short(one),
            *((label_words(labels.get(one.key)),) if labelled else ()),
        )
        for one in incidents[:_ROWS]
    ]
    header = ("Key", "Kind", "From", "Agent", "Tools", "Calls", "Lasted", "Nudge at", "Block at", "Ended")
    header += ("Label",) if labelled else ()
    blocks: list[Block] = [Table(header, tuple(rows), numbers=frozenset({5, 7, 8}))]
    if len(incidents) > _ROWS:
        blocks.append(Paragraph(f"{plural(len(incidents) - _ROWS, 'more incident')} left out."))
    return blocks


def tools_of(incident: Incident) -> Inline:
    """The tools that it goes round: "read_file → run_tests"."""
    parts: list[str | Quoted] = []
    for tool in incident.tools[:5]:
        parts.extend((" → ", Quoted(tool, 60)) if parts else (Quoted(tool, 60),))
    return tuple(parts)


def _told(incidents: tuple[Incident, ...], policy: GuardPolicy) -> list[Block]:
    blocks: list[Block] = []
    told: set[str] = set()
    for one in incidents:
        if one.group in told or len(told) == _TOLD:
            continue
        told.add(one.group)
        blocks.append(Paragraph((Quoted(one.key), " ", *_sentence(one, policy))))
    return blocks


def _sentence(one: Incident, policy: GuardPolicy) -> tuple[str | Quoted, ...]:
    parts = inline(incident_summary(one, None, policy, quote))
    return parts if isinstance(parts, tuple) else (parts,)  # type: ignore[return-value]
