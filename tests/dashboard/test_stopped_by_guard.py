"""A run that a live guard stopped is shown as its success, and twins and other words beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from loopscope.collector import Store
from loopscope.dashboard._circling import said
from loopscope.dashboard._incident_calls import _told  # pyright: ignore[reportPrivateUsage]
from loopscope.dashboard._incident_table import ended
from loopscope.dashboard._traces_words import ended_cell
from loopscope.guard import GuardPolicy
from loopscope.replay import Incident, circling, find_incidents
from loopscope.replay.traces import list_runs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    policy = folder / "policy.toml"
    policy.write_text("version = 1\nnudge_threshold = 3\nblock_threshold = 5\n")
    path = folder / "traces.duckdb"
    agent = str(ROOT / "examples/oncall_agent.py")
    command = [sys.executable, agent, "--db", str(path), "--policy", str(policy)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 3  # a block
    return path


@pytest.fixture(scope="module")
def incident(db: Path) -> Incident:
    with Store(db).lease() as con:
        (one,) = find_incidents(con)
        return one


def test_the_lists_say_that_the_guard_stopped_it(db: Path, incident: Incident) -> None:
    assert (incident.ending, incident.stopped_at) == ("stopped_by_guard", 5)
    assert ended(incident) == "■ stopped by guard"
    with Store(db).lease() as con:
        (run,) = list_runs(con, GuardPolicy()).rows
    assert ended_cell(run) == "■ stopped by guard"


def test_nothing_loops_now_where_the_guard_stopped_it(db: Path, incident: Incident) -> None:
    with Store(db).lease() as con:
        now = circling(con, GuardPolicy(), now_ns=incident.last_ns)
        later = circling(con, GuardPolicy(), now_ns=incident.last_ns + 11 * 60 * 10**9)
    assert (now.going_on, now.just_ended, now.just_stopped) == (0, 0, 1)
    assert said(now, incident.last_ns) == (
        "Nothing is looping now; a live guard stopped 1 run in the last 10 minutes."
    )
    assert (later.now, later.just_stopped) == ((), 0)


def test_the_page_of_the_incident_has_no_mark_of_failure(
    db: Path, incident: Incident, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPSCOPE_DB", str(db))
    monkeypatch.delenv("LOOPSCOPE_POLICY", raising=False)
    app = AppTest.from_file(ROOT / "dashboard/app.py", default_timeout=60)
    app.run()
    app.switch_page("app_pages/incidents.py")
    app.query_params["incident"] = incident.key
    app.run()
    assert not app.exception
    words = " ".join(str(one.value) for one in app.markdown)
    assert "stopped by the guard at call 5" in words
    assert "a live guard stopped it at call 5" in words + " ".join(str(one.value) for one in app.text)
    assert "unresolved: the run" not in words
    assert "soft failure" not in words


@pytest.mark.parametrize(
    ("arguments", "result", "words"),
    [
        ("same", "same", "= same arguments, same result"),
        ("same values, written differently", "same", "= arguments: same values, written differently"),
    ],
)
def test_reordered_keys_are_told_in_the_words_of_the_report(arguments: str, result: str, words: str) -> None:
    entry = SimpleNamespace(
        member=True,
        arguments_change=SimpleNamespace(same=True, summary=arguments),
        result_change=SimpleNamespace(same=True, summary=result),
    )
    assert _told(entry).startswith(words)  # type: ignore[arg-type]
