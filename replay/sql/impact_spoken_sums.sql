-- Runs and calls of `noted_calls` (sql/impact_calls.sql) under the filter that are nudged or blocked, all together.
SELECT
    count(DISTINCT CASE WHEN action = 1 THEN run END) AS runs_nudged,
    count(DISTINCT CASE WHEN action = 2 THEN run END) AS runs_blocked,
    count(CASE WHEN action = 1 THEN 1 END) AS calls_nudged,
    count(CASE WHEN action = 2 THEN 1 END) AS calls_blocked,
    count(DISTINCT CASE WHEN action = 1 AND exact THEN run END) AS exact_runs_nudged,
    count(DISTINCT CASE WHEN action = 2 AND exact THEN run END) AS exact_runs_blocked,
    count(CASE WHEN action = 1 AND exact THEN 1 END) AS exact_calls_nudged,
    count(CASE WHEN action = 2 AND exact THEN 1 END) AS exact_calls_blocked
FROM noted_calls
WHERE chosen AND action IN (1, 2)
