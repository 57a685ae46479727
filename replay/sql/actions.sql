-- What is done with each call that is not allowed. `idle`: what would be, if nothing happened in its run.
SELECT
    run, seq,
    CAST(action AS TINYINT) AS action,
    CAST(CASE WHEN exempt OR counted THEN 0 ELSE 3 END AS TINYINT) AS idle
FROM verdicts
WHERE action <> 0 AND (TRUE /* filter */)
