-- Where the nudges and blocks of several policies, which differ in default thresholds only, fall among the calls
-- of labelled incidents; counted per cell, split and side. One pass for all cells.
--
-- Inputs: `label_calls` (sql/label_calls.sql), `nesting` (sql/verdicts.sql), `labelled` (incident, positive, split)
-- and `labelled_calls` (incident, run, seq). A cell is a pair of default thresholds, $cell_nudges and $cell_blocks, 0: off. Parameters
-- per tool as in sql/sweep_base.sql: a tool's own threshold stays as it is.
--
-- What verdicts.sql does for one policy is done here for each cell, for the units of labelled incidents only.
WITH tools AS (
    SELECT
        CAST(unnest($tools) AS INTEGER) AS tool,
        CAST(unnest($nudges) AS BIGINT) AS nudge,
        CAST(unnest($blocks) AS BIGINT) AS block,
        CAST(unnest($error_nudges) AS BIGINT) AS error_nudge,
        CAST(unnest($error_blocks) AS BIGINT) AS error_block,
        CAST(unnest($exempt) AS BOOLEAN) AS exempt,
        CAST(unnest($own_nudge) AS BOOLEAN) AS own_nudge,
        CAST(unnest($own_block) AS BOOLEAN) AS own_block
),
cells AS (
    SELECT
        CAST(unnest($cells) AS INTEGER) AS cell,
        CAST(unnest($cell_nudges) AS BIGINT) AS nudge,
        CAST(unnest($cell_blocks) AS BIGINT) AS block
),
limits AS (
    SELECT
        l.cell, t.tool, FALSE AS err,
        CASE WHEN t.own_nudge THEN t.nudge WHEN l.nudge > 0 THEN l.nudge END AS nudge,
        CASE WHEN t.own_block THEN t.block WHEN l.block > 0 THEN l.block END AS block
    FROM tools AS t
    CROSS JOIN cells AS l
    WHERE NOT t.exempt
    UNION ALL
    SELECT l.cell, t.tool, TRUE, t.error_nudge, t.error_block
    FROM tools AS t
    CROSS JOIN cells AS l
    WHERE NOT t.exempt
),
-- Calls that would be nudged or blocked if nothing had been blocked before.
candidates AS (
    SELECT
        l.cell, c.run, c.seq, c.unit, c.ord, c.end_ns, c.seen,
        CASE WHEN c.count >= l.block THEN 2 ELSE 1 END AS action
    FROM label_calls AS c
    JOIN limits AS l ON l.tool = c.tool AND l.err = c.err
    WHERE c.count >= l.block OR c.count >= l.nudge
),
blocks AS (
    SELECT cell, unit, min(ord) AS ord FROM candidates WHERE action = 2 GROUP BY cell, unit
),
silenced AS (
    SELECT DISTINCT b.cell, a.run AS unit
    FROM nesting AS a
    JOIN blocks AS b ON b.unit = a.ancestor
    JOIN candidates AS i ON i.cell = b.cell AND i.unit = b.unit AND i.ord = b.ord
    WHERE a.run_start_ns > i.end_ns
),
stops AS (
    SELECT cell, unit, min(ord) AS ord
    FROM (SELECT cell, unit, ord FROM blocks UNION ALL SELECT cell, unit, 0 FROM silenced) AS parts
    GROUP BY cell, unit
),
-- Up to its first intervention that was not recorded, a unit is what its agent saw.
departures AS (
    SELECT i.cell, i.unit, min(i.ord) AS ord
    FROM candidates AS i
    LEFT JOIN stops AS s ON s.cell = i.cell AND s.unit = i.unit
    WHERE i.seen <> i.action AND (s.ord IS NULL OR i.ord <= s.ord)
    GROUP BY i.cell, i.unit
),
departed AS (
    SELECT DISTINCT d.cell, a.run AS unit
    FROM nesting AS a
    JOIN departures AS d ON d.unit = a.ancestor
    JOIN candidates AS i ON i.cell = d.cell AND i.unit = d.unit AND i.ord = d.ord
    WHERE a.run_start_ns > i.end_ns
),
leaves AS (
    SELECT cell, unit, min(ord) AS ord
    FROM (SELECT cell, unit, ord FROM departures UNION ALL SELECT cell, unit, 0 FROM departed) AS parts
    GROUP BY cell, unit
),
-- Per incident: does the verdict fall on a call of it, is that exact, and would it if the run had not ended before?
marks AS (
    SELECT
        m.incident,
        k.cell,
        max(CASE WHEN k.action = 2 AND k.ord = s.ord THEN 1 ELSE 0 END) AS blocked,
        max(CASE WHEN k.action = 2 AND k.ord = s.ord AND (e.ord IS NULL OR k.ord <= e.ord) THEN 1 ELSE 0 END)
            AS blocked_exact,
        max(CASE WHEN k.action = 2 THEN 1 ELSE 0 END) AS blockable,
        max(CASE WHEN s.ord IS NULL OR k.ord <= s.ord THEN 1 ELSE 0 END) AS nudged,
        max(CASE WHEN (s.ord IS NULL OR k.ord <= s.ord) AND (e.ord IS NULL OR k.ord <= e.ord) THEN 1 ELSE 0 END)
            AS nudged_exact
    FROM labelled_calls AS m
    JOIN candidates AS k ON k.run = m.run AND k.seq = m.seq
    LEFT JOIN stops AS s ON s.cell = k.cell AND s.unit = k.unit
    LEFT JOIN leaves AS e ON e.cell = k.cell AND e.unit = k.unit
    GROUP BY m.incident, k.cell
)
SELECT
    c.cell,
    i.split,
    i.positive,
    count(*) AS incidents,
    count(CASE WHEN k.blocked = 1 THEN 1 END) AS block_caught,
    count(CASE WHEN k.blocked_exact = 1 THEN 1 END) AS block_exact,
    count(CASE WHEN k.blockable = 1 AND k.blocked = 0 THEN 1 END) AS block_cut_off,
    count(CASE WHEN k.nudged = 1 THEN 1 END) AS nudge_caught,
    count(CASE WHEN k.nudged_exact = 1 THEN 1 END) AS nudge_exact,
    count(CASE WHEN k.nudged = 0 THEN 1 END) AS nudge_cut_off
FROM labelled AS i
CROSS JOIN cells AS c
LEFT JOIN marks AS k ON k.incident = i.incident AND k.cell = c.cell
GROUP BY c.cell, i.split, i.positive
