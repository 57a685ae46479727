-- Which request asked for each call (`noted_calls`, `unit_requests`): the one of the call's turn; where the
-- turn is not known, the last answered request of the run that had ended when the call started.
WITH by_turn AS (
    SELECT run, turn, min(number) AS number FROM unit_requests WHERE turn IS NOT NULL GROUP BY run, turn
),
turnless AS (
    SELECT run, seq, start_ns FROM noted_calls WHERE turn IS NULL AND action IN (1, 2, 4)
),
timeline AS (
    SELECT run, end_ns AS moment, 0 AS place, number, NULL AS seq
    FROM unit_requests
    WHERE turn IS NOT NULL AND end_ns IS NOT NULL AND run IN (SELECT run FROM turnless)
    UNION ALL
    SELECT run, start_ns, 1, NULL, seq FROM turnless
),
-- Numbers grow with the time of the end.
by_time AS (
    SELECT
        run, seq,
        max(number) OVER (PARTITION BY run ORDER BY moment, place ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
    FROM timeline
)
SELECT
    c.run, c.seq, c.tool, c.agent, c.outcome, c.kind, c.action, c.judged, c.exact, c.chosen, c.tool_ns, c.wall_ns,
    coalesce(t.number, l.number) AS number
FROM noted_calls AS c
LEFT JOIN by_turn AS t ON t.run = c.run AND t.turn = c.turn
LEFT JOIN by_time AS l ON l.run = c.run AND l.seq = c.seq
WHERE c.action IN (1, 2, 4)
