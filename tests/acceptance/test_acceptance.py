"""What a loop detector has to tell apart, from `loopscope import` to the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from loopscope.cli import main
from loopscope.collector import Store, otlp_app
from loopscope.guard import GuardPolicy
from loopscope.replay import call_verdicts

TRACES = Path(__file__).with_name("traces")
Cli = Callable[..., str]

A, N, B, U, X = "allow", "nudge", "block", "not_counted", "after_block"


@dataclass
class Case:
    """A file and what must be said of it. `incidents`, `totals` and `coverage` name what matters."""

    file: str
    actions: list[str]  # of its calls in order, under the default policy
    incidents: list[dict[str, Any]] = field(default_factory=list)
    runs: int = 1
    totals: dict[str, int] = field(default_factory=dict)
    exact: dict[str, int] = field(default_factory=dict)
    coverage: dict[str, int] = field(default_factory=dict)


LOOP = {"kind": "loop", "resolved": False, "interleaved": False}
NO_CONTENT = {"calls_without_arguments": 6, "calls_without_result": 6}

CASES = [
    # Different files read in a row.
    Case("different_files.json", [A] * 6),
    Case("different_files_equal_text.json", [A] * 6),
    Case("different_files_no_arguments.json", [U] * 6, coverage={"calls_without_arguments": 6}),
    # A poll whose result moves, then the next thing.
    Case("moving_poll.json", [A] * 7),
    # Two calls in turn, three laps: one cycle, and no two loops beside it.
    Case(
        "a_b_a_b.json",
        [A, A, A, A, N, N],
        [{"kind": "cycle", "laps": 3, "calls": 6, "folded_loops": 2, "tools": ["read_file", "run_tests"]}],
    ),
    # One call, its keys in another order at every depth, its spaces elsewhere.
    Case("reordered_keys.json", [A, A, N], [LOOP | {"calls": 3, "nudge_at": 3}]),
    # Other calls between the repeats neither hide the loop nor count as part of it.
    Case(
        "other_work_between.json",
        [A, A, A, A, A, N],
        [LOOP | {"calls": 3, "interleaved": True, "tools": ["search"]}],
    ),
    # Three general errors, then the answer.
    Case(
        "retry_that_worked.json",
        [U, U, U, A, A],
        [{"kind": "retry_storm", "calls": 3, "resolved": True, "ending": "another_result"}],
    ),
    # Two traces of one session, the same call twice in each: four in a row, if they were one.
    Case("one_session_two_traces.json", [A] * 4, runs=2),
    # Everybody's order is lost in the same way.
    Case(
        "one_fault_120_runs.jsonl",
        [A, A, N] * 120,
        [LOOP | {"calls": 3, "tools": ["track_order"]}] * 120,
        runs=120,
        totals={"runs_nudged": 120, "runs_blocked": 0},
    ),
    # General errors do not count and do not start the count anew; after a block they are not judged.
    Case(
        "general_errors.json",
        [A, A, U, N, N, B, X, X],
        [LOOP | {"calls": 6, "interleaved": True, "block_at": 5}],
        totals={"calls_after_block": 2, "calls_avoidable": 1, "calls_lost": 0, "calls_unjudged": 1},
    ),
    Case(
        "errors_only.json",
        [U] * 6,
        [{"kind": "retry_storm", "calls": 6, "resolved": False, "nudge_at": None, "block_at": None}],
    ),
    # Recorded with nothing in it: nothing is said, and that is said.
    Case("nothing_recorded.json", [U] * 6, coverage=NO_CONTENT),
    # Content that is missing for a while: what cannot be known is unjudged, not avoidable and not lost.
    Case(
        "content_lost_after_block.json",
        [A, A, N, N, B, X, X, X, X],
        [LOOP | {"calls": 6, "interleaved": True, "resolved": True}],
        totals={"calls_after_block": 4, "calls_avoidable": 1, "calls_lost": 1, "calls_unjudged": 2},
        coverage={"calls_without_arguments": 1, "calls_without_result": 1},
    ),
    # The same five answers with and without a guard that was at work. Its notes are no part of the results,
    # so both are one loop; and what it did was seen by the agent, so that all of it is exact.
    Case(
        "no_guard.json",
        [A, A, N, N, B],
        [LOOP | {"calls": 5, "exact": False}],
        totals={"calls_blocked": 1},
        exact={"calls": 3, "calls_nudged": 1, "calls_blocked": 0},
        coverage={"runs_guarded": 0},
    ),
    Case(
        "live_guard.json",
        [A, A, N, N, B],
        [LOOP | {"calls": 5, "exact": True}],
        totals={"calls_blocked": 1},
        exact={"calls": 5, "calls_nudged": 2, "calls_blocked": 1},
        coverage={"runs_guarded": 1},
    ),
]


@pytest.fixture
def cli(capsys, monkeypatch) -> Cli:
    """Run a command that must do well; what it printed."""
    for name in ("LOOPSCOPE_DB", "LOOPSCOPE_POLICY", "LOOPSCOPE_CAPTURE_CONTENT", "LOOPSCOPE_REDACT"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: object) -> str:
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    return call


def asked(cli: Cli, command: str, db: Path) -> dict[str, Any]:
    return json.loads(cli(command, "--db", db, "--format", "json"))


def part(whole: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    return {key: whole[key] for key in of}


def actions(db: Path) -> list[str]:
    with Store(db).lease() as con:
        return call_verdicts(con, GuardPolicy()).column("action").to_pylist()


@pytest.mark.parametrize("case", CASES, ids=[case.file.partition(".")[0] for case in CASES])
def test_trace(cli, tmp_path, case):
    db = tmp_path / "traces.duckdb"
    cli("import", TRACES / case.file, "--db", db)
    replayed = asked(cli, "replay", db)
    totals = replayed["totals"]
    assert (totals["runs"], totals["calls"]) == (case.runs, len(case.actions))
    assert actions(db) == case.actions
    for name, action in (("calls_nudged", N), ("calls_blocked", B), ("calls_after_block", X)):
        assert totals[name] == case.actions.count(action), name
    assert part(totals, case.totals) == case.totals
    assert part(totals["exact"], case.exact) == case.exact
    assert part(replayed["coverage"], case.coverage) == case.coverage
    incidents = asked(cli, "incidents", db)["incidents"]
    assert [one["key"] for one in incidents] == [one["key"] for one in replayed["incidents"]]
    assert [part(one, want) for one, want in zip(incidents, case.incidents, strict=True)] == case.incidents


def test_every_trace_is_in_the_table():
    assert {path.name for path in TRACES.iterdir()} == {case.file for case in CASES}


def test_one_fault_is_one_group(cli, tmp_path):
    db = tmp_path / "traces.duckdb"
    cli("import", TRACES / "one_fault_120_runs.jsonl", TRACES / "other_work_between.json", "--db", db)
    incidents = asked(cli, "incidents", db)["incidents"]
    assert len({one["run_id"] for one in incidents}) == len({one["key"] for one in incidents}) == 121
    by_tool = {
        tool: {one["group"] for one in incidents if one["tool_name"] == tool}
        for tool in ("track_order", "search")
    }
    assert [len(groups) for groups in by_tool.values()] == [1, 1]
    assert by_tool["track_order"] != by_tool["search"]


def test_traces_of_one_session_say_so_and_stay_two_runs(cli, tmp_path):
    db = tmp_path / "traces.duckdb"
    cli("import", TRACES / "one_session_two_traces.json", "--db", db)
    rows = json.loads(
        cli("query", "SELECT DISTINCT run_id, session_id FROM tool_calls", "--db", db, "--format", "json")
    )
    assert len(rows) == 2
    assert {row["session_id"] for row in rows} == {"chat-1"}


def test_runs_under_a_live_guard_are_left_out_of_suggestions_unless_asked_for(cli, tmp_path):
    db = tmp_path / "traces.duckdb"
    cli("import", TRACES / "live_guard.json", TRACES / "no_guard.json", "--db", db)
    counted = ("runs", "calls", "runs_guarded")
    assert part(asked(cli, "suggest", db), dict.fromkeys(counted)) == {
        "runs": 1,
        "calls": 5,
        "runs_guarded": 1,
    }
    everything = json.loads(cli("suggest", "--db", db, "--guarded", "--format", "json"))
    assert (everything["runs"], everything["calls"]) == (2, 10)


def test_the_same_file_again_changes_nothing(cli, tmp_path):
    db = tmp_path / "traces.duckdb"
    cli("import", TRACES, "--db", db)
    before = everything(cli, db)
    out = cli("import", TRACES, "--db", db)
    assert out.count("already there, nothing changed") == len(CASES)
    assert everything(cli, db) == before


def test_the_same_batch_sent_again_changes_nothing(cli, tmp_path):
    """As a client does that did not hear the answer to its first attempt."""
    db = tmp_path / "traces.duckdb"
    batch = (TRACES / "a_b_a_b.json").read_bytes()
    send(db, batch)
    once = everything(cli, db)
    assert [one["kind"] for one in once["replay"]["incidents"]] == ["cycle"]
    send(db, batch)
    assert everything(cli, db) == once
    send(db, batch)
    send(db, batch)  # twice before anybody looks
    assert everything(cli, db) == once
    cli("import", TRACES / "a_b_a_b.json", "--db", db)
    assert everything(cli, db) == once


def send(db: Path, batch: bytes) -> None:
    """To a receiver, over OTLP/HTTP."""

    async def post() -> httpx.Response:
        transport = httpx.ASGITransport(otlp_app(db))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:4318") as client:
            headers = {"content-type": "application/json"}
            return await client.post("/v1/traces", content=batch, headers=headers)

    assert asyncio.run(post()).status_code == 200


def everything(cli: Cli, db: Path) -> dict[str, Any]:
    """All that the store holds but when it came in, and what replay says of it."""
    found = {"replay": asked(cli, "replay", db)}
    for table, but in {"spans": "EXCLUDE (received_ns)", "tool_calls": "", "llm_requests": ""}.items():
        query = f"SELECT * {but} FROM {table} ORDER BY ALL"
        rows = json.loads(cli("query", query, "--db", db, "--format", "json", "--limit", 0))
        assert rows or table == "llm_requests"
        found[table] = rows
    return found
