-- Calls that two policies judge differently (`actions_before`, `actions_after`: sql/actions.sql). A call that one of
-- them lacks is allowed there; with $touched, where both policies say the same of runs in which nothing happens
-- and these are left out, it is `idle` there.
SELECT b.run, b.seq, b.before, b.after
FROM (
    SELECT
        coalesce(n.run, o.run) AS run, coalesce(n.seq, o.seq) AS seq,
        coalesce(o.action, CASE WHEN $touched THEN n.idle ELSE 0 END) AS before,
        coalesce(n.action, CASE WHEN $touched THEN o.idle ELSE 0 END) AS after
    FROM actions_after AS n
    FULL JOIN actions_before AS o ON o.run = n.run AND o.seq = n.seq
) AS b
JOIN runs AS r ON r.run = b.run
WHERE b.before <> b.after
ORDER BY r.started, r.run_id, b.seq
