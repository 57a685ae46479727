"""The commands that read the store: their figures agree with each other, their errors are one line."""

from __future__ import annotations

import csv
import io
import json

import pytest


def test_replay_json_has_the_documented_fields(run, samples_db):
    result = json.loads(run("replay", "--db", samples_db, "--format", "json").out)
    assert result["schema_version"] == 1
    assert set(result) >= {
        "policy",
        "coverage",
        "totals",
        "by_tool",
        "by_outcome",
        "by_error_kind",
        "incidents",
    }
    totals = result["totals"]
    assert totals["calls_after_block"] == (
        totals["calls_avoidable"] + totals["calls_lost"] + totals["calls_unjudged"]
    )
    assert set(totals["exact"]) == set(totals) - {"exact"}
    assert all(totals["exact"][key] <= totals[key] for key in totals["exact"])
    assert totals["runs_nudged"] >= totals["runs_blocked"] > 0


def test_parts_of_a_total_stand_indented_below_it(run, samples_db):
    lines = run("replay", "--db", samples_db).out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("calls after a block"))
    assert [line[:3] for line in lines[at + 1 : at + 4]] == ["  a", "  l", "  u"]


def test_thresholds_on_the_command_line_change_the_totals(run, samples_db):
    def totals(*args):
        return json.loads(run("replay", "--db", samples_db, "--format", "json", *args).out)["totals"]

    low, high = totals("--nudge", 2, "--block", 3), totals("--nudge", "off", "--block", 50)
    assert low["calls_nudged"] + low["calls_after_block"] > high["calls_nudged"] + high["calls_after_block"]
    assert high["calls_nudged"] == 0


def test_sweep_agrees_with_replay_and_leaves_out_impossible_pairs(run, samples_db):
    rows = json.loads(
        run("sweep", "--db", samples_db, "--nudge", "2:4", "--block", "3:6", "--format", "json").out
    )["rows"]
    assert all(row["nudge"] < row["block"] for row in rows)
    assert len(rows) == 4 + 3 + 2
    one = next(row for row in rows if (row["nudge"], row["block"]) == (3, 5))
    totals = json.loads(
        run("replay", "--db", samples_db, "--nudge", 3, "--block", 5, "--format", "json").out
    )["totals"]
    assert {key: one[key] for key in totals if key != "exact"} == {
        k: v for k, v in totals.items() if k != "exact"
    }


def test_incidents_do_not_depend_on_thresholds(run, samples_db):
    def keys(*args):
        out = run("incidents", "--db", samples_db, "--format", "json", *args).out
        return [row["key"] for row in json.loads(out)["incidents"]]

    assert keys() == keys("--nudge", 7, "--block", 9)
    assert len(set(keys())) == len(keys()) > 3


def test_incidents_name_the_service_where_there_is_room(run, samples_db, monkeypatch):
    services = {one["service_name"] for one in incidents_of(run, samples_db)}
    wide = run("incidents", "--db", samples_db).out
    assert "service" in wide.splitlines()[0]
    assert all(service in wide for service in services)
    monkeypatch.setenv("COLUMNS", "100")
    assert "service" not in run("incidents", "--db", samples_db).out.splitlines()[0]


def incidents_of(run, db):
    return json.loads(run("incidents", "--db", db, "--format", "json").out)["incidents"]


def test_csv_has_one_line_for_each_incident(run, samples_db):
    rows = list(csv.DictReader(io.StringIO(run("incidents", "--db", samples_db, "--format", "csv").out)))
    found = json.loads(run("incidents", "--db", samples_db, "--format", "json").out)["incidents"]
    assert [row["key"] for row in rows] == [one["key"] for one in found]


def test_errors_sum_up(run, samples_db):
    result = json.loads(run("errors", "--db", samples_db, "--format", "json").out)
    assert result["failed"] == sum(cell["calls"] for cell in result["by_tool"]) > 0
    assert {cell["outcome"] for cell in result["by_tool"]} == {"schema_error", "general_tool_error"}


