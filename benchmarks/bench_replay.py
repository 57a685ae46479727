"""How long replay's questions take on a big store, against the plain fold and a naive query per threshold.

    python benchmarks/bench_replay.py [--calls 1000000 | --big] [--keep FILE]

The store is that of big_store.py; --big makes 10 M calls. Times are CPU time of all threads, beside them the
time that passed on this machine; each is that of the fastest of several runs. Ratios are of CPU time.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
from big_store import RUN, add_calls, make_store

from loopscope import replay
from loopscope.guard import DuplicateCallGuard, GuardPolicy, ToolPolicy
from loopscope.replay import _facts
from loopscope.replay.rules import RULES, compare_rules

_FOLDED = 1_000_000  # calls that the plain fold goes over; the rest is more of the same
_NEW = 1_000  # calls of a fold, for the refresh
_FILE_MEMORY = "1 GiB"  # for blocks of the file; a store may take up to 4


class Took(NamedTuple):
    """Seconds of one run."""

    cpu: float
    passed: float


def measure(question: Callable[[], Any], times: int = 3) -> Took:
    """The fastest of several runs."""
    found: list[Took] = []
    for _ in range(times):
        cpu, passed = time.process_time(), time.perf_counter()
        question()
        found.append(Took(time.process_time() - cpu, time.perf_counter() - passed))
    return min(found)


def plain_fold(con: duckdb.DuckDBPyConnection, policy: GuardPolicy, calls: int) -> int:
    """Fetch the rows of the first runs and run the guard over each run; calls nudged and blocked."""
    batches = con.sql(
        "SELECT run_id, tool_name, scope_key, result_hash, outcome FROM tool_call_rows "
        "WHERE start_ns <= (SELECT min(start_ns) FROM tool_call_rows) + $ns ORDER BY run_id, seq",
        params={"ns": calls * 50_000_000},
    ).to_arrow_reader(100_000)
    guard, last, spoken = DuplicateCallGuard(policy), None, 0
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        for run, tool, key, result, outcome in zip(*columns, strict=True):
            if run != last:
                guard, last = DuplicateCallGuard(policy), run
            spoken += guard.observe_hashed(tool, key, result, outcome)[0] in ("nudge", "block")
    return spoken


def peak() -> float:
    """The most memory that this process had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def report(con: duckdb.DuckDBPyConnection) -> None:
    """Ask everything and print a table."""
    calls = con.execute("SELECT count(*) FROM tool_call_rows").fetchall()[0][0]
    policy = GuardPolicy()
    nudges, blocks = range(2, 10), range(3, 15)
    cells = sum(nudge < block for nudge in nudges for block in blocks)

    folded = min(calls, _FOLDED)
    fold = measure(lambda: plain_fold(con, policy, folded), 1)
    fold = Took(fold.cpu * calls / folded, fold.passed * calls / folded)
    query = Path(__file__).with_name("naive_replay.sql").read_text(encoding="utf-8")
    naive = measure(lambda: con.execute(query, {"nudge": 3, "block": 5}).fetchall(), 1)
    print(f"{calls:,} calls, {calls // RUN:,} runs; memory before replay {peak():,.0f} MB")
    print(f"{'':<46}{'CPU ms':>9}{'wall ms':>9}{'baseline':>11}{'peak MB':>9}")

    def line(name: str, took: Took, baseline: float | None = None) -> None:
        ratio = "" if baseline is None else f"{baseline / took.cpu:,.1f} ×"
        print(
            f"{name:<46}{took.cpu * 1e3:>9,.0f}{took.passed * 1e3:>9,.0f}{ratio:>11}{peak():>9,.0f}",
            flush=True,
        )

    def recount() -> None:
        facts = _facts.facts_of(con)
        facts.forget_counts()
        facts.counted(con, policy)

    line(f"(1) the plain fold, by {folded:,} calls", fold)
    line("(2) a naive query, one pair of thresholds", naive)
    _facts.forget()
    line("read the facts of all calls, once", measure(lambda: _facts.facts_of(con), 1))
    took = measure(recount)
    line("recount of all streaks; against (1)", took, fold.cpu)
    print(f"{'':<4}{calls / took.cpu:,.0f} calls/s of CPU, {calls / took.passed:,.0f} calls/s that passed")
    replay.totals(con, policy)
    thresholds = count(2)

    def moved() -> None:
        nudge = next(thresholds)
        replay.totals(con, GuardPolicy(nudge, nudge + 2))

    line("threshold change: totals, exact part; (2)", measure(moved, 5), naive.cpu)
    apart = GuardPolicy(tools={"tool1": ToolPolicy(2, 9), "tool2": ToolPolicy(exempt=True)})
    line(
        "totals with a tool's own and an exemption; (2)",
        measure(lambda: replay.totals(con, apart)),
        naive.cpu,
    )
    took = measure(lambda: replay.sweep(con, policy, nudges, blocks))
    line(f"sweep 8 x 12 ({cells} pairs); (2) for each", took, naive.cpu * cells)
    replay.impact(con, GuardPolicy(4, 6), examples=0)  # what a page asks once: runs, coverage
    line("impact by tool, agent, model, outcome, kind", measure(lambda: figures(con, policy), 1))
    line("compare two policies, impact of one known", measure(lambda: compared(con), 1))
    line("verdicts that two policies differ in", measure(lambda: changes(con), 1))

    new: list[Took] = []
    later: list[Took] = []
    for index in range(5):
        add_calls(con, calls + index * _NEW, _NEW)
        memory = _facts.facts_of
        new.append(measure(lambda memory=memory: memory(con).counted(con, policy), 1))
        later.append(measure(lambda: replay.totals(con, policy), 1))
    line(f"facts, streaks after {_NEW:,} new calls; (1)", min(new), fold.cpu)
    line("then totals; (2)", min(later), naive.cpu)
    line(f"all {len(RULES)} rules side by side; (1) for each", rules_took(con), fold.cpu * len(RULES))
    line("all incidents, once", measure(lambda: replay.find_incidents(con), 1))


def figures(con: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> None:
    """What a slider asks."""
    replay.impact(con, policy, examples=0)


def rules_took(con: duckdb.DuckDBPyConnection) -> Took:
    """All policies side by side."""
    return measure(lambda: compare_rules(con, GuardPolicy()), 1)


def compared(con: duckdb.DuckDBPyConnection) -> None:
    """The policy just measured in comparison with another one."""
    replay.compare_policies(con, GuardPolicy(), GuardPolicy(3, 6), examples=0)


def changes(con: duckdb.DuckDBPyConnection) -> int:
    """How many calls two policies judge differently."""
    return replay.verdict_changes(con, GuardPolicy(3, 5), GuardPolicy(2, 4)).total


def main() -> None:
    """Make the store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=1_000_000, help="a multiple of 1,000")
    parser.add_argument("--big", action="store_const", dest="calls", const=10_000_000, help="10 M calls")
    parser.add_argument(
        "--keep", type=Path, help="make the store here and leave it; some calls are added to it"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "bench.duckdb"
        if not path.exists():
            make_store(path, options.calls)
        con = duckdb.connect(str(path), config={"memory_limit": _FILE_MEMORY})
        report(con)
        con.close()


if __name__ == "__main__":
    main()
