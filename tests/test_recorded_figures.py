"""Figures of public recordings, through the commands that a user types.

The corpus is optional; the same rules are pinned by the samples and by hand-made data in the
tests of each package.
"""

from __future__ import annotations

import json

import pytest
from shared_corpus import corpus

from loopscope.cli import main
from loopscope.guard import GuardPolicy

COUNTED = '["success", "schema_error", "general_tool_error"]'


@pytest.fixture
def output(capsys):
    """Run a command and give its JSON."""

    def call(*args: object):
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return json.loads(captured.out)

    return call


def replayed(output, db, *args):
    totals = output("replay", "--db", db, "--format", "json", *args)["totals"]
    keys = "runs_nudged calls_nudged runs_blocked calls_after_block calls_avoidable calls_lost"
    return tuple(totals[key] for key in keys.split())


def test_tau2_telecom(output, tmp_path):
    db = tmp_path / "t.duckdb"
    file = corpus("real", "tau2-bench", "gpt4.1_telecom_default.json.gz")
    first = output("import", file, "--db", db, "--json")
    assert (first["totals"]["runs"], first["totals"]["calls"]) == (40, 689)
    agents = "SELECT run_id, count(DISTINCT agent_name) AS n FROM tool_calls GROUP BY ALL HAVING n > 2"
    assert output("query", agents, "--db", db, "--format", "json") == []

    assert replayed(output, db, "--nudge", 3, "--block", 5) == (25, 39, 5, 13, 4, 9)
    assert replayed(output, db, "--nudge", 2, "--block", 4) == (33, 60, 13, 39, 10, 29)
    totals = output("replay", "--db", db, "--nudge", 3, "--block", 5, "--format", "json")["totals"]
    # Every block of this recording came after a nudge that the recorded agent never saw.
    assert totals["exact"]["runs_nudged"] == 25
    assert totals["exact"]["calls_nudged"] == 25
    assert totals["exact"]["runs_blocked"] == totals["exact"]["calls_after_block"] == 0
    assert totals["exact"]["calls"] < totals["calls"]

    def stretches(*thresholds):
        found = output("incidents", "--db", db, "--format", "json", *thresholds)["incidents"]
        return sorted(one["key"] for one in found if one["kind"] == "loop")

    assert len(stretches()) == 26
    assert stretches("--nudge", 7, "--block", 11) == stretches()

    again = output("import", file, "--db", db, "--json")
    assert again["totals"] == first["totals"]
    assert replayed(output, db, "--nudge", 3, "--block", 5) == (25, 39, 5, 13, 4, 9)


def test_tau_bench(output, tmp_path):
    db = tmp_path / "t.duckdb"
    file = corpus("real", "tau-bench", "gpt-4o-airline.36-runs.json.gz")
    totals = output("import", file, "--db", db, "--json")["totals"]
    assert (totals["runs"], totals["calls"]) == (36, 241)
    outcomes = "SELECT outcome, count(*) AS n FROM tool_calls GROUP BY 1 ORDER BY 1"
    assert output("query", outcomes, "--db", db, "--format", "json") == [
        {"outcome": "general_tool_error", "n": 24},
        {"outcome": "success", "n": 217},
    ]
    assert replayed(output, db, "--nudge", 3, "--block", 5)[0] == 0
    policy = tmp_path / "policy.toml"
    policy.write_text(f"version = 1\ncounted_outcomes = {COUNTED}\n")
    assert GuardPolicy.from_file(policy) != GuardPolicy()
    assert replayed(output, db, "--policy", policy)[:2] == (1, 1)
    # A re-used id names a different call each time: 15 of them, none lost.
    reused = """
        SELECT sum(n - 1)::INTEGER AS n FROM (
            SELECT count(*) AS n FROM tool_calls GROUP BY run_id, call_id)"""
    assert output("query", reused, "--db", db, "--format", "json") == [{"n": 15}]


def test_error_kinds_of_recorded_mcp_spans(output, tmp_path):
    kinds = """
        SELECT DISTINCT tool_name, outcome, error_kind FROM tool_calls
        WHERE outcome <> 'success' ORDER BY 1"""
    fastmcp = tmp_path / "fastmcp.duckdb"
    output("import", corpus("dialects", "mcp_fastmcp.jsonl"), "--db", fastmcp, "--json")
    assert output("query", kinds, "--db", fastmcp, "--format", "json") == [
        {"tool_name": "fetch_url", "outcome": "general_tool_error", "error_kind": "not_found"},
        {"tool_name": "no_such_tool", "outcome": "general_tool_error", "error_kind": "not_found"},
        {"tool_name": "search_docs", "outcome": "schema_error", "error_kind": "validation"},
    ]
    sdk = tmp_path / "sdk.duckdb"
    output("import", corpus("dialects", "mcp_sdk.jsonl"), "--db", sdk, "--json")
    rows = output("query", kinds, "--db", sdk, "--format", "json")
    assert {(row["outcome"], row["error_kind"]) for row in rows} == {("general_tool_error", "unknown")}
    errors = output("errors", "--db", sdk, "--format", "json")
    assert all(group["text"] is None for group in errors["groups"])
    coverage = errors["coverage"]
    assert coverage["calls_without_result"] == coverage["calls"] == 6
