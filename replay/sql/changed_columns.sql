-- The calls of sql/shown_changes.sql (`verdict_rows`) in their order, with what the first policy says of them.
SELECT
    c.*,
    CASE v.action_before
        WHEN 0 THEN 'allow' WHEN 1 THEN 'nudge' WHEN 2 THEN 'block' WHEN 3 THEN 'not_counted' ELSE 'after_block'
    END AS action_before,
    CASE v.judged_before WHEN 0 THEN 'avoidable' WHEN 1 THEN 'lost' WHEN 2 THEN 'unjudged' END AS judged_before,
    v.exact_before
FROM call_rows AS c
JOIN run_names AS r ON r.run_id = c.run_id
JOIN verdict_rows AS v ON v.run = r.run AND v.seq = c.seq
ORDER BY v.run, v.seq
