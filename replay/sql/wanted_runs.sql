-- The runs to read again after the traces of `changed_traces` changed: those that have calls or requests in them now
-- (`mentioned_runs`, sql/changed_runs.sql), and those that had (`run_traces`, `runs_before`). Where such a run went,
-- nobody knows: it may be in other traces still.
SELECT run_id, max(spanning) AS spanning
FROM (
    SELECT run_id, spanning FROM mentioned_runs
    UNION ALL
    SELECT r.run_id, CASE WHEN m.run_id IS NULL THEN 1 ELSE 0 END
    FROM run_traces AS x
    JOIN trace_names AS t ON t.id = x.trace
    JOIN changed_traces AS c ON c.trace_id = t.name
    JOIN runs_before AS r ON r.run = x.run
    LEFT JOIN mentioned_runs AS m ON m.run_id = r.run_id
) AS runs
GROUP BY run_id
