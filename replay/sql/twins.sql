-- Twins: equal calls that one LLM response requested.
SELECT run, min(agent) AS agent, array_agg(seq ORDER BY seq) AS seqs
FROM calls
WHERE turn IS NOT NULL AND key IS NOT NULL
GROUP BY run, turn, key
HAVING count(*) >= 2
ORDER BY run, min(seq)
