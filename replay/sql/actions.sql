-- What is done with each call that is not simply allowed: the columns of sql/impact_calls.sql that comparing takes.
SELECT
    run, seq, tool, counted, CAST(action AS TINYINT) AS action, CASE WHEN action = 4 THEN judged END AS judged, exact
FROM verdicts
WHERE (action <> 0 OR NOT exact) AND (TRUE /* filter */)
