-- The figures of one period.
SELECT
    count(DISTINCT run) AS runs,
    count(*) AS calls,
    count(CASE WHEN counted AND NOT exempt AND count >= 2 THEN 1 END) AS repeated_calls,
    min(start_ns) AS first_ns,
    max(start_ns) AS last_ns
FROM verdicts
WHERE TRUE /* filter */
