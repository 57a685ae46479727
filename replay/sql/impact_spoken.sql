-- Runs of `noted_calls` (sql/impact_calls.sql) with a nudge, and those with a block or a call after one.
SELECT
    run,
    max(CASE WHEN action = 1 THEN 1 ELSE 0 END) = 1 AS nudged,
    max(CASE WHEN action IN (2, 4) THEN 1 ELSE 0 END) = 1 AS stopped,
    max(CASE WHEN action = 2 AND chosen THEN 1 ELSE 0 END) = 1 AS blocked
FROM noted_calls
WHERE action IN (1, 2, 4)
GROUP BY run
