-- Log records of some traces in order of time, texts cut at $text_limit characters.
WITH mine AS (
    SELECT *, count(*) OVER () AS total
    FROM log_rows
    WHERE (trace_id IN (SELECT unnest($trace_ids)) OR session_trace IN (SELECT unnest($trace_ids)))
        AND ($span_id IS NULL OR span_id = $span_id)
        AND time_ns BETWEEN $first AND $last
    ORDER BY time_ns, log_key
    LIMIT $limit OFFSET $offset
)
SELECT
    coalesce(trace_id, session_trace) AS trace_id, span_id, time_ns, event_name, severity, service_name,
    left(CASE WHEN body_parts IS NULL THEN body ELSE whole_text(body, body_parts) END, $text_limit) AS body,
    left(CASE WHEN attribute_parts IS NULL THEN attributes ELSE whole_text(attributes, attribute_parts) END, $text_limit)
        AS attributes,
    total
FROM mine
ORDER BY time_ns, log_key
