-- What sql/sweep_nudges.sql says of units in which no call occurs twice (`quiet_calls`): all counts are 1 there, so
-- only a threshold of 1 reaches them. Parameters as there.
WITH tools AS (
    SELECT
        CAST(unnest($tools) AS INTEGER) AS tool,
        CAST(unnest($nudges) AS BIGINT) AS nudge,
        CAST(unnest($exempt) AS BOOLEAN) AS exempt,
        CAST(unnest($own_nudge) AS BOOLEAN) AS own_nudge
),
nudged AS (
    SELECT c.run, CASE WHEN NOT t.own_nudge THEN 1 WHEN t.nudge <= 1 THEN $cap + 1 ELSE 0 END AS level
    FROM quiet_calls AS c
    JOIN tools AS t ON t.tool = c.tool
    WHERE c.counted AND NOT t.exempt AND TRUE /* filter */
)
SELECT CAST(NULL AS BIGINT) AS cell, level, count(*) AS calls, 0 AS runs FROM nudged GROUP BY level
UNION ALL
SELECT NULL, level, 0, count(*) FROM (SELECT run, max(level) AS level FROM nudged GROUP BY run) AS tops GROUP BY level
