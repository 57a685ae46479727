-- Calls after a block to be shown, of `noted_calls`: of each run the first ones first, runs that lose most first.
SELECT m.run, m.unit, m.seq, m.judged, m.exact, m.wall_ns
FROM (
    SELECT
        *,
        row_number() OVER (PARTITION BY run ORDER BY seq) AS nth,
        count(*) OVER (PARTITION BY run) AS of_run
    FROM noted_calls
    WHERE action = 4 AND chosen AND judged = coalesce($judged, judged)
) AS m
JOIN runs AS r ON r.run = m.run
ORDER BY
    CASE WHEN $by_run THEN 0 ELSE m.nth END, CASE WHEN $by_run THEN 0 ELSE -m.of_run END, r.started, r.run_id, m.seq
LIMIT $limit OFFSET $offset
