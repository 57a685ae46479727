"""The report of one incident as a document."""

from __future__ import annotations

from ...guard import GuardPolicy
from .._labelled import Label
from .._text import cut, duration, plural, utc
from .._types import Incident, IncidentCall, IncidentDetail, TextChange
from .._words import (
    KIND_WORDS,
    counterfactual,
    ended_in_short,
    incident_summary,
    incident_title,
    thresholds_of,
)
from ._document import (
    Block,
    Code,
    Document,
    Fields,
    Heading,
    Inline,
    Marks,
    Paragraph,
    Quoted,
    Table,
    Verdict,
    inline,
    quote,
)
from ._parts import commands, coverage_text, glossary, label_words

__all__ = ["incident_document"]

_ROWS = 200  # calls in the timeline
_CONTENTS = 10  # different calls whose texts are shown
_TEXT = 4_000  # characters of one text
_MARKS = 400


def incident_document(detail: IncidentDetail, policy: GuardPolicy, db: str, label: Label | None) -> Document:
    """Summary, label, impact, what a guard would have done, timeline, contents, where to look, coverage."""
    incident = detail.incident
    blocks: list[Block] = [
        Paragraph(inline(incident_summary(incident, detail.run, policy, quote))),
        *_label(label),
        Heading(2, "Impact"),
        Fields(_impact(detail)),
        Heading(2, "What a guard would have done"),
        *_guard(detail, policy),
        Heading(2, "Timeline"),
        *_timeline(detail),
        Heading(2, "What was called, and what came back"),
        *_contents(detail),
        Heading(2, "Where to look"),
        Fields(_place(detail)),
        Heading(2, "How to see it again"),
        *commands(db, policy, incident.key),
        Heading(2, "What this covers"),
        *_coverage(detail),
        Heading(2, "Words used here"),
        Fields(glossary()),
    ]
    return Document(incident_title(incident, quote), tuple(blocks))


def _label(label: Label | None) -> list[Block]:
    """What a person said it was. Nothing where nobody did."""
    if label is None:
        return []
    rows: list[tuple[str, Inline]] = [("Labelled", f"{label_words(label)}, {utc(label.labelled_ns)}")]
    blocks: list[Block] = [Fields(tuple(rows))]
    if label.note:
        text, note = cut(label.note, _TEXT)
        blocks.append(Code(text, note))
    return [Heading(2, "What a person said it was"), *blocks]


def _impact(detail: IncidentDetail) -> tuple[tuple[str, Inline], ...]:
    incident = detail.incident
    repeated = f"{incident.calls:,}, of which {incident.repeated_calls:,} brought nothing new"
    rows: list[tuple[str, Inline]] = [
        ("Kind", KIND_WORDS[incident.kind].lower()),
        ("Calls", repeated),
        ("From", utc(incident.first_ns)),
        ("To", f"{utc(incident.last_ns)} ({duration(incident.duration_ns)})"),
        ("Time inside the tools", duration(incident.tool_ns)),
        ("Requests to the model meanwhile", f"{incident.requests:,}"),
        ("Tokens of these requests", _tokens(incident)),
        ("Cost of these requests", _money(incident.cost)),
    ]
    if incident.folded_loops:
        rows.append(("Holds", f"{plural(incident.folded_loops, 'loop')} that are not listed on their own"))
    runs = detail.related_runs
    rows.append(("The same fault", f"seen in {plural(runs, 'run')}" if runs > 1 else "seen in this run only"))
    meant = {"resolved": ": the agent got out of it", "unresolved": ": the run ended in it"}
    ended = ended_in_short(incident)
    rows.append(("Ended", f"{ended}{meant.get(ended, '')}"))
    if incident.soft_failure and incident.unresolved:
        rows.append(("Visible from outside", "no: the agent's span ended without an error"))
    return tuple(rows)


def _money(cost: float | None) -> str:
    return "not recorded" if cost is None else f"{cost:.4f} US dollars"


def _tokens(incident: Incident) -> str:
    if incident.input_tokens is None and incident.output_tokens is None:
        return "not recorded"

    def side(number: int | None, name: str) -> str:
        return f"{name} not recorded" if number is None else f"{number:,} {name}"

    return f"{side(incident.input_tokens, 'in')}, {side(incident.output_tokens, 'out')}"


