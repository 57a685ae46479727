"""How refused requests are spoken of on the pages: classes, verdicts and repairs, and their marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..guard.messages import PROVIDERS
from ..replay import Cause, CauseEvent, JudgedRequest, RequestCoverage, RequestTotals
from ._text import count, plain

__all__ = [
    "REPAIR_NAMES",
    "REQUEST_MARKS",
    "RequestMark",
    "came_before",
    "class_name",
    "covers",
    "mark_of",
    "provider_name",
    "reasons",
    "repair_name",
    "said",
]


@dataclass(frozen=True, slots=True)
class RequestMark:
    """How one verdict on a refused request is drawn."""

    verdict: str
    name: str
    glyph: str
    colour: str  # of bars
    badge: str  # Streamlit's name of the colour nearest to it
    hollow: bool = False


REQUEST_MARKS: dict[str, RequestMark] = {
    mark.verdict: mark
    for mark in (
        RequestMark("prevented", "preventable", "✓", "#2A9D8F", "green"),
        RequestMark("prevented_by_guard", "preventable by the guard", "◆", "#4C78DD", "blue"),
        RequestMark("not_prevented", "not preventable", "✗", "#A8578F", "violet"),
        RequestMark("undetermined", "cannot be judged", "?", "#7F8AA0", "grey", hollow=True),
        RequestMark("not_judged", "not about calls", "·", "#7F8AA0", "grey"),
    )
}
"""Verdicts in the order of stacking. Amber and red stay with what the guard does."""

_CLASS_NAMES = {
    "duplicate_call_id": "call id used twice",
    "duplicate_result": "second result of a call",
    "orphan_result": "result without its call",
    "missing_result": "call without its result",
    "misplaced_result": "result in the wrong place",
    "count_mismatch": "other number of results than calls",
    "empty_tool_calls": "empty list of calls",
    "empty_content": "empty content",
    "id_format": "form of the call id",
    "arguments_json": "arguments are no JSON",
    "role_order": "order of roles",
    "reasoning_pairing": "reasoning without what it led to",
    "repeated_calls": "repeated calls",
    "other": "not about calls",
}

REPAIR_NAMES = {
    "dropped_duplicate_call": "dropped a doubled call",
    "dropped_duplicate_result": "dropped a doubled result",
    "dropped_unpaired_call": "dropped a call without a result",
    "renamed_call_id": "gave a call its own id",
    "moved_result": "moved a result behind its call",
    "dropped_orphan_result": "dropped a result without a call",
    "added_stub_result": "added a stub for a missing result",
    "removed_empty_tool_calls": "removed an empty list of calls",
    "filled_empty_content": "filled empty content",
    "rewrote_id": "rewrote an id",
    "repaired_arguments": "repaired arguments",
    "merged_messages": "merged messages",
    "fixed_role": "fixed a role",
    "dropped_unknown_role": "dropped a message of unknown role",
    "fixed_function_name": "fixed a function's name",
    "fixed_result_name": "fixed a result's name",
    "dropped_reasoning": "dropped reasoning that led nowhere",
}


def class_name(error_class: str) -> str:
    """An error class in plain words."""
    return _CLASS_NAMES.get(error_class) or plain(error_class.replace("_", " "), 60)


def repair_name(kind: str) -> str:
    """A kind of repair in plain words."""
    return REPAIR_NAMES.get(kind) or plain(kind.replace("_", " "), 60)


def provider_name(name: str | None) -> str:
    """A provider's title; a name that is not in the table as it stands."""
    if name is None:
        return "its provider"
    rules = PROVIDERS.get(name)
    return plain(name, 60) if rules is None else rules.title.split(",")[0]


def mark_of(verdict: str | None) -> RequestMark:
    """The mark of a verdict; None is not judged."""
    return REQUEST_MARKS[verdict if verdict in REQUEST_MARKS else "not_judged"]


def came_before(cause: Cause) -> str:
    """What came just before a broken history, short enough for a cell; `Cause.before` says it whole."""
    if not cause.events:
        return plain(cause.before.split(":")[0].rstrip("."), 80)
    return "; ".join(_event(event, cause.call_id) for event in cause.events)


