-- Tools of which one call, made $least times or more in a run, gave different answers, from `judged`; most
-- often first.
SELECT tool, count(*) AS calls, list(DISTINCT run ORDER BY run) AS runs
FROM (
    SELECT run, tool, key
    FROM judged
    WHERE outcome = 1 AND counted AND NOT err AND shown
    GROUP BY run, tool, key
    HAVING count(*) >= $least AND count(DISTINCT result) > 1
) AS moving
GROUP BY tool
ORDER BY calls DESC, tool
LIMIT $most
