-- Calls of one period, whatever a policy says of them; those that began from $timed_from on have a recorded time.
SELECT
    count(DISTINCT run) AS runs,
    count(*) AS calls,
    max(start_ns) AS last_ns,
    count(CASE WHEN start_ns < $timed_from THEN 1 END) AS early,
    min(start_ns) AS first_ns,
    min(CASE WHEN start_ns >= $timed_from THEN start_ns END) AS first_timed_ns,
    max(CASE WHEN start_ns >= $timed_from THEN start_ns END) AS last_timed_ns
FROM facts
WHERE TRUE /* filter */
