-- Failed requests with the keys of their messages, oldest first; error texts cut at $text_limit characters.
-- Behind sql/error_texts.sql.
SELECT
    q.trace_id, q.span_id, q.run_id, q.session_id, q.service_name, q.agent_name, q.provider, q.model,
    q.http_status, q.error_type,
    left(coalesce(q.error_text, e.text), $text_limit) AS error_text,
    q.error_class, q.content_state, q.start_ns, q.end_ns, q.dialect, q.input_parts
FROM llm_request_rows AS q
LEFT JOIN error_texts AS e ON e.hash = q.error_text_content
WHERE q.status = 'error' AND TRUE /* filter */
ORDER BY q.start_ns, q.trace_id, q.span_id
