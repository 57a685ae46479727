-- The calls of `rule_runs`, run by run, with what rules read of them (`rule_texts`).
SELECT
    f.run, f.seq, f.agent, f.tool, f.turn, f.outcome, f.print, f.result,
    coalesce(t.mixed, FALSE) AS mixed, t.error, t.arguments, t.output
FROM facts AS f
JOIN rule_runs AS r ON r.run = f.run
LEFT JOIN rule_texts AS t ON t.run = f.run AND t.seq = f.seq
ORDER BY f.run, f.seq
