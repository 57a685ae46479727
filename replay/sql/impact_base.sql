-- Runs with their calls, in all and under the filter, whatever a policy says of them.
SELECT run, count(*) AS calls, count(CASE WHEN TRUE /* filter */ THEN 1 END) AS chosen
FROM facts
GROUP BY run
