"""The foot of the sidebar: which database, which policy, and whether the page follows new data."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from . import _data, _follow, _policy
from ._text import lit

__all__ = ["redraw_after", "sidebar"]

_EVERY = 0.25
"""Seconds between a page's questions: two stat calls, and a lease where the file has changed."""

_FIRST = 0.5
"""Seconds between two drawings, at least."""

_follower = component("loopscope_follow", js=Path(__file__).with_name("_follow.js").read_text("utf-8"))


def sidebar(ask: _data.Reader, took: float) -> None:
    """Draw the foot. `took`: seconds of this rerun, which bound how soon the next may come."""
    saved = _policy.saved()
    source = "saved" if saved.in_force else "defaults"
    if saved.problem:
        source += "; the policy file cannot be read"
    again = st.session_state.pop("_redraw_after", None)
    with st.sidebar:
        st.space("small")
        follow = _follow.answers() and st.toggle(
            "Follow new data",
            value=True,
            key="follow",
            persist_state="session",
            help="Redraws the page when the database has something new.",
        )
        drawn = datetime.now(UTC)
        st.caption(
            f":material/database: {lit(_data.database().name, 40)}  \n"
            f":material/policy: {_policy.name(saved.policy)} ({source})  \n"
            f":material/update: as of {drawn:%H:%M:%S} UTC"
        )
        if follow:
            _follower(
                key="follower",
                data={
                    "path": _follow.PATH,
                    "version": str(ask.version),
                    "drawn": drawn.isoformat(),
                    # A page that takes long to draw is drawn two thirds of the time at most. Waiting longer
                    # would show an incident in a store of a million calls later than two seconds after it.
                    "first": 1000 * max(_FIRST, took / 2),
                    "every": 1000 * _EVERY,
                    "again": None if again is None else 1000 * again,
                },
                on_moved_change=_nothing,
                height=1,
            )


def redraw_after(seconds: float) -> None:
    """Have this page drawn again then, although nothing new came in: it shows how long ago things were."""
    st.session_state["_redraw_after"] = seconds


def _nothing() -> None:
    """A trigger is told to the script only where somebody listens."""
