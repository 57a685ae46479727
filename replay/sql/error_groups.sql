-- Failed calls by group (`signatures`: tool, kind, outcome, result, id of the group).
SELECT
    g.id,
    count(*) AS calls,
    count(DISTINCT v.run) AS runs,
    count(CASE WHEN v.counted AND NOT v.exempt THEN 1 END) AS counted,
    min(v.start_ns) AS first_ns,
    max(v.start_ns) AS last_ns
FROM (SELECT * FROM verdicts WHERE outcome IN (2, 3) AND TRUE /* filter */) AS v
JOIN signatures AS g
    ON g.tool = v.tool AND g.kind = v.kind AND g.outcome = v.outcome AND g.result IS NOT DISTINCT FROM v.result
GROUP BY g.id
ORDER BY calls DESC, last_ns DESC, g.id
