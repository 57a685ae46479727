-- Calls put together by trace or session ($scope), and their order of counting there. A call without a
-- session belongs to its run alone (a number below 0).
SELECT run, seq, unit, row_number() OVER (PARTITION BY unit ORDER BY end_ns, start_ns, run, seq) AS ord
FROM (
    SELECT run, seq, start_ns, end_ns, CASE WHEN $scope = 'trace' THEN trace ELSE coalesce(session, -run) END AS unit
    FROM facts
    WHERE $scope <> 'run'
) AS placed
