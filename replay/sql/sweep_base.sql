-- Where runs are blocked for each of several block thresholds, to be followed by a statement that
-- reads `stops` (cell, unit, ord: its last judged call; a nested run that starts after the block has 0).
--
-- `busy_calls`: the calls of units in which a threshold of any cell is reached, and of units nested in these.
-- `cell` is the default block threshold, 0: off. Parameters as in sql/verdicts.sql, with $own_nudge and
-- $own_block: the threshold is the tool's own and stays as it is, as do those for errors.
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
    SELECT CAST(unnest($cells) AS BIGINT) AS cell
),
block_of AS (
    SELECT l.cell, t.tool, FALSE AS err, CASE WHEN t.own_block THEN t.block WHEN l.cell > 0 THEN l.cell END AS block
    FROM tools AS t
    CROSS JOIN cells AS l
    WHERE NOT t.exempt
    UNION ALL
    SELECT l.cell, t.tool, TRUE, t.error_block
    FROM tools AS t
    CROSS JOIN cells AS l
    WHERE NOT t.exempt
),
-- A count grows by one, so the first call that reaches a threshold has exactly that count.
own_stops AS (
    SELECT b.cell, c.unit, min(c.ord) AS ord
    FROM busy_calls AS c
    JOIN block_of AS b ON b.tool = c.tool AND b.err = c.err AND b.block = c.count
    WHERE c.counted
    GROUP BY b.cell, c.unit
),
silenced AS (
    SELECT DISTINCT s.cell, a.run AS unit
    FROM nesting AS a
    JOIN own_stops AS s ON s.unit = a.ancestor
    JOIN busy_calls AS c ON c.unit = s.unit AND c.ord = s.ord
    WHERE a.run_start_ns > c.end_ns
),
stops AS (
    SELECT cell, unit, min(ord) AS ord
    FROM (SELECT cell, unit, ord FROM own_stops UNION ALL SELECT cell, unit, 0 FROM silenced) AS parts
    GROUP BY cell, unit
)
