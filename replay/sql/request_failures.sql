-- Failed requests with the keys of their messages, oldest first; error texts cut at $text_limit characters.
SELECT
    q.trace_id, q.span_id, q.run_id, q.session_id, q.service_name, q.agent_name, q.provider, q.model,
    q.http_status, q.error_type,
    left(coalesce(q.error_text, e.text), $text_limit) AS error_text,
    q.error_class, q.content_state, q.start_ns, q.end_ns, q.dialect, q.input_parts
FROM llm_request_rows AS q
LEFT JOIN (  -- few of all texts, which a plain join would go through
    SELECT hash, text FROM contents
    WHERE hash IN (
        SELECT error_text_content FROM llm_request_rows
        WHERE status = 'error' AND error_text_content IS NOT NULL
    )
) AS e ON e.hash = q.error_text_content
WHERE q.status = 'error' AND TRUE /* filter */
ORDER BY q.start_ns, q.trace_id, q.span_id
