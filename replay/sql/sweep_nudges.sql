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
    FROM calls AS c
    JOIN tools AS t ON t.tool = c.tool
    WHERE c.counted AND NOT t.exempt AND (c.count >= $lowest OR t.own_nudge OR c.err) AND TRUE /* filter */
),
-- A run may lie in several units, of which some are stopped.
touched AS (
    SELECT DISTINCT s.cell, n.run FROM stops AS s JOIN nudged AS n ON n.unit = s.unit
),
stopped AS (
    SELECT
        t.cell,
        t.run,
        max(n.level) AS level,
        coalesce(max(CASE WHEN s.ord IS NULL OR n.ord < s.ord THEN n.level END), 0) AS level_before
    FROM touched AS t
    JOIN nudged AS n ON n.run = t.run
    LEFT JOIN stops AS s ON s.cell = t.cell AND s.unit = n.unit
    GROUP BY t.cell, t.run
),
tops AS (
    SELECT run, max(level) AS level FROM nudged GROUP BY run
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
