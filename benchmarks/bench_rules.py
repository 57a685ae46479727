"""How long all rules side by side take on a big store, beside the plain fold of our own guard.

    python benchmarks/bench_rules.py [--calls 1000000] [--keep FILE]

Seconds are CPU time of the process. The plain fold fetches every call and runs the guard over each run. Peak
memory is that of the process, with the store's facts in it, which the fold has no use for.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from _memory import peak_memory
from bench_replay import plain_fold
from big_store import make_store

from loopscope.guard import GuardPolicy
from loopscope.replay import totals
from loopscope.replay._facts import facts_of
from loopscope.replay.rules import RULES, compare_rules
from loopscope.replay.rules._stream import runs_to_see


def main() -> None:
    """Make the store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, help="make the store here and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "bench.duckdb"
        if not path.exists():
            make_store(path, options.calls, requests=False)
        con = duckdb.connect(str(path), read_only=True)
        report(con)
        con.close()


def report(con: duckdb.DuckDBPyConnection) -> None:
    """Ask everything and print a table."""
    policy = GuardPolicy()
    calls = con.execute("SELECT count(*) FROM tool_call_rows").fetchall()[0][0]
    totals(con, policy)
    loaded = peak_memory() / 1e6
    every = cpu(lambda: compare_rules(con, policy))
    used = peak_memory() / 1e6
    fold = cpu(lambda: plain_fold(con, policy, calls))
    print(f"{calls:,} calls; the plain fold of our guard: {fold:.2f} s of CPU, {calls / fold:,.0f} calls/s\n")
    print(f"{'question':<40}{'s':>8}{'  times the plain fold':>24}{'  runs read':>12}")
    print(f"{'all ' + str(len(RULES)) + ' rules side by side':<40}{every:>8.2f}{every / fold:>24.2f}")
    rules = {name: info.rule() for name, info in RULES.items() if name != "ours"}
    seen = runs_to_see(facts_of(con), list(rules.values()))
    for place, name in enumerate(rules):
        took = cpu(lambda name=name: compare_rules(con, policy, [name]))
        runs = sum(place in places for places in seen.values())
        print(f"  {name:<38}{took:>8.2f}{took / fold:>24.2f}{runs:>12,}")
    print(f"\npeak memory: {used:,.0f} MB, of it {loaded:,.0f} MB before any rule was run")


def cpu(question: Callable[[], Any]) -> float:
    """Seconds of CPU that the question takes."""
    start = time.process_time()
    question()
    return time.process_time() - start


if __name__ == "__main__":
    main()
