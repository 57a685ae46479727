"""Loading what pages need before anybody asks."""

from __future__ import annotations

import gc
import sys
import time

from loopscope.dashboard._warm import warmed


def test_what_pages_need_is_loaded_and_left_out_of_collections_until_the_server_ends() -> None:
    with warmed():
        deadline = time.monotonic() + 120
        while not gc.get_freeze_count() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert gc.get_freeze_count()
        assert "loopscope.dashboard._tuning" in sys.modules
        assert "plotly" in sys.modules
    assert not gc.get_freeze_count()
