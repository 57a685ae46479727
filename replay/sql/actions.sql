-- What is done with each call.
SELECT run, seq, CAST(action AS TINYINT) AS action
FROM verdicts
WHERE TRUE /* filter */
