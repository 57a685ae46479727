-- Attributes of the agent spans that are the runs in `wanted_runs` (run_id, trace_id, span_id). From the base
-- table: the view would put the texts of all spans together first.
WITH chosen AS MATERIALIZED (
    SELECT w.run_id, s.attributes, s.attribute_parts
    FROM wanted_runs AS w
    JOIN span_rows AS s ON s.trace_id = w.trace_id AND s.span_id = w.span_id
),
whole AS (
    SELECT
        run_id,
        CASE WHEN attribute_parts IS NULL THEN attributes ELSE whole_text(attributes, attribute_parts) END AS attributes
    FROM chosen
)
SELECT run_id, attributes
FROM whole
WHERE length(attributes) <= $limit