def _guard(detail: IncidentDetail, policy: GuardPolicy) -> list[Block]:
    incident = detail.incident
    members = [call for call in detail.calls if call.member]
    blocks: list[Block] = []
    if len(members) <= _MARKS:
        blocks.append(Marks(tuple(call.action for call in members)))
    sentence = counterfactual(incident, policy, quote)
    blocks.append(Paragraph(inline(f"{sentence[0].upper()}{sentence[1:]}.")))
    projected = next((call for call in detail.calls if not call.exact), None)
    if projected is None:
        text = "All of this is exact: the recorded agent saw what the guard would have said."
        if incident.nudge_at is None and incident.block_at is None and not incident.after_block:
            text = "All of this is exact: the guard would have said nothing the recorded agent did not see."
        elif not any(call.call.recorded_verdict for call in members):
            text = "All of this is exact: nothing in it follows a note that the recorded agent did not see."
        blocks.append(Paragraph(text))
    else:
        number = projected.number or next(
            (call.number for call in detail.calls[detail.calls.index(projected) :] if call.member), None
        )
        since = "The verdicts" if number is None or number == 1 else f"The verdicts from call {number:,} on"
        blocks.append(
            Paragraph(
                f"{since} are projected, not exact: before that the guard would have spoken, the recorded "
                "agent did not hear it, and a live agent might have done something else."
            )
        )
    others = {knob for knob in policy.tools if knob in incident.tools}
    own = " (the policy has its own thresholds for this tool)" if others else ""
    blocks.append(
        Paragraph(f"Nudge and block threshold: {thresholds_of(incident, policy)}{own}.", quiet=True)
    )
    return blocks


def _timeline(detail: IncidentDetail) -> list[Block]:
    shown = detail.calls[:_ROWS]
    start = detail.incident.first_ns
    with_agent = len(detail.run.agents) > 1
    header = ("#", "After", *(("Agent",) if with_agent else ()), "Tool", "Outcome", "Took", "Count", "Guard")
    rows: list[tuple[Inline, ...]] = []
    for one in shown:
        call = one.call
        agent: tuple[Inline, ...] = (Quoted(call.agent_name or "", 60),) if with_agent else ()
        took = "" if call.end_ns is None else duration(call.end_ns - call.start_ns)
        rows.append(
            (
                "between" if one.number is None else f"{one.number}",
                _after(call.start_ns - start),
                *agent,
                Quoted(call.tool_name, 60),
                _outcome(one),
                took,
                f"{one.count}",
                (Verdict(one.action), "" if one.exact else " (projected)"),
                _change(one.arguments_change),
                _change(one.result_change),
            )
        )
    table = Table(
        (*header, "Arguments", "Result"),
        tuple(rows),
        numbers=frozenset({0, 1}),
        faint=frozenset(number for number, one in enumerate(shown) if not one.member),
    )
    blocks: list[Block] = [table]
    left = len(detail.calls) - len(shown) + detail.calls_left_out
    if left:
        blocks.append(Paragraph(f"{plural(left, 'more call')} left out."))
    blocks.append(
        Paragraph(
            "Arguments and result are compared with the repeat before. "
            "Calls marked “between” are other calls of the run.",
            quiet=True,
        )
    )
    return blocks


def _after(ns: int) -> str:
    return f"+{duration(ns)}" if ns >= 0 else f"-{duration(-ns)}"


def _outcome(one: IncidentCall) -> Inline:
    call = one.call
    words = {
        "success": "success",
        "schema_error": "arguments refused",
        "general_tool_error": "error",
        None: "not recorded",
    }
    text = words.get(call.outcome, "?")
    if call.error_kind and call.outcome != "success":
        status = f" {call.http_status}" if call.http_status else ""
        return (f"{text}: ", Quoted(f"{call.error_kind}{status}", 40))
    return text


def _change(change: TextChange | None) -> Inline:
    if change is None:
        return ""
    if not change.changes:
        return change.summary
    first = change.changes[0]
    values = tuple(
        part
        for text, word in ((first.before, " was "), (first.after, " is "))
        if text is not None
        for part in (word, Quoted(text, 60))
    )
    more = len(change.changes) - 1 + change.more
    return (Quoted(first.path, 60), *values, f" and {more} more" if more else "")


