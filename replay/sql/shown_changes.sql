-- The verdicts of `shown_calls` (run, seq) by two policies (`verdicts_before`: sql/verdict_marks.sql,
-- `verdicts_after`: sql/call_verdicts.sql).
SELECT n.*, o.action AS action_before, o.judged AS judged_before, o.exact AS exact_before
FROM shown_calls AS s
JOIN verdicts_after AS n ON n.run = s.run AND n.seq = s.seq
JOIN verdicts_before AS o ON o.run = s.run AND o.seq = s.seq
