-- Calls put together by trace or session ($scope), and their order of counting there. A call without a
-- session belongs to its run alone (a number below 0). Numbers of runs depend on when these came in, names do not;
-- where all calls are of one run, its name is not needed.
WITH placed AS (
    SELECT
        run, seq, start_ns, end_ns,
        CASE WHEN $scope = 'trace' THEN trace ELSE coalesce(session, -run) END AS unit
    FROM facts
    WHERE $scope <> 'run'
),
mixed AS (
    SELECT unit FROM placed GROUP BY unit HAVING min(run) < max(run)
),
named AS (
    SELECT run, run_id FROM runs WHERE run IN (SELECT p.run FROM placed AS p JOIN mixed AS m ON m.unit = p.unit)
)
SELECT
    p.run, p.seq, p.unit,
    row_number() OVER (PARTITION BY p.unit ORDER BY p.end_ns, p.start_ns, n.run_id, p.seq) AS ord
FROM placed AS p
LEFT JOIN named AS n ON n.run = p.run
