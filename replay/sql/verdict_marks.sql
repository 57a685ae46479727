-- What sql/call_verdicts.sql says of calls, without the count, which takes most of its time.
SELECT run, seq, action, CASE WHEN action = 4 THEN judged END AS judged, exact
FROM verdicts
WHERE TRUE /* filter */
