-- Which runs lie in which traces: those with calls and those with requests only.
SELECT
    run_id,
    trace_id,
    min(parent_run_id) AS parent_run_id,
    min(start_ns) AS start_ns,
    max(asked) AS asked
FROM (
    SELECT run_id, trace_id, parent_run_id, start_ns, 0 AS asked FROM tool_call_rows WHERE TRUE /* filter */
    UNION ALL
    SELECT run_id, trace_id, NULL, start_ns, 1 FROM llm_request_rows WHERE TRUE /* filter */
) AS mentions
GROUP BY run_id, trace_id
