-- Attributes of the agent spans that are the runs in `wanted_runs` (run_id, trace_id, span_id).
SELECT w.run_id, s.attributes
FROM wanted_runs AS w
JOIN spans AS s ON s.trace_id = w.trace_id AND s.span_id = w.span_id
WHERE length(s.attributes) <= $limit
