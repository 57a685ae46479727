"""What a server does before anybody asks: load what pages need, and take it out of the collector's way."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["warmed"]

_HEAVY = ("pandas", "plotly.graph_objects", "loopscope.replay")
"""Before the modules of pages, each of which then takes next to nothing."""


@contextmanager
def warmed() -> Iterator[None]:
    """Load the modules of pages in a thread.

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

    thread = threading.Thread(target=load, name="loopscope-warm", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(5)
        gc.unfreeze()
