"""Trajectories of agents under evaluation: SWE-agent, mini-swe-agent, OpenHands, ATIF, InterCode."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import export_files as ours
import pytest
from export_files import ARGUMENTS, CALLS, RESULT, query, save
from test_import_paths import LOG, single, tables

from loopscope.collector import import_paths

Outcomes = list[str | None]
LOOP: Outcomes = ["success"] * 3
# name: (format, file, JSON lines, tool, arguments, outcomes of the calls, requests)
FILES: dict[str, tuple[str, Callable[[], Any], bool, str, dict[str, Any], Outcomes, int]] = {
    "a.traj": ("swe-agent", ours.swe_agent, False, "search", ARGUMENTS, [*LOOP, None], 4),
    "b.traj": ("swe-agent", ours.swe_agent_text, False, "bash", {"command": "ls\n"}, [*LOOP, None], 5),
    "c.json": (
        "mini-swe-agent",
        ours.mini_swe_agent,
        False,
        "bash",
        {"command": "ls"},
        ["success", "success", None],
        4,
    ),
    "d.json": (
        "openhands",
        ours.openhands,
        False,
        "search",
        ARGUMENTS,
        [*LOOP, "general_tool_error", None],
        6,
    ),
    "e.jsonl": (
        "openhands",
        lambda: [{"instance_id": "i-1", "history": ours.openhands()}],
        True,
        "search",
        ARGUMENTS,
        [*LOOP, "general_tool_error", None],
        6,
    ),
    "f.jsonl": (
        "openhands",
        ours.openhands_new,
        True,
        "search",
        ARGUMENTS,
        [*LOOP, "general_tool_error", None],
        4,
    ),
    "g.json": ("atif", ours.atif, False, "search", ARGUMENTS, [*LOOP, "general_tool_error", None], 5),
    "h.json": (
        "intercode",
        ours.intercode,
        False,
        "bash",
        {"action": "ls"},
        [*LOOP, "general_tool_error"],
        4,
    ),
}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


@pytest.mark.parametrize("name", FILES)
def test_a_trajectory_is_one_run(tmp_path: Path, db: Path, name: str):
    format, make, lines, tool, arguments, outcomes, requests = FILES[name]
    path = save(tmp_path / name, make(), lines=lines)
    file = single(import_paths(db, [path]))
    assert (file.format, file.runs, file.calls, file.requests) == (format, 1, len(outcomes), requests)

    rows = query(db, CALLS)
    assert [row[3] for row in rows] == outcomes
    assert [row[2] for row in rows if row[3] == "success"] == [RESULT] * outcomes.count("success")
    assert {row[0] for row in rows} == {tool}
    same = [json.loads(row[1]) == arguments for row in rows]
    assert same.count(False) == (1 if format == "intercode" else 0)  # the action that fails is another one
    assert [row[4] for row in rows] == [n if out else None for n, out in enumerate(outcomes, 1)]
    assert query(db, "SELECT DISTINCT run_source, dialect FROM tool_calls") == [("transcript", format)]

    before = tables(db)
    (tmp_path / "other").mkdir()
    again = single(import_paths(db, [path.rename(tmp_path / "other" / "renamed.json")]))
    assert again.already_there
    assert tables(db) == before


def facts(db: Path) -> dict[str, Any]:
    """What the root span says."""
    ((attributes, code, message),) = query(
        db, "SELECT attributes, status_code, status_message FROM spans WHERE parent_span_id IS NULL"
    )
    found = json.loads(attributes)
    prefix = "loopscope.source."
    kept = {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}
    return kept | {"failure": message if code == 2 else None}


def requests(db: Path) -> list[tuple[Any, ...]]:
    return query(db, "SELECT model, input_tokens, output_tokens FROM llm_requests ORDER BY start_ns")


def history(db: Path, number: int) -> list[dict[str, Any]]:
    """The input of the last-but-`number` request."""
    rows = query(db, "SELECT input_messages FROM llm_requests ORDER BY start_ns")
    return [json.loads(message) for message in rows[-1 - number][0]]


def test_swe_agent_with_function_calls(tmp_path: Path, db: Path):
    file = single(import_paths(db, [save(tmp_path / "a.traj", ours.swe_agent())]))
    assert [why for _, why in file.skipped] == ["2 messages of demonstrations"]
    assert facts(db) == {
        "environment": "main",
        "instance_id": "i-1",
        "exit_status": "exit_cost",
        "failure": "the run ended with exit_cost",
    }
    assert requests(db) == [("gpt-4o", None, None)] * 4
    assert query(db, "SELECT call_id FROM tool_calls ORDER BY start_ns") == [
        ("c2",),
        ("c3",),
        ("c4",),
        ("c5",),
    ]
    assert [message["role"] for message in history(db, 2)] == ["system", "user", "assistant", "tool"]
    assert query(db, "SELECT DISTINCT session_id FROM tool_calls") == [("i-1",)]


def test_swe_agent_without_steps_reads_commands_from_the_history(tmp_path: Path, db: Path):
    said = {"role": "assistant", "content": "ls", "action": "ls", "agent": "main"}
    seen = {"role": "user", "content": RESULT, "agent": "main", "message_type": "observation"}
    log = {
        "history": [{"role": "system", "content": "x", "agent": "main"}, said, seen, said, seen],
        "info": {},
    }
    assert single(import_paths(db, [save(tmp_path / "a.traj", log)])).format == "swe-agent"
    assert [row[:4] for row in query(db, CALLS)] == [("bash", '{"command": "ls"}', RESULT, "success")] * 2


def test_one_tool_message_may_answer_several_calls(tmp_path: Path, db: Path):
    log = ours.swe_agent()
    two = {"role": "assistant", "content": "", "agent": "main", "tool_calls": [ours.asks(1), ours.asks(2)]}
    both = {"role": "tool", "content": RESULT, "agent": "main", "tool_call_ids": ["c1", "c2"]}
    log["history"] = [log["history"][0], two, both]
    import_paths(db, [save(tmp_path / "a.traj", log)])
    assert [row[2] for row in query(db, CALLS)] == [RESULT, RESULT]


def test_mini_swe_agent_with_tool_calls(tmp_path: Path, db: Path):
    log = {
        "trajectory_format": "mini-swe-agent-1.1",
        "info": {"exit_status": "LimitsExceeded"},
        "messages": [
            {"role": "user", "content": "Find it"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [ours.asks(1)],
                "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}]},
            },
            {"role": "tool", "tool_call_id": "c1", "content": RESULT, "extra": {"returncode": 0}},
        ],
    }
    import_paths(db, [save(tmp_path / "a.json", log)])
    assert [row[:4] for row in query(db, CALLS)] == [("search", '{"q": "x"}', RESULT, "success")]
    assert facts(db)["failure"] == "the run ended with LimitsExceeded"


def test_mini_swe_agent_times_models_and_tokens(tmp_path: Path, db: Path):
    import_paths(db, [save(tmp_path / "a.json", ours.mini_swe_agent())])
    assert requests(db) == [("gpt-4o", 12, 3)] * 4
    assert query(db, "SELECT min(end_ns) FROM llm_requests") == [(ours.BEGUN * 10**9 + 15 * 10**8,)]


def test_openhands_times_models_and_flags(tmp_path: Path, db: Path):
    import_paths(db, [save(tmp_path / "a.json", ours.openhands())])
    assert requests(db) == [("gpt-4o", 12, 3)] * 6
    ((first,),) = query(db, "SELECT end_ns FROM tool_calls WHERE call_id = 'c2'")
    assert first == (ours.BEGUN + 3) * 10**9
    # To finish is no call: nothing is executed.
    assert query(db, "SELECT count(*) FROM tool_calls WHERE tool_name = 'finish'") == [(0,)]
    assert facts(db)["failure"] is None


@pytest.mark.parametrize(
    ("success", "code", "outcome"),
    [(True, 0, "success"), (False, 2, "general_tool_error"), (False, -1, "success"), (None, None, "success")],
)
def test_a_failed_command_is_told_from_one_that_still_runs(
    tmp_path: Path, db: Path, success: bool | None, code: int | None, outcome: str
):
    events = ours.openhands()[:4]
    events[3] |= {"success": success, "extras": {"metadata": {"exit_code": code}}}
    import_paths(db, [save(tmp_path / "a.json", events)])
    assert query(db, "SELECT outcome FROM tool_calls") == [(outcome,)]


def test_openhands_without_the_models_answer_takes_the_actions_arguments(tmp_path: Path, db: Path):
    events = ours.openhands()[:4]
    events[2]["tool_call_metadata"]["model_response"] = None
    import_paths(db, [save(tmp_path / "a.json", events)])
    assert query(db, "SELECT arguments FROM tool_calls") == [('{"command": "x"}',)]


def test_calls_of_one_answer_are_one_request(tmp_path: Path, db: Path):
    import_paths(db, [save(tmp_path / "a.json", ours.openhands_new())])
    turns = query(db, "SELECT turn, count(*) FROM tool_calls GROUP BY 1 ORDER BY 1")
    assert turns == [(1, 2), (2, 1), (3, 1), (4, 1)]
    assert facts(db)["failure"] == "too many steps"


def test_atif_models_tokens_and_copied_steps(tmp_path: Path, db: Path):
    file = single(import_paths(db, [save(tmp_path / "a.json", ours.atif())]))
    assert [why for _, why in file.skipped] == ["1 steps copied from another trajectory"]
    assert requests(db) == [("gpt-4o", 12, 3)] * 5
    found = query(db, "SELECT DISTINCT service_name, session_id FROM tool_calls")
    assert found == [("bob", "s1")]
    assert query(db, "SELECT error_message FROM tool_calls WHERE outcome != 'success'") == [(None,)]


def test_sub_agents_of_atif_are_runs_of_their_own(tmp_path: Path, db: Path):
    below = {**ours.atif(), "session_id": "s2", "trajectory_id": "t2"}
    whole = ours.atif() | {"subagent_trajectories": [below, {**below, "session_id": "s3"}]}
    file = single(import_paths(db, [save(tmp_path / "a.json", whole)]))
    assert (file.runs, file.calls) == (3, 15)


def test_atif_observations_without_a_call_are_no_results(tmp_path: Path, db: Path):
    log = ours.atif()
    log["steps"] = [
        {
            "step_id": 1,
            "source": "system",
            "message": "x",
            "observation": {"results": [{"content": "reset"}]},
        },
        {"step_id": 2, "source": "agent", "message": "y", "observation": {"results": [{"content": "seen"}]}},
        {"step_id": 3, "source": "agent", "message": "z"},
    ]
    file = single(import_paths(db, [save(tmp_path / "a.json", log)]))
    assert (file.calls, file.requests, file.skipped) == (0, 2, [])
    assert [message["role"] for message in history(db, 0)] == ["system", "user", "assistant", "user"]


def test_intercode_without_a_flag_or_a_last_observation(tmp_path: Path, db: Path):
    log = ours.intercode()
    history = log["0"]["turn_history"]
    history["valid_action"] = [None, True, True]
    history["observations"].pop()
    file = single(import_paths(db, [save(tmp_path / "a.json", log)]))
    assert [why for _, why in file.skipped] == ["the task has no actions"]
    assert [row[3] for row in query(db, CALLS)] == ["success", "success", "success", None]
    assert facts(db) == {"task_id": 7, "failure": None}


BAD: dict[str, tuple[Any, str]] = {
    "swe-agent": ([ours.swe_agent(), {"a": 1}], "not a trajectory of swe-agent"),
    "mini-swe-agent": ({**ours.mini_swe_agent(), "messages": [7]}, "a message without a role"),
    "openhands": ([ours.openhands()[0], {"a": 1}], "not an event of OpenHands"),
    "openhands events": ({"history": [ours.openhands()[0], 7]}, "event 2: an event that is no object"),
    "atif": ({**ours.atif(), "steps": [{"source": "bob"}]}, "step 1: a step whose source is not"),
    "intercode": ({**ours.intercode(), "2": {"a": 1}}, "task 2: not a task of InterCode"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_trajectory_is_one_clear_line_and_the_rest_goes_in(tmp_path: Path, db: Path, name: str):
    data, what = BAD[name]
    report = import_paths(db, [save(tmp_path / "bad.json", data), save(tmp_path / "good.json", LOG)])
    assert [file.ok for file in report.files] == [False, True]
    assert what in str(report.errors[0])
    assert "\n" not in str(report.errors[0])
    assert report.totals.calls == 2


EMPTY: dict[str, Any] = {
    "swe-agent": {"history": [{"role": "system", "agent": "main", "is_demo": True}], "trajectory": []},
    "atif": {"schema_version": "ATIF-v1.0", "steps": []},
    "mini-swe-agent": {"trajectory_format": "mini-swe-agent-1", "messages": []},
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_trajectory_is_told(tmp_path: Path, db: Path, name: str):
    file = single(import_paths(db, [save(tmp_path / "a.json", EMPTY[name])]))
    assert (file.format, file.spans) == (name, 0)
    assert file.skipped
