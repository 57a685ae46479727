-- Calls of `noted_calls` (sql/impact_calls.sql) under the filter that come after a block, and their time.
SELECT
    judged AS part,
    exact,
    count(*) AS calls,
    CAST(least(sum(tool_ns), 9000000000000000000) AS BIGINT) AS tool_ns,
    CAST(least(sum(wall_ns), 9000000000000000000) AS BIGINT) AS wall_ns
FROM noted_calls
WHERE chosen AND action = 4
GROUP BY judged, exact
