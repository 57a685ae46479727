-- The traces of runs, and when their spans start: where to look for them.
SELECT r.run_id, r.trace_id, t.first_start_ns, t.last_start_ns, coalesce(t.spans, 0) AS spans, coalesce(t.logs, 0) AS logs,
    t.first_log_ns, t.last_log_ns
FROM (
    SELECT run_id, trace_id FROM tool_call_rows WHERE run_id IN (SELECT unnest($run_ids))
    UNION
    SELECT run_id, trace_id FROM llm_request_rows WHERE run_id IN (SELECT unnest($run_ids))
) AS r
LEFT JOIN trace_rows AS t ON t.trace_id = r.trace_id
ORDER BY r.run_id, t.first_start_ns, r.trace_id
