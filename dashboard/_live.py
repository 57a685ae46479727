"""The foot of the sidebar: which database, which policy, and whether the page follows new data."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import streamlit as st

from ..guard import LoopscopeError
from . import _data, _policy
from ._text import lit

__all__ = ["sidebar"]

_EVERY = 0.5
"""Seconds between looks at the store's version: two stat calls, and a lease where the file has changed."""


def sidebar(ask: _data.Reader, took: float) -> None:
    """Draw the foot. `took`: seconds of this rerun, which bound how soon the next may come."""
    saved = _policy.saved()
    source = "saved" if saved.in_force else "defaults"
    if saved.problem:
        source += "; the policy file cannot be read"
    with st.sidebar:
        st.space("small")
        follow = st.toggle(
            "Follow new data",
            value=True,
            key="follow",
            persist_state="session",
            help="Redraws the page when the database has something new.",
        )
        st.caption(
            f":material/database: {lit(_data.database().name, 40)}  \n"
            f":material/policy: {_policy.name(saved.policy)} ({source})  \n"
            f":material/update: as of {datetime.now(UTC):%H:%M:%S} UTC"
        )
    st.session_state["_seen"] = (ask.version, time.monotonic(), took)
    if follow:
        _follow()


@st.fragment(run_every=_EVERY)
def _follow() -> None:
    version, drawn, took = st.session_state["_seen"]
    # A page that takes long to draw is drawn half of the time at most. Waiting longer would show an incident
    # in a store of a million calls, whose overview takes most of a second, later than two seconds after it.
    if time.monotonic() - drawn < max(_EVERY, took):
        return
    try:
        moved = _data.store().version() != version
    except LoopscopeError:  # busy or gone: the next look tells, and the next rerun says it
        return
    if moved:
        st.rerun()
