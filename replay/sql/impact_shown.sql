-- Calls after a block to be shown, of `noted_calls`: of each run the first ones first, runs that lose most first.
SELECT run, unit, seq, judged, exact, wall_ns
FROM (
    SELECT
        *,
        row_number() OVER (PARTITION BY run ORDER BY seq) AS nth,
        count(*) OVER (PARTITION BY run) AS of_run
    FROM noted_calls
    WHERE action = 4 AND chosen AND judged = coalesce($judged, judged)
) AS mine
ORDER BY CASE WHEN $by_run THEN 0 ELSE nth END, CASE WHEN $by_run THEN 0 ELSE -of_run END, run, seq
LIMIT $limit OFFSET $offset
