-- What becomes of nudges and blocks from `hits_before` to `hits_after` (sql/suggest_interventions.sql): a call
-- that is judged the same stays; else what it was goes, and what it is comes. `place` numbers the calls of
-- one fate and action, `calls` counts them; the first $examples are given.
WITH both_sides AS (
    SELECT
        coalesce(b.run, a.run) AS run, coalesce(b.seq, a.seq) AS seq,
        b.action AS was, a.action AS now, b.tool AS tool_before, a.tool AS tool_after,
        b.count AS count_before, a.count AS count_after, b.moved AS moved_before, a.moved AS moved_after
    FROM hits_before AS b
    FULL JOIN hits_after AS a ON a.run = b.run AND a.seq = b.seq
),
fates AS (
    SELECT 'stay' AS fate, run, seq, now AS action, tool_after AS tool, count_after AS count, moved_after AS moved
    FROM both_sides WHERE was = now
    UNION ALL
    SELECT 'gone', run, seq, was, tool_before, count_before, moved_before
    FROM both_sides WHERE was IS NOT NULL AND now IS DISTINCT FROM was
    UNION ALL
    SELECT 'new', run, seq, now, tool_after, count_after, moved_after
    FROM both_sides WHERE now IS NOT NULL AND now IS DISTINCT FROM was
),
numbered AS (
    SELECT
        f.*,
        r.started,
        r.run_id,
        row_number() OVER (PARTITION BY f.fate, f.action ORDER BY r.started, r.run_id, f.seq) AS place,
        count(*) OVER (PARTITION BY f.fate, f.action) AS calls
    FROM fates AS f
    JOIN runs AS r ON r.run = f.run
)
SELECT fate, action, run, seq, tool, count, moved, calls
FROM numbered
WHERE place <= $examples
ORDER BY fate, started, run_id, seq
