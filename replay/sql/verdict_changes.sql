-- Calls that two policies judge differently (`actions_before`, `actions_after`: run, seq, action).
SELECT n.run, n.seq, o.action AS before, n.action AS after
FROM actions_after AS n
JOIN actions_before AS o ON o.run = n.run AND o.seq = n.seq
WHERE o.action <> n.action
ORDER BY n.run, n.seq
