"""Loading what pages need before anybody asks."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from threading import Event

import pytest

from loopscope.collector import Store, import_paths
from loopscope.dashboard import _data
from loopscope.dashboard._warm import counting, warmed
from loopscope.guard import GuardPolicy
from loopscope.replay import ALL, _facts, find_incidents
from loopscope.sample_traces import files


def test_what_pages_need_is_loaded_and_left_out_of_collections_until_the_server_ends(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv(_data.DB_VARIABLE, str(tmp_path / "new.duckdb"))
    with warmed():
        deadline = time.monotonic() + 120
        while not gc.get_freeze_count() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert gc.get_freeze_count()
        assert "loopscope.dashboard._tuning" in sys.modules
        assert "plotly" in sys.modules
    assert not gc.get_freeze_count()


def test_no_thread_begins_while_pandas_is_loaded_by_halves() -> None:
    code = (
        "import sys; from loopscope.dashboard._warm import _threads\n"
        "assert 'pandas' not in sys.modules; seen = []\n"
        "with _threads(lambda: seen.append(hasattr(sys.modules.get('pandas'), 'Series'))): pass\n"
        "assert seen == [True], seen"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_repeats_are_counted_before_anybody_asks(tmp_path) -> None:
    db = tmp_path / "t.duckdb"
    import_paths(db, files())
    _facts.forget()
    with counting(db):
        deadline = time.monotonic() + 120
        while (known := _facts._cache.get(str(db))) is None or known.found is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with Store(db).lease() as con:
            assert _facts.facts_of(con) is known
            assert find_incidents(con) == [one.incident for one in known.found]


@pytest.mark.parametrize("page_came_first", [False, True])
def test_what_the_first_page_says_is_worked_out_unless_a_page_asks_itself(
    tmp_path, monkeypatch, page_came_first
) -> None:
    db = tmp_path / "t.duckdb"
    import_paths(db, files())
    monkeypatch.setenv(_data.DB_VARIABLE, str(db))
    monkeypatch.setattr(_data, "asked", Event())
    asked, done = [], Event()

    def overview(self, policy, filters):
        asked.append(("overview", policy, filters))
        if page_came_first:
            with _data.reader():
                done.set()

    def of_impact(self, policy, filters):
        asked.append(("impact", policy, filters))
        done.set()

    monkeypatch.setattr(_data.Reader, "overview", overview)
    monkeypatch.setattr(_data.Reader, "impact", of_impact)
    with warmed():
        assert done.wait(120)
    expected = [("overview", GuardPolicy(), ALL), ("impact", GuardPolicy(), ALL)]
    assert asked == expected[: 1 if page_came_first else 2]


def test_a_file_that_is_no_database_ends_nothing(tmp_path, monkeypatch) -> None:
    db = tmp_path / "t.duckdb"
    db.write_text("not a database")
    monkeypatch.setenv(_data.DB_VARIABLE, str(db))
    with counting(db), warmed():
        pass
    assert db.read_text() == "not a database"
