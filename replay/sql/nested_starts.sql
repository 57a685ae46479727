-- When the agent spans of nested runs started ($since, $until: where to look). A run's first call may start
-- long after its agent did.
SELECT n.run_id, min(s.start_ns) AS start_ns
FROM nested_runs AS n
JOIN span_rows AS s ON s.trace_id = n.trace_id AND s.span_id = n.span_id
WHERE s.start_ns BETWEEN $since AND $until
GROUP BY n.run_id
