-- One span with its texts, cut at $text_limit characters, and their whole lengths. From the base table: the view
-- would put the texts of all spans together before the condition is looked at, 7 s of 40,000 spans.
WITH chosen AS MATERIALIZED (
    SELECT *
    FROM span_rows
    WHERE trace_id = $trace_id AND span_id = $span_id AND start_ns BETWEEN $first AND $last
),
whole AS (
    SELECT
        * REPLACE (
            CASE WHEN attribute_parts IS NULL THEN attributes ELSE whole_text(attributes, attribute_parts) END AS attributes,
            coalesce(CASE WHEN event_parts IS NULL THEN events ELSE whole_text(events, event_parts) END, '[]') AS events,
            coalesce(links, '[]') AS links
        )
    FROM chosen
)
SELECT
    trace_id, span_id, parent_span_id, name, kind, service_name, start_ns, end_ns, status_code, status_message,
    left(attributes, $text_limit) AS attributes, length(attributes) AS attributes_length,
    left(events, $text_limit) AS events, length(events) AS events_length,
    left(links, $text_limit) AS links, length(links) AS links_length,
    left(resource, $text_limit) AS resource, length(resource) AS resource_length,
    scope_name, scope_version, dropped_attributes, dropped_events, received_ns
FROM whole
