-- Calls under the filter that two policies judge differently: `calls_before` and `calls_after` are
-- sql/impact_calls.sql under each. A call that one of them lacks is allowed and exact there; with $touched, where
-- both policies say the same of runs in which nothing happens and these are left out, it is `idle` there.
SELECT *
FROM (
    SELECT
        coalesce(b.run, a.run) AS run,
        coalesce(b.seq, a.seq) AS seq,
        coalesce(b.tool, a.tool) AS tool,
        coalesce(b.action, CASE WHEN $touched THEN a.idle ELSE 0 END) AS before,
        coalesce(a.action, CASE WHEN $touched THEN b.idle ELSE 0 END) AS after,
        coalesce(a.judged, b.judged) AS judged,
        coalesce(b.exact, TRUE) AND coalesce(a.exact, TRUE) AS exact,
        b.judged AS judged_before,
        a.judged AS judged_after
    FROM calls_before AS b
    FULL JOIN calls_after AS a ON a.run = b.run AND a.seq = b.seq
    WHERE coalesce(b.chosen, a.chosen)
) AS both_say
WHERE before <> after
