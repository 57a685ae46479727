-- Calls in `shown_calls` (run, seq, with what SQL knows of them), texts cut at $limit characters, in their order.
SELECT
    s.*,
    c.run_id, c.trace_id, c.span_id, c.position, c.agent_name, c.tool_name, c.outcome, c.error_kind, c.start_ns,
    left(coalesce(c.arguments, a.text), $limit) AS arguments,
    left(coalesce(c.result, t.text), $limit) AS result,
    length(coalesce(c.arguments, a.text)) AS arguments_length,
    length(coalesce(c.result, t.text)) AS result_length,
    n.calls
FROM shown_calls AS s
JOIN run_names AS r ON r.run = s.run
JOIN tool_call_rows AS c ON c.run_id = r.run_id AND c.seq = s.seq
LEFT JOIN contents AS a ON a.hash = c.arguments_content
LEFT JOIN contents AS t ON t.hash = c.result_content
LEFT JOIN (
    SELECT run_id, max(seq) AS calls
    FROM tool_call_rows
    WHERE run_id IN (SELECT r.run_id FROM shown_calls AS s JOIN run_names AS r ON r.run = s.run)
    GROUP BY run_id
) AS n ON n.run_id = c.run_id
ORDER BY s.place
