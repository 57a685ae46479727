-- How many calls, and runs, are nudged: histograms over the level up to which a call is nudged.
-- A call of count 4 is nudged by thresholds up to 4, so a threshold's answer is the sum of the levels
-- from it on. Counts are capped at $cap and grouped before anything is joined to thresholds; what a sweep
-- does not move (a tool's own nudge threshold, errors) holds at every level ($cap + 1).
--
-- Cell NULL is the histogram without any block; the others say what a block takes away or puts back.
, nudged AS (
    SELECT
        c.run, c.unit, c.ord,
        CASE
            WHEN c.err THEN CASE WHEN c.count >= t.error_nudge THEN $cap + 1 ELSE 0 END
            WHEN NOT t.own_nudge THEN least(c.count, $cap)
            WHEN c.count >= t.nudge THEN $cap + 1
            ELSE 0
        END AS level
    FROM busy_calls AS c
    JOIN tools AS t ON t.tool = c.tool
    WHERE c.counted AND NOT t.exempt AND (c.count >= $lowest OR t.own_nudge OR c.err) AND TRUE /* filter */
),
-- A run may lie in several units, of which some are stopped.
unit_tops AS (
    SELECT run, unit, max(level) AS level FROM nudged GROUP BY run, unit
),
tops AS (
    SELECT run, max(level) AS level FROM unit_tops GROUP BY run
),
unit_tops_before AS (
    SELECT s.cell, n.run, n.unit, coalesce(max(CASE WHEN n.ord < s.ord THEN n.level END), 0) AS level
    FROM stops AS s
    JOIN nudged AS n ON n.unit = s.unit
    GROUP BY s.cell, n.run, n.unit
),
touched AS (
    SELECT DISTINCT cell, run FROM unit_tops_before
),
stopped AS (
    SELECT t.cell, t.run, max(u.level) AS level, max(coalesce(b.level, u.level)) AS level_before
    FROM touched AS t
    JOIN unit_tops AS u ON u.run = t.run
    LEFT JOIN unit_tops_before AS b ON b.cell = t.cell AND b.run = t.run AND b.unit = u.unit
    GROUP BY t.cell, t.run
)
SELECT CAST(NULL AS BIGINT) AS cell, level, count(*) AS calls, 0 AS runs FROM nudged GROUP BY level
UNION ALL
SELECT NULL, level, 0, count(*) FROM tops GROUP BY level
UNION ALL
SELECT s.cell, n.level, -count(*), 0
FROM stops AS s
JOIN nudged AS n ON n.unit = s.unit AND n.ord >= s.ord
GROUP BY s.cell, n.level
UNION ALL
SELECT cell, level, 0, -count(*) FROM stopped GROUP BY cell, level
UNION ALL
SELECT cell, level_before, 0, count(*) FROM stopped GROUP BY cell, level_before
