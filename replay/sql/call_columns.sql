-- The calls behind verdicts (`verdict_rows`: run, seq, …), in their order; they started between $since and $until.
SELECT
    c.trace_id, c.span_id, c.position, c.run_id, c.agent_name, c.tool_name, v.seq, c.turn, c.start_ns, c.end_ns,
    c.outcome, c.error_kind, c.recorded_verdict,
    v.count,
    CASE v.action
        WHEN 0 THEN 'allow' WHEN 1 THEN 'nudge' WHEN 2 THEN 'block' WHEN 3 THEN 'not_counted' ELSE 'after_block'
    END AS action,
    CASE v.judged WHEN 0 THEN 'avoidable' WHEN 1 THEN 'lost' WHEN 2 THEN 'unjudged' END AS judged,
    v.exact /* more */
FROM verdict_rows AS v
JOIN run_names AS r ON r.run = v.run
JOIN tool_call_rows AS c ON c.run_id = r.run_id AND c.seq = v.seq
WHERE c.start_ns BETWEEN $since AND $until
ORDER BY r.started, r.run_id, v.seq
