-- Number the requests and calls of the runs in `wanted_runs` over all their traces.
-- Reads the temporary view wanted_runs(run_id); changes only rows whose number is another one.

UPDATE llm_request_rows SET turn = numbered.turn
FROM (
    SELECT rowid AS id,
           row_number() OVER (
               PARTITION BY run_id ORDER BY end_ns NULLS LAST, start_ns, trace_turn, trace_id, span_id
           ) AS turn
    FROM llm_request_rows
    WHERE trace_turn IS NOT NULL
      AND run_source IN ('conversation', 'mcp_session', 'transcript') AND run_id IN (SELECT run_id FROM wanted_runs)
) AS numbered
WHERE llm_request_rows.rowid = numbered.id AND llm_request_rows.turn IS DISTINCT FROM numbered.turn;

-- A call was requested by the response that had its turn in its own trace.
UPDATE tool_call_rows SET seq = numbered.seq, turn = numbered.turn
FROM (
    SELECT c.rowid AS id,
           CASE WHEN c.trace_seq IS NOT NULL THEN
               row_number() OVER (
                   PARTITION BY c.run_id, c.trace_seq IS NULL
                   ORDER BY c.end_ns, c.start_ns, c.span_id, c.position, c.trace_id
               )
           END AS seq,
           coalesce(r.turn, c.trace_turn) AS turn
    FROM tool_call_rows c
    LEFT JOIN (
        SELECT run_id, trace_id, trace_turn, min(turn) AS turn
        FROM llm_request_rows
        WHERE trace_turn IS NOT NULL
          AND run_source IN ('conversation', 'mcp_session', 'transcript') AND run_id IN (SELECT run_id FROM wanted_runs)
        GROUP BY ALL
    ) r ON r.run_id = c.run_id AND r.trace_id = c.trace_id AND r.trace_turn = c.trace_turn
    WHERE c.run_source IN ('conversation', 'mcp_session', 'transcript') AND c.run_id IN (SELECT run_id FROM wanted_runs)
) AS numbered
WHERE tool_call_rows.rowid = numbered.id
  AND (tool_call_rows.seq IS DISTINCT FROM numbered.seq OR tool_call_rows.turn IS DISTINCT FROM numbered.turn);
