"""The calls of an incident in order, and one of them beside the repeat before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from ..replay import IncidentCall, IncidentDetail, TextChange
from . import _ui
from ._incident_diff import CLOSE, OPEN, marked, shaped
from ._text import cell, count, lit, plain, sized
from ._theme import VERDICTS, verdict_text
from ._units import duration, instant

__all__ = ["Place", "draw", "in_run", "numbers_in_run"]

_CALLS = 100
"""Calls on one page of the list."""
_CUT = 1_500
"""Characters of a text before "show all"."""
_WHOLE = 200_000

Place = tuple[str, str, int]
"""What names a call: trace id, span id, position."""


def numbers_in_run(run_calls: Sequence[Mapping]) -> dict[Place, int]:
    """The number of each call in its run, from 1, in the order in which the guard counts."""
    return {
        (call["trace_id"], call["span_id"], call["position"]): number
        for number, call in enumerate(run_calls, 1)
    }


def in_run(entry: IncidentCall, numbers: Mapping[Place, int]) -> int | None:
    """The call's number in the run; None beyond the calls that were read."""
    call = entry.call
    return numbers.get((call.trace_id, call.span_id, call.position))


def note(detail: IncidentDetail) -> str:
    """What the table shows."""
    own = sum(call.member for call in detail.calls)
    between = len(detail.calls) - own
    text = f"{count(own, 'call')} of the incident, numbered from 1"
    if between:
        text += f", and {between:,} other {'call' if between == 1 else 'calls'} that lay in between"
    if detail.calls_left_out:
        text += f"; {detail.calls_left_out:,} more are left out here"
    return text + ". #17 is the 17th call of the run. Select one to compare it with the repeat before."


@st.fragment
@_ui.guarded
def draw(detail: IncidentDetail, numbers: Mapping[Place, int]) -> None:
    """The table; a selected call opens beneath it."""
    entries = detail.calls[_ui.page_of(len(detail.calls), key="calls_page", what="calls", rows=_CALLS)]
    if not entries:
        return
    start = detail.incident.first_ns
    rows = pd.DataFrame(
        {
            "number": ["between" if entry.number is None else str(entry.number) for entry in entries],
            "run": [f"#{number:,}" if (number := in_run(entry, numbers)) else None for entry in entries],
            "verdict": [[verdict_text(entry.action)] for entry in entries],
            "sure": ["exact" if entry.exact else "projected" for entry in entries],
            "tool": [plain(entry.call.tool_name, 80) for entry in entries],
            "arguments": [cell(entry.call.arguments) for entry in entries],
            "result": [cell(entry.call.result) for entry in entries],
            "change": [_told(entry) for entry in entries],
            "at": [_after(entry.call.start_ns - start) for entry in entries],
        }
    )
    text = st.column_config.TextColumn
    picked = st.dataframe(
        rows,
        key="calls",
        alt="Calls of the incident",
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row-required",
        selection_default={"selection": {"rows": [_first_look(entries)]}},
        height="content" if len(entries) <= 15 else 560,
        column_config={
            "number": text("Call", width=66, help="Its place among the incident's calls"),
            "run": text("In the run", width=72, help="Its number among all calls of the run"),
            "verdict": _ui.verdict_column(),
            "sure": text("Certainty", width=78),
            "tool": text("Tool", width=120),
            "arguments": text("Arguments", width=165),
            "result": text("Result", width=155),
            "change": text("Against the repeat before", width=185),
            "at": text("Started", width=70, help="After the incident's first call"),
        },
    )
    chosen = picked.selection.rows[0] if picked.selection.rows else _first_look(entries)
    _compare(detail, entries[min(chosen, len(entries) - 1)], numbers)


def _after(ns: int) -> str:
    return f"-{duration(-ns)}" if ns < 0 else f"+{duration(ns)}"


def _first_look(entries: Sequence[IncidentCall]) -> int:
    """Open on the first nudge, else on the first repeat: a line that has something to be compared with."""
    repeats = [index for index, entry in enumerate(entries) if entry.member and entry.arguments_change]
    nudged = [index for index in repeats if entries[index].action == "nudge"]
    return (nudged or repeats or [0])[0]


def _told(entry: IncidentCall) -> str:
    if not entry.member:
        return "in between"
    if entry.result_change is None or entry.arguments_change is None:
        return "first"
    if entry.result_change.same and entry.arguments_change.same:
        written = [
            f"{name}: {change.summary}"
            for name, change in (("arguments", entry.arguments_change), ("result", entry.result_change))
            if change.summary != "same"
        ]
        return f"= {'; '.join(written)}" if written else "= same arguments, same result"
    parts = []
    for name, change in (("arguments", entry.arguments_change), ("result", entry.result_change)):
        same = f"= same {name}" if change.summary == "same" else f"= {name}: {change.summary}"
        parts.append(same if change.same else f"≠ {name}: {plain(change.summary, 80)}")
    return "; ".join(parts)


