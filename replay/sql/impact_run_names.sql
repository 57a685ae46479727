-- The runs in `wanted` (sql/impact_wanted.sql), where the unit is the run: their names, and whether all of their
-- requests are wanted.
SELECT n.run AS unit, n.run_id AS unit_name, max(CASE WHEN w.turn IS NULL THEN 1 ELSE 0 END) = 1 AS whole
FROM wanted AS w
JOIN names AS n ON n.run = w.unit
GROUP BY n.run, n.run_id