@pytest.mark.parametrize("ending", ["md", "html", "json", "csv"])
def test_report_of_one_incident(run, samples_db, tmp_path, ending):
    worst = json.loads(run("incidents", "--db", samples_db, "--format", "json").out)["incidents"][0]
    key = worst["key"]
    file = tmp_path / f"report.{ending}"
    ran = run("report", "--db", samples_db, "--incident", key[:10], "-o", file)
    assert ran.code == 0, ran.err
    text = file.read_text()
    if ending == "csv":  # a table of the calls: nothing but calls
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["number"] for row in rows if row["number"]] == [str(n + 1) for n in range(worst["calls"])]
        return
    assert key[:10] in text
    if ending == "json":
        assert json.loads(text)["schema_version"] == 1


def test_query_is_read_only(run, samples_db):
    ran = run("query", "DELETE FROM labels", "--db", samples_db)
    assert ran.code == 2
    assert "read-only" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_query_says_when_it_cuts(run, samples_db):
    ran = run("query", "SELECT * FROM range(10)", "--db", samples_db, "--limit", 3, "--format", "json")
    assert len(json.loads(ran.out)) == 3
    assert "first 3 rows" in ran.err
    ran = run("query", "SELECT 1 AS a, 2 AS a", "--db", samples_db, "--format", "json")
    assert json.loads(ran.out) == [{"a": 1, "a_2": 2}]


