-- The runs right inside a run, first started first.
SELECT run_id, min(agent_name) AS agent_name, count(*) AS calls, min(start_ns) AS first_ns
FROM tool_call_rows
WHERE parent_run_id = $run_id
GROUP BY run_id
ORDER BY first_ns, run_id
LIMIT $limit
