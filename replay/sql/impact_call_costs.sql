-- Calls after a block and their time, as sql/impact_verdicts.sql groups them.
SELECT
    grouping(tool, agent, model, outcome, kind) AS level,
    coalesce(tool, agent, model, outcome, kind) AS label,
    judged AS part,
    exact,
    count(*) AS calls,
    CAST(least(sum(tool_ns), 9000000000000000000) AS BIGINT) AS tool_ns,
    CAST(least(sum(wall_ns), 9000000000000000000) AS BIGINT) AS wall_ns
FROM labelled_calls
WHERE action = 4
GROUP BY GROUPING SETS (
    (judged, exact), (judged, exact, tool), (judged, exact, agent), (judged, exact, model),
    (judged, exact, outcome), (judged, exact, kind)
)