def test_doctor_says_what_is_there(run, samples_db):
    ran = run("doctor", "--db", samples_db)
    assert ran.code == 0
    assert "schema" in ran.out
    facts = json.loads(run("doctor", "--db", samples_db, "--json").out)
    assert facts["schema_version"] >= 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["replay", "--nudge", "5", "--block", "5"], "nudge"),
        (["replay", "--nudge", "none at all"], "whole number"),
        (["replay", "--nudge", "0"], "nudge"),
        (["replay", "--policy", "absent.toml"], "absent.toml"),
        (["sweep", "--nudge", "4:2"], "first:last"),
        (["sweep", "--nudge", "2:100000"], "9999"),
        (["sweep", "--nudge", "2:9999"], "99,980 pairs"),
        (["incidents", "--kind", "lop"], "retry_storm"),
        (["report", "--incident", "zzzzzzzz"], "zzzzzzzz"),
        (["report", "-o", "report.pdf"], "report.pdf"),
        (["query", "SELECT nonsense"], "nonsense"),
        (["replay", "--bogus"], "--bogus"),
        (["nonsense"], "nonsense"),
        (["query"], "sql"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(run, samples_db, args, says):
    db = [] if args[0] == "nonsense" else ["--db", samples_db]
    ran = run(*args, *db)
    assert ran.code == 2
    assert len(ran.err.strip().splitlines()) == 1
    assert says.lower() in ran.err.lower()


def test_no_database_yet(run, tmp_path):
    for command in ("replay", "incidents", "errors", "doctor", "report"):
        ran = run(command, "--db", tmp_path / "none.duckdb")
        assert ran.code == 2
        assert len(ran.err.strip().splitlines()) == 1
        assert "none.duckdb" in ran.err
        assert not (tmp_path / "none.duckdb").exists()


def test_newer_and_foreign_databases_are_refused_untouched(run, tmp_path):
    import duckdb

    newer = tmp_path / "newer.duckdb"
    (tmp_path / "chat.json").write_text(
        '[{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]'
    )
    assert run("import", tmp_path / "chat.json", "--db", newer).code == 0
    with duckdb.connect(str(newer)) as connection:
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")
        connection.execute("CHECKPOINT")
    foreign = tmp_path / "foreign.duckdb"
    with duckdb.connect(str(foreign)) as connection:
        connection.execute("CREATE TABLE mine (a INTEGER)")
    text = tmp_path / "text.duckdb"
    text.write_text("not a database at all " * 200)
    for db in (newer, foreign, text):
        before = db.read_bytes()
        for command in (["replay"], ["import", tmp_path / "chat.json"]):
            ran = run(*command, "--db", db)
            assert ran.code == 2, (db.name, command, ran.out)
            assert len(ran.err.strip().splitlines()) == 1, ran.err
            assert db.name in ran.err
        assert db.read_bytes() == before, db.name


def test_help_and_version_in_a_process_of_its_own(shell):
    assert shell("--version").out.startswith("loopscope ")
    ran = shell("--help")
    assert ran.code == 0
    for command in ("demo", "serve", "import", "replay", "incidents", "errors", "report", "query", "doctor"):
        assert command in ran.out
    bare = shell()
    assert bare.code == 0
    assert bare.out.startswith("Usage")
    assert bare.err == ""
    assert shell("-h").out == ran.out


def test_a_closed_pipe_is_no_error(shell, samples_db):
    import subprocess
    import sys

    query = "query 'SELECT * FROM range(100000)' --limit 0 --format csv"
    done = subprocess.run(
        f"{sys.executable} -m loopscope.cli {query} --db {samples_db} | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "range\n"
    assert done.stderr == ""


def test_the_saved_policy_is_in_force_unless_another_is_named(run, samples_db, tmp_path, monkeypatch):
    def blocked(*args):
        ran = run("replay", "--db", samples_db, "--format", "json", *args)
        return json.loads(ran.out)["policy"]["block_threshold"], ran.err

    saved, other = tmp_path / "saved.toml", tmp_path / "other.toml"
    saved.write_text("version = 1\nblock_threshold = 9\n")
    other.write_text("version = 1\nblock_threshold = 7\n")
    assert blocked()[0] == 5
    monkeypatch.setenv("LOOPSCOPE_POLICY", str(saved))
    assert blocked()[0] == 9
    assert "saved.toml" in blocked()[1]
    assert blocked("--block", 6)[0] == 6
    assert blocked("--policy", other)[0] == 7


def test_where_the_saved_policy_lies(tmp_path, monkeypatch):
    from loopscope.cli._options import saved_policy

    monkeypatch.delenv("LOOPSCOPE_POLICY", raising=False)
    assert saved_policy(tmp_path / "demo.duckdb") == tmp_path / "demo.policy.toml"


def test_a_taken_port_is_seen():
    import socket

    from loopscope.cli._serve import free

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not free("127.0.0.1", port)
    assert free("127.0.0.1", 0)


def test_policy_init_show_and_diff(run, tmp_path):
    file, other = tmp_path / "policy.toml", tmp_path / "other.toml"
    assert run("policy", "init", file).code == 0
    assert "default policy" in run("policy", "show", file).out
    again = run("policy", "init", file)
    assert again.code == 2
    assert "--force" in again.err
    other.write_text(file.read_text().replace("nudge_threshold = 3", "nudge_threshold = 4"))
    assert "say the same" in run("policy", "diff", file, file).out
    changes = run("policy", "diff", file, other).out
    assert "3" in changes
    assert "4" in changes
    other.write_text("version = 1\nnudge_treshold = 4\n")
    wrong = run("policy", "show", other)
    assert wrong.code == 2
    assert "nudge_threshold" in wrong.err
    assert len(wrong.err.strip().splitlines()) == 1


def test_the_one_other_database_of_the_folder_is_named(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "there is" not in run("replay").err
    (tmp_path / "demo.duckdb").touch()
    missing = run("replay")
    assert missing.code == 2
    assert missing.err.endswith("there is demo.duckdb here: --db demo.duckdb\n")
    assert "there is" not in run("replay", "--db", "named.duckdb").err
    (tmp_path / "other.duckdb").touch()
    assert "there is" not in run("replay").err


def test_a_cycle_is_named_by_all_its_tools(run, samples_db):
    assert "read_file → run_tests" in run("incidents", "--db", samples_db).out
