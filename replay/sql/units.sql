-- Calls put together by trace or session ($scope), and their order of counting there. A call without a
-- session belongs to its run alone (a number below 0). Numbers of runs depend on when these came in, names do not.
SELECT run, seq, unit, row_number() OVER (PARTITION BY unit ORDER BY end_ns, start_ns, run_id, seq) AS ord
FROM (
    SELECT
        f.run, f.seq, f.start_ns, f.end_ns, r.run_id,
        CASE WHEN $scope = 'trace' THEN f.trace ELSE coalesce(f.session, -f.run) END AS unit
    FROM facts AS f
    JOIN runs AS r ON r.run = f.run
    WHERE $scope <> 'run'
) AS placed
