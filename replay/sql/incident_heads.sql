-- Who made the calls in `wanted_calls` (incident, number, run, seq), and what they said: the first
-- $limit characters of their texts.
SELECT
    w.incident, w.number, w.run, w.seq,
    c.trace_id, c.span_id, c.position, c.run_id, c.parent_run_id, c.run_source, c.session_id, c.tool_name, c.turn,
    left(coalesce(c.arguments, a.text), $limit) AS arguments,
    left(coalesce(c.result, r.text), $limit) AS result,
    left(coalesce(c.result, r.text, c.error_message, m.text), $limit) AS error_text
FROM wanted_calls AS w
JOIN run_names AS n ON n.run = w.run
JOIN tool_call_rows AS c ON c.run_id = n.run_id AND c.seq = w.seq
LEFT JOIN contents AS a ON a.hash = c.arguments_content
LEFT JOIN contents AS r ON r.hash = c.result_content
LEFT JOIN contents AS m ON m.hash = c.error_message_content
ORDER BY w.incident, w.number
