"""Every recording imports, and the guard says of it what its story claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from loopscope.collector import ImportReport, Store, import_paths
from loopscope.guard import GuardPolicy
from loopscope.replay import Filters, call_verdicts, coverage, find_incidents, replay
from loopscope.sample_traces import files, stories

POLICY = GuardPolicy(nudge_threshold=3, block_threshold=5)
STORIES = stories()
ALL = [pytest.param(story, id=story["file"].removesuffix(".jsonl")) for story in STORIES]


def of(story: dict[str, Any]) -> Filters:
    """Each recording has a service of its own."""
    return Filters(services=(story["service"],))


@pytest.fixture(scope="module", name="database")
def fixture_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("samples") / "samples.duckdb"


@pytest.fixture(scope="module", name="report")
def fixture_report(database: Path) -> ImportReport:
    return import_paths(database, files())


@pytest.fixture(name="con")
def fixture_con(database: Path, report: ImportReport) -> Iterator[Any]:
    assert report.ok
    with Store(database).lease() as con:
        yield con


def test_every_file_comes_in_whole(report: ImportReport) -> None:
    assert report.errors == []
    assert [file.path.name for file in report.files] == [path.name for path in files()]
    calls = {file.path.name: file.calls for file in report.files}
    assert calls == {story["file"]: story["calls"] for story in STORIES}
    assert all(file.skipped == [] for file in report.files)


@pytest.mark.parametrize("story", ALL)
def test_the_guard_says_what_the_story_claims(con: Any, story: dict[str, Any]) -> None:
    totals = replay(con, POLICY, of(story)).totals.to_json()
    actions = Counter(call_verdicts(con, POLICY, filters=of(story)).column("action").to_pylist())
    claimed = story["at_3_5"]
    assert {key: totals[key] for key in claimed if key in totals} == {
        k: v for k, v in claimed.items() if k in totals
    }
    assert totals["calls"] == story["calls"]
    assert actions["not_counted"] == claimed["calls_not_counted"]
    assert sum(actions.values()) == story["calls"]


@pytest.mark.parametrize("story", ALL)
def test_the_incidents_are_those_of_the_story(con: Any, story: dict[str, Any]) -> None:
    assert sorted(incident.kind for incident in find_incidents(con, of(story))) == sorted(story["incidents"])


@pytest.mark.parametrize("story", ALL)
def test_agents_models_and_runs_are_those_of_the_story(con: Any, story: dict[str, Any]) -> None:
    service = [story["service"]]
    runs = con.execute(
        "SELECT count(DISTINCT run_id) FROM tool_calls WHERE service_name = ?", service
    ).fetchone()[0]
    assert runs == story["runs_with_calls"]
    agents = con.execute(
        "SELECT DISTINCT agent_name FROM tool_calls WHERE service_name = ? AND agent_name IS NOT NULL",
        service,
    ).fetchall()
    # OpenInference's LangChain and LlamaIndex spans do not name the agent.
    assert {name for (name,) in agents} in (set(story["agents"]), set())
    models = con.execute("SELECT DISTINCT model FROM llm_requests WHERE service_name = ?", service).fetchall()
    assert models == [(story["model"],)]
    dialects = con.execute(
        "SELECT DISTINCT dialect FROM tool_calls WHERE service_name = ?", service
    ).fetchall()
    assert dialects == [(story["dialect"],)]


@pytest.mark.parametrize("story", ALL)
def test_refused_requests_are_recognised_with_their_messages(con: Any, story: dict[str, Any]) -> None:
    refused = con.execute(
        "SELECT http_status, error_text, input_messages IS NOT NULL FROM llm_requests"
        " WHERE service_name = ? AND status = 'error'",
        [story["service"]],
    ).fetchall()
    assert len(refused) == story["refused_requests"]
    for status, text, has_messages in refused:
        assert status == 400
        assert "Duplicate value for 'tool_call_id'" in text
        assert has_messages


def test_the_repeated_schema_error_reaches_five_and_is_blocked(con: Any) -> None:
    table = call_verdicts(
        con, POLICY, filters=Filters(services=("crm-assistant",), tools=("schedule_meeting",))
    )
    first_run = table.filter(pc.equal(table.column("run_id"), table.column("run_id")[0])).sort_by("seq")
    assert first_run.column("action").to_pylist() == [
        "allow",
        "allow",
        "nudge",
        "nudge",
        "block",
        "after_block",
    ]
    outcomes = con.execute(
        "SELECT outcome, error_kind, count(*) FROM tool_calls"
        " WHERE tool_name = 'schedule_meeting' GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert outcomes == [("schema_error", "validation", 8), ("success", None, 1)]


def test_content_off_is_judged_nothing_of_seven_and_names_the_setting(con: Any) -> None:
    covered = coverage(con, Filters(services=("hr-assistant",)))
    assert (covered.calls, covered.calls_without_arguments, covered.calls_without_result) == (7, 7, 7)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in (covered.dialects[0].hint or "")


def test_a_smaller_block_threshold_would_have_stopped_the_build_before_it_passed(con: Any) -> None:
    totals = replay(
        con, GuardPolicy(nudge_threshold=2, block_threshold=4), Filters(services=("ci-fixer",))
    ).totals
    assert totals.runs_blocked == 1
    assert totals.calls_lost > 0


def test_counting_general_errors_is_what_finds_the_locked_database(con: Any) -> None:
    storms = find_incidents(con, Filters(services=("report-agent", "billing-agent")))
    assert {(s.service_name, s.calls, s.resolved) for s in storms} == {
        ("report-agent", 6, False),
        ("billing-agent", 4, True),
    }


def test_importing_again_changes_nothing(database: Path, report: ImportReport) -> None:
    again = import_paths(database, files())
    assert again.totals == report.totals
