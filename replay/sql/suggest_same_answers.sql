-- Tools of which different calls of one run gave one answer, from `judged`; most often first.
SELECT tool, count(*) AS answers, list(DISTINCT run ORDER BY run) AS runs
FROM (
    SELECT run, tool, result
    FROM judged
    WHERE outcome = 1 AND key IS NOT NULL AND result IS NOT NULL AND shown
    GROUP BY run, tool, result
    HAVING count(DISTINCT key) > 1
) AS same_answers
GROUP BY tool
ORDER BY answers DESC, tool
LIMIT $most
