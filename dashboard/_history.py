"""The history of a request before and after the repair, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import streamlit as st

from ..replay import HistoryMessage, HistoryViolation, RequestHistory
from . import _ui
from ._history_rows import Gap, HistoryRow, folded, lines_of, marked, rows_of
from ._request_words import class_name, repair_name
from ._text import count, lit, plain

__all__ = ["draw", "violations"]

_MARKS: dict[
    str, tuple[str, str, Literal["blue", "red", "violet", "green"]]
] = {  # kind of line: glyph, words, Streamlit's colour
    "changed": ("~", "changed", "blue"),
    "dropped": ("\N{MINUS SIGN}", "dropped", "red"),
    "merged": ("⤴", "merged into the one above", "violet"),
    "moved_away": ("↕", "moved away", "violet"),
    "moved": ("↕", "moved here", "violet"),
    "made": ("+", "made", "green"),
}
_TEXT = 900  # characters of a message shown before "Show all"


def draw(history: RequestHistory, lead: Callable[[], None]) -> None:
    """Draw both sides: touched messages beside one another, the others as one line each.

    `lead` draws what stands before the switches.
    """
    rows = rows_of(history)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        lead()
        as_json = st.toggle(
            "As JSON", key="history_json", help="Messages as they are written, in place of what they say"
        )
        shown = folded(rows)
        whole = False
        if any(isinstance(one, Gap) for one in shown):
            whole = st.toggle("All messages", key="history_whole", help=_whole_help(history))
    if whole:
        shown = folded(rows, whole=True)
    with st.container(key="history", gap="xsmall"):
        for number, one in enumerate(shown):
            if isinstance(one, Gap):
                st.caption(
                    f"⋮ {count(one.messages, 'message')} left out, as recorded", text_alignment="center"
                )
            else:
                _line(one, number, as_json)


def _whole_help(history: RequestHistory) -> str:
    given = len(history.before)
    if given == history.messages_before:
        return "Also those that no repair touches"
    return f"{given:,} of {history.messages_before:,}: those around the repairs and the last ones"


def _line(row: HistoryRow, number: int, as_json: bool) -> None:
    if row.kind == "same":
        _context(row, number, as_json)
        return
    before = lines_of([row.before] if row.before else [], as_json=as_json)
    after = lines_of(row.after, as_json=as_json)
    texts, language = ("\n".join(before), "\n".join(after)), None
    if row.kind == "changed" and row.before is not None and row.after:
        if row.before.role != row.after[0].role:
            before, after = [f"role {row.before.role}", *before], [f"role {row.after[0].role}", *after]
        texts, language = marked(before, after), "diff"
    left, right = st.columns(2, gap="medium")
    with left, st.container(border=row.before is not None, height="stretch"):
        _side(row, row.before, texts[0], language, f"b{number}", old=True)
    with right, st.container(border=bool(row.after), height="stretch"):
        _side(row, row.after[0] if row.after else None, texts[1], language, f"a{number}", old=False)
        _told(row)


def _side(
    row: HistoryRow, message: HistoryMessage | None, text: str, language: str | None, key: str, *, old: bool
) -> None:
    glyph, words, colour = _MARKS[row.kind]
    if message is None:
        st.caption(f"{'As recorded' if old else 'Repaired'} {_absent(row)}")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.badge(f"{glyph} {words}", color=colour)
        if old and row.broken:
            st.badge("breaks a rule", color="orange", icon=":material/warning:")
    _ui.text_box(
        _name(message, "As recorded" if old else "Repaired"),
        text,
        key=f"history_{key}",
        language=language,
        limit=_TEXT,
    )
    if message.cut:
        st.caption("Cut here; the download has all of it.")


def _told(row: HistoryRow) -> None:
    for repair in row.repairs:
        with st.container(gap=None):
            st.caption(f"{repair_name(repair.kind).capitalize()} (`{repair.kind}`)")
            st.text(plain(repair.detail[:1].upper() + repair.detail[1:], 500))


def _absent(row: HistoryRow) -> str:
    return {
        "made": "— not in the recording",
        "moved": f"— stood at place {row.place}",
        "moved_away": f"— stands at place {row.place}",
        "merged": "— now part of the message before it",
        "dropped": "— not sent any more",
    }.get(row.kind, "—")


def _name(message: HistoryMessage, side: str) -> str:
    return f"{side} · message {message.position} · {lit(message.role, 40)}"


def _context(row: HistoryRow, number: int, as_json: bool) -> None:
    """An untouched message: one line that opens."""
    message = row.before
    if message is None:
        return
    lines = lines_of([message], as_json=as_json)
    flag = " · :material/warning: breaks a rule" if row.broken else ""
    gist = lit(" ".join(lines_of([message])), 90)
    with st.expander(f"{message.position} · {lit(message.role, 40)} {gist}{flag}"):
        _ui.text_box("As recorded, and kept", "\n".join(lines), key=f"history_c{number}", limit=_TEXT)
        _told(row)


def violations(found: Sequence[HistoryViolation], none: str) -> None:
    """Broken rules, a line each."""
    if not found:
        st.markdown(f":material/check: {none}")
        return
    for one in found[:20]:
        st.text(f"Message {one.position}, {class_name(one.error_class)}: {plain(one.detail, 400)}")
    _more(found[20:])


def _more(rest: Iterable[HistoryViolation]) -> None:
    left = len(list(rest))
    if left:
        st.caption(f"{left:,} more.")
