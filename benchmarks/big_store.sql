-- The statements of big_store.py, in their order: one per part, each under its name.

-- made
-- What each call is: `args` and `answer` number its arguments and result inside its run.
--   kind of a run  0 loop, 1 loop with other calls between, 2 repeats, 3 polls, 4 retries, 5 nothing of it
CREATE OR REPLACE TEMP TABLE made AS
WITH numbered AS (
    SELECT
        i,
        i // (<run> * <at_once>) * <at_once> + i % <at_once> AS run,
        i // <at_once> % <run> AS n  -- of the call in its run
    FROM range(<first>, <first> + <calls>) AS numbers(i)
),
planned AS (
    SELECT
        *,
        CASE WHEN hash(run * 7) % 100 < 6 THEN 0 WHEN hash(run * 7) % 100 < 12 THEN 1
             WHEN hash(run * 7) % 100 < 37 THEN 2 WHEN hash(run * 7) % 100 < 45 THEN 3
             WHEN hash(run * 7) % 100 < 51 THEN 4 ELSE 5 END AS kind,
        3 + hash(run * 11) % (2 + hash(run * 13) % 20) AS loop_length,
        hash(run * 17) % 14 AS loop_start
    FROM numbered
),
placed AS (
    SELECT
        *,
        CASE
            WHEN kind = 0 THEN n >= loop_start AND n < loop_start + loop_length
            WHEN kind = 1 THEN n >= loop_start AND (n - loop_start) % 2 = 0 AND (n - loop_start) // 2 < loop_length
            WHEN kind = 2 THEN n IN (loop_start, loop_start + 9) OR (n = loop_start + 15 AND hash(run * 19) % 2 = 0)
            WHEN kind = 3 THEN n % 4 = 3
            WHEN kind = 4 THEN n >= loop_start AND n < loop_start + 2 + loop_length % 4
            ELSE FALSE
        END AS again
    FROM planned
)
SELECT
    i, run, n, kind, again,
    CASE WHEN again THEN 1000 ELSE n END AS args,
    CASE WHEN again AND kind = 3 THEN n // 12 WHEN again THEN 0 ELSE n END AS answer,
    CASE WHEN again AND kind = 4 THEN 'general_tool_error'
         WHEN hash(i * 23) % 100 < 3 THEN 'general_tool_error'
         WHEN hash(i * 23) % 100 < 5 THEN 'schema_error' ELSE 'success' END AS outcome,
    CASE WHEN again THEN hash(run * 29) % 12 ELSE hash(i * 29) % 40 END AS tool,
    hash(i * 31) % 100 < 4 AND NOT again AS bare,
    CASE WHEN hash(i * 43) % 4 = 0 AND NOT again THEN 0 ELSE run END AS unlike,  -- three calls in four are no other run's
    <start> + (i + 1) * <step> AS end_ns,
    hash(i * 37) % 900000000 + 1000000 AS took,
    printf('%016x%016x', hash(run), run) AS trace_id,
    printf('%016x', i * 2 + 1) AS span_id,
    printf('%016x%016x/%016x', hash(run), run, run) AS run_id,
    'service' || run % 6 AS service,
    'agent' || run % 9 AS agent
FROM placed;

-- calls
INSERT INTO tool_call_rows (
    trace_id, span_id, position, run_id, run_source, session_id, service_name, agent_name, seq, turn, tool_name,
    call_id, arguments, result, outcome, error_kind, start_ns, end_ns,
    fingerprint, fingerprint_version, result_hash, scope_key, content_state, dialect, trace_seq, trace_turn
)
SELECT
    trace_id, span_id, 0, run_id, 'agent_span', 'session' || run // 3, service, agent, n + 1, n + 1, 'tool' || tool,
    printf('call_%x', i),
    CASE WHEN NOT bare THEN printf('{"path": "src/part_%d.py", "query": "what is %d"}', args % 50, args) END,
    CASE WHEN NOT bare THEN printf('result %d of a search, with some lines of text behind it: %016x', answer, answer * 77) END,
    outcome,
    CASE outcome WHEN 'schema_error' THEN 'validation'
        WHEN 'general_tool_error' THEN ['timeout', 'rate_limit', 'network'][1 + i % 3] END,
    end_ns - took, end_ns,
    CASE WHEN NOT bare THEN (hash(tool, args, unlike) >> 1)::BIGINT END, 1,
    CASE WHEN NOT bare THEN (hash(answer, outcome, unlike) >> 1)::BIGINT END,
    CASE WHEN NOT bare THEN (hash(run, tool, args) >> 1)::BIGINT END,
    CASE WHEN bare THEN 'missing' ELSE 'full' END, 'otel_genai', n + 1, n + 1
FROM made;

-- texts
-- Message k of a run: 0 the system's, 1 the user's, 2n + 2 what the model said before call n, 2n + 3 the result.
INSERT INTO contents
SELECT
    key, key,
    CASE WHEN k = 1 THEN printf('{"role": "assistant", "tool_calls": [{"id": "call_%x", "type": "function"}]}', i)
         ELSE printf('{"role": "tool", "tool_call_id": "call_%x", "content": "result %d of a search"}', i, answer) END
FROM (SELECT i, answer, k, (hash(run, 2 * n + 1 + k) >> 1)::BIGINT AS key FROM made CROSS JOIN (VALUES (1), (2)) AS t(k))
UNION ALL
SELECT key, key, printf('{"role": "user", "content": "task %d of the day"}', run)
FROM (SELECT run, (hash(run, 1) >> 1)::BIGINT AS key FROM made WHERE n = 0);

-- requests
INSERT INTO llm_request_rows (
    trace_id, span_id, run_id, run_source, session_id, service_name, agent_name, turn, provider, model, input_parts,
    output_parts, input_tokens, output_tokens, cost, status, http_status, content_state, start_ns, end_ns, dialect,
    trace_turn
)
SELECT
    trace_id, printf('%016x', i * 2), run_id, 'agent_span', 'session' || run // 3, service, agent, n + 1,
    CASE run % 3 WHEN 0 THEN 'anthropic' ELSE 'openai' END, 'model' || run % 3,
    list_prepend(1, list_transform(range(1, 2 * n + 2), lambda k: (hash(run, k) >> 1)::BIGINT)),
    [(hash(run, 2 * n + 2) >> 1)::BIGINT],
    900 + 70 * n, 50, (900 + 70 * n) * 0.000003, CASE WHEN hash(i * 41) % 2000 = 0 THEN 'error' ELSE 'ok' END,
    CASE WHEN hash(i * 41) % 2000 = 0 THEN 400 END, 'full',
    end_ns - took - 2000000000, end_ns - took - 1000000, 'otel_genai', n + 1
FROM made;

-- traces
INSERT INTO trace_rows (
    trace_id, spans, first_start_ns, last_start_ns, logs, first_derived_ns, last_derived_ns, stale, changed_in
)
SELECT trace_id, 2 * count(*), min(end_ns - took), max(end_ns - took), 0, min(end_ns - took - 2000000000),
    max(end_ns - took), FALSE, (SELECT CAST(value AS BIGINT) FROM meta WHERE key = 'fold_serial') + 1
FROM made
GROUP BY trace_id;
