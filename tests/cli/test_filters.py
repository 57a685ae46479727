"""Options that choose recorded calls: they mean the same to every command that has them."""

from __future__ import annotations

import csv
import io
import json

import pytest

from loopscope.collector import Store
from loopscope.guard import GuardPolicy
from loopscope.replay import Filters, find_incidents, totals

OF_CALLS = {
    "replay": lambda found: found["totals"]["calls"],
    "sweep": lambda found: found["rows"][0]["calls"],
    "errors": lambda found: found["calls"],
    "suggest": lambda found: found["calls"],
    "rules": lambda found: found["rules"][0]["calls"],
}
EXTRA = {"rules": ("--rule", "ours"), "suggest": ("--guarded",)}


@pytest.fixture(scope="module")
def busiest(samples_db):
    """The agent of the worst incident, the tool that it repeats, and its run."""
    with Store(samples_db, create=False).lease() as con:
        return next(one for one in find_incidents(con) if one.agent_name)


def ask(run, samples_db, command, *options):
    done = run(command, "--db", samples_db, "--format", "json", *EXTRA.get(command, ()), *options)
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("command", OF_CALLS)
def test_every_command_counts_the_calls_that_the_options_leave(run, samples_db, busiest, command):
    for options, filters in (
        (("--agent", busiest.agent_name), Filters(agents=(busiest.agent_name,))),
        (("--tool", busiest.tool_name), Filters(tools=(busiest.tool_name,))),
        (("--run", busiest.run_id), Filters(run_ids=(busiest.run_id,))),
        (("--until", "1971-01-01"), Filters(until=365 * 86_400 * 10**9)),
    ):
        with Store(samples_db, create=False).lease() as con:
            expected = totals(con, GuardPolicy(), filters)[0].calls
            everything = totals(con, GuardPolicy())[0].calls
        assert expected < everything
        assert OF_CALLS[command](ask(run, samples_db, command, *options)) == expected


def test_incidents_of_an_agent(run, samples_db, busiest):
    found = ask(run, samples_db, "incidents", "--agent", busiest.agent_name)["incidents"]
    assert {one["agent_name"] for one in found} == {busiest.agent_name}
    assert busiest.key in {one["key"] for one in found}
    nobody = run("incidents", "--db", samples_db, "--agent", "nobody")
    assert nobody.out == "No incidents that these options leave.\n"


def test_weak_labels_of_a_run(run, samples_db, busiest):
    everything = ask(run, samples_db, "labels", "--weak")["weak_labels"]
    runs = {one["run_id"] for one in everything}
    assert len(runs) > 1
    chosen = sorted(runs)[0]
    only = ask(run, samples_db, "labels", "--weak", "--run", chosen)["weak_labels"]
    assert only == [one for one in everything if one["run_id"] == chosen]


def test_scores_of_a_run(run, samples_db, busiest):
    def lines(*options):
        done = run("score", "--db", samples_db, "--weak", "--format", "csv", *options)
        assert done.code == 0, done.err
        return max(int(row["n"]) for row in csv.DictReader(io.StringIO(done.out)))

    assert 0 == lines("--until", "1971-01-01") < lines()


def test_an_age_that_is_none_is_refused(run, samples_db):
    done = run("replay", "--db", samples_db, "--since", "soon")
    assert done.code == 2
    assert "--since" in done.err
    assert done.err.count("\n") == 1
