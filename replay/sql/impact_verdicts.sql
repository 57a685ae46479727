-- Runs and calls that are nudged or blocked, in all and by tool, agent, model, outcome and kind of error.
-- Input `labelled_calls`. `level` says what `label` is (numbers as of `grouping` in sql/impact_call_costs.sql).
WITH spoken AS (
    SELECT * FROM labelled_calls WHERE action IN (1, 2)
),
labelled AS (
    SELECT 31 AS level, NULL AS label, run, action, exact FROM spoken
    UNION ALL SELECT 15, tool, run, action, exact FROM spoken
    UNION ALL SELECT 23, agent, run, action, exact FROM spoken
    UNION ALL SELECT 27, model, run, action, exact FROM spoken
    UNION ALL SELECT 29, outcome, run, action, exact FROM spoken
    UNION ALL SELECT 30, kind, run, action, exact FROM spoken
),
of_runs AS (
    SELECT
        level, label, run,
        count(CASE WHEN action = 1 THEN 1 END) AS nudged,
        count(CASE WHEN action = 2 THEN 1 END) AS blocked,
        count(CASE WHEN action = 1 AND exact THEN 1 END) AS exact_nudged,
        count(CASE WHEN action = 2 AND exact THEN 1 END) AS exact_blocked
    FROM labelled
    GROUP BY level, label, run
)
SELECT
    level, label,
    count(CASE WHEN nudged > 0 THEN 1 END) AS runs_nudged,
    count(CASE WHEN blocked > 0 THEN 1 END) AS runs_blocked,
    CAST(sum(nudged) AS BIGINT) AS calls_nudged,
    CAST(sum(blocked) AS BIGINT) AS calls_blocked,
    count(CASE WHEN exact_nudged > 0 THEN 1 END) AS exact_runs_nudged,
    count(CASE WHEN exact_blocked > 0 THEN 1 END) AS exact_runs_blocked,
    CAST(sum(exact_nudged) AS BIGINT) AS exact_calls_nudged,
    CAST(sum(exact_blocked) AS BIGINT) AS exact_calls_blocked
FROM of_runs
GROUP BY level, label
