-- Who made the calls in `wanted_calls` (incident, number, run, seq), and what they said: the first
-- $limit characters of their texts. The calls began between $since and $until.
WITH found AS MATERIALIZED (
    SELECT
        w.incident, w.number, w.run, c.*
    FROM wanted_calls AS w
    JOIN run_names AS n ON n.run = w.run
    JOIN tool_call_rows AS c ON c.run_id = n.run_id AND c.seq = w.seq
    WHERE c.start_ns BETWEEN $since AND $until
),
-- One look at all texts, for the few that are needed.
texts AS MATERIALIZED (
    SELECT hash, left(text, $limit) AS text FROM contents
    WHERE hash IN (
        SELECT arguments_content FROM found UNION SELECT result_content FROM found
        UNION SELECT error_message_content FROM found
    )
)
SELECT
    c.incident, c.number, c.run, c.seq,
    c.trace_id, c.span_id, c.position, c.run_id, c.parent_run_id, c.run_source, c.session_id, c.tool_name, c.turn,
    left(coalesce(c.arguments, a.text), $limit) AS arguments,
    left(coalesce(c.result, r.text), $limit) AS result,
    left(coalesce(c.result, r.text, c.error_message, m.text), $limit) AS error_text
FROM found AS c
LEFT JOIN texts AS a ON a.hash = c.arguments_content
LEFT JOIN texts AS r ON r.hash = c.result_content
LEFT JOIN texts AS m ON m.hash = c.error_message_content
ORDER BY c.incident, c.number