def _contents(detail: IncidentDetail) -> list[Block]:
    """Each different pair of arguments and result once, with the numbers of its calls."""
    pairs: dict[tuple[object, ...], list[IncidentCall]] = {}
    for one in detail.calls:
        if one.member:
            call = one.call
            key = (call.tool_name, call.arguments, call.result, call.result_hash, call.error_message)
            pairs.setdefault(key, []).append(one)
    blocks: list[Block] = []
    for same in list(pairs.values())[:_CONTENTS]:
        first = same[0]
        numbers = _ranges([one.number for one in same if one.number is not None])
        word = "Call" if len(same) == 1 else "Calls"
        blocks.append(Heading(3, (f"{word} {numbers}: ", Quoted(first.call.tool_name, 80))))
        blocks.extend(_text("Arguments", first.call.arguments, first.arguments_length))
        blocks.extend(_text("Result", first.call.result, first.result_length))
        if first.call.result is None and first.call.error_message:
            blocks.extend(_text("Error", first.call.error_message, None))
    if len(pairs) > _CONTENTS:
        left = plural(len(pairs) - _CONTENTS, "more pair")
        blocks.append(Paragraph(f"{left} of arguments and result left out."))
    return blocks


def _text(name: str, text: str | None, length: int | None) -> list[Block]:
    if text is None:
        return [Paragraph(f"{name}: not recorded.")]
    if not text:
        return [Paragraph(f"{name}: empty.")]
    shown, note = cut(text, _TEXT, length)
    return [Paragraph(f"{name}:"), Code(shown, note)]


def _ranges(numbers: list[int]) -> str:
    """Numbers as a reader writes them: "1, 3–5"."""
    parts: list[str] = []
    start = last = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == last + 1:
            last = number
            continue
        parts.append(
            f"{start}" if start == last else f"{start}–{last}" if last > start + 1 else f"{start}, {last}"
        )
        if number is not None:
            start = last = number
    return ", ".join(parts[:20]) + (", …" if len(parts) > 20 else "")


def _place(detail: IncidentDetail) -> tuple[tuple[str, Inline], ...]:
    run, incident = detail.run, detail.incident

    def several(values: tuple[str, ...]) -> Inline:
        if not values:
            return "not recorded"
        parts: list[str | Quoted | Verdict] = []
        for value in values[:5]:
            parts.extend((", ", Quoted(value, 120)) if parts else (Quoted(value, 120),))
        if len(values) > 5:
            parts.append(f" and {len(values) - 5} more")
        return tuple(parts)

    def one(value: str | None) -> Inline:
        return "not recorded" if value is None else Quoted(value, 300)

    return (
        ("Incident key", Quoted(incident.key)),
        ("Service", one(run.service_name)),
        ("Agent", one(incident.agent_name)),
        ("Model", several(run.models)),
        ("Run", (Quoted(run.run_id, 300), f" ({run.run_source.replace('_', ' ')})")),
        ("Part of run", one(run.parent_run_id) if run.parent_run_id else "none: it is an outermost run"),
        ("Session", one(run.session_id)),
        ("Trace", several(run.trace_ids)),
        ("First span", Quoted(incident.span_id)),
        ("Recorded as", several(run.dialects)),
    )


def _coverage(detail: IncidentDetail) -> list[Block]:
    run, covered = detail.run, detail.coverage
    requests = f"{plural(run.requests, 'request')} to models"
    if run.failed_requests:
        requests += f" ({run.failed_requests:,} failed)"
    span = f"from {utc(run.first_ns)} to {utc(run.last_ns)}"
    blocks: list[Block] = [
        Paragraph(f"The run has {plural(run.calls, 'finished call')} and {requests}, {span}."),
        *coverage_text(covered),
    ]
    if run.guarded:
        blocks.append(
            Paragraph(
                "A guard was already at work when this run was recorded: its notes were in the results, "
                "and what the agent did after them is not what it would have done without."
            )
        )
    return blocks
