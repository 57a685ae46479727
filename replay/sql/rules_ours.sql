-- Where our guard speaks and stops in each run, over `verdicts`.
SELECT
    run,
    min(CASE WHEN action = 1 THEN seq END) AS notice,
    min(CASE WHEN action = 2 THEN seq END) AS stop
FROM verdicts
WHERE action IN (1, 2)
GROUP BY run
