-- Calls by verdict over time, by tool and by agent, in one look at them: each row has one of `bucket` (n begins at
-- $origin + n * $width; NULL before $from), `tool` and `agent`, and `part` says which.
SELECT
    CASE GROUPING(bucket, tool, agent) WHEN 3 THEN 'bucket' WHEN 5 THEN 'tool' ELSE 'agent' END AS part,
    bucket, tool, agent,
    count(*) AS calls,
    count(CASE WHEN counted AND NOT exempt AND count >= 2 THEN 1 END) AS repeated_calls,
    count(CASE WHEN action = 0 THEN 1 END) AS allow,
    count(CASE WHEN action = 1 THEN 1 END) AS nudge,
    count(CASE WHEN action = 2 THEN 1 END) AS block,
    count(CASE WHEN action = 3 THEN 1 END) AS not_counted,
    count(CASE WHEN action = 4 THEN 1 END) AS after_block
FROM (
    SELECT
        tool, agent, action, counted, exempt, count,
        CASE WHEN start_ns >= $from THEN CAST((start_ns - $origin) // $width AS INTEGER) END AS bucket
    FROM verdicts
    WHERE TRUE /* filter */
) AS timed
GROUP BY GROUPING SETS ((bucket), (tool), (agent))
ORDER BY part, bucket
