-- Rows of equal results of one call, two or more long, from `judged` (sql/suggest_judged.sql).
--
--   length         equal results in the row
--   nudges, blocks of them, under the policy; first_hit: seq of the first of these
--   moved          the same call gave another result later in the run
--   went_on        something new was called after the row
--   changes        successes of the tools in $changers from the row's first call to the next row of that call
--   changes_within ... and to its last call
WITH repeated AS (
    SELECT key FROM judged WHERE counted AND NOT err AND shown GROUP BY key HAVING count(*) > 1
),
streaks AS (
    SELECT
        v.run, v.unit, v.tool, v.key, v.streak AS first_ord,
        max(v.ord) AS last_ord, min(v.seq) AS first_seq, max(v.seq) AS last_seq,
        max(v.count) AS length, min(v.result) AS result,
        count(CASE WHEN v.action = 1 THEN 1 END) AS nudges,
        count(CASE WHEN v.action = 2 THEN 1 END) AS blocks,
        min(CASE WHEN v.action IN (1, 2) THEN v.seq END) AS first_hit
    FROM judged AS v
    JOIN repeated AS r ON r.key = v.key
    WHERE v.counted AND NOT v.err AND v.shown
    GROUP BY v.run, v.unit, v.tool, v.key, v.streak
),
followed AS (
    SELECT
        *,
        lead(first_ord) OVER same_call AS next_ord,
        lead(result) OVER same_call AS next_result,
        last_value(result) OVER (
            PARTITION BY key ORDER BY first_ord ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        ) AS final_result
    FROM streaks
    WINDOW same_call AS (PARTITION BY key ORDER BY first_ord)
),
news AS (
    SELECT run, max(seq) AS last_new FROM judged WHERE judged = 1 GROUP BY run
),
between_them AS (
    SELECT f.key, f.first_ord, count(*) AS changes, count(CASE WHEN c.ord < f.last_ord THEN 1 END) AS changes_within
    FROM followed AS f
    JOIN judged AS c ON c.unit = f.unit AND c.ord > f.first_ord AND c.ord < coalesce(f.next_ord, f.last_ord)
    WHERE f.length >= 2 AND c.outcome = 1 AND c.tool <> f.tool AND c.tool IN (SELECT unnest($changers))
    GROUP BY f.key, f.first_ord
)
SELECT
    f.run, f.unit, f.tool, f.key, f.first_ord, f.last_ord, f.first_seq, f.last_seq, f.length,
    f.nudges, f.blocks, f.first_hit,
    coalesce(f.next_result <> f.result OR f.final_result <> f.result, FALSE) AS moved,
    coalesce(n.last_new > f.last_seq, FALSE) AS went_on,
    coalesce(c.changes, 0) AS changes,
    coalesce(c.changes_within, 0) AS changes_within
FROM followed AS f
LEFT JOIN news AS n ON n.run = f.run
LEFT JOIN between_them AS c ON c.key = f.key AND c.first_ord = f.first_ord
WHERE f.length >= 2
ORDER BY f.run, f.first_ord, f.key
