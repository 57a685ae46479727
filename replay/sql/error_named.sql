-- Failed calls by agent and kind.
SELECT agent, kind, count(*) AS calls
FROM verdicts
WHERE outcome IN (2, 3) AND TRUE /* filter */
GROUP BY agent, kind
