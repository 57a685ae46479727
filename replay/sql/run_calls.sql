-- Whole calls of one run in a range of seq, texts cut at $limit characters, with their whole lengths.
WITH chosen AS (
    SELECT * FROM tool_call_rows WHERE run_id = $run_id AND seq BETWEEN $first_seq AND $last_seq
),
texts AS (
    SELECT hash, left(text, $limit) AS text, length(text) AS length
    FROM contents
    WHERE hash IN (
        SELECT arguments_content FROM chosen
        UNION SELECT result_content FROM chosen
        UNION SELECT error_message_content FROM chosen
    )
)
SELECT
    s.trace_id, s.span_id, s.position, s.run_id, s.parent_run_id, s.run_source, s.session_id, s.service_name,
    s.agent_name, s.turn, s.tool_name, s.call_id,
    coalesce(left(s.arguments, $limit), a.text) AS arguments,
    coalesce(left(s.result, $limit), r.text) AS result,
    s.outcome, s.error_kind, s.error_type,
    coalesce(left(s.error_message, $limit), m.text) AS error_message,
    s.http_status, s.start_ns, s.end_ns, s.fingerprint, s.result_hash, s.scope_key, s.content_state,
    s.recorded_verdict, s.dialect, s.seq,
    coalesce(length(s.arguments), a.length) AS arguments_length,
    coalesce(length(s.result), r.length) AS result_length
FROM chosen AS s
LEFT JOIN texts AS a ON a.hash = s.arguments_content
LEFT JOIN texts AS r ON r.hash = s.result_content
LEFT JOIN texts AS m ON m.hash = s.error_message_content
ORDER BY s.seq
