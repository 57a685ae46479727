-- One span with its texts, cut at $text_limit characters, and their whole lengths.
SELECT
    trace_id, span_id, parent_span_id, name, kind, service_name, start_ns, end_ns, status_code, status_message,
    left(attributes, $text_limit) AS attributes, length(attributes) AS attributes_length,
    left(events, $text_limit) AS events, length(events) AS events_length,
    left(links, $text_limit) AS links, length(links) AS links_length,
    left(resource, $text_limit) AS resource, length(resource) AS resource_length,
    scope_name, scope_version, dropped_attributes, dropped_events, received_ns
FROM spans
WHERE trace_id = $trace_id AND span_id = $span_id AND start_ns BETWEEN $first AND $last
