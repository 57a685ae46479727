-- Calls put together by trace or session ($scope), and their order of counting there. A call without a
-- session belongs to its run alone.
WITH placed AS (
    SELECT
        r.run, c.seq, c.start_ns, c.end_ns,
        CASE
            WHEN $scope = 'trace' THEN concat('t', c.trace_id)
            WHEN c.session_id IS NULL THEN concat('r', c.run_id)
            ELSE concat('s', c.session_id)
        END AS unit_name
    FROM tool_call_rows AS c
    JOIN run_names AS r ON r.run_id = c.run_id
    WHERE c.seq IS NOT NULL
)
SELECT
    run,
    seq,
    dense_rank() OVER (ORDER BY unit_name) AS unit,
    row_number() OVER (PARTITION BY unit_name ORDER BY end_ns, start_ns, run, seq) AS ord
FROM placed
