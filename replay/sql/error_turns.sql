-- Failed calls by run, turn and kind, for what only the store knows of them.
SELECT run, turn, kind, count(*) AS calls
FROM verdicts
WHERE outcome IN (2, 3) AND TRUE /* filter */
GROUP BY run, turn, kind
