-- Tools that succeeded inside rows of equal results that the policy nudges or blocks, from `streaks`
-- (sql/suggest_streaks.sql) and `judged`. Only of the tools in $changers; the longest rows, at most $most,
-- and $most_in_unit of one run.
WITH hit AS (
    SELECT *, row_number() OVER (PARTITION BY unit ORDER BY length DESC, first_ord, key) AS place
    FROM streaks
    WHERE nudges + blocks > 0 AND changes_within > 0
),
chosen AS (
    SELECT * FROM hit WHERE place <= $most_in_unit ORDER BY length DESC, run, first_ord, key LIMIT $most
),
inside AS (
    SELECT DISTINCT h.run, h.key, h.first_ord, h.first_hit, h.tool AS asked, h.moved, h.went_on, c.tool
    FROM chosen AS h
    JOIN judged AS c ON c.unit = h.unit AND c.ord > h.first_ord AND c.ord < h.last_ord
    WHERE c.outcome = 1 AND c.tool <> h.tool AND c.tool IN (SELECT unnest($changers))
)
SELECT run, key, first_ord, first_hit, asked, moved, went_on, list(tool ORDER BY tool) AS tools
FROM inside
GROUP BY run, key, first_ord, first_hit, asked, moved, went_on
ORDER BY run, first_hit, key
