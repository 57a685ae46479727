-- Calls and runs per label, whatever a policy says of them. $by as in totals.sql.
SELECT label, count(DISTINCT run) AS runs, count(*) AS calls
FROM (
    SELECT run, CASE $by WHEN 'tool' THEN tool WHEN 'outcome' THEN outcome WHEN 'kind' THEN kind ELSE 0 END AS label
    FROM calls
    WHERE TRUE /* filter */
) AS labelled
GROUP BY label
ORDER BY label
