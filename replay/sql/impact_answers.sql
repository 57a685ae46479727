-- What the last answered request of each run in `wanted_runs` (run_id) said: one row per message, in order;
-- texts cut at $limit characters.
WITH last_requests AS (
    SELECT
        q.run_id, q.output_parts,
        row_number() OVER (PARTITION BY q.run_id ORDER BY q.end_ns DESC, q.start_ns DESC, q.span_id DESC) AS nth
    FROM llm_request_rows AS q
    JOIN wanted_runs AS w ON w.run_id = q.run_id
    WHERE q.status <> 'error' AND q.end_ns IS NOT NULL
),
messages AS (
    SELECT run_id, unnest(output_parts) AS part, generate_subscripts(output_parts, 1) AS place
    FROM last_requests
    WHERE nth = 1
)
SELECT m.run_id, left(c.text, $limit) AS text
FROM messages AS m
JOIN contents AS c ON c.hash = m.part
ORDER BY m.run_id, m.place
