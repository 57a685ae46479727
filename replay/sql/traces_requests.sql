-- The requests of some traces, in short.
SELECT q.trace_id, q.span_id, q.run_id, q.model, q.start_ns, q.end_ns, q.status = 'error' AS failed
FROM llm_request_rows AS q
WHERE q.trace_id IN (SELECT unnest($trace_ids)) AND q.start_ns BETWEEN $first AND $last
ORDER BY q.start_ns, q.span_id
LIMIT $limit
