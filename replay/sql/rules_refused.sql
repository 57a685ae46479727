-- The single calls that rules refuse if the agent goes on as recorded: `refused` (rule, run, seq).
SELECT
    r.rule,
    count(CASE WHEN c.judged = 0 THEN 1 END) AS refused_avoidable,
    count(CASE WHEN c.judged = 1 THEN 1 END) AS refused_lost,
    count(CASE WHEN c.judged = 2 THEN 1 END) AS refused_unjudged
FROM calls AS c
JOIN refused AS r ON r.run = c.run AND r.seq = c.seq
WHERE TRUE /* filter */
GROUP BY r.rule
