-- The messages of a run's requests $first to $last (from 0), each where the run first shows it. A history mostly
-- repeats the one before it: only what lies behind that is looked at. side: 0 sent, 1 answered.
WITH asked AS (
    SELECT
        row_number() OVER (ORDER BY start_ns, span_id, trace_id) - 1 AS request,
        trace_id, span_id, input_parts, output_parts,
        lag(input_parts) OVER (PARTITION BY agent_name ORDER BY start_ns, span_id, trace_id) AS before
    FROM llm_request_rows
    WHERE run_id = $run_id
),
sent AS (
    SELECT
        request, output_parts,
        CASE
            WHEN before IS NULL OR len(before) = 0 OR len(before) > len(input_parts)
                OR list_slice(input_parts, 1, len(before)) <> before THEN 0
            ELSE len(before)
        END AS known,
        input_parts
    FROM asked
),
shown AS (
    SELECT request, 0 AS side, known + generate_subscripts(tail, 1) AS place, unnest(tail) AS key
    FROM (SELECT request, known, list_slice(input_parts, known + 1, len(input_parts)) AS tail FROM sent)
    UNION ALL
    SELECT request, 1, generate_subscripts(output_parts, 1), unnest(output_parts) FROM sent
),
firsts AS (
    SELECT request, side, place, key
    FROM shown
    QUALIFY row_number() OVER (PARTITION BY key ORDER BY request, side, place) = 1
)
SELECT f.request, f.side, f.place, f.key, left(t.text, $text_limit) AS text, length(t.text) AS chars
FROM firsts AS f
LEFT JOIN contents AS t ON t.hash = f.key
WHERE f.request BETWEEN $first AND $last
ORDER BY f.request, f.side, f.place
LIMIT $limit
