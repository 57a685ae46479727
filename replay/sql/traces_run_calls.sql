-- Calls of one run in the order of counting, those that did not end behind them; texts cut at $text_limit characters.
WITH chosen AS (
    SELECT *, count(*) OVER () AS total
    FROM tool_call_rows AS c
    WHERE c.run_id = $run_id AND (TRUE /* which */)
    ORDER BY c.seq NULLS LAST, c.start_ns, c.span_id, c.position
    LIMIT $limit OFFSET $offset
),
texts AS (
    SELECT hash, left(text, $text_limit) AS text, length(text) AS length
    FROM contents
    WHERE hash IN (
        SELECT arguments_content FROM chosen
        UNION SELECT result_content FROM chosen
        UNION SELECT error_message_content FROM chosen
    )
)
SELECT
    s.trace_id, s.span_id, s.position, s.seq, s.turn, s.agent_name, s.tool_name, s.call_id,
    coalesce(left(s.arguments, $text_limit), a.text) AS arguments,
    coalesce(left(s.result, $text_limit), r.text) AS result,
    coalesce(left(s.error_message, $text_limit), m.text) AS error_message,
    coalesce(length(s.arguments), a.length) AS arguments_length,
    coalesce(length(s.result), r.length) AS result_length,
    s.outcome, s.error_kind, s.http_status, s.start_ns, s.end_ns, s.content_state, s.recorded_verdict, s.dialect,
    s.total
FROM chosen AS s
LEFT JOIN texts AS a ON a.hash = s.arguments_content
LEFT JOIN texts AS r ON r.hash = s.result_content
LEFT JOIN texts AS m ON m.hash = s.error_message_content
ORDER BY s.seq NULLS LAST, s.start_ns, s.span_id, s.position
