-- Verdicts over a table `calls` (sql/calls.sql), to be followed by a statement that reads `verdicts`.
-- `busy_calls` are those of units in which a count reaches a threshold, and of units nested in these.
--
--   action   0 allow, 1 nudge, 2 block, 3 not counted, 4 after a block
--   exact    the recorded agent had seen every intervention before this call
--   touched  something happens in its unit, or ($wide) units are not runs
--
-- Parameters: one entry per tool in $tools, $nudges, $blocks, $error_nudges, $error_blocks (for errors that
-- are counted on their own), $exempt and $resets; NULL threshold: off. `nesting` (run, ancestor, run_start_ns)
-- says which runs lie in which; it is empty where the unit is not the run.
WITH thresholds AS (
    SELECT
        CAST(unnest($tools) AS INTEGER) AS tool,
        CAST(unnest($nudges) AS BIGINT) AS nudge,
        CAST(unnest($blocks) AS BIGINT) AS block,
        CAST(unnest($error_nudges) AS BIGINT) AS error_nudge,
        CAST(unnest($error_blocks) AS BIGINT) AS error_block,
        CAST(unnest($exempt) AS BOOLEAN) AS exempt,
        CAST(unnest($resets) AS BOOLEAN) AS resets
),
limits AS (
    SELECT tool, FALSE AS err, nudge, block, exempt, resets FROM thresholds
    UNION ALL
    SELECT tool, TRUE, error_nudge, error_block, exempt, resets FROM thresholds
),
-- Calls that would be nudged or blocked if nothing had been blocked before.
candidates AS (
    SELECT c.unit, c.ord, c.end_ns, c.seen, CASE WHEN c.count >= t.block THEN 2 ELSE 1 END AS action
    FROM busy_calls AS c
    JOIN limits AS t ON t.tool = c.tool AND t.err = c.err
    WHERE c.counted AND NOT t.exempt AND (c.count >= t.block OR c.count >= t.nudge)
),
blocks AS (
    SELECT unit, min(ord) AS ord FROM candidates WHERE action = 2 GROUP BY unit
),
-- Nested runs that start after a block of a run around them: no call of theirs is judged.
silenced AS (
    SELECT DISTINCT a.run AS unit
    FROM nesting AS a
    JOIN blocks AS b ON b.unit = a.ancestor
    JOIN candidates AS i ON i.unit = b.unit AND i.ord = b.ord
    WHERE a.run_start_ns > i.end_ns
),
-- Where a unit leaves what its agent saw: its first intervention that was not recorded.
departures AS (
    SELECT i.unit, min(i.ord) AS ord
    FROM candidates AS i
    LEFT JOIN blocks AS b ON b.unit = i.unit
    LEFT JOIN silenced AS z ON z.unit = i.unit
    WHERE z.unit IS NULL AND i.seen <> i.action AND (b.ord IS NULL OR i.ord <= b.ord)
    GROUP BY i.unit
),
-- Nested runs that start after the departure of a run around them.
departed AS (
    SELECT DISTINCT a.run AS unit
    FROM nesting AS a
    JOIN departures AS d ON d.unit = a.ancestor
    JOIN candidates AS i ON i.unit = d.unit AND i.ord = d.ord
    WHERE a.run_start_ns > i.end_ns
),
-- One row per unit in which anything happens. Nothing counts before ord 0.
cuts AS (
    SELECT unit, min(blocked_at) AS blocked_at, min(departed_at) AS departed_at
    FROM (
        SELECT unit, ord AS blocked_at, NULL AS departed_at FROM blocks
        UNION ALL SELECT unit, NULL, ord FROM departures
        UNION ALL SELECT unit, 0, NULL FROM silenced
        UNION ALL SELECT unit, NULL, NULL FROM candidates  -- of nudges that were all recorded there is no departure
        UNION ALL SELECT unit, NULL, 0 FROM departed
    ) AS parts
    GROUP BY unit
),
verdicts AS (
    SELECT
        c.*,
        x.blocked_at,
        CASE
            WHEN c.ord > x.blocked_at THEN 4
            WHEN t.exempt THEN 0
            WHEN NOT c.counted THEN 3
            WHEN c.count >= t.block THEN 2
            WHEN c.count >= t.nudge THEN 1
            ELSE 0
        END AS action,
        t.exempt,
        t.resets,
        x.unit IS NOT NULL OR CAST($wide AS BOOLEAN) AS touched,
        x.departed_at IS NULL OR c.ord <= x.departed_at AS exact
    FROM calls AS c /* judged */
    JOIN limits AS t ON t.tool = c.tool AND t.err = c.err
    LEFT JOIN cuts AS x ON x.unit = c.unit
)
