"""How long suggestions take on a big store in which every kind of them is to be found.

    python benchmarks/bench_suggestions.py [--calls 1000000]

Runs are copies of a few stories (a build after edits, a job that is waited for, a search that never ends,
arguments and results with noise in them, errors that come back) with names and values of their own. Seconds
are those of the processor, over all threads; the first question on the store, for which every call is read,
stands apart.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import duckdb
from _memory import peak_memory

from loopscope.collector import Store
from loopscope.collector._schema import create_schema
from loopscope.guard import GuardPolicy
from loopscope.replay import suggestion_report, totals

_OK, _FAILED = "success", "general_tool_error"
_Call = tuple[str, str, str, str]  # tool, arguments, result, outcome


def stories() -> list[list[_Call]]:
    """Runs as calls; `<n>` is another number in each copy."""
    coding: list[_Call] = []
    for step in range(4):
        coding.append(("edit_file", json.dumps({"step": step}), f"edited {step}", _OK))
        coding.append(("run_build", "{}", "failed" if step < 3 else "passed", _OK))
    waiting = [("get_job", '{"id": <n>}', "running" if step < 5 else "done", _OK) for step in range(6)]
    endless = [("search", '{"q": "refund <n>"}', "no hits", _OK)] * 7
    nonce = [
        ("shell", json.dumps({"command": "ls", "nonce": f"<n>-{step}"}), "a b c", _OK) for step in range(4)
    ]
    nonce.append(("shell", '{"command": "pwd", "nonce": "<n>-9"}', "/home", _OK))
    timed = [("check", "{}", f"Checked <n> files in {step + 17}ms.", _OK) for step in range(4)]
    probed = [
        ("probe", "{}", json.dumps({"state": "cold <n>", "elapsed_ms": step}), _OK) for step in range(4)
    ]
    lasting = [("run_sql", '{"q": <n>}', 'relation "orders" does not exist', _FAILED)] * 4
    passing = [("fetch", '{"n": <n>}', result, _OK) for result in ("Error: busy", "Error: busy", "page <n>")]
    passing += [("fetch", json.dumps({"n": f"<n>-{step}"}), f"page {step}", _OK) for step in range(3)]
    work = [("read_file", json.dumps({"path": f"<n>/{step}"}), f"text <n> {step}", _OK) for step in range(9)]
    return [coding, waiting, endless, nonce, timed, probed, lasting, passing, work, work]


_CALLS = """
INSERT INTO tool_call_rows (
    trace_id, span_id, position, run_id, run_source, service_name, agent_name, seq, turn, tool_name,
    arguments, result, outcome, error_kind, start_ns, end_ns,
    fingerprint, fingerprint_version, result_hash, scope_key, content_state, dialect
)
SELECT
    printf('%016x%016x', story, copy), printf('%016x', seq), 0, printf('%04d/%x', story, copy), 'agent_span',
    'service' || copy % 5, 'agent' || story, seq, seq, tool,
    arguments, result, outcome, CASE WHEN outcome = 'general_tool_error' THEN 'tool_failure' END,
    start_ns, start_ns + 500000,
    (hash(tool, arguments) >> 1)::BIGINT, 1, (hash(result) >> 1)::BIGINT,
    (hash(story, copy, tool, arguments) >> 1)::BIGINT, 'full', 'otel_genai'
FROM (
    SELECT
        story, copy, seq, tool, outcome,
        replace(arguments, '<n>', copy::VARCHAR) AS arguments,
        replace(result, '<n>', copy::VARCHAR) AS result,
        1760000000000000000 + copy * 1000000000 + seq * 1000000 AS start_ns
    FROM told, range($copies) AS copies(copy)
)
"""


def make(path: Path, calls: int) -> None:
    """A store with about so many calls."""
    told = [(story, seq, *call) for story, run in enumerate(stories()) for seq, call in enumerate(run, 1)]
    con = duckdb.connect(str(path))
    create_schema(con)
    con.execute(
        "CREATE TEMP TABLE told ("
        "story INTEGER, seq INTEGER, tool VARCHAR, arguments VARCHAR, result VARCHAR, outcome VARCHAR)"
    )
    con.executemany("INSERT INTO told VALUES (?, ?, ?, ?, ?, ?)", told)
    con.execute(_CALLS, {"copies": calls // len(told)})
    con.close()


def main() -> None:
    """Make a store, ask, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "suggestions.duckdb"
        make(path, calls)
        with Store(path).lease() as con:
            begun = time.process_time()
            whole, _ = totals(con, GuardPolicy())
            first = time.process_time() - begun
            begun, wall = time.process_time(), time.perf_counter()
            report = suggestion_report(con, GuardPolicy())
            took, wall = time.process_time() - begun, time.perf_counter() - wall
    peak = peak_memory() / 1e6
    print(f"{whole.calls:,} calls in {whole.runs:,} runs; the first totals: {first:.1f} s of the processor")
    print(
        f"suggestions: {took:.1f} s of the processor, {wall:.1f} s by the clock; peak memory {peak:,.0f} MB"
    )
    for one in report.suggestions:
        print(f"  {one.kind:10}  {one.title}" + (f" ({one.covers})" if one.covers else ""))
    for note in report.notes:
        print(f"  {note}")


if __name__ == "__main__":
    main()
