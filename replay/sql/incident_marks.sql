-- Where a policy's verdicts fall among the calls of incidents (`members`: incident, number, run, seq).
SELECT
    m.incident,
    min(CASE WHEN v.action = 1 THEN m.number END) AS nudge_at,
    min(CASE WHEN v.action = 2 THEN m.number END) AS block_at,
    count(CASE WHEN v.action = 4 THEN 1 END) AS after_block,
    count(CASE WHEN v.action = 4 AND v.judged = 0 THEN 1 END) AS after_block_avoidable,
    min(CASE WHEN v.exact THEN 1 ELSE 0 END) = 1 AS exact
FROM members AS m
JOIN verdicts AS v ON v.run = m.run AND v.seq = m.seq
WHERE TRUE /* filter */
GROUP BY m.incident
