-- How the calls of `calls_at_fault` (run_id, call_id) ended, where they were recorded.
SELECT
    w.run_id, w.call_id,
    CASE WHEN max(c.end_ns) IS NULL THEN 'open'
         WHEN count(CASE WHEN c.error_kind = 'cancelled' THEN 1 END) = count(*) THEN 'cancelled'
         ELSE 'finished' END AS state
FROM calls_at_fault AS w
JOIN tool_call_rows AS c ON c.run_id = w.run_id AND c.call_id = w.call_id
-- Without a span of its own and without an end a call was asked for, and nobody knows that it was started.
WHERE c.position = 0 OR c.end_ns IS NOT NULL
GROUP BY w.run_id, w.call_id
