"""Loading what pages need before anybody asks."""

from __future__ import annotations

import gc
import sys
import time

from loopscope.collector import Store, import_paths
from loopscope.dashboard._warm import warmed
from loopscope.replay import _facts, find_incidents
from loopscope.sample_traces import files


def test_what_pages_need_is_loaded_and_left_out_of_collections_until_the_server_ends(tmp_path) -> None:
    with warmed(tmp_path / "new.duckdb"):
        deadline = time.monotonic() + 120
        while not gc.get_freeze_count() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert gc.get_freeze_count()
        assert "loopscope.dashboard._tuning" in sys.modules
        assert "plotly" in sys.modules
    assert not gc.get_freeze_count()


def test_repeats_are_counted_before_anybody_asks(tmp_path) -> None:
    db = tmp_path / "t.duckdb"
    import_paths(db, files())
    _facts.forget()
    with warmed(db):
        deadline = time.monotonic() + 120
        while (known := _facts._cache.get(str(db))) is None or known.found is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with Store(db).lease() as con:
            assert _facts.facts_of(con) is known
            assert find_incidents(con) == [one.incident for one in known.found]


def test_a_file_that_is_no_database_ends_nothing(tmp_path) -> None:
    db = tmp_path / "t.duckdb"
    db.write_text("not a database")
    with warmed(db):
        pass
    assert db.read_text() == "not a database"
