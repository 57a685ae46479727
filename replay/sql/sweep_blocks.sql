-- Per cell: what is blocked and what comes after it.
SELECT
    s.cell,
    count(DISTINCT CASE WHEN c.ord = s.ord THEN c.run END) AS runs_blocked,
    count(CASE WHEN c.ord = s.ord THEN 1 END) AS calls_blocked,
    count(CASE WHEN c.ord > s.ord AND c.judged = 0 THEN 1 END) AS calls_avoidable,
    count(CASE WHEN c.ord > s.ord AND c.judged = 1 THEN 1 END) AS calls_lost,
    count(CASE WHEN c.ord > s.ord AND c.judged = 2 THEN 1 END) AS calls_unjudged
FROM stops AS s
JOIN busy_calls AS c ON c.unit = s.unit AND c.ord >= s.ord
WHERE TRUE /* filter */
GROUP BY s.cell
