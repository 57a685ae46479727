"""Public recordings come in with the figures that their readers counted."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from shared_corpus import corpus

from loopscope.collector import Store, import_paths
from loopscope.guard import Action, DuplicateCallGuard, GuardPolicy, Outcome

COUNTED_ALL = frozenset(Outcome)


def load(tmp_path: Path, *parts: str) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Figures of the report, and all calls in the order of counting."""
    path = corpus("real", *parts)
    db = tmp_path / "t.duckdb"
    report = import_paths(db, [path])
    again = import_paths(db, [path])
    assert report.errors == again.errors == []
    assert [file.already_there for file in (*report.files, *again.files)] == [False, True]
    assert report.totals == again.totals
    (file,) = report.files
    assert file.skipped == []
    with Store(db).lease() as con:
        rows = con.execute(
            "SELECT run_id, agent_name, tool_name, arguments, result, outcome, call_id FROM tool_calls"
            " WHERE seq IS NOT NULL ORDER BY run_id, seq"
        ).fetchall()
    assert len(rows) == file.calls
    return (file.format, file.runs, file.calls), rows


def judge(rows: list[tuple[Any, ...]], nudge: int, block: int, **policy: Any) -> tuple[int, int, int, int]:
    """runs nudged, calls nudged, runs blocked, calls after a block: the guard over each run."""
    runs: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        runs[row[0]].append(row)
    found: list[tuple[str, Action]] = []
    for run_id, calls in runs.items():
        guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=nudge, block_threshold=block, **policy))
        for _, agent, tool, arguments, result, outcome, _ in calls:
            verdict = guard.observe(
                tool_name=tool, arguments=arguments, output=result, outcome=Outcome(outcome), agent=agent
            )
            found.append((run_id, verdict.action))

    def calls_with(action: Action) -> list[str]:
        return [run_id for run_id, seen in found if seen is action]

    nudged, blocked = calls_with(Action.NUDGE), calls_with(Action.BLOCK)
    return len(set(nudged)), len(nudged), len(set(blocked)), len(calls_with(Action.AFTER_BLOCK))


def outcomes(rows: list[tuple[Any, ...]]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for row in rows:
        found[row[5]] += 1
    return dict(found)


def test_tau2_telecom(tmp_path: Path):
    figures, rows = load(tmp_path, "tau2-bench", "gpt4.1_telecom_default.json.gz")
    assert figures == ("tau2-bench", 40, 689)
    assert outcomes(rows) == {"success": 689}
    assert {row[1] for row in rows} == {"assistant", "user"}
    assert judge(rows, 3, 5) == (25, 39, 5, 13)
    assert judge(rows, 2, 4) == (33, 60, 13, 39)


@pytest.mark.parametrize(
    ("name", "runs", "calls", "failed"), [("airline", 20, 148, 1), ("retail", 40, 299, 12)]
)
def test_tau2(tmp_path: Path, name: str, runs: int, calls: int, failed: int):
    figures, rows = load(tmp_path, "tau2-bench", f"gpt4.1_{name}_default.json.gz")
    assert figures == ("tau2-bench", runs, calls)
    assert outcomes(rows) == {"success": calls - failed, "general_tool_error": failed}
    assert judge(rows, 3, 5) == (0, 0, 0, 0)


def test_tau(tmp_path: Path):
    figures, rows = load(tmp_path, "tau-bench", "gpt-4o-airline.36-runs.json.gz")
    assert figures == ("tau-bench", 36, 241)
    assert outcomes(rows) == {"success": 217, "general_tool_error": 24}
    assert judge(rows, 3, 5) == (0, 0, 0, 0)
    assert judge(rows, 3, 5, counted_outcomes=COUNTED_ALL) == (1, 1, 0, 0)
    # Ids that the provider gave out again are other calls, each with its own result.
    ids = [(row[0], row[6]) for row in rows]
    assert len(ids) - len(set(ids)) == 15
    assert all(row[4] is not None for row in rows)


def test_a_folder_of_everything(tmp_path: Path):
    report = import_paths(tmp_path / "t.duckdb", [corpus("dialects")])
    assert report.errors == []
    assert report.skipped == []
    assert {file.format for file in report.files} == {"otlp-json"}
    assert report.totals.spans == sum(file.spans for file in report.files)
    assert report.totals.runs
    assert all(file.spans or file.logs for file in report.files)
