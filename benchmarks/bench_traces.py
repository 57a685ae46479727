"""How long the page of whole runs takes, beside loading a run whole.

    python benchmarks/bench_traces.py [--calls 1000000] [--spans 45000] [--keep FILE]

A store of so many calls (big_store.py) with one run of so many spans in it (big_run.py). Each question is
asked
three times, and the least CPU time counts, DuckDB's threads included. The list is asked of all runs; the
rest of
the long run. The baseline reads every span, call and request of that run with its texts, as a page would
that sent the
browser all of it; what that page would send is given in MB.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from big_run import RUN, TRACE, add_run
from big_store import make_store

from loopscope.dashboard import _waterfall
from loopscope.guard import GuardPolicy
from loopscope.replay.traces import (
    RunSort,
    list_runs,
    run_calls,
    run_head,
    run_messages,
    span_detail,
    span_tree,
)

POLICY = GuardPolicy()
LIMIT = 0.3  # s of CPU


def cpu(ask: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """The least CPU time of some tries, and the last answer."""
    least, answer = float("inf"), None
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_SELF)
        answer = ask()
        after = resource.getrusage(resource.RUSAGE_SELF)
        least = min(least, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return least, answer


def whole(con: duckdb.DuckDBPyConnection) -> int:
    """Load the run whole; characters of its texts."""
    spans = con.execute("SELECT * FROM spans WHERE trace_id = ?", [TRACE]).fetchall()
    calls = con.execute("SELECT * FROM tool_calls WHERE trace_id = ?", [TRACE]).fetchall()
    requests = con.execute(
        "SELECT * EXCLUDE (input_messages) FROM llm_requests WHERE trace_id = ?", [TRACE]
    ).fetchall()
    return sum(len(json.dumps(row, default=str)) for rows in (spans, calls, requests) for row in rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--spans", type=int, default=45_000)
    parser.add_argument("--keep", type=Path, help="use this store; made where there is none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "runs.duckdb"
        if not path.exists():
            make_store(path, options.calls)
            con = duckdb.connect(str(path))
            add_run(con, options.spans)
            con.execute("CHECKPOINT")
            con.close()
        con = duckdb.connect(str(path))
        measure(con)
        con.close()


def measure(con: duckdb.DuckDBPyConnection) -> None:
    """Ask what the page asks."""
    start = time.perf_counter()
    list_runs(con, POLICY)  # reads the calls into memory, which every page needs once
    print(f"first look at the store: {time.perf_counter() - start:.1f} s")
    baseline, chars = cpu(lambda: whole(con), 1)
    print(f"the run whole: {baseline:.2f} s CPU, {chars / 1e6:.0f} MB of JSON")
    tree = span_tree(con, RUN, POLICY)
    requests = run_messages(con, RUN, POLICY, limit=1).total
    group = next(row for row in tree.window().rows if row.members > 1)
    call = next(row for row in tree.find(kinds=("call",)).rows)
    asked: dict[str, Callable[[], Any]] = {
        **{f"list of runs, {sort}": _list(con, sort) for sort in (RunSort.NEWEST, RunSort.REPEATS)},
        "list of runs, by the beginning of an id": lambda: list_runs(con, POLICY, search=RUN[:20]),
        "head of the run": lambda: run_head(con, RUN, POLICY),
        "tree of its spans, once for a state of the store": lambda: span_tree(con, RUN, POLICY),
        "first lines": tree.window,
        f"a line of {group.members:,} opened": lambda: tree.window({group.key}),
        "not folded, last page": lambda: tree.window(fold=False, offset=tree.total),
        "a tenth of its time": lambda: tree.window(
            since=tree.first_ns, until=tree.first_ns + (tree.last_ns - tree.first_ns) // 10
        ),
        "found by name": lambda: tree.find("tool3"),
        "picture over time": lambda: tree.density(120),
        "messages, last page": lambda: run_messages(con, RUN, POLICY, offset=requests // 20 * 20 - 20),
        "calls, a page in the middle": lambda: run_calls(con, RUN, POLICY, offset=requests // 2),
        "one span": lambda: span_detail(con, str(call.trace_id), str(call.span_id)),
    }
    print(f"\n{'question':<52} {'CPU':>8}   of the run whole")
    slow = []
    for name, ask in asked.items():
        took, _ = cpu(ask)
        print(f"{name:<52} {took * 1000:5.0f} ms   1/{baseline / max(took, 1e-4):.0f}")
        if took > LIMIT:
            slow.append(name)
    shown = _waterfall.frame(tree.window({group.key}))
    sent = sum(len(str(value)) for column in shown for value in shown[column])
    print(f"\na page of {len(shown):,} lines with bars: {sent / 1e3:.0f} kB")
    print(f"over {LIMIT * 1000:.0f} ms: {', '.join(slow) or 'none'}")


def _list(con: duckdb.DuckDBPyConnection, sort: RunSort) -> Callable[[], Any]:
    return lambda: list_runs(con, POLICY, sort=sort)


if __name__ == "__main__":
    main()
