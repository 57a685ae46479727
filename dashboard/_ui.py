"""Building blocks that every page uses, so that pages look and speak alike."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

import pandas as pd
import streamlit as st

from ..guard import LoopscopeError, StoreBusyError
from ..replay import Coverage
from ._text import count, cut, plain
from ._theme import VERDICTS, verdict_text

__all__ = [
    "back",
    "coverage_note",
    "covers",
    "empty",
    "figure",
    "figures",
    "guarded",
    "judged",
    "problem",
    "section",
    "sentence",
    "table",
    "text_box",
    "unjudged",
    "untimed_note",
    "verdict_column",
]

P = ParamSpec("P")

PAGE_ROWS = 200
"""Rows of a table on one page."""


def sentence(text: str) -> None:
    """The one plain sentence a page begins with. It names agents and tools, so it is text, not Markdown."""
    with st.container(key="sentence"):
        st.text(plain(text, 600))


def back(label: str, *parameters: str, icon: str = ":material/arrow_back:") -> None:
    """The way back to the whole page: takes these parameters out of the address, and leaves the filter there.

    Not a link: one to the page that is open already would leave the address as it is.
    """

    def clicked() -> None:
        for name in parameters:
            st.query_params.pop(name, None)

    st.button(label, icon=icon, type="tertiary", on_click=clicked, key="back")


def section(title: str, note: str | None = None) -> None:
    """A heading of a part, with a line that says what it shows. Both are our own words."""
    st.space("xsmall")
    with st.container(gap=None):
        st.subheader(title, anchor=False)
        if note:
            st.caption(note)


@contextmanager
def figures(number: int = 5, narrowest: int = 140) -> Iterator[None]:
    """A row of `number` figures that wraps where one would get narrower than `narrowest` pixels."""
    with st.grid(number, min_column_width=narrowest, gap="small"):
        yield


def figure(
    label: str,
    value: str,
    *,
    note: str = "",
    delta: float | str | None = None,
    delta_note: str = "",
    good: str = "down",
    help: str | None = None,
) -> None:
    """One figure with what it covers beneath it. All of it is our own words and numbers."""
    with st.container(border=True, gap="xxsmall", height="stretch"):
        options: dict[str, Any] = {}
        if delta is not None:
            options = {
                "delta": delta if delta else 0,
                "delta_description": delta_note,
                "delta_color": {"down": "inverse", "up": "normal"}.get(good, "off"),
            }
        st.metric(label, value, help=help, **options)
        if note:
            st.caption(note)


def covers(coverage: Coverage) -> str:
    """What a count of repeats could be counted over: empty where everything was recorded."""
    if coverage.whole:
        return ""
    return f"of {judged(coverage):,} of {count(coverage.calls, 'call')} with recorded content"


def unjudged(coverage: Coverage) -> str | None:
    """The sentence of a page where no call could be judged; None where some could."""
    if not coverage.calls or judged(coverage):
        return None
    return (
        f"None of {count(coverage.calls, 'call')} can be judged: their arguments or results were not "
        "recorded. The note below names the setting that records them."
    )


def judged(coverage: Coverage) -> int:
    """Finished calls with arguments and a result."""
    return coverage.calls - max(coverage.calls_without_arguments, coverage.calls_without_result)


def coverage_note(coverage: Coverage) -> None:
    """Says what was not recorded, and the setting that would record it. Nothing where all was."""
    lacking = [part for part in coverage.dialects if part.hint]
    if coverage.whole and not lacking and not coverage.calls_not_ended:
        return
    title = f"The guard could judge {judged(coverage):,} of {count(coverage.calls, 'finished call')}"
    with st.expander(title, icon=":material/info:", expanded=not judged(coverage), key="coverage_note"):
        parts = [
            (coverage.calls_without_arguments, "without recorded arguments"),
            (coverage.calls_without_result, "without a recorded result"),
            (coverage.calls_truncated, "with arguments or a result cut by the SDK's limits"),
            (coverage.calls_without_outcome, "without an outcome, so never counted"),
            (coverage.calls_not_ended, "not ended yet, in no figure"),
        ]
        said = [f"{count(number, 'call')} {what}" for number, what in parts if number]
        if said:
            st.text("; ".join(said) + ".")
        for part in lacking:
            missing = max(part.calls_without_arguments, part.calls_without_result)
            st.text(
                f"{plain(part.dialect)}: {missing:,} of {count(part.calls, 'call')} without content. "
                "To record it:"
            )
            st.code(cut(part.hint or "", 1000)[0], language=None, wrap_lines=True)


def untimed_note(number: int, what: str) -> None:
    """Says what a time axis leaves out: imports whose source recorded no times."""
    if number:
        st.caption(
            f":material/schedule: {count(number, what)} without a recorded time "
            f"{'is' if number == 1 else 'are'} in the figures and not on the time axis."
        )


def empty(title: str, teaches: str, *snippets: tuple[str, str, str]) -> None:
    """A state without data: what would stand here, and what fills it. Snippets: label, code, language."""
    with st.container(border=True, key="empty_state"):
        st.subheader(title, anchor=False, icon=":material/lightbulb:")
        st.markdown(teaches)
        for label, code, language in snippets:
            st.caption(label)
            st.code(code, language=language, wrap_lines=True)


def text_box(
    label: str, text: str | None, *, key: str, language: str | None = None, limit: int = 1500
) -> None:
    """Trace text of any size: cut, with a button that shows all of it."""
    st.caption(label)
    if text is None:
        st.caption(":material/block: not recorded")
        return
    if text == "":
        st.caption(":material/remove: empty text")
        return
    whole = bool(st.session_state.get(f"{key}_all"))
    shown, left = cut(text, 200_000 if whole else limit)
    st.code(shown, language=language, wrap_lines=True, height=320 if len(shown) > 900 else "content")
    if left and not whole:
        st.button(
            f"Show all ({len(text):,} characters)",
            key=f"{key}_button",
            type="tertiary",
            on_click=lambda: st.session_state.update({f"{key}_all": True}),
        )


def verdict_column(label: str = "Verdict", width: int = 125) -> Any:
    """Verdicts as badges. The cells are lists of one text of `verdict_text`."""
    return st.column_config.MultiselectColumn(
        label,
        width=width,
        options=[verdict_text(action) for action in VERDICTS],
        color=[mark.badge for mark in VERDICTS.values()],
    )


def table(
    rows: pd.DataFrame,
    *,
    key: str,
    alt: str,
    columns: dict[str, Any],
    total: int | None = None,
    height: int | str = "auto",
    row_height: int | None = None,
) -> None:
    """A table that says its cap: "rows 1 to 200 of 1,204". In rows higher than one line texts wrap."""
    known = {name: config for name, config in columns.items() if name in rows.columns}
    with st.container(key=f"{key}_table"):
        st.dataframe(
            rows,
            key=key,
            alt=alt,
            hide_index=True,
            column_config=known,
            column_order=list(known),
            height=height,  # pyright: ignore[reportArgumentType]
            row_height=row_height,
            placeholder="—",
        )
    if total is not None and total > len(rows):
        st.caption(f"{len(rows):,} of {total:,} rows.")


def page_of(total: int, *, key: str, what: str, rows: int = PAGE_ROWS) -> slice:
    """Which rows to show; draws a pager where they do not fit on one page."""
    if total <= rows:
        return slice(0, total)
    pages = -(-total // rows)
    with st.container(horizontal=True, vertical_alignment="center"):
        number = st.number_input(f"Page (of {pages:,})", 1, pages, key=key, width=160)
    first = (int(number) - 1) * rows
    last = min(total, first + rows)
    st.caption(f"{what.capitalize()} {first + 1:,} to {last:,} of {total:,}.")
    return slice(first, last)


def problem(error: Exception) -> None:
    """An error as a reader can use it: never a traceback."""
    if isinstance(error, StoreBusyError):
        with st.container(border=True, key="busy"):
            st.subheader("The database is busy", anchor=False, icon=":material/hourglass:")
            st.markdown(
                "Another process holds the file for longer than usual. Nothing is lost: what agents send "
                "waits in the spool. This page tries again by itself."
            )
            st.text(plain(error, 500))
            st.button("Try again now", icon=":material/refresh:", key="try_again")
            _try_again()
        return
    with st.container(border=True, key="problem"):
        st.subheader("This cannot be shown", anchor=False, icon=":material/error:")
        if isinstance(error, LoopscopeError):
            st.text(plain(error, 800))
        else:
            st.markdown("Something went wrong in Loopscope itself. Details are in the server's output.")
            st.text(plain(f"{type(error).__name__}: {error}", 300))


@st.fragment(run_every=3)
def _try_again() -> None:
    if st.session_state.pop("busy_waited", False):
        st.rerun()
    st.session_state["busy_waited"] = True


def guarded(draw: Callable[P, None]) -> Callable[P, None]:
    """For fragments: a busy database or a bad file shows as a box, not as a traceback."""

    @wraps(draw)
    def safely(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            draw(*args, **kwargs)
        except LoopscopeError as error:
            problem(error)
        except Exception as error:  # Streamlit's own control flow is no Exception
            logging.getLogger("loopscope.dashboard").exception("fragment %s", draw.__name__)
            problem(error)

    return safely
