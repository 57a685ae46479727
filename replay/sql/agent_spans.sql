-- How the agent spans ended that are the runs in `wanted_runs` (run_id, trace_id, span_id).
SELECT w.run_id, max(s.status_code) AS status_code, max(s.end_ns) AS end_ns
FROM wanted_runs AS w
JOIN span_rows AS s ON s.trace_id = w.trace_id AND s.span_id = w.span_id
GROUP BY w.run_id
