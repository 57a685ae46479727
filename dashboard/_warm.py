"""What a server does before anybody asks: load what pages need, and take it out of the collector's way."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..collector import Store
from ..guard import LoopscopeError

__all__ = ["counting", "warmed"]

_HEAVY = ("plotly.graph_objects", "loopscope.replay")
"""Before the modules of pages, each of which then takes next to nothing."""

_LAST_SECONDS = 5.0
"""What threads may take at the end; they are inside of a query then."""


@contextmanager
def counting(db: Path) -> Iterator[None]:
    """Count repeats in a thread, which nearly all pages ask for; begun while Streamlit is being loaded.

    A page that is asked for meanwhile waits for the same count, and does not begin one of its own.
    """

    def count() -> None:
        from ..replay import find_incidents

        with suppress(LoopscopeError), Store(db).lease() as con:
            find_incidents(con)

    with _threads(count):
        yield


@contextmanager
def warmed() -> Iterator[None]:
    """Load the modules of pages in a thread, and in another work out what the first page says.

    Streamlit collects garbage after every run of a script, also of the smallest fragment, and a full
    collection looks at all that Plotly, pandas and Streamlit are made of: 0.08 s in which every other thread
    waits. Frozen, it is left out.
    """
    ended = threading.Event()

    def load() -> None:
        import loopscope.dashboard

        modules = [one.name for one in pkgutil.iter_modules(loopscope.dashboard.__path__)]
        pages = [f"loopscope.dashboard.{name}" for name in modules if name.startswith("_")]
        for name in (*_HEAVY, *pages):
            if ended.is_set():  # Streamlit's caches need its runtime, which ends with the server
                return
            with suppress(Exception):  # the page that needs it says what is wrong
                importlib.import_module(name)
        gc.collect()
        if not ended.is_set():
            gc.freeze()

    def answer() -> None:
        from ..replay import ALL
        from . import _data, _policy

        with suppress(Exception), _data.reader_ahead() as ask:
            policy = _policy.saved().policy
            questions = (ask.options, lambda: ask.overview(policy, ALL), lambda: ask.impact(policy, ALL))
            for question in questions:
                # A browser loads scripts for a second; a page that is there asks for what it needs itself.
                if ended.is_set() or _data.asked.is_set():
                    return
                question()

    try:
        with _threads(load, answer):
            try:
                yield
            finally:
                ended.set()
    finally:
        gc.unfreeze()


@contextmanager
def _threads(*targets: Callable[[], None]) -> Iterator[None]:
    # pandas and pyarrow load one another: where two threads begin with one each, both find halves.
    with suppress(ImportError):
        importlib.import_module("pandas")
    threads = [threading.Thread(target=one, name="loopscope-warm", daemon=True) for one in targets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        deadline = time.monotonic() + _LAST_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
