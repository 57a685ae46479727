-- Calls and runs per label, whatever a policy says of them. $by as in totals.sql. `outcomes`: the facts, or where a
-- policy has rules for outcomes, the calls as these see them.
SELECT label, count(*) AS runs, CAST(sum(calls) AS BIGINT) AS calls
FROM (
    SELECT label, run, count(*) AS calls
    FROM (
        SELECT
            run,
            CASE $by WHEN 'tool' THEN tool WHEN 'outcome' THEN outcome WHEN 'kind' THEN kind ELSE 0 END AS label
        FROM outcomes
        WHERE TRUE /* filter */
    ) AS labelled
    GROUP BY label, run
) AS of_runs
GROUP BY label
ORDER BY label
