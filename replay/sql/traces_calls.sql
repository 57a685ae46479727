-- The calls of some traces, in short; those that stand only in messages have a `position` above 0.
SELECT
    c.trace_id, c.span_id, c.position, c.run_id, c.seq, c.tool_name, c.start_ns, c.end_ns,
    c.outcome IN ('schema_error', 'general_tool_error') AS failed
FROM tool_call_rows AS c
WHERE c.trace_id IN (SELECT unnest($trace_ids)) AND c.start_ns BETWEEN $first AND $last
ORDER BY c.start_ns, c.span_id, c.position
LIMIT $limit
