-- Calls by verdict over time; bucket n starts at $origin + n * $width.
SELECT
    CAST((start_ns - $origin) // $width AS INTEGER) AS bucket,
    count(CASE WHEN action = 0 THEN 1 END) AS allow,
    count(CASE WHEN action = 1 THEN 1 END) AS nudge,
    count(CASE WHEN action = 2 THEN 1 END) AS block,
    count(CASE WHEN action = 3 THEN 1 END) AS not_counted,
    count(CASE WHEN action = 4 THEN 1 END) AS after_block
FROM verdicts
WHERE TRUE /* filter */
GROUP BY bucket
ORDER BY bucket
