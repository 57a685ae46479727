-- Keys of the messages of the failed requests in `wanted_requests` (number, trace_id, span_id), which began between
-- $since and $until.
SELECT w.number, q.input_parts
FROM wanted_requests AS w
JOIN llm_request_rows AS q ON q.trace_id = w.trace_id AND q.span_id = w.span_id
WHERE q.status = 'error' AND q.start_ns BETWEEN $since AND $until
