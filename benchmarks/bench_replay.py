"""How long replay's questions take on a big store, against the plain fold and a naive query per threshold.

    python benchmarks/bench_replay.py                     1 M calls
    python benchmarks/bench_replay.py --big               1 M calls, then 10 M: the table of docs/replay.md
    python benchmarks/bench_replay.py --calls 50000 --keep small.duckdb

The stores are those of big_store.py, each measured in a process of its own (10 M calls: 5 GB of disk, 5 GB of
memory). --keep names a file per size: a store that is there is measured as it is, another one is made there
and left; 5,000 calls are added to it each time. Times are CPU time of all threads, beside them the time that
passed on this machine; of questions that a page asks again and again it is the fastest of several runs.
Ratios are of CPU time: (1) the plain fold, every call fetched and given to the guard, once for each rule or
policy that is asked about; (2) a naive query, once for each pair of thresholds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
from _memory import peak_memory
from big_store import RUN, add_calls

from loopscope import replay
from loopscope.guard import DuplicateCallGuard, GuardPolicy, ToolPolicy
from loopscope.replay import _facts
from loopscope.replay.rules import RULES, compare_rules

_FOLDED = 1_000_000  # calls that the plain fold goes over; the rest is more of the same
_NEW = 1_000  # calls of a fold, for the refresh
_FILE_MEMORY = "1 GiB"  # for blocks of the file; a store may take up to 4
_SMALL, _BIG = 1_000_000, 10_000_000


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
    """Fetch the rows of the first `calls` calls and run the guard over each run; how many were not let be."""
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


class Table:
    """Rows as they are measured."""

    def __init__(self, calls: int, fold: Took, naive: Took) -> None:
        self.calls, self.fold, self.naive = calls, fold, naive
        print(f"{'':<58}{'CPU ms':>9}{'wall ms':>9}{'(1)':>11}{'(2)':>11}{'peak MB':>9}")

    def line(self, name: str, took: Took, folds: int = 0, queries: int = 0, *, rate: bool = False) -> None:
        """One row. `folds`, `queries`: how many of the baselines would have to be run for the same."""
        ratios = [
            f"{times * baseline.cpu / took.cpu:,.1f} ×" if times else ""
            for times, baseline in ((folds, self.fold), (queries, self.naive))
        ]
        times = f"{took.cpu * 1e3:>9,.0f}{took.passed * 1e3:>9,.0f}"
        print(f"{name:<58}{times}{ratios[0]:>11}{ratios[1]:>11}{peak_memory() / 1e6:>9,.0f}", flush=True)
        if rate:
            print(
                f"    {self.calls / took.cpu / 1e6:,.1f} M calls/s of CPU, "
                f"{self.calls / took.passed / 1e6:,.1f} M calls/s that passed"
            )


def report(con: duckdb.DuckDBPyConnection) -> None:
    """Ask everything and print a table."""
    calls = con.execute("SELECT count(*) FROM tool_call_rows").fetchall()[0][0]
    policy = GuardPolicy()
    nudges, blocks = range(2, 10), range(3, 15)
    cells = sum(nudge < block for nudge in nudges for block in blocks)
    print(
        f"\n{calls:,} calls, {calls // RUN:,} runs; memory before any question {peak_memory() / 1e6:,.0f} MB"
    )

    folded = min(calls, _FOLDED)
    fold = measure(lambda: plain_fold(con, policy, folded), 1)
    fold = Took(fold.cpu * calls / folded, fold.passed * calls / folded)
    query = Path(__file__).with_name("naive_replay.sql").read_text(encoding="utf-8")
    naive = measure(lambda: con.execute(query, {"nudge": 3, "block": 5}).fetchall(), 1)
    table = Table(calls, fold, naive)
    table.line(f"(1) the plain fold, by {folded:,} calls, fetching included", fold)
    table.line("(2) a naive query, one pair of thresholds", naive)

    _facts.forget()
    table.line("read the facts of all calls, once", measure(lambda: _facts.facts_of(con), 1))
    table.line("recount of all streaks", measure(lambda: recount(con, policy)), 1, 1, rate=True)
    replay.totals(con, policy)
    thresholds = count(2)

    def moved() -> None:
        nudge = next(thresholds)
        replay.totals(con, GuardPolicy(nudge, nudge + 2))

    table.line("threshold change: totals and exact part", measure(moved, 5), 1, 1)
    apart = GuardPolicy(tools={"tool1": ToolPolicy(2, 9), "tool2": ToolPolicy(exempt=True)})
    table.line("... with a tool's own and an exemption", measure(lambda: replay.totals(con, apart)), 1, 1)
    took = measure(lambda: replay.sweep(con, policy, nudges, blocks))
    table.line(f"sweep 8 x 12 (its {cells} pairs)", took, cells, cells)

    replay.impact(con, GuardPolicy(4, 6), examples=0)  # what a page asks once: runs, coverage
    impact = measure(lambda: replay.impact(con, policy, examples=0), 1)
    table.line("impact by tool, agent, model, outcome and kind of error", impact)
    compared = measure(lambda: replay.compare_policies(con, policy, GuardPolicy(3, 6), examples=0), 1)
    table.line("compare two policies, the impact of one known", compared)
    drafts = [GuardPolicy(2, 4), GuardPolicy(4, 7), GuardPolicy(3, 6)]
    both = measure(lambda: replay.verdict_changes(con, policy, drafts[0]), 1)
    table.line("the calls that two policies judge differently", both)
    one = min(
        measure(lambda draft=draft: replay.verdict_changes(con, policy, draft), 1) for draft in drafts[1:]
    )
    table.line("... one of them known, as behind a slider", one)
    table.line("all incidents, once", measure(lambda: replay.find_incidents(con), 1))

    new: list[Took] = []
    later: list[Took] = []
    for index in range(5):
        add_calls(con, calls + index * _NEW, _NEW)
        new.append(measure(lambda: _facts.facts_of(con).counted(con, policy), 1))
        later.append(measure(lambda: replay.totals(con, policy), 1))
    table.line(f"facts and streaks after {_NEW:,} new calls", min(new), 1, 1)
    table.line("... then totals", min(later), 1, 1)
    rules = measure(lambda: compare_rules(con, policy), 1)
    table.line(f"all {len(RULES)} rules side by side", rules, len(RULES))
    table.line("suggestions", measure(lambda: replay.suggestion_report(con, policy), 1))


def recount(con: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> None:
    """Count again what is kept otherwise."""
    facts = _facts.facts_of(con)
    facts.forget_counts()
    facts.counted(con, policy)


def main() -> None:
    """Make the stores, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, nargs="+", default=[_SMALL], help="multiples of 1,000")
    both = [_SMALL, _BIG]
    parser.add_argument("--big", action="store_const", dest="calls", const=both, help="1 M calls, then 10 M")
    parser.add_argument(
        "--keep", type=Path, nargs="+", default=[], help="a file per size, made if it is not there"
    )
    options = parser.parse_args()
    if options.keep and len(options.keep) != len(options.calls):
        parser.error(f"--keep wants a file per size: {len(options.calls)}")
    if len(options.calls) > 1:  # a process each, for the memory
        for place, calls in enumerate(options.calls):
            kept = ["--keep", str(options.keep[place])] if options.keep else []
            subprocess.run([sys.executable, __file__, "--calls", str(calls), *kept], check=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep[0] if options.keep else Path(folder) / "bench.duckdb"
        if not path.exists():
            # In a process of its own: what it takes is not what replay does.
            maker = Path(__file__).with_name("big_store.py")
            subprocess.run([sys.executable, maker, path, "--calls", str(options.calls[0])], check=True)
        con = duckdb.connect(str(path), config={"memory_limit": _FILE_MEMORY})
        report(con)
        con.close()


if __name__ == "__main__":
    main()
