-- Failed calls by tool, kind and outcome.
SELECT tool, kind, outcome, count(*) AS calls, count(CASE WHEN counted AND NOT exempt THEN 1 END) AS counted
FROM verdicts
WHERE outcome IN (2, 3) AND TRUE /* filter */
GROUP BY tool, kind, outcome
