"""How long replay's questions take on a big store, beside the plain fold over the same calls.

    python benchmarks/bench_replay.py [--calls 1000000] [--repeats few|half] [--keep FILE]

Calls are made in SQL: runs of 25 calls; with `few` about one call in ten repeats an earlier one, with
`half` about half of them do (the worst case for windows). Times are the best of three on the cores at hand.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from loopscope import replay
from loopscope.collector._schema import create_schema
from loopscope.guard import DuplicateCallGuard, GuardPolicy, ToolPolicy
from loopscope.replay import _facts

# One call: its run, a number for its arguments and one for its result. Few: nine calls in ten have
# arguments of their own.
_ARGUMENTS = {
    "few": "CASE WHEN hash(i * 3) % 10 = 0 THEN hash(i * 5) % 2 ELSE 10 + i END",
    "half": "hash(i * 3) % 6",
}

_CALLS = """
INSERT INTO tool_call_rows (
    trace_id, span_id, position, run_id, run_source, service_name, agent_name, seq, turn, tool_name,
    arguments, result, outcome, error_kind, start_ns, end_ns,
    fingerprint, fingerprint_version, result_hash, scope_key, content_state, dialect
)
SELECT
    printf('%032x', run), printf('%016x', i), 0, printf('%032x/%016x', run, run), 'agent_span',
    'service' || run % 5, 'agent' || run % 7, 1 + i % 25, 1 + i % 25, 'tool' || args % 20,
    printf('{"q":%d}', args), 'result ' || answer,
    outcome, CASE outcome WHEN 'schema_error' THEN 'validation' WHEN 'general_tool_error' THEN 'timeout' END,
    1760000000000000000 + i * 1000000, 1760000000000500000 + i * 1000000,
    (hash(args) >> 1)::BIGINT, 1, (hash(answer) >> 1)::BIGINT, (hash(run, args) >> 1)::BIGINT, 'full',
    'otel_genai'
FROM (
    SELECT
        i, i // 25 AS run, <arguments> AS args, hash(i * 11) % 8 // 7 AS answer,
        CASE WHEN hash(i * 13) % 100 < 5 THEN 'general_tool_error'
             WHEN hash(i * 13) % 100 < 8 THEN 'schema_error' ELSE 'success' END AS outcome
    FROM range(<calls>) AS made(i)
) AS calls
"""

_REQUESTS = """
INSERT INTO llm_request_rows (
    trace_id, span_id, run_id, run_source, service_name, agent_name, turn, provider, model,
    input_tokens, output_tokens, status, http_status, content_state, start_ns, end_ns, dialect
)
SELECT
    trace_id, 'f' || span_id[2:], run_id, run_source, service_name, agent_name, turn, 'openai', 'model',
    1000, 50, CASE WHEN fingerprint % 500 = 0 THEN 'error' ELSE 'ok' END,
    CASE WHEN fingerprint % 500 = 0 THEN 400 END, 'missing', start_ns - 400000, start_ns - 1000, dialect
FROM tool_call_rows
"""


def make(path: Path, calls: int, repeats: str) -> None:
    """A store with so many calls, and one request for each."""
    con = duckdb.connect(str(path))
    create_schema(con)
    con.execute(_CALLS.replace("<arguments>", _ARGUMENTS[repeats]).replace("<calls>", str(calls)))
    con.execute(_REQUESTS)
    con.close()


def best(question: Callable[[], Any], times: int = 3) -> float:
    """Seconds of the fastest run."""
    took: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        question()
        took.append(time.perf_counter() - start)
    return min(took)


def plain_fold(con: duckdb.DuckDBPyConnection, policy: GuardPolicy) -> int:
    """The baseline: fetch the rows and run the guard over each run."""
    table = con.sql(
        "SELECT run_id, tool_name, scope_key, result_hash, outcome FROM tool_call_rows ORDER BY run_id, seq"
    ).to_arrow_table()
    columns = [table.column(name).to_pylist() for name in table.column_names]
    guard, last, spoken = DuplicateCallGuard(policy), None, 0
    for run, tool, key, result, outcome in zip(*columns, strict=True):
        if run != last:
            guard, last = DuplicateCallGuard(policy), run
        spoken += guard.observe_hashed(tool, key, result, outcome)[0] in ("nudge", "block")
    return spoken


def fresh(question: Callable[[], Any]) -> Callable[[], Any]:
    """The question with nothing kept from before."""

    def ask() -> None:
        _facts.forget()
        question()

    return ask


def main() -> None:
    """Make the store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--repeats", choices=sorted(_ARGUMENTS), default="few")
    parser.add_argument("--keep", type=Path, help="make the store here and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "bench.duckdb"
        if not path.exists():
            make(path, options.calls, options.repeats)
        con = duckdb.connect(str(path))
        report(con, options.repeats)
        con.close()


def report(con: duckdb.DuckDBPyConnection, repeats: str) -> None:
    """Ask everything and print a table."""
    calls = con.execute("SELECT count(*) FROM tool_call_rows").fetchall()[0][0]
    policy = GuardPolicy()
    apart = GuardPolicy(tools={"tool1": ToolPolicy(2, 9), "tool2": ToolPolicy(exempt=True)})
    errors = GuardPolicy(counted_outcomes=("success", "schema_error", "general_tool_error"))
    thresholds = iter(range(3, 100))

    def moved() -> None:
        nudge = next(thresholds)
        replay.totals(con, GuardPolicy(nudge, nudge + 2))

    fold = best(lambda: plain_fold(con, policy), 1)
    print(f"{calls:,} calls, repeats: {repeats}; the plain fold: {fold:.2f} s, {calls / fold:,.0f} calls/s\n")
    print(f"{'question':<52}{'ms':>8}{'  times the plain fold':>24}")
    questions: list[tuple[str, Callable[[], Any]]] = [
        ("load and count everything, then totals", fresh(lambda: replay.totals(con, policy))),
        ("totals after a moved threshold", moved),
        ("totals with per-tool thresholds and an exemption", lambda: replay.totals(con, apart)),
        ("sweep 8 x 12", lambda: replay.sweep(con, policy, range(1, 9), range(2, 14))),
        ("find incidents, nothing kept", fresh(lambda: replay.find_incidents(con, policy=policy))),
        ("find incidents again", lambda: replay.find_incidents(con, policy=policy)),
        ("replay: totals, parts, incidents", lambda: replay.replay(con, policy)),
        ("overview", lambda: replay.overview(con, policy)),
        ("error breakdown", lambda: replay.error_breakdown(con, policy=policy)),
        ("failed requests, first page", lambda: replay.failed_requests(con)),
        ("verdicts of one run", lambda: replay.call_verdicts(con, policy, f"{1:032x}/{1:016x}")),
        ("general errors counted too, first time", lambda: (_facts.forget(), replay.totals(con, errors))),
    ]
    for name, question in questions:
        took = best(question)
        print(f"{name:<52}{took * 1e3:>8.0f}{took / fold:>24.3f}")


if __name__ == "__main__":
    main()
