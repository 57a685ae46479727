-- Why finished calls are not counted: the first reason that holds.
SELECT
    CASE
        WHEN exempt THEN 'exempt'
        WHEN outcome = 3 AND NOT err AND NOT counts_errors THEN 'general_tool_error'
        WHEN outcome = 0 THEN 'no_outcome'
        WHEN key IS NULL THEN 'no_arguments'
        WHEN result IS NULL THEN 'no_result'
        ELSE 'outcome_not_counted'
    END AS reason,
    count(*) AS calls
FROM (SELECT *, CAST($counts_errors AS BOOLEAN) AS counts_errors FROM verdicts WHERE TRUE /* filter */) AS judged
WHERE exempt OR NOT counted
GROUP BY reason
ORDER BY calls DESC, reason
