-- The spans of some traces in the order in which they started, with the place of each one's parent (NULL: none, or
-- not recorded) and what was derived from it. $first, $last: when they start.
WITH mine AS (
    SELECT
        row_number() OVER (ORDER BY start_ns, span_id, trace_id) - 1 AS place,
        trace_id, span_id, parent_span_id, name, service_name, start_ns, end_ns, status_code
    FROM span_rows
    WHERE trace_id IN (SELECT unnest($trace_ids)) AND start_ns BETWEEN $first AND $last
    ORDER BY place
    LIMIT $limit
)
SELECT
    m.place, p.place AS parent, m.trace_id, m.span_id, m.name, m.start_ns, m.end_ns, m.status_code = 2 AS failed
FROM mine AS m
LEFT JOIN mine AS p ON p.trace_id = m.trace_id AND p.span_id = m.parent_span_id
ORDER BY m.place
