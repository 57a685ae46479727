"""What a check found, in plain sentences. Names come from traces; `quote` marks them."""

from __future__ import annotations

from .._text import cut, duration, name_of, plural, visible
from .._words import Quote
from ._types import CheckedRun, CheckResult, CheckStatus, Limit

__all__ = ["HEADLINES", "check_sentence", "details_of", "limit_line", "verdict_of"]

HEADLINES = {
    CheckStatus.CLEAN: "within the limits",
    CheckStatus.OVER_THE_LIMIT: "over the limit",
    CheckStatus.NOTHING_JUDGED: "nothing could be judged",
    CheckStatus.BAD_INPUT: "not everything could be read",
}

_NAME = 120  # characters of a name or an id
_TEXT = 500


def check_sentence(result: CheckResult) -> str:
    """The figures and what they cover, in one sentence without a full stop."""
    blind = [
        f"{plural(number, 'run')} had no recorded {what} and could not be judged"
        for number, what in (
            (result.runs_without_arguments, "arguments"),
            (result.runs_without_results, "results"),
        )
        if number
    ]
    if result.runs_without_calls:
        blind.append(f"{plural(result.runs_without_calls, 'run')} called no tool")
    if not result.runs_judged:
        if not blind and result.coverage.calls_not_ended:
            blind.append(f"no call of {result.coverage.calls_not_ended:,} ended")
        return "; ".join(["nothing could be judged", *(blind or ["no tool call is recorded"])])
    found = ", ".join(
        plural(limit.found, "incident") if limit.name == "incidents" else f"{limit.found:,} {limit.name}"
        for limit in result.limits
    )
    return "; ".join([f"{found} in {plural(result.runs_judged, 'judged run')}", *blind])


def limit_line(limit: Limit) -> str:
    """The limit as something to hold: "at most 0 blocked runs"."""
    assert limit.limit is not None
    return f"at most {limit.counted(limit.limit)}"


def verdict_of(run: CheckedRun, quote: Quote = str) -> str:
    """What the policy says of the run, on one line: "blocked at call 7 of 14, the 5th equal …"."""
    call = run.decisive
    if call is None:
        return {
            "incident": plural(len(run.incidents), "incident"),
            "not_judged": f"not judged: no {run.why_not_judged} were recorded",
        }.get(run.verdict, "clean")
    what = "blocked" if call.action == "block" else "nudged"
    tool = name_of(call.tool_name, "a tool", quote)
    again = f"{plural(call.count, 'equal result')} in a row" if call.count > 1 else "its first result"
    text = f"{what} at call {call.seq:,} of {run.calls:,}: {tool}, {again}"
    after = run.calls_avoidable + run.calls_lost + run.calls_unjudged
    if after:
        parts = (
            (run.calls_avoidable, "avoidable"),
            (run.calls_lost, "lost"),
            (run.calls_unjudged, "unjudged"),
        )
        known = ", ".join(f"{number:,} {part}" for number, part in parts if number)
        text += f"; {plural(after, 'call')} came after ({known})"
    return text


def details_of(run: CheckedRun) -> list[str]:
    """Further lines about a run that was not clean, made fit to be shown."""
    lines: list[str] = []
    call = run.decisive
    if call is not None:
        lines.append(f"arguments: {_shown(call.arguments, _TEXT)}")
        if not call.exact:
            lines.append(
                "projected: after an earlier nudge or block a live agent might have done something else"
            )
    if run.guarded:
        lines.append("recorded while a live guard was at work")
    if run.incidents:
        shown = ", ".join(run.incidents[:5])
        lines.append(f"incidents: {shown}" + (", …" if len(run.incidents) > 5 else ""))
    if run.source is not None:
        lines.append(f"file: {_shown(run.source, _TEXT)}")
    took = duration(run.last_ns - run.first_ns)
    lines.append(f"run: {_shown(run.run_id, _NAME)}, {plural(run.calls, 'call')} in {took}")
    at = call.trace_id if call is not None else run.trace_id
    lines.append(f"trace: {_shown(at, _NAME)}" + (f", span {_shown(call.span_id, _NAME)}" if call else ""))
    return lines


def _shown(text: str | None, limit: int) -> str:
    if text is None:
        return "not recorded"
    text, note = cut(visible(text), limit)
    return text if note is None else f"{text}… ({note})"
