-- What is done with each call; what is missing is allowed.
SELECT run, seq, CAST(action AS TINYINT) AS action
FROM verdicts
WHERE action <> 0 AND (TRUE /* filter */)
