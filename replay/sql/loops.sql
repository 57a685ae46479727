-- Loops: maximal stretches of one key whose count reaches 3.
SELECT run, min(agent) AS agent, array_agg(seq ORDER BY seq) AS seqs
FROM calls
WHERE counted AND key IN (SELECT key FROM calls WHERE counted AND count >= 3)
GROUP BY run, key, streak
HAVING count(*) >= 3
ORDER BY run, min(seq)
