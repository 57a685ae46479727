-- Failed requests without the keys of their messages, oldest first; error texts cut at $text_limit characters.
-- `changed_in`: in which fold anything of its trace last changed.
-- Behind sql/error_texts.sql.
SELECT
    q.trace_id, q.span_id, q.run_id, q.session_id, q.service_name, q.agent_name, q.provider, q.model,
    q.http_status, q.error_type,
    left(coalesce(q.error_text, e.text), $text_limit) AS error_text,
    q.error_class, q.content_state, q.start_ns, q.end_ns, q.dialect, t.changed_in
FROM llm_request_rows AS q
LEFT JOIN error_texts AS e ON e.hash = q.error_text_content
LEFT JOIN trace_rows AS t ON t.trace_id = q.trace_id
WHERE q.status = 'error' AND TRUE /* filter */
ORDER BY q.start_ns, q.trace_id, q.span_id
