-- Runs that a rule stops and ours does not, and the other way round: `said` as in rules_totals.sql, ours is
-- rule $ours. Counted where the stop lies under the filter; of each kind the first three runs.
WITH stopped AS (
    SELECT s.rule, s.run
    FROM said AS s
    JOIN calls AS c ON c.run = s.run AND c.seq = s.stop
    WHERE TRUE /* filter */
),
ours AS (
    SELECT run FROM stopped WHERE rule = $ours
),
pairs AS (
    SELECT s.rule, s.run, CASE WHEN o.run IS NULL THEN 'rule' ELSE 'both' END AS which
    FROM stopped AS s
    LEFT JOIN ours AS o ON o.run = s.run
    UNION ALL
    SELECT r.rule, o.run, 'ours'
    FROM ours AS o
    CROSS JOIN (SELECT DISTINCT rule FROM rule_numbers) AS r
    LEFT JOIN stopped AS s ON s.rule = r.rule AND s.run = o.run
    WHERE s.run IS NULL
),
placed AS (
    SELECT p.rule, p.run, p.which, row_number() OVER (PARTITION BY p.rule, p.which ORDER BY r.started, r.run_id) AS place
    FROM pairs AS p
    JOIN runs AS r ON r.run = p.run
)
SELECT rule, which, max(place) AS runs, list(run ORDER BY place) FILTER (WHERE place <= 3) AS examples
FROM placed
GROUP BY rule, which