def _event(event: CauseEvent, call_id: str | None) -> str:
    if event.kind == "history_shrank":
        return f"the history shrank from {event.before:,} to {event.after:,} messages"
    if event.kind == "messages_repeated":
        worth = "" if event.tokens is None else f" (about {event.tokens:,} tokens)"
        return f"{count(event.messages or 0, 'message')} loaded twice{worth}"
    if event.kind == "answer_reused_id":
        return f"the answer re-used {'an id' if call_id is None else f'id {plain(call_id, 40)}'}"
    return {
        "interrupted": "cut by an interruption",
        "other_provider": "went to another provider",
        "other_model": "went to another model",
        "other_agent": "went to another agent",
    }.get(event.kind) or plain(event.detail, 80)


# -- sentences ----------------------------------------------------------------------------------


def said(totals: RequestTotals, requests: Iterable[JudgedRequest]) -> str:
    """The answer to the page's question in one sentence."""
    everything = count(totals.requests, "request")
    were = "was" if totals.cancelled == 1 else "were"
    gone = f" {totals.cancelled:,} more {were} cancelled." if totals.cancelled else ""
    if not totals.failed:
        if gone:
            return f"None of {everything} to a model failed; {totals.cancelled:,} {were} cancelled."
        if totals.requests == 1:
            return "The one request to a model was answered."
        return f"All {everything} to a model were answered."
    if not totals.tool_related:
        return f"{totals.failed:,} of {everything} failed, none of them over tool calls and results.{gone}"
    related = totals.tool_related
    histories = count(totals.causes, "broken history", "broken histories")
    text = (
        f"{related:,} of {everything} {'was' if related == 1 else 'were'} refused over tool calls and "
        f"results, from {histories}; {_outcome(totals, list(requests))}."
    )
    others = totals.failed - related
    return text + (f" {others:,} more failed for other reasons." if others else "") + gone


def _outcome(totals: RequestTotals, requests: list[JudgedRequest]) -> str:
    related = totals.tool_related
    parts: list[str] = []
    if totals.prevented == related:
        parts.append(f"the sanitizer would have prevented {'it' if related == 1 else 'all of them'}")
    elif totals.prevented or not totals.prevented_by_guard:
        parts.append(f"the sanitizer would have prevented {totals.prevented or 'none'}")
    if totals.prevented_by_guard:
        parts.append(f"the guard would have prevented {totals.prevented_by_guard:,}")
    if totals.not_prevented:
        parts.append(f"{totals.not_prevented:,} would have failed all the same")
    if totals.undetermined:
        unjudged = [one for one in requests if one.verdict == "undetermined"]
        why = reasons(unjudged)
        if len(why) == 1:
            whose = "its" if totals.undetermined == 1 else "their"
            named = f": {whose} {_WANTS[_want(unjudged[0])][1]}"
        else:
            named = f" ({', '.join(f'{number:,} {what}' for what, number in why)})"
        parts.append(f"{totals.undetermined:,} cannot be judged{named}")
    return ", ".join(parts)


def reasons(undetermined: Iterable[JudgedRequest]) -> list[tuple[str, int]]:
    """Why requests cannot be judged, in a few words, with how many; most first."""
    found = Counter(_want(one) for one in undetermined)
    return [(_WANTS[why][0], number) for why, number in found.most_common()]


def _want(one: JudgedRequest) -> str:
    if one.error_class == "repeated_calls":
        return "no_calls"
    return one.undetermined or "not_recorded"


_WANTS = {  # in a list, and in a sentence behind "its" or "their"
    "no_calls": ("without recorded calls", "calls before were not recorded"),
    "not_recorded": ("not recorded", "messages were not recorded"),
    "truncated": ("recorded with gaps", "messages were recorded cut or with gaps"),
    "without_ids": ("recorded without ids", "calls were recorded without ids"),
    "no_rules": ("of an unknown provider", "provider, and so its rules, is not known"),
    "contradicted": ("not recorded as sent", "recorded messages are not what was refused"),
}


def covers(coverage: RequestCoverage) -> str:
    """What was recorded of the requests: empty where everything was."""
    missing = coverage.without_messages + coverage.truncated
    if not missing:
        return ""
    return (
        f"Messages were recorded whole for {coverage.requests - missing:,} of "
        f"{count(coverage.requests, 'request')}: what is missing, and how to record it"
    )
