-- Verdicts over a table `calls` (sql/calls.sql), to be followed by a statement that reads `verdicts`.
--
--   action   0 allow, 1 nudge, 2 block, 3 not counted, 4 after a block
--   exact    the recorded agent had seen every intervention before this call
--   touched  something happens in its run
--
-- Parameters: $tools, $nudges, $blocks, $exempt: one entry per tool; NULL threshold: off.
WITH thresholds AS (
    SELECT
        CAST(unnest($tools) AS INTEGER) AS tool,
        CAST(unnest($nudges) AS BIGINT) AS nudge,
        CAST(unnest($blocks) AS BIGINT) AS block,
        CAST(unnest($exempt) AS BOOLEAN) AS exempt
),
-- Calls that would be nudged or blocked if nothing had been blocked before.
candidates AS (
    SELECT c.run, c.seq, c.end_ns, c.seen, CASE WHEN c.count >= t.block THEN 2 ELSE 1 END AS action
    FROM calls AS c
    JOIN thresholds AS t ON t.tool = c.tool
    WHERE c.counted AND NOT t.exempt AND (c.count >= t.block OR c.count >= t.nudge)
),
blocks AS (
    SELECT run, min(seq) AS seq FROM candidates WHERE action = 2 GROUP BY run
),
-- Nested runs that start after a block of a run around them: no call of theirs is judged.
silenced AS (
    SELECT DISTINCT a.run
    FROM ancestors AS a
    JOIN blocks AS b ON b.run = a.ancestor
    JOIN candidates AS i ON i.run = b.run AND i.seq = b.seq
    WHERE a.run_start_ns > i.end_ns
),
-- Where a run leaves what its agent saw: its first intervention that was not recorded.
departures AS (
    SELECT i.run, min(i.seq) AS seq
    FROM candidates AS i
    LEFT JOIN blocks AS b ON b.run = i.run
    LEFT JOIN silenced AS z ON z.run = i.run
    WHERE z.run IS NULL AND i.seen <> i.action AND (b.seq IS NULL OR i.seq <= b.seq)
    GROUP BY i.run
),
-- Nested runs that start after the departure of a run around them.
departed AS (
    SELECT DISTINCT a.run
    FROM ancestors AS a
    JOIN departures AS d ON d.run = a.ancestor
    JOIN candidates AS i ON i.run = d.run AND i.seq = d.seq
    WHERE a.run_start_ns > i.end_ns
),
-- One row per run in which anything happens. Nothing counts before seq 0.
cuts AS (
    SELECT run, min(blocked_at) AS blocked_at, min(departed_at) AS departed_at
    FROM (
        SELECT run, seq AS blocked_at, NULL AS departed_at FROM blocks
        UNION ALL SELECT run, NULL, seq FROM departures
        UNION ALL SELECT run, 0, NULL FROM silenced
        UNION ALL SELECT run, NULL, 0 FROM departed
    ) AS parts
    GROUP BY run
),
verdicts AS (
    SELECT
        c.*,
        x.blocked_at,
        CASE
            WHEN c.seq > x.blocked_at THEN 4
            WHEN t.exempt THEN 0
            WHEN NOT c.counted THEN 3
            WHEN c.count >= t.block THEN 2
            WHEN c.count >= t.nudge THEN 1
            ELSE 0
        END AS action,
        t.exempt,
        x.run IS NOT NULL AS touched,
        x.departed_at IS NULL OR c.seq <= x.departed_at AS exact
    FROM calls AS c
    JOIN thresholds AS t ON t.tool = c.tool
    LEFT JOIN cuts AS x ON x.run = c.run
)
