-- How runs ended, by their spans. `run_spans` (run_id, trace_id, span_id): the agent's span; NULL: the spans at the
-- top of that trace. $first, $last: when the spans of these traces start.
SELECT
    w.run_id,
    min(s.start_ns) AS start_ns,
    max(s.end_ns) AS end_ns,
    max(s.received_ns) AS received_ns,
    bool_or(s.end_ns IS NULL) AS running,
    max(CASE s.status_code WHEN 2 THEN 2 WHEN 1 THEN 1 ELSE 0 END) AS status_code
FROM run_spans AS w
JOIN span_rows AS s ON s.trace_id = w.trace_id
WHERE s.start_ns BETWEEN $first AND $last
    AND (s.span_id = w.span_id OR (w.span_id IS NULL AND (s.parent_span_id IS NULL OR s.end_ns IS NULL)))
GROUP BY w.run_id
