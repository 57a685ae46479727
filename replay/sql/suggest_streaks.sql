-- Rows of equal results of one call, two or more long, from `judged` (sql/suggest_judged.sql).
--
--   length         equal results in the row
--   nudges, blocks of them, under the policy; first_hit: seq of the first of these
--   moved          the same call gave another result later in the run
--   went_on        something new was called after the row
--   changes        successes of other tools, of those in $changers, from the row's first call to the next row
--                  of that call
--   changes_within ... and to its last call
WITH repeated AS (
    SELECT key FROM judged WHERE counted AND NOT err AND shown GROUP BY key HAVING count(*) > 1
),
relevant AS (
    SELECT
        j.*,
        j.outcome = 1 AND j.tool IN (SELECT unnest($changers)) AS change,
        j.counted AND NOT j.err AND j.shown AND r.key IS NOT NULL AS wanted
    FROM judged AS j
    LEFT JOIN repeated AS r ON r.key = j.key
    WHERE r.key IS NOT NULL OR (j.outcome = 1 AND j.tool IN (SELECT unnest($changers)))
),
-- Changes so far by all tools, less those by the call's own: between two calls of a tool it grows by what others did.
placed AS (
    SELECT
        *,
        count(CASE WHEN change THEN 1 END) OVER (PARTITION BY unit ORDER BY ord)
            - count(CASE WHEN change THEN 1 END) OVER (PARTITION BY unit, tool ORDER BY ord) AS changes_before
    FROM relevant
),
streaks AS (
    SELECT
        run, unit, tool, key, streak AS first_ord,
        max(ord) AS last_ord, min(seq) AS first_seq, max(seq) AS last_seq,
        max(count) AS length, min(result) AS result,
        count(CASE WHEN action = 1 THEN 1 END) AS nudges,
        count(CASE WHEN action = 2 THEN 1 END) AS blocks,
        min(CASE WHEN action IN (1, 2) THEN seq END) AS first_hit,
        min(changes_before) AS changes_at_first,
        max(changes_before) AS changes_at_last
    FROM placed
    WHERE wanted
    GROUP BY run, unit, tool, key, streak
),
followed AS (
    SELECT
        *,
        lead(result) OVER same_call AS next_result,
        lead(changes_at_first) OVER same_call AS changes_at_next,
        last_value(result) OVER (
            PARTITION BY key ORDER BY first_ord ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        ) AS final_result
    FROM streaks
    WINDOW same_call AS (PARTITION BY key ORDER BY first_ord)
),
news AS (
    SELECT run, max(seq) AS last_new FROM judged WHERE judged = 1 GROUP BY run
)
SELECT
    f.run, f.unit, f.tool, f.key, f.first_ord, f.last_ord, f.first_seq, f.last_seq, f.length,
    f.nudges, f.blocks, f.first_hit,
    coalesce(f.next_result <> f.result OR f.final_result <> f.result, FALSE) AS moved,
    coalesce(n.last_new > f.last_seq, FALSE) AS went_on,
    coalesce(f.changes_at_next, f.changes_at_last) - f.changes_at_first AS changes,
    f.changes_at_last - f.changes_at_first AS changes_within
FROM followed AS f
LEFT JOIN news AS n ON n.run = f.run
WHERE f.length >= 2
ORDER BY f.run, f.first_ord, f.key
