-- Failed calls by kind over time; bucket n starts at $origin + n * $width.
SELECT CAST((start_ns - $origin) // $width AS INTEGER) AS bucket, kind, count(*) AS calls
FROM verdicts
WHERE outcome IN (2, 3) AND TRUE /* filter */
GROUP BY bucket, kind
ORDER BY bucket, kind
