-- One request with the keys of its messages; its error text cut at $text_limit characters.
SELECT
    q.trace_id, q.span_id, q.run_id, q.session_id, q.service_name, q.agent_name, q.provider, q.model,
    q.http_status, q.error_type,
    left(coalesce(q.error_text, e.text), $text_limit) AS error_text,
    q.error_class, q.content_state, q.start_ns, q.end_ns, q.dialect, q.input_parts, q.status
FROM llm_request_rows AS q
LEFT JOIN contents AS e ON e.hash = q.error_text_content
WHERE q.trace_id = $trace_id AND q.span_id = $span_id