def _compare(detail: IncidentDetail, entry: IncidentCall, numbers: Mapping[Place, int]) -> None:
    """One call beside the repeat before it: what differs is marked in both texts."""
    call, before = entry.call, _before(detail, entry)
    mark = VERDICTS[entry.action]
    place = in_run(entry, numbers)
    run = f" (#{place:,} of the run)" if place else ""
    name = f"Call {entry.number} of the incident" if entry.member else "A call that lay in between"
    with st.container(border=True, key="call_detail"):
        st.markdown(
            f"**{name}**{run}: {'' if entry.action == 'allow' else mark.glyph + ' '}{mark.name}"
            f"{'' if entry.exact else ' (projected)'}, "
            f"{count(entry.count, 'equal result')} in a row, {lit(call.tool_name)}"
        )
        st.caption(_circumstances(entry))
        key = f"{call.span_id}_{call.position}"
        for label, field, change in (
            ("Arguments", "arguments", entry.arguments_change),
            ("Result", "result", entry.result_change),
        ):
            value, size = getattr(call, field), getattr(entry, f"{field}_length")
            language = "json" if field == "arguments" else None
            if before is None or change is None:
                _ui.text_box(sized(label, size, value), value, key=f"{field}_{key}", language=language)
            elif change.same:
                told = f"{sized(label, size, value)}, the same as in call {before.number}"
                _ui.text_box(told, value, key=f"{field}_{key}", language=language)
            else:
                old, length = getattr(before.call, field), getattr(before, f"{field}_length")
                left = sized(f"{label} of call {before.number}", length, old)
                right = sized(f"{label} of call {entry.number}", size, value)
                _side_by_side(old, value, left, right, change, key=f"{field}_{key}")
        if call.error_message and call.error_message not in (call.result or ""):
            _ui.text_box("Error", call.error_message, key=f"error_{key}")


def _side_by_side(
    before: str | None, after: str | None, left: str, right: str, change: TextChange, *, key: str
) -> None:
    """Two texts with their differences marked, cut in step, with one button that shows all of both."""
    st.caption(f"**{left.split(' ', 1)[0]}** differ: {lit(change.summary, 200)}")
    texts: tuple[str | None, str | None] = (before, after)
    whole = bool(st.session_state.get(f"{key}_all"))
    hidden, inside = 0, False
    if before is not None and after is not None:
        found = marked(before, after, whole=whole)
        texts, hidden, inside = (found.before, found.after), found.hidden, found.inside
    limit = _WHOLE if whole else _CUT
    shown = [None if text is None else text[:limit] for text in texts]
    cut = [text is not None and len(text) > limit for text in texts]
    for column, title, text, gone in zip(st.columns(2, gap="medium"), (left, right), shown, cut, strict=True):
        with column:
            note = ", the beginning" if gone else ""
            _ui.text_box(title + note, text, key=f"{key}_{title}", language="diff", limit=_WHOLE)
    told = ["Lines that differ begin with - or +"]
    if inside:
        told.append(f"{OPEN} {CLOSE} stand around what differs in them")
    if hidden and not whole:
        told.append(f"{count(hidden, 'equal line')} left out")
    st.caption("; ".join(told) + ".")
    if (any(cut) or hidden) and not whole:
        longest = max(len(shaped(text)) for text in (before, after) if text is not None)
        st.button(
            f"Show all ({longest:,} characters)",
            key=f"{key}_button",
            type="tertiary",
            on_click=lambda: st.session_state.update({f"{key}_all": True}),
        )


def _circumstances(entry: IncidentCall) -> str:
    call = entry.call
    parts = [call.outcome.replace("_", " ") if call.outcome else "outcome unknown"]
    if call.error_kind:
        parts.append(call.error_kind.replace("_", " "))
    if call.http_status:
        parts.append(f"HTTP {call.http_status}")
    parts.append(f"started {instant(call.start_ns)}")
    end_ns = call.end_ns
    parts.append("no end recorded" if end_ns is None else f"ran {duration(end_ns - call.start_ns)}")
    if call.turn is not None:
        parts.append(f"asked for in model turn {call.turn}")
    if call.content_state == "truncated":
        parts.append("content was cut when it was recorded")
    if call.recorded_verdict:
        parts.append(f"a live guard said {call.recorded_verdict} in the recording")
    return " · ".join(parts)


def _before(detail: IncidentDetail, entry: IncidentCall) -> IncidentCall | None:
    """The repeat that the changes of `entry` are told against."""
    if entry.number is None or entry.arguments_change is None:
        return None
    earlier = [one for one in detail.calls if one.number is not None and one.number < entry.number]
    for one in reversed(earlier):
        if one.call.scope_key == entry.call.scope_key:
            return one
    same_tool = [one for one in earlier if one.call.tool_name == entry.call.tool_name]
    return (same_tool or earlier or [None])[-1]
