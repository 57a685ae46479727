-- The verdicts of `shown_calls` (sql/verdict_changes.sql) by the second policy (`verdicts_after`:
-- sql/call_verdicts.sql), and what the first one says.
SELECT n.*, s.before AS action_before, s.judged_before, s.exact_before
FROM shown_calls AS s
JOIN verdicts_after AS n ON n.run = s.run AND n.seq = s.seq
