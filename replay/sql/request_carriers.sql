-- The newest requests that succeeded with one of the histories in `wanted_histories` (history, messages).
SELECT
    w.history, q.trace_id, q.span_id, q.run_id, q.service_name, q.agent_name, q.provider, q.model, q.dialect,
    q.start_ns, len(q.input_parts) AS messages,
    row_number() OVER (PARTITION BY w.history, w.messages ORDER BY q.start_ns DESC, q.trace_id, q.span_id) AS nth
FROM llm_request_rows AS q
JOIN wanted_histories AS w ON w.history = hash(q.input_parts) AND w.messages = len(q.input_parts)
WHERE q.status <> 'error' AND q.content_state <> 'truncated' AND TRUE /* filter */
ORDER BY q.start_ns DESC, q.trace_id, q.span_id
LIMIT $limit
