-- Calls under the filter, and how many of them lack something that rules need.
SELECT
    count(DISTINCT run) AS runs,
    count(*) AS calls,
    count(CASE WHEN print IS NULL THEN 1 END) AS arguments,
    count(CASE WHEN result IS NULL THEN 1 END) AS result,
    count(CASE WHEN outcome = 0 THEN 1 END) AS outcome,
    count(CASE WHEN turn IS NULL THEN 1 END) AS turn
FROM facts
WHERE TRUE /* filter */
