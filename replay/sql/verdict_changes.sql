-- Calls that two policies judge differently (`actions_before`, `actions_after`: sql/actions.sql).
SELECT
    coalesce(n.run, o.run) AS run, coalesce(n.seq, o.seq) AS seq,
    coalesce(o.action, 0) AS before, coalesce(n.action, 0) AS after
FROM actions_after AS n
FULL JOIN actions_before AS o ON o.run = n.run AND o.seq = n.seq
WHERE coalesce(o.action, 0) <> coalesce(n.action, 0)
ORDER BY 1, 2
