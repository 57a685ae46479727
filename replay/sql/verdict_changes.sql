-- Calls that two policies judge differently (`actions_before`, `actions_after`: sql/actions.sql), and what the first
-- one says of them. A call that one of them lacks is allowed and exact there. With $touched both count by one rule
-- and lack the runs in which nothing happens: there a call that is not counted is so (3), but for tools that are left
-- alone (`exemptions`: tool, before, after). `idle_calls`: calls of which both may lack that.
SELECT c.run, c.seq, c.before, c.after, c.judged_before, c.exact_before
FROM (
    SELECT
        a.run, a.seq, a.judged_before, a.exact_before,
        coalesce(a.before, CASE WHEN $touched AND NOT a.counted AND NOT e.before THEN 3 ELSE 0 END) AS before,
        coalesce(a.after, CASE WHEN $touched AND NOT a.counted AND NOT e.after THEN 3 ELSE 0 END) AS after
    FROM (
        SELECT
            coalesce(n.run, o.run, i.run) AS run,
            coalesce(n.seq, o.seq, i.seq) AS seq,
            coalesce(n.tool, o.tool, i.tool) AS tool,
            coalesce(n.counted, o.counted, FALSE) AS counted,
            o.action AS before,
            n.action AS after,
            o.judged AS judged_before,
            coalesce(o.exact, TRUE) AS exact_before
        FROM actions_after AS n
        FULL JOIN actions_before AS o ON o.run = n.run AND o.seq = n.seq
        FULL JOIN idle_calls AS i ON i.run = coalesce(n.run, o.run) AND i.seq = coalesce(n.seq, o.seq)
    ) AS a
    JOIN exemptions AS e ON e.tool = a.tool
) AS c
JOIN runs AS r ON r.run = c.run
WHERE c.before <> c.after
ORDER BY r.started, r.run_id, c.seq
