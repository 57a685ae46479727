-- Requests after a block (`sent_requests`, sql/impact_after.sql) and what they used, as sql/impact_verdicts.sql
-- groups them. A request that asked for calls of several tools, outcomes or kinds counts once in each.
WITH mine AS (
    SELECT * FROM sent_requests WHERE chosen
),
asked AS (
    SELECT DISTINCT number, tool, outcome, kind FROM labelled_calls WHERE action = 4
),
labelled AS (
    SELECT 31 AS level, NULL AS label, * FROM mine
    UNION ALL SELECT 23, agent, * FROM mine
    UNION ALL SELECT 27, model, * FROM mine
    UNION ALL
    SELECT 15, a.label, m.* FROM mine AS m JOIN (SELECT DISTINCT number, tool AS label FROM asked) AS a ON a.number = m.number
    UNION ALL
    SELECT 29, a.label, m.* FROM mine AS m JOIN (SELECT DISTINCT number, outcome AS label FROM asked) AS a ON a.number = m.number
    UNION ALL
    SELECT 30, a.label, m.* FROM mine AS m JOIN (SELECT DISTINCT number, kind AS label FROM asked) AS a ON a.number = m.number
)
SELECT
    level, label, part, exact,
    count(*) AS requests,
    count(CASE WHEN input_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN 1 END) AS requests_with_usage,
    CAST(CASE WHEN sum(input_tokens) < 9e18 THEN sum(input_tokens) END AS BIGINT) AS input_tokens,
    CAST(CASE WHEN sum(output_tokens) < 9e18 THEN sum(output_tokens) END AS BIGINT) AS output_tokens,
    count(cost) AS requests_with_cost,
    CAST(sum(CAST(cost AS DECIMAL(38, 15))) AS DOUBLE) AS cost,  -- a sum of DOUBLE depends on the order of its rows
    CAST(least(sum(wall_ns), 9000000000000000000) AS BIGINT) AS wall_ns
FROM labelled
GROUP BY level, label, part, exact
