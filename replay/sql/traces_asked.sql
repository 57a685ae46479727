-- The requests of a run in the order in which they were sent.
SELECT
    row_number() OVER (ORDER BY q.start_ns, q.span_id, q.trace_id) - 1 AS request,
    q.trace_id, q.span_id, q.agent_name, q.turn, q.provider, q.model, q.start_ns, q.end_ns, q.status, q.http_status,
    q.error_class, left(coalesce(q.error_text, e.text, q.error_type), $text_limit) AS error_text,
    q.input_tokens, q.output_tokens, q.cost, q.content_state, q.dialect,
    len(q.input_parts) AS messages, len(q.output_parts) AS answers, count(*) OVER () AS total
FROM llm_request_rows AS q
LEFT JOIN contents AS e ON e.hash = q.error_text_content
WHERE q.run_id = $run_id
ORDER BY request
LIMIT $limit OFFSET $offset
