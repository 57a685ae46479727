"""The first look at a big store: what takes seconds is said while it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from ..replay import Filters
from . import _data
from ._text import count

__all__ = ["counting"]

_BIG = 100_000
"""Calls; repeats of fewer are counted in a moment."""

_counted: set[tuple[str, str]] = set()


@contextmanager
def counting(ask: _data.Reader, doing: str = "Counting repeats in") -> Iterator[None]:
    """Around the first question of a page, before anything stands below that could move.

    Says what a server does that is asked about a store for the first time. Later only what is new is counted.
    """
    asked = str(_data.database()), doing
    if asked in _counted:
        yield
        return
    calls = ask.coverage(Filters()).calls
    if calls < _BIG:
        yield
    else:
        waiting = st.empty()
        with waiting, st.spinner(f"{doing} {count(calls, 'call')}…", show_time=True):
            yield
        waiting.empty()
    _counted.add(asked)
