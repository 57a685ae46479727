-- Twins: equal calls that one LLM response requested. Few are; only those are gathered.
WITH several AS (
    SELECT turn, key
    FROM calls
    WHERE turn IS NOT NULL AND key IS NOT NULL
    GROUP BY turn, key
    HAVING count(*) >= 2
)
SELECT c.run, min(c.agent) AS agent, array_agg(c.seq ORDER BY c.seq) AS seqs
FROM calls AS c
JOIN several AS s ON s.turn = c.turn AND s.key = c.key
GROUP BY c.run, c.turn, c.key
HAVING count(*) >= 2
ORDER BY c.run, min(c.seq)
