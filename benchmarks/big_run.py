"""One run as long as they get: an agent that asks a model and calls tools for hours, with agents inside it.

    python benchmarks/big_run.py PATH [--spans 45000]

Of nine spans four are requests to a model, four are calls and one is something else around them. Every 400
calls
an agent inside takes over for 60. Calls hold 800 characters, histories grow by two messages a request and
are cut down
to a summary at 120 messages. One call in 50 fails; one stretch of 9 equal answers lies in every 300 calls.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import duckdb

from loopscope.collector._schema import create_schema

__all__ = ["RUN", "TRACE", "add_run"]

TRACE = "b1" * 16
RUN = f"{TRACE}/{'a0' * 8}"
_START = 1_760_500_000_000_000_000
_STEP = 400_000_000

# One row a call: its request lies before it. Every eighth call is wrapped in a span of a framework.
_MADE = """
CREATE OR REPLACE TEMP TABLE made AS
SELECT
    i,
    i % 400 >= 340 AS helped,
    i // 400 AS piece,
    '<trace>' AS trace_id,
    CASE WHEN i % 400 >= 340 THEN printf('%016x', 9000000 + i // 400) ELSE '<agent>' END AS agent_span,
    CASE WHEN i % 400 >= 340 THEN '<trace>/' || printf('%016x', 9000000 + i // 400) ELSE '<run>' END AS
    run_id,
    CASE WHEN i % 300 BETWEEN 100 AND 108 THEN 0 ELSE i END AS args,
    i % 50 = 7 AS failed,
    <start> + i::BIGINT * <step> AS began,
    'tool' || CASE WHEN i % 300 BETWEEN 100 AND 108 THEN 1 ELSE i % 7 END AS tool
FROM range(<calls>) AS numbers(i)
"""

_SPANS = """
INSERT INTO span_rows (
    trace_id, span_id, parent_span_id, name, kind, service_name, start_ns, end_ns, status_code, attributes,
    events,
    resource, dropped_attributes, dropped_events, received_ns
)
SELECT '<trace>', '<agent>', NULL, 'invoke_agent digger', 1, 'mine', <start>, <start> + <calls>::BIGINT *
<step>, 1,
    '{"gen_ai.operation.name":"invoke_agent","gen_ai.agent.name":"digger"}', NULL,
    '{"service.name":"mine"}', 0, 0, 0
UNION ALL
SELECT '<trace>', printf('%016x', 9000000 + piece), '<agent>', 'invoke_agent helper', 1, 'mine',
min(began), max(began) + <step>, 1,
    '{"gen_ai.operation.name":"invoke_agent","gen_ai.agent.name":"helper"}', NULL,
    '{"service.name":"mine"}', 0, 0, 0
FROM made WHERE helped GROUP BY piece
UNION ALL
SELECT trace_id, printf('%016x', 1000000 + i), agent_span, 'chat model-x', 3, 'mine', began, began +
250000000, 1,
    '{"gen_ai.operation.name":"chat","gen_ai.request.model":"model-x","text":"' || repeat('a', 600) ||
    '"}', NULL,
    '{"service.name":"mine"}', 0, 0, 0
FROM made
UNION ALL
SELECT trace_id, printf('%016x', 2000000 + i), agent_span, 'step', 1, 'mine', began + 250000000, began +
390000000, 0, '{}', NULL,
    '{"service.name":"mine"}', 0, 0, 0
FROM made WHERE i % 4 = 0
UNION ALL
SELECT trace_id, printf('%016x', 3000000 + i),
    CASE WHEN i % 4 = 0 THEN printf('%016x', 2000000 + i) ELSE agent_span END,
    'execute_tool ' || tool, 1, 'mine', began + 260000000, began + 380000000, CASE WHEN failed THEN 2 ELSE
    0 END,
    '{"gen_ai.operation.name":"execute_tool","text":"' || repeat('b', 800) || '"}', NULL,
    '{"service.name":"mine"}', 0, 0, 0
FROM made
"""

_CALLS = """
INSERT INTO tool_call_rows (
    trace_id, span_id, position, run_id, parent_run_id, run_source, session_id, service_name, agent_name,
    seq, turn,
    tool_name, call_id, arguments, result, outcome, error_kind, start_ns, end_ns, fingerprint,
    fingerprint_version,
    result_hash, scope_key, content_state, dialect, trace_seq, trace_turn
)
SELECT
    trace_id, printf('%016x', 3000000 + i), 0, run_id, CASE WHEN helped THEN '<run>' END, 'agent_span',
    NULL, 'mine',
    CASE WHEN helped THEN 'helper' ELSE 'digger' END, n, n, tool, printf('call_%x', i),
    printf('{"page": %d}', args), printf('page %d holds nothing', args),
    CASE WHEN failed THEN 'general_tool_error' ELSE 'success' END, CASE WHEN failed THEN 'timeout' END,
    began + 260000000, began + 380000000, (hash(tool, args) >> 1)::BIGINT, 1, (hash(args, failed) >>
    1)::BIGINT,
    (hash(run_id, tool, args) >> 1)::BIGINT, 'full', 'otel_genai', n, n
FROM (SELECT *, row_number() OVER (PARTITION BY run_id ORDER BY i) AS n FROM made)
"""

# Message 2n is what the model answers to request n, 2n + 1 what its call brought; a summary opens each 60
# requests.
_TEXTS = """
INSERT INTO contents
SELECT 80000000 + 2 * i, 80000000 + 2 * i,
    printf('{"role": "assistant", "tool_calls": [{"id": "call_%x", "type": "function", "function": '
        || '{"name": "%s", "arguments": "{\\"page\\": %d}"}}]}', i, tool, args)
FROM made
UNION ALL
SELECT 80000000 + 2 * i + 1, 80000000 + 2 * i + 1,
    printf('{"role": "tool", "tool_call_id": "call_%x", "content": "page %d holds nothing"}', i, args)
FROM made
UNION ALL
SELECT 70000000 + i // 60, 70000000 + i // 60, printf('{"role": "user", "content": "Dig on. So far: piece
%d."}', i // 60)
FROM made WHERE i % 60 = 0
"""

_REQUESTS = """
INSERT INTO llm_request_rows (
    trace_id, span_id, run_id, run_source, service_name, agent_name, turn, provider, model, input_parts,
    output_parts,
    input_tokens, output_tokens, cost, status, content_state, start_ns, end_ns, dialect, trace_turn
)
SELECT
    trace_id, printf('%016x', 1000000 + i), run_id, 'agent_span', 'mine', CASE WHEN helped THEN 'helper'
    ELSE 'digger' END,
    i, 'openai', 'model-x',
    list_prepend(70000000 + i // 60, list_transform(range(2 * (i - i % 60), 2 * i), lambda k: 80000000 + k)),
    [80000000 + 2 * i], 500 + 40 * (i % 60), 30, 0.001, 'ok', 'full', began, began + 250000000,
    'otel_genai', i
FROM made
"""

_TRACES = """
INSERT INTO trace_rows (
    trace_id, spans, first_start_ns, last_start_ns, logs, first_derived_ns, last_derived_ns, stale, changed_in
)
SELECT trace_id, count(*), min(start_ns), max(start_ns), 0, min(start_ns), max(start_ns), FALSE,
    (SELECT CAST(value AS BIGINT) FROM meta WHERE key = 'fold_serial') + 1
FROM span_rows WHERE trace_id = '<trace>' GROUP BY trace_id
"""


def add_run(con: duckdb.DuckDBPyConnection, spans: int = 45_000) -> None:
    """Add the run, of about so many spans, to a store (its schema is there), in one transaction."""
    calls = spans * 4 // 9
    values = {"trace": TRACE, "run": RUN, "agent": "a0" * 8, "start": _START, "step": _STEP, "calls": calls}
    con.execute("BEGIN")
    for statement in (_MADE, _SPANS, _CALLS, _TEXTS, _REQUESTS, _TRACES):
        made = statement
        for name, value in values.items():
            made = made.replace(f"<{name}>", str(value))
        con.execute(made)
    con.execute("DROP TABLE made")
    con.execute(
        "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS VARCHAR) WHERE key IN ('version', "
        "'fold_serial')"
    )
    con.execute("COMMIT")


def main() -> None:
    """Make a store with the run where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", type=Path)
    parser.add_argument("--spans", type=int, default=45_000)
    options = parser.parse_args()
    con = duckdb.connect(str(options.path))
    create_schema(con)
    add_run(con, options.spans)
    con.execute("CHECKPOINT")
    print(
        f"{options.path}: run {RUN}, {con.execute('SELECT count(*) FROM span_rows').fetchall()[0][0]:,} spans"
    )
    con.close()


if __name__ == "__main__":
    main()
